//! Opens that are handed on from process to process.

use pvfs_wire::ops::{Adopt, Close, ClosedOpen, OpenFlags, Opened, Stat, Target};
use pvfs_wire::{Bytes, Errno};

use crate::world::{World, root, user};

const READ: OpenFlags = OpenFlags::READ;
const CREATE: OpenFlags = OpenFlags::READ.with(OpenFlags::WRITE).with(OpenFlags::CREATE);
const BOTH: OpenFlags = OpenFlags::READ.with(OpenFlags::WRITE);

fn adopt(from: &Opened, flags: OpenFlags) -> Adopt {
    Adopt {
        handle: from.attr.handle,
        flags,
        capability: from.capability.clone(),
        from_client: 1,
        from_open: 1,
        open: 1,
    }
}

fn close(w: &mut World, client: u64) {
    let opens = vec![ClosedOpen { open: 1, wrote: None }];
    w.run_for(client, &root(), Close { opens }).unwrap();
}

fn exists(w: &mut World, opened: &Opened) -> bool {
    let target = Target::object(opened.attr.handle);
    w.run(&root(), Stat { target, follow: false, placement: false }).is_ok()
}

#[test]
fn an_unlinked_file_lives_as_long_as_the_last_who_adopted_it() {
    let mut w = World::new(1);
    let opened = w.open(&root(), "f", CREATE, 1).unwrap();
    w.unlink(&root(), "f").unwrap();
    w.run_for(2, &root(), adopt(&opened, READ)).unwrap();
    close(&mut w, 1);
    w.run_for(3, &root(), adopt(&opened, READ)).unwrap();
    w.expire(2);
    assert!(exists(&mut w, &opened));
    w.check();
    close(&mut w, 3);
    assert!(!exists(&mut w, &opened));
    assert_eq!(w.run_for(4, &root(), adopt(&opened, READ)).unwrap_err(), Errno::ESTALE);
    w.check();
}

#[test]
fn what_was_opened_counts_not_who_adopts() {
    let mut w = World::new(2);
    let opened = w.open(&root(), "secret", CREATE, 1).unwrap();
    assert!(w.run_for(2, &user(5), adopt(&opened, BOTH)).is_ok());
    // Its renewals are the adopter's own.
    assert!(w.run_for(2, &user(5), pvfs_wire::ops::Renew { open: 1 }).is_ok());
}

#[test]
fn rights_never_grow_and_nothing_is_believed_unsigned() {
    let mut w = World::new(3);
    w.open(&root(), "f", CREATE, 7).unwrap();
    let opened = w.open(&root(), "f", READ, 1).unwrap();
    let other = w.open(&root(), "g", CREATE, 8).unwrap();
    let mut refused = |adopt: Adopt| w.run_for(2, &root(), adopt).unwrap_err();
    assert_eq!(refused(adopt(&opened, BOTH)), Errno::EACCES);
    let foreign = Adopt { handle: other.attr.handle, ..adopt(&opened, READ) };
    assert_eq!(refused(foreign), Errno::EACCES);
    for at in 0..opened.capability.0.len() {
        let mut forged = adopt(&opened, READ);
        forged.capability.0[at] ^= 1;
        assert_eq!(refused(forged), Errno::EKEYREJECTED, "byte {at}");
    }
    assert_eq!(
        refused(Adopt { capability: Bytes::default(), ..adopt(&opened, READ) }),
        Errno::EKEYREJECTED
    );
    for flags in [OpenFlags::NONE, OpenFlags::APPEND, READ.with(OpenFlags::CREATE)] {
        assert_eq!(refused(adopt(&opened, flags)), Errno::EINVAL, "{flags:?}");
    }
    w.check();
}

#[test]
fn an_old_capability_counts_only_while_its_open_lasts() {
    let mut w = World::new(4);
    let opened = w.open(&root(), "f", CREATE, 1).unwrap();
    w.now.seconds += 100_000;
    w.run_for(2, &root(), adopt(&opened, READ)).unwrap();
    close(&mut w, 1);
    let late = w.run_for(3, &root(), adopt(&opened, READ));
    assert_eq!(late.unwrap_err(), Errno::EKEYEXPIRED);
}
