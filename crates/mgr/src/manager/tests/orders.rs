//! Stop, estop, resume: at once, by signature, once each.

use super::*;

fn order(world: &World, kind: OrderKind, nonce: u64) -> Control {
    let issued = clock::unix_seconds(world.clock.wall());
    let start = world.call(&world.client(1), 0, &Ping {}).unwrap().start;
    let order = Order { kind, issued, nonce, start, denial: None };
    Control { order: keys().sign_order(&order).into() }
}

/// Sends without a session, as the order's signature is its authority.
fn control(world: &World, operation: &Control) -> Result<Controlled, Errno> {
    let caller = world.client(1);
    let message = message(operation, 0, 0);
    let request = Request { session: None, ..world.request(&caller, &message) };
    world.manager.serve(vec![request]);
    let (status, body) = world.reply(&caller, &message).unwrap();
    if status == OK { Ok(Controlled::from_bytes(&body).unwrap()) } else { Err(status) }
}

/// Believes these sessions no longer.
pub(super) fn deny(world: &World, denial: Denial) {
    let issued = clock::unix_seconds(world.clock.wall());
    let start = world.call(&world.client(1), 0, &Ping {}).unwrap().start;
    let order = Order { kind: OrderKind::Deny, issued, nonce: 9, start, denial: Some(denial) };
    control(world, &Control { order: keys().sign_order(&order).into() }).unwrap();
}

fn lock(world: &World) -> Lock {
    Lock {
        handle: world.root(),
        family: LockFamily::Flock,
        owner: 1,
        pid: 1,
        kind: LockKind::Write,
        start: 0,
        end: 1,
        wait_ms: 10_000,
    }
}

#[test]
fn an_emergency_stop_answers_eio_to_all_until_resumed() {
    let world = World::new();
    let (one, other) = (world.client(5), world.client(6));
    world.call(&one, 1, &world.open_file("file", 1, CREATE)).unwrap();
    world.call(&one, 0, &lock(&world)).unwrap();
    let waiting = message(&lock(&world), 0, 0);
    world.send(&[(&other, &waiting)]);
    let reply = control(&world, &order(&world, OrderKind::Estop, 1)).unwrap();
    assert_eq!(reply.state, DaemonState::Down);
    assert_eq!(world.status_of(&other, &waiting), Some(Errno::EIO), "who waits hears at once");
    let stat = Stat { target: world.name("file"), follow: false, placement: false };
    assert_eq!(world.call(&one, 0, &stat), Err(Errno::EIO));
    assert_eq!(world.call(&one, 2, &world.mkdir("a")), Err(Errno::EIO));
    assert_eq!(world.call(&one, 0, &Ping {}).unwrap().state, DaemonState::Down);
    assert_eq!(world.call(&one, 0, &Status {}).unwrap().state, DaemonState::Down);
    // The stop may last; nobody's lease ends by it.
    world.manager.departed(&one.peer, Departure::Broken);
    world.pass_and_tick(1000.0);
    assert_eq!(
        control(&world, &order(&world, OrderKind::Resume, 2)).unwrap().state,
        DaemonState::Ok
    );
    world.pass_and_tick(29.0);
    let (one, reception) = world.arrive(5, 502);
    assert!(reception.lease_kept);
    assert!(world.call(&one, 2, &world.mkdir("a")).is_ok());
    assert!(world.call(&one, 0, &Renew { open: 1 }).is_ok());
    // The one who was told EIO does not hold what he waited for.
    let unlock = Lock { kind: LockKind::Unlock, ..lock(&world) };
    world.call(&one, 0, &unlock).unwrap();
    assert_eq!(world.figure("locks_held"), 0);
    assert_eq!(*world.orders.lock().unwrap(), [OrderKind::Estop, OrderKind::Resume]);
}

#[test]
fn an_order_is_carried_out_once_and_only_with_a_signature() {
    let world = World::new();
    let estop = order(&world, OrderKind::Estop, 1);
    control(&world, &estop).unwrap();
    control(&world, &order(&world, OrderKind::Resume, 2)).unwrap();
    assert_eq!(control(&world, &estop).unwrap().state, DaemonState::Ok, "not carried out again");
    let stop = Order { kind: OrderKind::Stop, issued: 0, nonce: 3, start: 0, denial: None };
    let forged = KeyRing::new(&[[1; 32]]).sign_order(&stop);
    assert_eq!(control(&world, &Control { order: forged.into() }), Err(Errno::EKEYREJECTED));
    assert_eq!(world.manager.state().0, DaemonState::Ok);
}

#[test]
fn a_manager_about_to_exit_opens_nothing_but_finishes_the_rest() {
    let world = World::new();
    let caller = world.client(5);
    world.call(&caller, 1, &world.open_file("file", 1, CREATE)).unwrap();
    control(&world, &order(&world, OrderKind::Stop, 1)).unwrap();
    assert_eq!(world.call(&caller, 2, &world.open_file("file", 2, CREATE)), Err(Errno::EHOSTDOWN));
    let close = Close { opens: vec![ClosedOpen { open: 1, wrote: None }] };
    assert!(world.call(&caller, 0, &close).is_ok());
    assert!(world.call(&caller, 3, &world.mkdir("a")).is_ok());
}

#[test]
fn without_a_session_nothing_of_the_name_space_is_served() {
    let world = World::new();
    let caller = world.client(5);
    for (code, name, _) in pvfs_wire::ops::table() {
        if (0x0100..0x0200).contains(&code) {
            let body = Vec::new();
            let header = Header {
                sequence: Sequence { slot: 0, count: 1 },
                ..Header::request(code, u64::from(code))
            };
            let message = Message { header, body };
            let request = Request { session: None, ..world.request(&caller, &message) };
            world.manager.serve(vec![request]);
            assert_eq!(world.status_of(&caller, &message), Some(Errno::EACCES), "{name}");
        }
    }
}

/// Bodies that are no records, and operations that are none, are errors and nothing more.
#[test]
fn meaningless_requests_are_refused() {
    let world = World::new();
    let caller = world.client(5);
    let before = world.contents();
    for code in (0..0x300).chain([u16::MAX]).filter(|code| !(1..=5).contains(code)) {
        for body in [vec![0xff; 64], vec![0xff]] {
            let tag = NEXT_TAG.fetch_add(1, Ordering::Relaxed);
            let message = Message { header: Header::request(code, tag), body };
            let status = world.exchange(&caller, &message).0;
            assert!([Errno::EPROTO, Errno::ENOSYS].contains(&status), "{code:#x}: {status:?}");
        }
    }
    assert_eq!(world.contents(), before);
}
