//! Locks against a model that keeps them byte by byte, and the queue's promises.

use std::collections::BTreeMap;

use proptest::prelude::*;
use pvfs_wire::ops::LockFamily;

use super::*;

const FILE: Place = Place { object: 7, family: LockFamily::Range };
const OTHER: Place = Place { object: 8, family: LockFamily::Range };
const WHOLE: Place = Place { object: 7, family: LockFamily::Flock };

fn holder(number: u64) -> Holder {
    Holder { client: number, owner: 1, by_open: false }
}

fn range(number: u64, exclusive: bool, start: u64, end: u64) -> Held {
    Held { start, end, holder: holder(number), pid: number as u32, exclusive }
}

fn read(number: u64, start: u64, end: u64) -> Held {
    range(number, false, start, end)
}

fn write(number: u64, start: u64, end: u64) -> Held {
    range(number, true, start, end)
}

fn id(number: u64) -> Option<WaiterId> {
    Some(WaiterId(number))
}

fn held(table: &LockTable, place: Place) -> Vec<(u64, bool, u64, u64)> {
    let all = table.held(place);
    let mut all: Vec<_> =
        all.map(|held| (held.holder.client, held.exclusive, held.start, held.end)).collect();
    all.sort_unstable();
    all
}

/// What a request does to the model and to the table.
#[derive(Clone, Copy, Debug)]
struct Step {
    who: u64,
    kind: Option<bool>,
    start: u64,
    end: u64,
}

/// Every byte's holders, and whether each excludes others.
#[derive(Debug, Default, Eq, PartialEq)]
struct Model {
    bytes: BTreeMap<(u64, u64), bool>,
}

impl Model {
    fn step(&mut self, step: Step) -> bool {
        let Some(exclusive) = step.kind else {
            self.bytes.retain(|(byte, who), _| {
                *who != step.who || !(step.start..step.end).contains(byte)
            });
            return true;
        };
        let in_the_way = self.bytes.iter().any(|((byte, who), other)| {
            (step.start..step.end).contains(byte) && *who != step.who && (exclusive || *other)
        });
        if !in_the_way {
            let own = (step.start..step.end).map(|byte| ((byte, step.who), exclusive));
            self.bytes.extend(own);
        }
        !in_the_way
    }

    fn of(table: &LockTable) -> Self {
        let mut bytes = BTreeMap::new();
        for held in table.held(FILE) {
            for byte in held.start..held.end {
                let before = bytes.insert((byte, held.holder.client), held.exclusive);
                assert_eq!(before, None, "ranges of one holder overlap: {table:?}");
            }
        }
        Self { bytes }
    }
}

fn step_table(table: &mut LockTable, step: Step) -> bool {
    match step.kind {
        None => table.unlock(FILE, write(step.who, step.start, step.end)),
        Some(exclusive) => {
            let wanted = range(step.who, exclusive, step.start, step.end);
            return table.lock(FILE, wanted, None).is_ok();
        }
    }
    true
}

/// Ranges of one holder and kind never touch: they would have been merged.
fn assert_merged(table: &LockTable) {
    let all = held(table, FILE);
    for pair in all.windows(2) {
        let (left, right) = (pair[0], pair[1]);
        let same = (left.0, left.1) == (right.0, right.1);
        assert!(!same || left.3 < right.2, "{left:?} and {right:?} were not merged");
    }
}

fn check_steps(steps: &[Step]) {
    let (mut table, mut model) = (LockTable::default(), Model::default());
    for step in steps {
        assert_eq!(step_table(&mut table, *step), model.step(*step), "at {step:?} of {steps:?}");
        assert_eq!(Model::of(&table), model, "after {step:?} of {steps:?}");
        assert_merged(&table);
    }
    let changes = table.take_changes();
    table.undo(&changes.edits);
    assert_eq!(held(&table, FILE), [], "undoing everything leaves nothing");
    assert_eq!((table.held_count(), table.clients().count()), (0, 0));
}

