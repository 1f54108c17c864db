//! Locks as clients see them: waits that end, connections that go, what a restart keeps.

use super::*;

fn lock(world: &World, kind: LockKind, start: u64, end: u64, wait_ms: u32) -> Lock {
    let (handle, family) = (world.root(), LockFamily::Range);
    Lock { handle, family, owner: 1, pid: 77, kind, start, end, wait_ms }
}

fn write(world: &World, wait_ms: u32) -> Lock {
    lock(world, LockKind::Write, 0, 10, wait_ms)
}

#[test]
fn a_wait_ends_with_the_lock_or_with_its_time() {
    let world = World::new();
    let (one, other) = (world.client(5), world.client(6));
    world.call(&one, 0, &write(&world, 0)).unwrap();
    assert_eq!(world.call(&other, 0, &write(&world, 0)), Err(Errno::EAGAIN));
    let waiting = message(&write(&world, 1000), 0, 0);
    world.send(&[(&other, &waiting)]);
    world.pass_and_tick(0.9);
    assert_eq!(world.reply(&other, &waiting), None);
    world.pass_and_tick(0.2);
    assert_eq!(world.status_of(&other, &waiting), Some(Errno::EAGAIN));
    let waiting = message(&write(&world, 1000), 0, 0);
    world.send(&[(&other, &waiting)]);
    world.call(&one, 0, &lock(&world, LockKind::Unlock, 0, 10, 0)).unwrap();
    assert_eq!(world.status_of(&other, &waiting), Some(OK));
    assert_eq!(world.call(&one, 0, &write(&world, 0)), Err(Errno::EAGAIN));
}

/// A writer that waits in short turns is not passed by readers between them.
#[test]
fn waiting_in_turns_keeps_the_place() {
    let world = World::new();
    let (one, other, third) = (world.client(5), world.client(6), world.client(7));
    let read = |wait_ms| lock(&world, LockKind::Read, 0, 10, wait_ms);
    world.call(&one, 0, &read(0)).unwrap();
    let (turn, reader) = (message(&write(&world, 500), 0, 0), message(&read(5_000), 0, 0));
    world.send(&[(&other, &turn), (&third, &reader)]);
    world.pass_and_tick(0.5);
    assert_eq!(world.status_of(&other, &turn), Some(Errno::EAGAIN));
    let turn = message(&write(&world, 500), 0, 0);
    world.send(&[(&other, &turn)]);
    world.pass_and_tick(0.3);
    assert_eq!(world.reply(&third, &reader), None);
    world.call(&one, 0, &lock(&world, LockKind::Unlock, 0, 10, 0)).unwrap();
    assert_eq!(world.status_of(&other, &turn), Some(OK));
    // And one who does not ask again is passed soon.
    world.call(&other, 0, &lock(&world, LockKind::Unlock, 0, 10, 0)).unwrap();
    assert_eq!(world.status_of(&third, &reader), Some(OK));
    let (given_up, reader) = (message(&write(&world, 500), 0, 0), message(&read(5_000), 0, 0));
    world.send(&[(&other, &given_up), (&one, &reader)]);
    world.pass_and_tick(0.5);
    assert_eq!(world.reply(&one, &reader), None);
    world.pass_and_tick(0.2);
    assert_eq!(world.status_of(&one, &reader), Some(OK));
}

/// A sender that gives up earlier than its lock is not kept waiting.
#[test]
fn a_wait_is_no_longer_than_its_sender_waits() {
    let world = World::new();
    let (one, other) = (world.client(5), world.client(6));
    world.call(&one, 0, &write(&world, 0)).unwrap();
    let mut waiting = message(&write(&world, 60_000), 0, 0);
    waiting.header.timeout_ms = 2_000;
    world.send(&[(&other, &waiting)]);
    world.pass_and_tick(2.1);
    assert_eq!(world.status_of(&other, &waiting), Some(Errno::EAGAIN));
    let waiting = message(&write(&world, u32::MAX), 0, 0);
    world.send(&[(&other, &waiting)]);
    world.pass_and_tick(30.1);
    assert_eq!(world.status_of(&other, &waiting), Some(Errno::EAGAIN));
}

