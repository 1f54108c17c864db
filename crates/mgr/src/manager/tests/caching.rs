//! Clients that cache hear of a change before anybody else is told of it.

use super::*;
use pvfs_wire::ops::{Recall, RecallKind, Recalled, Recalls};

/// A client that caches, with its poll outstanding.
struct Cacher {
    caller: Caller,
    lease: u64,
    poll: Message,
}

fn poll(lease: u64, acknowledged: u64) -> Message {
    message(&Recalls { lease, acknowledged, wait_ms: 1000, ends: false }, 0, 0)
}

impl Cacher {
    fn new(world: &World, client: u64) -> Self {
        let caller = world.client(client);
        let begun = Recalls { lease: 0, acknowledged: 0, wait_ms: 0, ends: false };
        let begun = world.call(&caller, 0, &begun).unwrap();
        assert_eq!((begun.lease_ms, begun.recalls.len()), (5000, 0));
        let poll = poll(begun.lease, 0);
        world.send(&[(&caller, &poll)]);
        Self { caller, lease: begun.lease, poll }
    }

    /// What it is told by its poll.
    fn told(&self, world: &World) -> Option<Recalled> {
        let (status, body) = world.reply(&self.caller, &self.poll)?;
        assert_eq!(status, OK);
        Some(Recalled::from_bytes(&body).unwrap())
    }

    fn acknowledge(&mut self, world: &World, number: u64) {
        self.poll = poll(self.lease, number);
        world.send(&[(&self.caller, &self.poll)]);
    }

    /// Takes what it is told, and lets go of it.
    fn lets_go_of(&mut self, world: &World) -> Vec<(RecallKind, u64, String)> {
        let told = self.told(world).expect("something is recalled");
        self.acknowledge(world, told.number);
        let words = |recall: Recall| {
            let name = String::from_utf8(recall.name.0).unwrap();
            (recall.kind, recall.object, name)
        };
        told.recalls.into_iter().map(words).collect()
    }

    /// Whether it may cache what it is told of this name.
    fn caches(&self, world: &World, path: &str) -> bool {
        let stat = Stat { target: world.name(path), follow: false, placement: false };
        let message = message(&stat, 0, 0);
        world.send(&[(&self.caller, &message)]);
        world.desk.leased.lock().unwrap().contains(&message.header.tag)
    }
}

const ROOT: u64 = pvfs_wire::handle::ROOT_OBJECT;

#[test]
fn a_new_name_is_answered_when_it_is_no_longer_believed_absent() {
    let world = World::new();
    let mut cacher = Cacher::new(&world, 1);
    assert!(cacher.caches(&world, "a"), "that it is absent");
    let other = world.client(2);
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    assert_eq!(world.reply(&other, &mkdir), None);
    let name = (RecallKind::Name, ROOT, "a".to_owned());
    let root = (RecallKind::Attributes, ROOT, String::new());
    let mut told = cacher.lets_go_of(&world);
    told.sort();
    assert_eq!(told, [name, root]);
    assert_eq!(world.status_of(&other, &mkdir), Some(OK));
}

#[test]
fn nobody_reads_what_another_may_not_believe_yet() {
    let world = World::new();
    let mut cacher = Cacher::new(&world, 1);
    cacher.caches(&world, "a");
    let (other, third) = (world.client(2), world.client(3));
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    let stat = Stat { target: world.name("a"), follow: false, placement: false };
    let stat = message(&stat, 0, 0);
    let statfs = message(&Statfs {}, 0, 0);
    world.send(&[(&third, &stat), (&third, &statfs)]);
    assert_eq!(world.status_of(&third, &statfs), Some(OK), "others go on");
    assert_eq!(world.reply(&third, &stat), None);
    cacher.lets_go_of(&world);
    assert_eq!(world.status_of(&third, &stat), Some(OK));
}

#[test]
fn opening_to_read_recalls_nothing_and_opening_to_write_recalls_data() {
    let world = World::new();
    let mut cacher = Cacher::new(&world, 1);
    let other = world.client(2);
    world.call(&other, 1, &world.open_file("file", 1, CREATE)).unwrap();
    let wrote = Wrote { end: 10, mtime: Time::default(), uncertain: false, disk_bytes: None };
    let closed = ClosedOpen { open: 1, wrote: Some(wrote) };
    world.call(&other, 0, &Close { opens: vec![closed] }).unwrap();
    assert!(cacher.caches(&world, "file"));
    world.call(&other, 2, &world.open_file("file", 2, OpenFlags::READ)).unwrap();
    let write = message(&world.open_file("file", 3, OpenFlags::WRITE), 0, 3);
    world.send(&[(&other, &write)]);
    assert_eq!(world.reply(&other, &write), None);
    let told = cacher.lets_go_of(&world);
    assert_eq!(told.iter().map(|recall| recall.0).collect::<Vec<_>>(), [RecallKind::Data]);
    assert_eq!(world.status_of(&other, &write), Some(OK));
}

#[test]
fn a_second_writer_is_news_to_the_first() {
    let world = World::new();
    let mut cacher = Cacher::new(&world, 1);
    world.call(&cacher.caller, 1, &world.open_file("file", 1, CREATE)).unwrap();
    let other = world.client(2);
    let write = message(&world.open_file("file", 1, OpenFlags::WRITE), 0, 1);
    world.send(&[(&other, &write)]);
    assert_eq!(world.reply(&other, &write), None);
    assert!(cacher.lets_go_of(&world).iter().any(|recall| recall.0 == RecallKind::Data));
    assert_eq!(world.status_of(&other, &write), Some(OK));
}

