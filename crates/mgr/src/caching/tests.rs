//! The leases alone: clients are numbers, answers are words, time is passed in.

use super::*;
use pvfs_wire::Bytes;
use pvfs_wire::ops::{Recall, RecallKind, Recalled, Recalls};

type Words = Leases<&'static str, u64>;

const X: Key = Key::Object(7);
const Y: Key = Key::Object(8);
const SECOND: u64 = 1_000_000_000;

struct World {
    leases: Words,
    now_ns: u64,
    answered: Vec<&'static str>,
    polls: Vec<(u64, Recalled)>,
}

impl World {
    fn new(keys_max: usize) -> Self {
        let leases = Leases::new(Limits { lease_ns: 5 * SECOND, keys_max });
        Self { leases, now_ns: SECOND, answered: Vec::new(), polls: Vec::new() }
    }

    /// A lease for this client, with a poll outstanding.
    fn client(&mut self, client: u64) -> u64 {
        let mut due = Due::default();
        self.leases.begin(client, client, self.now_ns, &mut due);
        let lease = due.polls[0].1.lease;
        assert_eq!((due.polls[0].0, due.polls[0].1.lease_ms), (client, 5000));
        self.poll(client, lease, 0);
        lease
    }

    fn poll(&mut self, client: u64, lease: u64, acknowledged: u64) {
        let mut due = Due::default();
        let request = Recalls { lease, acknowledged, wait_ms: 1000, ends: false };
        self.leases.poll(client, &request, client, self.now_ns, &mut due);
        self.note(due);
    }

    fn note(&mut self, due: Due<&'static str, u64>) {
        self.answered.extend(due.answers);
        self.polls.extend(due.polls);
    }

    /// What the client is told by its poll.
    fn told(&mut self, client: u64) -> Recalled {
        let at = self.polls.iter().position(|poll| poll.0 == client).expect("its poll is answered");
        self.polls.remove(at).1
    }

    fn query(&mut self, client: u64, keys: &[Key], word: &'static str) -> bool {
        let committed = self.leases.committed();
        self.query_since(client, keys, committed, word)
    }

    fn query_since(&mut self, client: u64, keys: &[Key], since: u64, word: &'static str) -> bool {
        let (leased_ms, hold) = self.leases.query(client, keys.to_vec(), since, self.now_ns);
        match hold {
            Some(hold) => self.answered.extend(self.leases.keep(hold, word)),
            None => self.answered.push(word),
        }
        leased_ms > 0
    }

    fn begin(&mut self, footprints: &[Footprint]) -> Group {
        let mut due = Due::default();
        let group = self.leases.begin_group(footprints, self.now_ns, &mut due);
        self.note(due);
        group
    }

    fn commit(&mut self, group: &Group, words: &[&'static str]) {
        self.leases.committed_group(group);
        for (hold, word) in group.holds.iter().zip(words) {
            match hold {
                Some(hold) => self.answered.extend(self.leases.keep(*hold, word)),
                None => self.answered.push(word),
            }
        }
    }

    fn change(&mut self, client: u64, key: Key, word: &'static str) {
        let group = self.begin(&[change(client, key)]);
        self.commit(&group, &[word]);
    }

    fn pass(&mut self, seconds: f64) -> Vec<u64> {
        self.now_ns += (seconds * SECOND as f64) as u64;
        let mut due = Due::default();
        self.leases.look_at_the_clock(self.now_ns, &mut due);
        let ended = std::mem::take(&mut due.ended);
        self.note(due);
        ended
    }

    fn take_answered(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.answered)
    }
}

fn recall(key: Key) -> Recall {
    let Key::Object(object) = key else { unreachable!("tests change objects") };
    Recall { kind: RecallKind::Attributes, object, name: Bytes::default() }
}

fn change(client: u64, key: Key) -> Footprint {
    let changed = vec![Changed { key, recalls: vec![recall(key)] }];
    Footprint { client, slot: Some(1), read: vec![key], changed }
}

