//! One truncation of a file at a time; the next one waits for the first.

use super::*;

fn cut(world: &World, size: u64) -> Truncate {
    Truncate { target: world.name("file"), follow: false, size, open: None }
}

fn begin(world: &World) -> (Caller, Caller, Handle, u64) {
    let (one, other) = (world.client(5), world.client(6));
    let handle = world.call(&one, 1, &world.open_file("file", 1, CREATE)).unwrap().attr.handle;
    let ticket = world.call(&one, 2, &cut(world, 7)).unwrap().ticket;
    (one, other, handle, ticket)
}

#[test]
fn the_second_truncation_goes_on_when_the_first_has_ended() {
    let world = World::new();
    let (one, other, handle, ticket) = begin(&world);
    let waiting = message(&cut(&world, 9), 0, 1);
    world.send(&[(&other, &waiting)]);
    world.call(&one, 3, &world.mkdir("unrelated")).unwrap();
    assert_eq!(world.reply(&other, &waiting), None);
    let reply = world
        .call(&one, 0, &Truncated { handle, ticket, size: Some(7), disk_bytes: Some(7) })
        .unwrap();
    assert_eq!(reply.attr.handle, handle);
    let (status, body) = world.reply(&other, &waiting).expect("its turn has come");
    assert_eq!(status, OK);
    let begun = Truncating::from_bytes(&body).unwrap();
    assert_ne!(begun.ticket, ticket);
    // It is an ordinary change from then on: a repetition is answered from its record.
    assert_eq!(world.exchange(&other, &again(&waiting)), (status, body));
}

#[test]
fn the_second_truncation_is_refused_when_its_time_is_over_and_may_come_again() {
    let world = World::new();
    let (one, other, handle, ticket) = begin(&world);
    let mut waiting = message(&cut(&world, 9), 0, 1);
    waiting.header.timeout_ms = 3_000;
    world.send(&[(&other, &waiting)]);
    world.pass_and_tick(2.9);
    assert_eq!(world.reply(&other, &waiting), None);
    world.pass_and_tick(0.2);
    assert_eq!(world.status_of(&other, &waiting), Some(Errno::EAGAIN));
    world.call(&one, 0, &Truncated { handle, ticket, size: Some(7), disk_bytes: Some(7) }).unwrap();
    assert_eq!(world.exchange(&other, &again(&waiting)).0, OK);
}

/// Several wait; each gets its turn, in the order they came.
#[test]
fn waiting_truncations_take_turns() {
    let world = World::new();
    let (one, other, handle, mut ticket) = begin(&world);
    let third = world.client(7);
    let waiting =
        [(&other, message(&cut(&world, 8), 0, 1)), (&third, message(&cut(&world, 9), 0, 1))];
    for (caller, message) in &waiting {
        world.send(&[(caller, message)]);
    }
    let mut holder = &one;
    for (caller, message) in &waiting {
        assert_eq!(world.reply(caller, message), None);
        world
            .call(holder, 0, &Truncated { handle, ticket, size: Some(7), disk_bytes: Some(7) })
            .unwrap();
        let (status, body) = world.reply(caller, message).expect("its turn has come");
        assert_eq!(status, OK);
        (holder, ticket) = (caller, Truncating::from_bytes(&body).unwrap().ticket);
    }
}

#[test]
fn a_truncation_ends_with_its_client() {
    let world = World::new();
    let (one, other, ..) = begin(&world);
    let waiting = message(&cut(&world, 9), 0, 1);
    world.send(&[(&other, &waiting)]);
    world.manager.departed(&one.peer, Departure::Closed);
    world.pass_and_tick(1.1);
    assert_eq!(world.status_of(&other, &waiting), Some(OK));
}

/// Sent again on a new connection: the old one is forgotten, the change runs once.
#[test]
fn a_waiting_truncation_that_comes_again_waits_once() {
    let world = World::new();
    let (one, other, handle, ticket) = begin(&world);
    let waiting = message(&cut(&world, 9), 0, 1);
    world.send(&[(&other, &waiting)]);
    world.manager.departed(&other.peer, Departure::Broken);
    let (other, _) = world.arrive(6, 602);
    let second = again(&waiting);
    world.send(&[(&other, &second)]);
    assert_eq!(world.figure("requests_parked"), 1);
    world.call(&one, 0, &Truncated { handle, ticket, size: Some(7), disk_bytes: Some(7) }).unwrap();
    assert_eq!(world.status_of(&other, &second), Some(OK));
}

#[test]
fn those_who_wait_are_bounded() {
    let world = World::new();
    let (_, other, ..) = begin(&world);
    let waiting: Vec<Message> = (0..64).map(|slot| message(&cut(&world, 9), slot, 1)).collect();
    waiting.iter().for_each(|message| world.send(&[(&other, message)]));
    assert_eq!(world.figure("requests_parked"), 64);
    let further = message(&cut(&world, 9), 0, 2);
    assert_eq!(world.exchange(&other, &further).0, Errno::EAGAIN);
}