#[test]
fn a_stopped_client_delays_others_by_its_lease_and_is_told_that_it_lost_it() {
    let world = World::new();
    let mut cacher = Cacher::new(&world, 1);
    cacher.caches(&world, "a");
    let other = world.client(2);
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    world.pass_and_tick(4.9);
    assert_eq!(world.reply(&other, &mkdir), None);
    world.pass_and_tick(0.3);
    assert_eq!(world.status_of(&other, &mkdir), Some(OK));
    cacher.told(&world).expect("what it never looked at");
    cacher.acknowledge(&world, 0);
    assert_eq!(cacher.told(&world).map(|told| told.lease), Some(0));
    assert!(!cacher.caches(&world, "a"));
}

#[test]
fn a_client_whose_process_ended_delays_nobody_for_long() {
    let world = World::new();
    let cacher = Cacher::new(&world, 1);
    cacher.caches(&world, "a");
    world.manager.departed(&cacher.caller.peer, Departure::Closed);
    let other = world.client(2);
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    world.pass_and_tick(1.1);
    assert_eq!(world.status_of(&other, &mkdir), Some(OK));
}

#[test]
fn a_restarted_manager_waits_for_those_who_cached() {
    let world = World::new();
    Cacher::new(&world, 1).caches(&world, "a");
    let world = world.restarted();
    let (other, third) = (world.client(2), world.client(3));
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    let stat = Stat { target: world.name("a"), follow: false, placement: false };
    let stat = message(&stat, 0, 0);
    world.send(&[(&third, &stat)]);
    assert_eq!(world.reply(&other, &mkdir), None);
    assert_eq!(world.reply(&third, &stat), None);
    // It comes back, and says that it holds nothing.
    Cacher::new(&world, 1);
    assert_eq!(world.status_of(&other, &mkdir), Some(OK));
    assert_eq!(world.status_of(&third, &stat), Some(OK));
    assert!(world.contents().iter().any(|(key, _)| key[0] == crate::keys::CACHING));
    world.pass_and_tick(6.0);
    assert!(world.contents().iter().all(|(key, _)| key[0] != crate::keys::CACHING));
}

#[test]
fn nobody_waits_for_a_client_that_said_it_caches_nothing_any_more() {
    let world = World::new();
    let cacher = Cacher::new(&world, 1);
    assert!(cacher.caches(&world, "a"));
    let ends = Recalls { lease: 0, acknowledged: 0, wait_ms: 0, ends: true };
    assert_eq!(world.call(&cacher.caller, 0, &ends).unwrap().lease, 0);
    assert_eq!(cacher.told(&world).expect("its poll is answered").lease, 0);
    assert!(world.manager.is_uncached());
    let world = world.restarted();
    let other = world.client(2);
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    assert_eq!(world.status_of(&other, &mkdir), Some(OK));
}

#[test]
fn a_manager_that_stops_ends_all_leases_and_the_next_one_waits_for_nobody_who_let_go() {
    let world = World::new();
    let (cacher, stuck) = (Cacher::new(&world, 1), Cacher::new(&world, 2));
    assert!(cacher.caches(&world, "a") && stuck.caches(&world, "b"));
    world.manager.order(OrderKind::Stop);
    for cacher in [&cacher, &stuck] {
        assert_eq!(cacher.told(&world).expect("its poll is answered").lease, 0);
    }
    let other = world.client(3);
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    assert_eq!(world.reply(&other, &mkdir), None, "it may still believe that there is none");
    let begins = poll(0, 0);
    world.send(&[(&cacher.caller, &begins)]);
    assert_eq!(world.status_of(&cacher.caller, &begins), Some(Errno::EHOSTDOWN));
    assert_eq!(world.reply(&other, &mkdir), None, "both hold the directory");
    assert!(!cacher.caches(&world, "c"));
    assert!(!world.manager.is_uncached(), "one is stuck");
    let noted = world.contents();
    let noted: Vec<_> = noted.iter().filter(|(key, _)| key[0] == crate::keys::CACHING).collect();
    assert_eq!(noted.len(), 1);
    world.send(&[(&stuck.caller, &begins)]);
    assert_eq!(world.status_of(&other, &mkdir), Some(OK));
    assert!(world.manager.is_uncached());
    let world = world.restarted();
    let other = world.client(3);
    let mkdir = message(&world.mkdir("b"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    assert_eq!(world.status_of(&other, &mkdir), Some(OK));
}

#[test]
fn a_repetition_is_not_answered_earlier_than_the_request() {
    let world = World::new();
    let mut cacher = Cacher::new(&world, 1);
    cacher.caches(&world, "a");
    let other = world.client(2);
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    let repeated = again(&mkdir);
    world.send(&[(&other, &repeated)]);
    assert_eq!(world.reply(&other, &repeated), None);
    cacher.lets_go_of(&world);
    assert_eq!(world.status_of(&other, &repeated), Some(OK));
}

#[test]
fn an_emergency_stop_answers_what_waits() {
    let world = World::new();
    let cacher = Cacher::new(&world, 1);
    cacher.caches(&world, "a");
    let other = world.client(2);
    let mkdir = message(&world.mkdir("a"), 0, 1);
    world.send(&[(&other, &mkdir)]);
    world.manager.order(OrderKind::Estop);
    assert_eq!(world.status_of(&other, &mkdir), Some(Errno::EIO));
}

#[test]
fn without_clients_that_cache_nothing_may_be_cached() {
    let world = World::new();
    let caller = world.client(1);
    let stat = Stat { target: world.name(""), follow: false, placement: false };
    let message = message(&stat, 0, 0);
    world.send(&[(&caller, &message)]);
    assert!(world.desk.leased.lock().unwrap().is_empty());
}