#[test]
fn who_departs_does_not_wait() {
    let world = World::new();
    let (one, other, third) = (world.client(5), world.client(6), world.client(7));
    world.call(&one, 0, &write(&world, 0)).unwrap();
    let abandoned = message(&write(&world, 10_000), 0, 0);
    let waiting = message(&write(&world, 10_000), 0, 0);
    world.send(&[(&other, &abandoned), (&third, &waiting)]);
    world.manager.departed(&other.peer, Departure::Broken);
    world.call(&one, 0, &lock(&world, LockKind::Unlock, 0, 10, 0)).unwrap();
    assert_eq!(world.status_of(&third, &waiting), Some(OK));
}

/// It departs while its request is being executed: nobody will say so again.
#[test]
fn who_has_departed_is_not_kept_waiting_for() {
    let world = World::new();
    let (one, other) = (world.client(5), world.client(6));
    world.call(&one, 0, &write(&world, 0)).unwrap();
    world.manager.departed(&other.peer, Departure::Broken);
    world.send(&[(&other, &message(&write(&world, 10_000), 0, 0))]);
    assert_eq!(world.figure("requests_parked"), 0);
    world.manager.tick();
    assert_eq!(world.figure("locks_awaited"), 0);
}

#[test]
fn a_deadlock_is_refused_and_the_others_go_on() {
    let world = World::new();
    let (one, other) = (world.client(5), world.client(6));
    world.call(&one, 0, &lock(&world, LockKind::Write, 0, 1, 0)).unwrap();
    world.call(&other, 0, &lock(&world, LockKind::Write, 1, 2, 0)).unwrap();
    let waiting = message(&lock(&world, LockKind::Write, 1, 2, 10_000), 0, 0);
    world.send(&[(&one, &waiting)]);
    let last = lock(&world, LockKind::Write, 0, 1, 10_000);
    assert_eq!(world.call(&other, 0, &last), Err(Errno::EDEADLK));
    world.call(&other, 0, &lock(&world, LockKind::Unlock, 0, 9, 0)).unwrap();
    assert_eq!(world.status_of(&one, &waiting), Some(OK));
}

#[test]
fn a_test_names_the_lock_in_the_way() {
    let world = World::new();
    let (one, other) = (world.client(5), world.client(6));
    world.call(&one, 0, &lock(&world, LockKind::Read, 5, 20, 0)).unwrap();
    let test = |kind| TestLock {
        handle: world.root(),
        family: LockFamily::Range,
        owner: 1,
        kind,
        start: 0,
        end: 10,
    };
    let expected = HeldLock { kind: LockKind::Read, start: 5, end: 20, pid: 77 };
    let conflict = |caller, kind| world.call(caller, 0, &test(kind)).unwrap().conflict;
    assert_eq!(conflict(&other, LockKind::Write), Some(expected));
    assert_eq!(conflict(&other, LockKind::Read), None);
    assert_eq!(conflict(&one, LockKind::Write), None);
}

#[test]
fn a_restart_keeps_locks_as_they_were_split() {
    let world = World::new();
    let caller = world.client(5);
    world.call(&caller, 0, &lock(&world, LockKind::Write, 0, 100, 0)).unwrap();
    world.call(&caller, 0, &lock(&world, LockKind::Read, 40, 60, 0)).unwrap();
    world.call(&caller, 0, &lock(&world, LockKind::Unlock, 50, 51, 0)).unwrap();
    let world = world.restarted();
    assert_eq!(world.figure("locks_held"), 4);
    let other = world.client(6);
    let try_lock = |kind, start, end| world.call(&other, 0, &lock(&world, kind, start, end, 0));
    assert!(try_lock(LockKind::Write, 50, 51).is_ok());
    assert!(try_lock(LockKind::Read, 40, 60).is_ok());
    assert_eq!(try_lock(LockKind::Write, 51, 52), Err(Errno::EAGAIN));
    assert_eq!(try_lock(LockKind::Read, 39, 40), Err(Errno::EAGAIN));
    assert_eq!(try_lock(LockKind::Read, 60, 61), Err(Errno::EAGAIN));
}