fn every_step(bytes: u64, holders: u64) -> Vec<Step> {
    let ranges = (0..bytes).flat_map(|start| (start + 1..=bytes).map(move |end| (start, end)));
    let kinds = [None, Some(false), Some(true)];
    ranges
        .flat_map(|(start, end)| kinds.map(|kind| (start, end, kind)))
        .flat_map(|(start, end, kind)| (1..=holders).map(move |who| Step { who, kind, start, end }))
        .collect()
}

/// One holder, five bytes, every three requests; two holders, three bytes, every three requests.
#[test]
fn every_split_and_merge_agrees_with_a_byte_array() {
    for steps in [every_step(5, 1), every_step(3, 2)] {
        for first in &steps {
            for second in &steps {
                for third in &steps {
                    check_steps(&[*first, *second, *third]);
                }
            }
        }
    }
}

prop_compose! {
    fn any_step()(who in 1..4_u64, kind in prop_oneof![Just(None), any::<bool>().prop_map(Some)],
                  start in 0..24_u64, length in 1..12_u64) -> Step {
        Step { who, kind, start, end: start + length }
    }
}

proptest! {
    #[test]
    fn long_histories_agree_with_a_byte_array(steps in prop::collection::vec(any_step(), 0..80)) {
        check_steps(&steps);
    }

    /// Whatever waits, is cancelled and is released: nobody is let in against another's lock,
    /// nobody waits for nothing, and in the end everybody has been let in.
    #[test]
    fn waiting_requests_are_let_in_when_they_can_be(
        steps in prop::collection::vec((any_step(), any::<bool>()), 0..60)
    ) {
        let mut table = LockTable::default();
        let mut waiting = BTreeMap::new();
        for (number, (step, cancels)) in steps.iter().enumerate() {
            let wanted = range(step.who, step.kind.unwrap_or(true), step.start, step.end);
            match step.kind {
                None => table.unlock(FILE, wanted),
                Some(_) => if table.lock(FILE, wanted, id(number as u64)) == Ok(Verdict::Waits) {
                    waiting.insert(number as u64, wanted);
                }
            }
            forget_granted(&mut table, &mut waiting);
            if *cancels && let Some((number, _)) = waiting.pop_first() {
                prop_assert!(table.cancel(WaiterId(number)));
            }
            forget_granted(&mut table, &mut waiting);
            assert_nothing_conflicts(&table);
            assert_somebody_is_in_the_way(&table, &waiting);
            Model::of(&table);
        }
        for client in 1..4 {
            table.release_client(client);
            waiting.retain(|_, wanted| wanted.holder.client != client);
            forget_granted(&mut table, &mut waiting);
            assert_somebody_is_in_the_way(&table, &waiting);
        }
        prop_assert_eq!((table.held_count(), table.waiting_count(), waiting.len()), (0, 0, 0));
    }
}

fn forget_granted(table: &mut LockTable, waiting: &mut BTreeMap<u64, Held>) {
    for id in table.take_changes().granted {
        assert!(waiting.remove(&id.0).is_some(), "{id:?} did not wait");
    }
}

fn assert_nothing_conflicts(table: &LockTable) {
    let all: Vec<&Held> = table.held(FILE).collect();
    for left in &all {
        assert!(all.iter().all(|right| !left.conflicts(right)), "conflict in {all:?}");
    }
}

/// The one who waits longest waits for something held.
fn assert_somebody_is_in_the_way(table: &LockTable, waiting: &BTreeMap<u64, Held>) {
    if let Some((number, wanted)) = waiting.first_key_value() {
        assert!(table.test(FILE, wanted).is_some(), "{number} {wanted:?} waits for nothing");
    }
}

#[test]
fn the_same_request_again_changes_nothing() {
    let mut table = LockTable::default();
    table.lock(FILE, write(1, 0, 10), None).unwrap();
    table.take_changes();
    table.lock(FILE, write(1, 2, 8), None).unwrap();
    table.lock(FILE, write(1, 0, 10), None).unwrap();
    assert_eq!(table.take_changes().edits, []);
}

