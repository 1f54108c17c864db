//! What a client holds lives as long as the client does, through restarts of the manager too.

use super::*;

fn lock(world: &World, wait_ms: u32) -> Lock {
    Lock {
        handle: world.root(),
        family: LockFamily::Flock,
        owner: 1,
        pid: 1,
        kind: LockKind::Write,
        start: 0,
        end: u64::MAX,
        wait_ms,
    }
}

/// A client with an open file that is unlinked already, and a lock.
fn holder(world: &World) -> Caller {
    let caller = world.client(5);
    world.call(&caller, 1, &world.open_file("file", 1, CREATE)).unwrap();
    world.call(&caller, 2, &Unlink { target: world.name("file") }).unwrap();
    world.call(&caller, 0, &lock(world, 0)).unwrap();
    assert_eq!((world.figure("opens"), world.figure("locks_held")), (1, 1));
    caller
}

fn assert_freed(world: &World) {
    assert_eq!((world.figure("opens"), world.figure("locks_held")), (0, 0));
    assert_eq!(world.figure("objects"), 1, "only the root is left");
    let held = [crate::keys::OPEN, crate::keys::TICKET, crate::keys::REPLY, crate::keys::LOCK];
    assert!(world.contents().iter().all(|(key, _)| !held.contains(&key[0])));
}

#[test]
fn what_a_process_held_is_freed_a_second_after_it_ended() {
    let world = World::new();
    let caller = holder(&world);
    world.manager.departed(&caller.peer, Departure::Closed);
    world.pass_and_tick(0.9);
    assert_eq!(world.figure("opens"), 1);
    world.pass_and_tick(0.2);
    assert_freed(&world);
}

#[test]
fn what_a_client_held_whose_connection_broke_is_kept_for_the_lease() {
    let world = World::new();
    let caller = holder(&world);
    world.manager.departed(&caller.peer, Departure::Broken);
    world.pass_and_tick(29.9);
    let (caller, reception) = world.arrive(5, 502);
    assert!(reception.lease_kept);
    world.pass_and_tick(1000.0);
    assert_eq!((world.figure("opens"), world.figure("locks_held")), (1, 1), "it is idle, but here");
    world.manager.departed(&caller.peer, Departure::Broken);
    world.pass_and_tick(30.1);
    assert_freed(&world);
}

#[test]
fn a_client_that_lost_its_lease_is_told_even_after_a_restart() {
    let world = World::new();
    let caller = holder(&world);
    world.manager.departed(&caller.peer, Departure::Broken);
    world.pass_and_tick(31.0);
    let world = world.restarted();
    let (caller, reception) = world.arrive(5, 502);
    assert!(!reception.lease_kept);
    assert!(world.call(&caller, 9, &world.mkdir("a")).is_ok());
    let world = world.restarted();
    assert!(world.arrive(5, 503).1.lease_kept, "it was told");
}

#[test]
fn a_restart_keeps_opens_and_locks_for_ten_leases() {
    let world = World::new();
    holder(&world);
    let world = world.restarted();
    let other = world.client(6);
    world.pass_and_tick(299.0);
    assert_eq!(world.call(&other, 0, &lock(&world, 0)), Err(Errno::EAGAIN), "reclaim comes first");
    assert_eq!(world.figure("opens"), 1);
    let (caller, reception) = world.arrive(5, 502);
    assert!(reception.lease_kept);
    world.pass_and_tick(100.0);
    assert!(world.call(&caller, 0, &Renew { open: 1 }).is_ok());
    assert_eq!(world.call(&other, 0, &lock(&world, 0)), Err(Errno::EAGAIN));
}

#[test]
fn who_does_not_come_back_after_a_restart_loses_all() {
    let world = World::new();
    holder(&world);
    let world = world.restarted();
    world.pass_and_tick(300.1);
    assert_freed(&world);
}

/// A client with a file that never had a name, after a restart of the manager.
fn holder_of_a_nameless_file() -> (World, Caller, Handle) {
    let world = World::new();
    let opened = world.call(&world.client(5), 1, &world.open_file("", 1, NAMELESS)).unwrap();
    let world = world.restarted();
    let (caller, reception) = world.arrive(5, 502);
    assert!(reception.lease_kept);
    world.pass_and_tick(1000.0);
    assert!(world.call(&caller, 0, &Renew { open: 1 }).is_ok());
    (world, caller, opened.attr.handle)
}