#[test]
fn a_lock_is_for_those_who_may_use_the_file() {
    let world = World::new();
    let (root, user) = (world.client(5), world.arrive_as(6, 600, 1000).0);
    let open = Open { mode: 0o600, ..world.open_file("secret", 1, CREATE) };
    let handle = world.call(&root, 1, &open).unwrap().attr.handle;
    let lock = |handle| Lock { handle, ..write(&world, 0) };
    assert_eq!(world.call(&user, 0, &lock(handle)), Err(Errno::EACCES));
    assert!(world.call(&root, 0, &lock(handle)).is_ok());
    let stale = Handle { object: 4711, ..handle };
    assert_eq!(world.call(&root, 0, &lock(stale)), Err(Errno::ESTALE));
    let foreign = Handle { fsid: 9, ..handle };
    assert_eq!(world.call(&root, 0, &lock(foreign)), Err(Errno::ESTALE));
    let empty = Lock { start: 5, end: 5, ..lock(handle) };
    assert_eq!(world.call(&root, 0, &empty), Err(Errno::EINVAL));
}

#[test]
fn the_ranges_of_a_process_are_those_of_the_program_it_executes() {
    let mut world = World::new();
    let (before, after, other) = (world.client(5), world.client(6), world.client(7));
    let of = |owner, kind, start| Lock { owner, ..lock(&world, kind, start, start + 10, 0) };
    let (mine, others) = (of(77, LockKind::Write, 0), of(78, LockKind::Write, 0));
    world.call(&before, 0, &mine).unwrap();
    world.call(&before, 0, &of(77, LockKind::Read, 20)).unwrap();
    world.call(&before, 0, &of(78, LockKind::Read, 40)).unwrap();
    let flock = Lock { family: LockFamily::Flock, ..mine.clone() };
    world.call(&before, 0, &flock).unwrap();
    let inherit = |owner| InheritLocks { from_client: 5, owner };
    let guessed = world.call(&other, 0, &inherit(76)).unwrap();
    assert_eq!(guessed, LocksInherited { ranges: 0 }, "the number has to be known");
    assert_eq!(world.call(&other, 0, &others), Err(Errno::EAGAIN));
    // The second time changes nothing, and says the same.
    for _ in 0..2 {
        assert_eq!(world.call(&after, 0, &inherit(77)), Ok(LocksInherited { ranges: 2 }));
    }
    world.manager.departed(&before.peer, Departure::Closed);
    world.pass_and_tick(40.0);
    assert_eq!(world.figure("locks_held"), 2, "what was not inherited went with the client");
    assert_eq!(world.call(&other, 0, &others), Err(Errno::EAGAIN));
    assert!(world.call(&after, 0, &mine).is_ok());
    world = world.restarted();
    let (after, other) = (world.arrive(6, 601).0, world.arrive(7, 701).0);
    assert_eq!(world.call(&other, 0, &others), Err(Errno::EAGAIN));
    world.manager.departed(&after.peer, Departure::Closed);
    world.pass_and_tick(40.0);
    assert!(world.call(&other, 0, &others).is_ok());
}

/// A file that client 5 has open as number 40, client 6 as number 51 by taking part in that, and client 7 as number
/// 60 by itself.
fn shared_file(world: &World) -> (Handle, [Caller; 3]) {
    let callers = [5, 6, 7].map(|client| world.client(client));
    let opened = world.call(&callers[0], 1, &world.open_file("f", 40, CREATE)).unwrap();
    let adopt = Adopt {
        handle: opened.attr.handle,
        flags: OpenFlags::READ,
        capability: opened.capability,
        from_client: 5,
        from_open: 40,
        open: 51,
    };
    world.call(&callers[1], 1, &adopt).unwrap();
    world.call(&callers[2], 1, &world.open_file("f", 60, CREATE)).unwrap();
    (opened.attr.handle, callers)
}