#[test]
fn a_change_is_answered_when_all_who_held_it_have_let_go() {
    let mut world = World::new(100);
    let (one, two) = (world.client(1), world.client(2));
    assert!(world.query(1, &[X], "one") && world.query(2, &[X, Y], "two"));
    world.take_answered();
    world.change(3, X, "changed");
    assert_eq!(world.take_answered(), [""; 0]);
    let (told_one, told_two) = (world.told(1), world.told(2));
    assert_eq!((&told_one.recalls, &told_two.recalls), (&vec![recall(X)], &vec![recall(X)]));
    world.poll(1, one, told_one.number);
    assert_eq!(world.take_answered(), [""; 0], "one of them still believes in the old");
    world.poll(2, two, told_two.number);
    assert_eq!(world.take_answered(), ["changed"]);
    world.change(3, X, "again");
    assert_eq!(world.take_answered(), ["again"], "nobody holds it any more");
}

#[test]
fn who_changes_something_itself_is_not_recalled() {
    let mut world = World::new(100);
    world.client(1);
    world.query(1, &[X], "read");
    world.change(1, X, "changed");
    assert_eq!(world.take_answered(), ["read", "changed"]);
    world.change(2, X, "theirs");
    assert_eq!(world.take_answered(), [""; 0], "it holds what its change told");
}

#[test]
fn nobody_is_told_of_a_change_that_somebody_may_not_believe_yet() {
    let mut world = World::new(100);
    let one = world.client(1);
    world.query(1, &[X], "read");
    world.take_answered();
    world.change(2, X, "changed");
    assert!(!world.query(3, &[Y, X], "seen"));
    world.query(3, &[Y], "other");
    assert_eq!(world.take_answered(), ["other"]);
    let number = world.told(1).number;
    world.poll(1, one, number);
    let mut answered = world.take_answered();
    answered.sort_unstable();
    assert_eq!(answered, ["changed", "seen"]);
}

/// Whoever sees the second change knows of the first.
#[test]
fn a_change_that_rests_on_an_unsettled_one_waits_with_it() {
    let mut world = World::new(100);
    let one = world.client(1);
    world.query(1, &[X], "read");
    world.take_answered();
    let second = Footprint { read: vec![X, Y], ..change(3, Y) };
    let group = world.begin(&[change(2, X), second]);
    world.commit(&group, &["first", "second"]);
    world.query(4, &[Y], "seen");
    assert_eq!(world.take_answered(), [""; 0]);
    let number = world.told(1).number;
    world.poll(1, one, number);
    let mut answered = world.take_answered();
    answered.sort_unstable();
    assert_eq!(answered, ["first", "second", "seen"]);
}

#[test]
fn who_does_not_answer_delays_others_by_the_lease_at_most() {
    let mut world = World::new(100);
    world.client(1);
    world.query(1, &[X], "read");
    world.take_answered();
    world.pass(3.0);
    world.change(2, X, "changed");
    assert_eq!(world.pass(2.0), [0; 0]);
    assert_eq!(world.take_answered(), [""; 0]);
    assert_eq!(world.pass(0.2), [1]);
    assert_eq!(world.take_answered(), ["changed"]);
}

#[test]
fn asking_without_letting_go_does_not_renew() {
    let mut world = World::new(100);
    let one = world.client(1);
    world.query(1, &[X], "read");
    world.change(2, X, "changed");
    for _ in 0..10 {
        world.pass(0.6);
        world.poll(1, one, 0);
    }
    assert_eq!(world.take_answered(), ["read", "changed"]);
    let lost = world.polls.last().expect("polls are answered").1.clone();
    assert_eq!((lost.lease, lost.lease_ms), (0, 0));
}

#[test]
fn an_idle_client_keeps_its_lease_by_polling() {
    let mut world = World::new(100);
    let one = world.client(1);
    world.query(1, &[X], "read");
    for _ in 0..100 {
        assert_eq!(world.pass(1.1), [0; 0]);
        let told = world.told(1);
        assert_eq!((told.lease, told.lease_ms, told.recalls.len()), (one, 5000, 0));
        world.poll(1, one, told.number);
    }
    world.take_answered();
    world.change(2, X, "changed");
    assert_eq!(world.told(1).recalls, [recall(X)]);
}

#[test]
fn a_query_on_an_older_snapshot_grants_nothing_that_has_changed() {
    let mut world = World::new(100);
    world.client(1);
    let before = world.leases.committed();
    let group = world.begin(&[change(2, X)]);
    assert!(!world.query_since(1, &[X], before, "before the commit"));
    world.commit(&group, &["changed"]);
    assert!(!world.query_since(1, &[X], before, "an old snapshot"));
    assert!(world.query_since(1, &[Y], before, "another key"));
    assert!(world.query(1, &[X], "a new snapshot"));
}