#[test]
fn a_range_to_the_end_of_all_files_is_split_and_merged_as_others() {
    let mut table = LockTable::default();
    table.lock(FILE, write(1, 0, u64::MAX), None).unwrap();
    table.unlock(FILE, write(1, 5, 6));
    assert_eq!(held(&table, FILE), [(1, true, 0, 5), (1, true, 6, u64::MAX)]);
    table.lock(FILE, write(1, 5, 6), None).unwrap();
    assert_eq!(held(&table, FILE), [(1, true, 0, u64::MAX)]);
}

#[test]
fn owners_of_one_client_are_told_apart_and_so_are_the_families() {
    let mut table = LockTable::default();
    let of_owner = |owner| Held { holder: Holder { owner, ..holder(1) }, ..write(1, 0, 10) };
    table.lock(FILE, of_owner(1), None).unwrap();
    assert_eq!(table.lock(FILE, of_owner(2), None), Err(Refusal::Conflict));
    assert_eq!(table.lock(WHOLE, of_owner(2), None), Ok(Verdict::Granted));
    assert_eq!(table.test(FILE, &of_owner(2)), Some(of_owner(1)));
    assert_eq!(table.test(FILE, &of_owner(1)), None);
}

#[test]
fn a_waiter_is_let_in_when_the_lock_is_given_up() {
    let mut table = LockTable::default();
    table.lock(FILE, write(1, 0, 10), None).unwrap();
    assert_eq!(table.lock(FILE, read(2, 5, 15), id(20)), Ok(Verdict::Waits));
    table.unlock(FILE, write(1, 0, 5));
    assert_eq!(table.take_changes().granted, []);
    table.unlock(FILE, write(1, 5, 6));
    assert_eq!(table.take_changes().granted, []);
    table.unlock(FILE, write(1, 0, u64::MAX));
    assert_eq!(table.take_changes().granted, [WaiterId(20)]);
    assert_eq!(held(&table, FILE), [(2, false, 5, 15)]);
}

#[test]
fn a_stream_of_readers_does_not_starve_a_writer() {
    let mut table = LockTable::default();
    table.lock(FILE, read(1, 0, 10), None).unwrap();
    table.lock(FILE, write(2, 0, 10), id(2)).unwrap();
    assert_eq!(table.lock(FILE, read(3, 0, 10), id(3)), Ok(Verdict::Waits));
    assert_eq!(table.lock(FILE, read(4, 0, 10), None), Err(Refusal::Conflict));
    assert_eq!(table.lock(FILE, read(5, 20, 30), None), Ok(Verdict::Granted));
    table.unlock(FILE, read(1, 0, 10));
    assert_eq!(table.take_changes().granted, [WaiterId(2)]);
    table.unlock(FILE, write(2, 0, 10));
    assert_eq!(table.take_changes().granted, [WaiterId(3)]);
}

/// A holder who needs more is not made to stand behind those who wait for him.
#[test]
fn courtesy_never_makes_a_deadlock() {
    let mut table = LockTable::default();
    table.lock(FILE, read(1, 0, 10), None).unwrap();
    table.lock(FILE, write(2, 0, 20), id(2)).unwrap();
    assert_eq!(table.lock(FILE, read(1, 0, 20), None), Ok(Verdict::Granted));

    // Through another file: 4 waits for 2's request, 2 waits for 1, 1 waits for 4.
    table.lock(OTHER, write(4, 0, 10), None).unwrap();
    assert_eq!(table.lock(FILE, read(4, 0, 20), id(4)), Ok(Verdict::Waits));
    assert_eq!(table.lock(OTHER, write(1, 0, 10), id(1)), Ok(Verdict::Waits));
    assert_eq!(table.take_changes().granted, []);
    table.review();
    assert_eq!(table.take_changes().granted, [WaiterId(4)]);
}