#[test]
fn a_file_without_a_name_is_kept_through_a_restart_and_ends_with_its_client() {
    let (world, caller, _) = holder_of_a_nameless_file();
    world.manager.departed(&caller.peer, Departure::Closed);
    world.pass_and_tick(1.1);
    assert_freed(&world);
}

#[test]
fn a_file_that_was_given_its_name_after_a_restart_stays_without_its_client() {
    let (world, caller, handle) = holder_of_a_nameless_file();
    let (existing, new) = (Target::object(handle), world.name("file"));
    world.call(&caller, 2, &Link { existing, follow: false, new }).unwrap();
    world.manager.departed(&caller.peer, Departure::Closed);
    world.pass_and_tick(1.1);
    assert_eq!(world.figure("opens"), 0);
    assert!(world.exists(&world.client(6), "file"));
}

#[test]
fn an_agent_keeps_or_ends_what_a_client_held_before_a_restart() {
    let world = World::new();
    holder(&world);
    let world = world.restarted();
    let mut agent = world.client(9);
    let word = |living: &[u64], gone: &[u64]| Vouch { living: living.into(), gone: gone.into() };
    assert_eq!(world.call(&agent, 0, &word(&[5], &[])), Err(Errno::EPERM), "any user could say so");
    let rights = SessionRights::DAEMON;
    agent.session = Arc::new(Session { rights, ..(*agent.session).clone() });
    for _ in 0..50 {
        world.call(&agent, 0, &word(&[5], &[])).unwrap();
        world.pass_and_tick(20.0);
    }
    assert_eq!((world.figure("opens"), world.figure("locks_held")), (1, 1));
    world.call(&agent, 0, &word(&[], &[5])).unwrap();
    world.pass_and_tick(1.1);
    assert_freed(&world);
    let flood = Vouch { living: (0..=VOUCHED_MAX as u64).collect(), gone: vec![] };
    assert_eq!(world.call(&agent, 0, &flood), Err(Errno::EINVAL));
}

#[test]
fn a_lock_passes_on_when_its_holder_is_gone() {
    let world = World::new();
    let (caller, other) = (holder(&world), world.client(6));
    let waiting = message(&lock(&world, 20_000), 0, 0);
    world.send(&[(&other, &waiting)]);
    world.manager.departed(&caller.peer, Departure::Closed);
    world.pass_and_tick(0.5);
    assert_eq!(world.reply(&other, &waiting), None);
    world.pass_and_tick(0.6);
    assert_eq!(world.status_of(&other, &waiting), Some(OK));
}

/// The state of a client with very many opens is freed a group at a time.
#[test]
fn many_opens_are_freed_in_several_groups() {
    let world = World::new();
    let caller = world.client(5);
    for open in 1..=5000 {
        world.call(&caller, open, &world.open_file("file", open, CREATE)).unwrap();
    }
    world.manager.departed(&caller.peer, Departure::Closed);
    world.pass(2.0);
    let mut left = vec![world.figure("opens")];
    while left.last() != Some(&0) {
        world.manager.tick();
        left.push(world.figure("opens"));
        assert!(left.len() < 10, "{left:?}");
    }
    assert!(left.len() > 3, "not all at once: {left:?}");
    assert!(!world.arrive(5, 502).1.lease_kept);
}

#[test]
fn a_strangers_file_system_is_refused() {
    let world = World::new();
    let caller = world.client(5);
    let hello = Hello {
        version_min: 1,
        version_max: 1,
        client: 5,
        lane: 0,
        incarnation: 1,
        fsid: 99,
        nonce: [0; 32],
        software: String::new(),
    };
    assert_eq!(world.manager.arrived(&caller.peer, &hello), Err(Errno::ENODEV));
    assert_eq!(world.arrive(6, 600).1.generation, 2);
    assert_eq!(world.arrive(6, 601).1.map_version, 3);
    assert_eq!(world.arrive(6, 602).1.lease_ms, 30_000);
}
