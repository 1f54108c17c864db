//! A change that arrives again is answered again, not run again; a crash in between does not matter.

use super::*;
use pvfs_layout::Dist;
use pvfs_wire::group_handle::GroupHandle;
use pvfs_wire::ops::{Adopt, Count, CountShared, Stat};
use pvfs_wire::token::{Capability, Holder, Rights};

/// Every change there is, each on a name space that `prepare` made.
fn every_change(world: &World) -> Vec<(&'static str, Message)> {
    let name = |path| world.name(path);
    let follow = false;
    let striping = Striping::default();
    let kind = pvfs_wire::attr::FileKind::Fifo;
    let xattr = || b"user.a".into();
    let set = SetAttr {
        target: name("file"),
        follow,
        mode: Some(0o600),
        uid: None,
        gid: None,
        atime: None,
        mtime: Some(SetTime::Now),
    };
    let rename = Rename { from: name("file"), to: name("moved"), flags: RenameFlags::NONE };
    let set_xattr = SetXattr {
        target: name("file"),
        follow,
        name: b"user.b".into(),
        value: b"v".into(),
        flags: XattrFlags::CREATE,
    };
    let remove_xattr = RemoveXattr { target: name("file"), follow, name: xattr() };
    let link = Link { existing: name("file"), follow, new: name("linked") };
    let open = Open {
        target: name("new"),
        flags: CREATE | OpenFlags::EXCLUSIVE,
        mode: 0o644,
        striping,
        open: 50,
    };
    let nameless = world.open_file("dir", 52, NAMELESS);
    let shared = OpenShared {
        target: open.target.clone(),
        flags: open.flags,
        mode: open.mode,
        striping: open.striping.clone(),
        sharers: Sharers::User,
        lifetime_s: 60,
    };
    let adopt = adopt(world);
    let one = |number: u64| Sequence { slot: 1, count: number };
    let mut all = vec![
        ("Open", message(&open, 1, 1)),
        ("Open", message(&nameless, 1, 1)),
        ("Adopt", message(&adopt, 1, 1)),
        ("OpenShared", message(&shared, 1, 1)),
        ("CountShared", message(&counting(world), 1, 1)),
        ("Mkdir", message(&Mkdir { target: name("dir2"), mode: 0o755 }, 1, 1)),
        ("Mknod", message(&Mknod { target: name("fifo"), kind, mode: 0o644, rdev: 0 }, 1, 1)),
        ("Symlink", message(&Symlink { target: name("symlink"), path: b"to".into() }, 1, 1)),
        ("Link", message(&link, 1, 1)),
        ("Unlink", message(&Unlink { target: name("file") }, 1, 1)),
        ("Rmdir", message(&Rmdir { target: name("dir") }, 1, 1)),
        ("Rename", message(&rename, 1, 1)),
        ("SetAttr", message(&set, 1, 1)),
        (
            "Truncate",
            message(&Truncate { target: name("file"), follow, size: 0, open: None }, 1, 1),
        ),
        ("Append", message(&Append { open: 41, bytes: 100, end: Some(7) }, 1, 1)),
        ("SetXattr", message(&set_xattr, 1, 1)),
        ("RemoveXattr", message(&remove_xattr, 1, 1)),
    ];
    all.iter_mut().for_each(|(_, message)| message.header.sequence = one(1));
    all
}

/// Taking part in an open of the file, if it is there already.
fn adopt(world: &World) -> Adopt {
    let stat = Stat { target: world.name("file"), follow: false, placement: true };
    let stated = world.call(&world.client(99), 1, &stat);
    let handle = stated.map_or(world.root(), |stated| stated.attr.handle);
    let capability = Capability {
        handle,
        rights: Rights::READ,
        dist: Dist::simple_stripe(64 << 10, 1).unwrap(),
        holder: Holder::Session(0),
        layout_epoch: 0,
        expiry: u64::MAX / 2,
    };
    let capability = keys().sign_capability(&capability).into();
    Adopt { handle, flags: OpenFlags::READ, capability, from_client: 5, from_open: 41, open: 51 }
}