#[test]
fn circles_of_two_and_three_are_refused() {
    for length in 2..=3 {
        let mut table = LockTable::default();
        for number in 0..length {
            table.lock(FILE, write(number, number, number + 1), None).unwrap();
        }
        for number in 0..length - 1 {
            let next = write(number, number + 1, number + 2);
            assert_eq!(table.lock(FILE, next, id(number)), Ok(Verdict::Waits));
        }
        let last = write(length - 1, 0, 1);
        assert_eq!(table.lock(FILE, last, id(99)), Err(Refusal::Deadlock), "length {length}");
        assert_eq!(table.lock(FILE, last, None), Err(Refusal::Conflict), "length {length}");
        // The others go on when the one who was refused gives way.
        table.unlock(FILE, write(length - 1, 0, 9));
        assert_eq!(table.take_changes().granted, [WaiterId(length - 2)]);
    }
}

#[test]
fn circles_across_files_and_through_upgrades_are_refused() {
    let mut table = LockTable::default();
    table.lock(FILE, write(1, 0, 1), None).unwrap();
    table.lock(OTHER, write(2, 0, 1), None).unwrap();
    table.lock(FILE, write(2, 0, 1), id(1)).unwrap();
    assert_eq!(table.lock(OTHER, read(1, 0, 1), id(2)), Err(Refusal::Deadlock));

    let mut table = LockTable::default();
    table.lock(FILE, read(1, 0, 1), None).unwrap();
    table.lock(FILE, read(2, 0, 1), None).unwrap();
    assert_eq!(table.lock(FILE, write(1, 0, 1), id(1)), Ok(Verdict::Waits));
    assert_eq!(table.lock(FILE, write(2, 0, 1), id(2)), Err(Refusal::Deadlock));
}

/// As flock(2): a conversion that has to wait gives up the old lock, so two of them never block.
#[test]
fn flock_conversions_do_not_block_each_other() {
    let mut table = LockTable::default();
    table.lock(WHOLE, read(1, 0, u64::MAX), None).unwrap();
    table.lock(WHOLE, read(2, 0, u64::MAX), None).unwrap();
    assert_eq!(table.lock(WHOLE, write(1, 0, u64::MAX), id(1)), Ok(Verdict::Waits));
    assert_eq!(table.lock(WHOLE, write(2, 0, u64::MAX), None), Ok(Verdict::Granted));
    table.unlock(WHOLE, write(2, 0, u64::MAX));
    assert_eq!(table.take_changes().granted, [WaiterId(1)]);
}

#[test]
fn a_client_that_is_gone_holds_and_waits_for_nothing() {
    let mut table = LockTable::default();
    table.lock(FILE, write(1, 0, 10), None).unwrap();
    table.lock(OTHER, write(2, 0, 10), None).unwrap();
    table.lock(WHOLE, write(1, 0, u64::MAX), None).unwrap();
    table.lock(FILE, write(2, 0, 10), id(2)).unwrap();
    table.lock(OTHER, write(3, 0, 10), id(3)).unwrap();
    table.release_client(1);
    assert_eq!(table.take_changes().granted, [WaiterId(2)]);
    table.release_client(2);
    assert_eq!(table.take_changes().granted, [WaiterId(3)]);
    table.release_client(3);
    assert_eq!((table.held_count(), table.waiting_count(), table.clients().count()), (0, 0, 0));
    assert!(!table.cancel(WaiterId(2)));
}

#[test]
fn a_waiter_who_gives_up_lets_those_behind_pass() {
    let mut table = LockTable::default();
    table.lock(FILE, read(1, 0, 10), None).unwrap();
    table.lock(FILE, write(2, 0, 10), id(2)).unwrap();
    table.lock(FILE, read(3, 0, 10), id(3)).unwrap();
    assert!(table.cancel(WaiterId(2)));
    assert_eq!(table.take_changes().granted, [WaiterId(3)]);
}