#[test]
fn a_lost_reply_is_given_again() {
    let mut world = World::new(100);
    let one = world.client(1);
    world.query(1, &[X], "read");
    world.take_answered();
    world.change(2, X, "changed");
    let lost = world.told(1);
    world.poll(1, one, 0);
    let told = world.told(1);
    assert_eq!((told.number, &told.recalls, told.lease_ms), (lost.number, &lost.recalls, 0));
    world.poll(1, one, told.number);
    assert_eq!(world.take_answered(), ["changed"]);
}

#[test]
fn a_repeated_request_waits_for_what_the_first_waited_for() {
    let mut world = World::new(100);
    let one = world.client(1);
    world.query(1, &[X], "read");
    world.change(2, X, "changed");
    let repeated = Footprint { client: 2, slot: Some(1), ..Footprint::default() };
    let group = world.begin(&[repeated]);
    world.commit(&group, &["repeated"]);
    assert_eq!(world.take_answered(), ["read"]);
    let number = world.told(1).number;
    world.poll(1, one, number);
    assert_eq!(world.take_answered(), ["changed", "repeated"]);
}

#[test]
fn a_group_that_is_not_committed_leaves_nothing() {
    let mut world = World::new(100);
    world.client(1);
    world.query(1, &[X], "read");
    let group = world.begin(&[change(2, X)]);
    world.leases.rolled_back(&group);
    world.query(3, &[X], "seen");
    assert_eq!(world.take_answered(), ["read", "seen"]);
    assert_eq!(world.leases.hold_count(), 0);
}

#[test]
fn after_a_restart_all_who_cached_are_waited_for() {
    let mut world = World::new(100);
    world.leases.remember(1, 5 * SECOND, world.now_ns);
    world.leases.remember(2, 5 * SECOND, world.now_ns);
    world.change(3, X, "changed");
    world.query(3, &[X], "seen");
    world.query(3, &[Y], "other");
    world.query(3, &[], "of no object");
    let repeated = Footprint { client: 4, slot: Some(1), ..Footprint::default() };
    let group = world.begin(&[repeated]);
    world.commit(&group, &["repeated"]);
    assert_eq!(world.take_answered(), ["of no object"]);
    world.poll(1, 99, 5);
    assert_eq!(world.told(1).lease, 0, "its lease is of another time");
    world.client(1);
    assert_eq!(world.take_answered(), [""; 0]);
    assert_eq!(world.pass(5.2), [1, 2], "the second never comes back");
    let mut answered = world.take_answered();
    answered.sort_unstable();
    assert_eq!(answered, ["changed", "other", "repeated", "seen"]);
}

#[test]
fn a_lease_lasts_as_long_as_when_it_began() {
    let mut world = World::new(100);
    let one = world.client(1);
    world.leases.set_lease(60 * SECOND);
    world.pass(1.1);
    assert_eq!(world.told(1).lease_ms, 5000);
    world.poll(1, one, 0);
    assert_eq!(world.pass(5.2), [1]);
    let mut due: Due<&'static str, u64> = Due::default();
    world.leases.begin(1, 1, world.now_ns, &mut due);
    assert_eq!(due.polls[0].1.lease_ms, 60_000);
}

#[test]
fn what_one_client_holds_is_bounded() {
    let mut world = World::new(100);
    let one = world.client(1);
    for object in 0..150 {
        assert!(world.query(1, &[Key::Object(object)], "read"));
    }
    world.take_answered();
    assert!(!world.query(1, &[Key::Object(3)], "read"), "it is about to be let go");
    world.change(2, Key::Object(3), "changed");
    assert_eq!(world.take_answered(), ["read"], "and still held until it is");
    world.pass(1.1);
    let mut number = 0;
    while world.leases.hold_count() > 0 {
        number = world.told(1).number.max(number + 1);
        world.poll(1, one, number);
    }
    assert!(world.query(1, &[Key::Object(3)], "read"));
    assert_eq!(world.leases.key_count(), 101);
}

#[test]
fn nothing_is_left_of_a_client_that_is_gone() {
    let mut world = World::new(100);
    world.client(1);
    world.query(1, &[X, Y], "read");
    world.change(2, X, "changed");
    let mut due = Due::default();
    world.leases.drop_client(1, &mut due);
    world.note(due);
    assert_eq!(world.take_answered(), ["read", "changed"]);
    assert!(world.leases.is_idle() && world.leases.key_count() == 0);
}
