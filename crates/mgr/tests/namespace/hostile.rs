//! Requests and records that make no sense: refused or answered, never a panic.

use crate::act::Chooser;
use crate::managed::Managed;
use crate::random::seeds;
use crate::side::Side;
use crate::world::{World, root, user};
use pvfs_layout::Dist;
use pvfs_mgr::execute::{Random, dispatch};
use pvfs_mgr::namespace::{check, expire_client};
use pvfs_mgr::store::{Batch, Store};
use pvfs_wire::attr::{FileKind, Striping};
use pvfs_wire::ops::*;
use pvfs_wire::token::{Capability, KeyRing, Rights};
use pvfs_wire::{Handle, Operation};

/// One valid request of every operation, about things that may be there.
fn requests(random: &mut Random) -> Vec<(u16, Vec<u8>)> {
    let mut below = |count: u64| (random.number() >> 11) % count;
    let handle = Handle::root(7, 9).sibling(below(12) + 1);
    let name = |n: u64| ["a", "b", "c/a", "d", "a/b", "a/..", "b/"][n as usize];
    let (one, other) = (name(below(7)), name(below(7)));
    let (here, there) = (Target::below(handle, one), Target::below(handle, other));
    let (object, open, follow) = (Target::object(handle), below(4), below(2) == 0);
    let flags = OpenFlags::from_bits(below(2048) as u32).unwrap();
    let xattr = ["user.a", "user.pvfs.pcount", "trusted.x", "security.y", "user.pvfs.dist"];
    let (xattr, value) = (xattr[below(5) as usize].into(), "2".into());
    let wrote = Wrote {
        end: below(1 << 40),
        mtime: Default::default(),
        uncertain: follow,
        disk_bytes: follow.then_some(1 << 40),
    };
    let striping = Striping { pcount: Some(below(6) as u32), ..Striping::default() };
    let kind = [FileKind::Regular, FileKind::Fifo, FileKind::Directory][below(3) as usize];
    let (uid, gid, mode) = (Some(below(3) as u32), None, Some(below(4096) as u32));
    // As the worlds under test sign them: all but the handle and the rights is right.
    let capability = KeyRing::new(&[[1; 32]]).sign_capability(&Capability {
        handle,
        rights: Rights::from_bits(below(8) as u32).unwrap(),
        dist: Dist::simple_stripe(64 << 10, 4).unwrap(),
        holder: pvfs_wire::token::Holder::Anyone,
        layout_epoch: 0,
        expiry: u64::MAX,
    });
    let (from_client, from_open, capability) = (below(3), below(4), capability.into());
    let adopt = Adopt { handle, flags, capability, from_client, from_open, open };
    fn encoded<O: Operation>(operation: O) -> (u16, Vec<u8>) {
        (O::CODE, operation.to_bytes())
    }
    vec![
        encoded(Stat { target: here.clone(), follow, placement: true }),
        encoded(Readdir { dir: handle, cookie: below(100), entries_max: 9, attributes: true }),
        encoded(Readlink { target: here.clone() }),
        encoded(CheckAccess { target: here.clone(), follow, wanted: AccessBits::WRITE }),
        encoded(Statfs {}),
        encoded(Map {}),
        encoded(Open {
            target: here.clone(),
            flags,
            mode: 0o644,
            striping: striping.clone(),
            open,
        }),
        encoded(OpenShared {
            target: here.clone(),
            flags,
            mode: 0o644,
            striping,
            sharers: Sharers::User,
            lifetime_s: below(100) as u32,
        }),
        encoded(RenewShared { handle: open.to_le_bytes().into() }),
        encoded(CountShared {
            handle: open.to_le_bytes().into(),
            count: if follow { Count::Add } else { Count::Set },
            number: below(u64::MAX) as i64,
        }),
        encoded(CloseShared { handle: open.to_le_bytes().into() }),
        encoded(Close { opens: vec![ClosedOpen { open, wrote: Some(wrote) }] }),
        encoded(Renew { open }),
        encoded(adopt),
        encoded(Mkdir { target: here.clone(), mode: 0o755 }),
        encoded(Mknod { target: here.clone(), kind, mode: 0o666, rdev: 1 }),
        encoded(Symlink { target: here.clone(), path: other.into() }),
        encoded(Link { existing: here.clone(), follow, new: there.clone() }),
        encoded(Unlink { target: here.clone() }),
        encoded(Rmdir { target: here.clone() }),
        encoded(Rename { from: here.clone(), to: there, flags: RenameFlags::NONE }),
        encoded(SetAttr { target: here.clone(), follow, mode, uid, gid, atime: None, mtime: None }),
        encoded(Truncate { target: object, follow, size: below(100), open: Some(open) }),
        encoded(Truncate { target: here.clone(), follow, size: below(100), open: None }),
        encoded(Truncated { handle, ticket: below(9), size: Some(0), disk_bytes: Some(u64::MAX) }),
        encoded(Settle {
            handle,
            change: below(9),
            size: 9,
            disk_bytes: u64::MAX,
            mtime: Default::default(),
        }),
        encoded(Append { open, bytes: below(u64::MAX), end: Some(below(u64::MAX)) }),
        encoded(GetXattr { target: here.clone(), follow, name: xattr }),
        encoded(ListXattr { target: here.clone(), follow }),
        encoded(SetXattr {
            target: here.clone(),
            follow,
            name: "user.pvfs.ssize".into(),
            value,
            flags: XattrFlags::NONE,
        }),
        encoded(RemoveXattr { target: here, follow, name: "user.a".into() }),
    ]
}