/// Clients wait in short turns; between two of them nobody gets past.
#[test]
fn a_lapsed_waiter_that_asks_again_has_kept_its_place() {
    let mut table = LockTable::default();
    table.lock(FILE, read(1, 0, 10), None).unwrap();
    table.lock(FILE, write(2, 0, 10), id(2)).unwrap();
    table.lock(FILE, write(3, 0, 10), id(3)).unwrap();
    table.lock(FILE, read(4, 0, 10), id(4)).unwrap();
    assert!(table.lapse(WaiterId(2)));
    assert_eq!(table.lock(FILE, read(5, 0, 10), None), Err(Refusal::Conflict));
    assert_eq!(table.lock(FILE, write(2, 0, 10), id(20)), Ok(Verdict::Waits));
    assert_eq!(table.waiting_count(), 3);
    assert!(!table.cancel(WaiterId(2)), "its old number means nothing any more");
    table.unlock(FILE, read(1, 0, 10));
    assert_eq!(table.take_changes().granted, [WaiterId(20)]);
    // The lock comes free between two turns: it is there for who asks again.
    assert!(table.lapse(WaiterId(3)));
    table.unlock(FILE, write(2, 0, 10));
    assert_eq!(table.take_changes().granted, []);
    assert_eq!(table.lock(FILE, write(3, 0, 10), id(30)), Ok(Verdict::Granted));
    assert_eq!(table.waiting_count(), 1);
}

#[test]
fn a_lapsed_waiter_that_does_not_ask_again_lets_others_pass() {
    let mut table = LockTable::default();
    table.lock(FILE, read(1, 0, 10), None).unwrap();
    table.lock(FILE, write(2, 0, 10), id(2)).unwrap();
    table.lock(FILE, read(3, 0, 10), id(3)).unwrap();
    table.lapse(WaiterId(2));
    assert!(table.cancel(WaiterId(2)));
    assert_eq!(table.take_changes().granted, [WaiterId(3)]);
    assert!(!table.lapse(WaiterId(2)));
}

/// Who has given up waits for nobody, so nobody is refused because of him.
#[test]
fn a_lapsed_waiter_closes_no_circle_until_it_asks_again() {
    let mut table = LockTable::default();
    table.lock(FILE, write(1, 0, 1), None).unwrap();
    table.lock(FILE, write(2, 1, 2), None).unwrap();
    table.lock(FILE, write(1, 1, 2), id(1)).unwrap();
    table.lapse(WaiterId(1));
    assert_eq!(table.lock(FILE, write(2, 0, 1), id(2)), Ok(Verdict::Waits));
    assert_eq!(table.lock(FILE, write(1, 1, 2), id(10)), Err(Refusal::Deadlock));
}

#[test]
fn what_was_undone_was_never_held() {
    let mut table = LockTable::default();
    table.lock(FILE, write(1, 0, 10), None).unwrap();
    let before = held(&table, FILE);
    table.take_changes();
    table.unlock(FILE, write(1, 3, 6));
    table.lock(FILE, read(2, 4, 5), None).unwrap();
    table.lock(FILE, read(1, 0, 3), None).unwrap();
    let changes = table.take_changes();
    table.undo(&changes.edits);
    assert_eq!(held(&table, FILE), before);
}

#[test]
fn a_client_cannot_fill_the_table() {
    let limits = Limits { held_per_client_max: 4, waiting_per_client_max: 1, ..Limits::default() };
    let mut table = LockTable::new(limits);
    let taken = (0..10).filter(|n| table.lock(FILE, write(1, n * 2, n * 2 + 1), None).is_ok());
    assert_eq!(taken.count(), 3);
    assert_eq!(table.lock(FILE, write(1, 50, 51), None), Err(Refusal::Full));
    table.unlock(FILE, write(1, 0, u64::MAX));
    assert_eq!(table.lock(FILE, write(1, 0, 10), None), Ok(Verdict::Granted));
    assert_eq!(table.lock(FILE, write(2, 0, 1), id(1)), Ok(Verdict::Waits));
    assert_eq!(table.lock(FILE, write(2, 1, 2), id(2)), Err(Refusal::Conflict));
}