/// Adding to the number of the shared open of the file, if it is there already.
fn counting(world: &World) -> CountShared {
    let stat = Stat { target: world.name("file"), follow: false, placement: true };
    let stated = world.call(&world.client(99), 1, &stat);
    let contents = world.contents();
    let shared = contents.iter().find(|(key, _)| key[0] == crate::keys::SHARED);
    let number = shared.and_then(|(key, _)| crate::keys::first_number(key));
    let handle = stated.ok().zip(number).map(|(stated, number)| {
        let handle = GroupHandle {
            fsid: stated.attr.handle.fsid,
            flags: OpenFlags::READ,
            rights: Rights::READ,
            holder: Holder::Anyone,
            handle: stated.attr.handle,
            number,
            placement: stated.placement.expect("it was asked for"),
            attr: stated.attr,
            capability: Vec::new().into(),
            expiry: u64::MAX / 2,
        };
        handle.seal(&keys())
    });
    CountShared { handle: handle.unwrap_or_default().into(), count: Count::Add, number: 7 }
}

/// A file that is open for appending and for a group, with an attribute, and an empty directory.
fn prepare(world: &World, caller: &Caller) {
    let set = SetXattr {
        target: world.name("file"),
        follow: false,
        name: b"user.a".into(),
        value: b"v".into(),
        flags: XattrFlags::NONE,
    };
    world.call(caller, 1, &world.open_file("file", 40, CREATE)).unwrap();
    world.call(caller, 2, &world.open_file("file", 41, CREATE | OpenFlags::APPEND)).unwrap();
    world.call(caller, 3, &set).unwrap();
    world.call(caller, 4, &world.mkdir("dir")).unwrap();
    let shared = OpenShared {
        target: world.name("file"),
        flags: OpenFlags::READ,
        mode: 0,
        striping: Striping::default(),
        sharers: Sharers::Anyone,
        lifetime_s: 3600,
    };
    world.call(caller, 5, &shared).unwrap();
}

#[test]
fn the_list_of_changes_is_complete() {
    let listed = every_change(&World::new());
    let mut listed: Vec<&str> = listed.iter().map(|(name, _)| *name).collect();
    listed.dedup();
    let all = pvfs_wire::ops::table().filter(|row| row.2 == pvfs_wire::Effect::Change);
    let all: Vec<&str> = all.map(|row| row.1).collect();
    assert_eq!(listed, all);
}

#[test]
fn every_change_that_comes_again_is_answered_alike_and_changes_nothing() {
    for index in 0..every_change(&World::new()).len() {
        let world = World::new();
        let caller = world.client(5);
        prepare(&world, &caller);
        let (name, change) = every_change(&world).swap_remove(index);
        let first = world.exchange(&caller, &change);
        assert_eq!(first.0, OK, "{name}");
        let contents = world.contents();
        // In rounds of its own, twice in one round, and on another connection.
        assert_eq!(world.exchange(&caller, &again(&change)), first, "{name}");
        let (second, third) = (again(&change), again(&change));
        let (elsewhere, _) = world.arrive(5, 501);
        world.send(&[(&caller, &second), (&elsewhere, &third)]);
        assert_eq!(world.reply(&caller, &second), Some(first.clone()), "{name}");
        assert_eq!(world.reply(&elsewhere, &third), Some(first), "{name}");
        assert_eq!(world.contents(), contents, "{name} changed something the second time");
        assert_eq!(world.figure("changes_repeated_total"), 3, "{name}");
    }
}

#[test]
fn a_repetition_in_the_same_round_is_not_run_either() {
    let world = World::new();
    let caller = world.client(5);
    let first = message(&world.mkdir("a"), 0, 1);
    let second = again(&first);
    world.send(&[(&caller, &first), (&caller, &second)]);
    let reply = world.reply(&caller, &first).unwrap();
    assert_eq!(reply.0, OK);
    assert_eq!(world.reply(&caller, &second), Some(reply));
}

/// Killed after the commit: the reply may be lost, the change is not, and is not run again.
#[test]
fn every_change_repeated_after_a_crash_behind_the_commit_is_answered_from_its_record() {
    for index in 0..every_change(&World::new()).len() {
        let world = World::new();
        let caller = world.client(5);
        prepare(&world, &caller);
        let (name, change) = every_change(&world).swap_remove(index);
        let first = world.exchange(&caller, &change);
        let contents = world.contents();
        let world = world.restarted();
        let (caller, reception) = world.arrive(5, 502);
        assert!(reception.lease_kept);
        assert_eq!(world.exchange(&caller, &again(&change)), first, "{name}");
        assert_eq!(world.contents(), contents, "{name} changed something the second time");
    }
}