/// Every operation of the table has a request above, but for those that the manager executes around the
/// name space: locks, leases on what is cached, the sync of the store, who lives and who is there.
#[test]
fn every_operation_of_the_name_space_is_tried() {
    let tried: Vec<u16> = requests(&mut Random::new(1)).iter().map(|(code, _)| *code).collect();
    let locks = [Lock::CODE, TestLock::CODE, InheritLocks::CODE, Uses::CODE];
    let clients = [Vouch::CODE, Sessions::CODE, Recalls::CODE];
    let around = [&locks[..], &clients[..], &[SyncNames::CODE]].concat();
    let all = pvfs_wire::ops::table().map(|(code, _, _)| code).filter(|code| code >> 8 == 1);
    for code in all.filter(|code| !around.contains(code)) {
        assert!(tried.contains(&code), "{code:#06x}");
    }
}

/// A world where much has happened, with files left open.
fn lived_in(seed: u64, random: &mut Random) -> World {
    let mut managed = Managed::new(World::new(seed));
    let mut chooser = Chooser::new(random, true);
    for _ in 0..60 {
        let user = chooser.below(4) as usize;
        let act = chooser.act();
        let _ = managed.act(user, &act);
    }
    managed.world
}

fn send(w: &mut World, random: &mut Random, code: u16, body: &[u8]) {
    let (client, who) =
        (random.number() % 4, if random.number() & 1 == 0 { root() } else { user(1001) });
    let _ = w.with_context(client, &who, |cx| dispatch(code, body, cx));
}

#[test]
fn no_request_makes_the_name_space_panic_or_inconsistent() {
    for seed in seeds(30) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut w = lived_in(seed, &mut random);
        for _ in 0..30 {
            for (code, mut body) in requests(&mut random) {
                let changes = random.number() % 3;
                for _ in 0..changes.min(body.len() as u64) {
                    let at = random.number() as usize % body.len();
                    body[at] = random.number() as u8;
                }
                send(&mut w, &mut random, code, &body);
            }
        }
        w.check();
    }
}

/// Records with any byte changed, whole records swapped or missing: requests fail or give nonsense,
/// but nothing panics, loops for ever, or allocates without bound.
#[test]
fn no_damaged_record_makes_the_name_space_panic() {
    for seed in seeds(100) {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let mut w = lived_in(seed, &mut random);
        for _ in 0..20 {
            damage(&mut w, &mut random);
            for (code, body) in requests(&mut random) {
                send(&mut w, &mut random, code, &body);
            }
            let client = random.number() % 4;
            let _ = w.with_context(0, &root(), |cx| expire_client(cx, client, 10));
        }
        let _ = check(&*w.store.snapshot());
    }
}

fn damage(w: &mut World, random: &mut Random) {
    let snapshot = w.store.snapshot();
    let entries: Vec<_> = snapshot.scan_prefix(&[]).map(|entry| entry.unwrap()).collect();
    let mut group = Batch::new();
    for _ in 0..entries.len().min(2) {
        let (key, mut value) = entries[random.number() as usize % entries.len()].clone();
        let other = entries[random.number() as usize % entries.len()].clone();
        match random.number() % 6 {
            0 => group.delete(key),
            1 => group.put(key, other.1),
            2 => group.put(other.0, value),
            _ if value.is_empty() => {}
            _ => {
                let at = random.number() as usize % value.len();
                value[at] = [0, 1, 0xff, random.number() as u8][random.number() as usize % 4];
                group.put(key, value);
            }
        }
    }
    drop(snapshot);
    w.store.commit(group).unwrap();
}