fn of_open(handle: Handle, family: LockFamily, open: u64, kind: LockKind) -> Lock {
    Lock { handle, family, owner: open, pid: 1, kind, start: 0, end: 10, wait_ms: 0 }
}

fn close(world: &World, caller: &Caller, open: u64) {
    world.call(caller, 0, &Close { opens: vec![ClosedOpen { open, wrote: None }] }).unwrap();
}

#[test]
fn a_lock_of_an_open_file_is_shared_by_all_who_take_part_and_ends_with_the_last() {
    for family in [LockFamily::OpenRange, LockFamily::OpenFlock] {
        let mut world = World::new();
        let (file, [mut first, mut second, other]) = shared_file(&world);
        let lock = |open| of_open(file, family, open, LockKind::Write);
        world.call(&first, 0, &lock(40)).unwrap();
        assert_eq!(world.call(&second, 0, &lock(51)), Ok(Done {}), "it is its own");
        assert_eq!(world.call(&other, 0, &lock(60)), Err(Errno::EAGAIN));
        // The one who takes part may give it up for both, and take it for both.
        world.call(&second, 0, &of_open(file, family, 51, LockKind::Unlock)).unwrap();
        world.call(&other, 0, &lock(60)).unwrap();
        assert_eq!(world.call(&first, 0, &lock(40)), Err(Errno::EAGAIN));
        world.call(&other, 0, &of_open(file, family, 60, LockKind::Unlock)).unwrap();
        world.call(&second, 0, &lock(51)).unwrap();
        close(&world, &first, 40);
        world = world.restarted();
        (first, second) = (world.arrive(5, 501).0, world.arrive(6, 601).0);
        let other = world.arrive(7, 701).0;
        assert_eq!(world.call(&other, 0, &lock(60)), Err(Errno::EAGAIN), "the second has it");
        assert_eq!(world.call(&first, 0, &lock(40)), Err(Errno::EBADF), "it is out of it");
        close(&world, &second, 51);
        world.call(&other, 0, &lock(60)).unwrap();
        assert_eq!(world.figure("locks_held"), 1);
        assert_eq!(keys_of(&world, crate::keys::TAKEN) + keys_of(&world, crate::keys::PARTAKER), 0);
    }
}

#[test]
fn a_lock_of_an_open_file_outlives_the_client_that_took_it() {
    let world = World::new();
    let (file, [first, second, other]) = shared_file(&world);
    let lock = |open| of_open(file, LockFamily::OpenFlock, open, LockKind::Write);
    world.call(&first, 0, &lock(40)).unwrap();
    world.manager.departed(&first.peer, Departure::Closed);
    world.pass_and_tick(40.0);
    assert_eq!(world.figure("opens"), 2, "the first client is gone");
    assert_eq!(world.call(&other, 0, &lock(60)), Err(Errno::EAGAIN));
    // A wait of the one who is left is not ended with the first either.
    let waiting = message(&Lock { wait_ms: 1000, ..lock(60) }, 0, 0);
    world.send(&[(&other, &waiting)]);
    world.manager.departed(&second.peer, Departure::Closed);
    world.pass_and_tick(40.0);
    assert_eq!(world.figure("opens"), 1);
    assert!(world.call(&other, 0, &lock(60)).is_ok());
}

#[test]
fn a_lock_of_an_open_file_is_for_those_who_have_it_open() {
    let world = World::new();
    let (file, [first, _, other]) = shared_file(&world);
    for (caller, open) in [(&first, 51), (&first, 0), (&other, 40), (&other, u64::MAX)] {
        let lock = of_open(file, LockFamily::OpenRange, open, LockKind::Write);
        assert_eq!(world.call(caller, 0, &lock), Err(Errno::EBADF), "{open}");
    }
    let elsewhere = of_open(world.root(), LockFamily::OpenRange, 40, LockKind::Write);
    assert_eq!(world.call(&first, 0, &elsewhere), Err(Errno::EBADF));
}

fn keys_of(world: &World, tag: u8) -> usize {
    world.contents().iter().filter(|(key, _)| key[0] == tag).count()
}