/// Killed before the commit, or power lost before the sync: the change is gone as a whole, with its
/// record, and the repetition runs it.
#[test]
fn every_change_repeated_after_a_crash_before_the_commit_is_run() {
    for index in 0..every_change(&World::new()).len() {
        for seed in 0..8 {
            let store = Arc::new(MemoryStore::new());
            let world = World::on(store.clone());
            let caller = world.client(5);
            prepare(&world, &caller);
            store.sync().unwrap();
            let (name, change) = every_change(&world).swap_remove(index);
            let before = world.contents();
            let first = world.exchange(&caller, &change);
            let after = world.contents();
            store.crash(seed);
            let survived = world.contents();
            assert!(survived == before || survived == after, "{name} is half done, seed {seed}");
            let world = world.restarted();
            let (caller, _) = world.arrive(5, 502);
            let second = world.exchange(&caller, &again(&change));
            assert_eq!(second.0, OK, "{name}, seed {seed}");
            if survived == after {
                assert_eq!(second, first, "{name}, seed {seed}");
            }
            assert_eq!(world.contents().len(), after.len(), "{name}, seed {seed}");
        }
    }
}

#[test]
fn a_failure_is_answered_again_even_when_it_would_succeed_by_now() {
    let world = World::new();
    let caller = world.client(5);
    world.call(&caller, 1, &world.mkdir("a")).unwrap();
    let change = message(&world.mkdir("a"), 7, 1);
    assert_eq!(world.exchange(&caller, &change).0, Errno::EEXIST);
    world.call(&caller, 2, &Rmdir { target: world.name("a") }).unwrap();
    assert_eq!(world.exchange(&caller, &again(&change)).0, Errno::EEXIST);
    let world = world.restarted();
    let (caller, _) = world.arrive(5, 502);
    assert_eq!(world.exchange(&caller, &again(&change)).0, Errno::EEXIST);
    assert!(!world.exists(&caller, "a"));
}

#[test]
fn an_older_count_an_unknown_slot_and_no_count_are_refused() {
    let world = World::new();
    let caller = world.client(5);
    let send =
        |slot, count, name| world.exchange(&caller, &message(&world.mkdir(name), slot, count)).0;
    assert_eq!(send(0, 5, "a"), OK);
    assert_eq!(send(0, 4, "b"), Errno::EPROTO);
    assert_eq!(send(0, 0, "b"), Errno::EPROTO);
    assert_eq!(send(64, 1, "b"), Errno::EPROTO);
    assert_eq!(send(63, 1, "c"), OK);
    assert_eq!(send(1, 1, "d"), OK);
    assert!(!world.exists(&caller, "b"));
}

#[test]
fn slots_of_different_clients_do_not_meet() {
    let world = World::new();
    let (one, other) = (world.client(5), world.client(6));
    assert!(world.call(&one, 1, &world.mkdir("a")).is_ok());
    assert_eq!(world.call(&other, 1, &world.mkdir("a")), Err(Errno::EEXIST));
}

/// A round is one group: one commit, whatever is in it; a failure among it leaves nothing.
#[test]
fn a_round_is_one_group_and_each_request_is_all_or_nothing() {
    let world = World::new();
    let caller = world.client(5);
    let commits = world.figure("commits_total");
    let names = ["a", "a/b", "x/y", "a", "a/b/c"];
    let messages: Vec<Message> =
        (0u16..).zip(names).map(|(slot, path)| message(&world.mkdir(path), slot, 1)).collect();
    let round: Vec<(&Caller, &Message)> = messages.iter().map(|m| (&caller, m)).collect();
    world.send(&round);
    let statuses: Vec<Errno> =
        messages.iter().map(|message| world.status_of(&caller, message).unwrap()).collect();
    assert_eq!(statuses, [OK, OK, Errno::ENOENT, Errno::EEXIST, OK]);
    assert_eq!(world.figure("commits_total"), commits + 1);
    assert!(world.exists(&caller, "a/b/c"));
}
