//! Removing the data of files that are gone: from the queue in the store to every iod of the file.
//!
//! ```text
//! queue   7: iods 0 1 2     step   iod 0: 7      confirmed    7: iod 2     left in the queue
//!         9: iods 1 0              iod 1: 7 9    confirmed    9            gone from it
//!                                  iod 2: 7      no answer
//! ```
//!
//! One pass over the queue follows the other, a batch at a time. An iod that has confirmed is struck off the
//! entry, and an entry without iods leaves the queue. A crash loses at most one batch of confirmations,
//! so iods may be asked again, which does no harm. An iod that does not answer holds up its own
//! objects only, and is asked less and less often.

use std::collections::{BTreeMap, BTreeSet};

use pvfs_layout::{IodId, IodList};
use pvfs_wire::attr::Placement;
use pvfs_wire::{Errno, Handle};

use crate::iods::{Iods, Patience, ask_each};
use crate::namespace::Purge;

/// The queue in the store.
pub trait PurgeQueue {
    /// The first `entries_max` entries whose object is above `after`, in that order.
    fn entries(&self, after: u64, entries_max: usize) -> Result<Vec<Purge>, Errno>;

    /// What was done to some entries: their placement is what is left of it, nothing for an object
    /// that is gone from all its iods.
    fn purged(&self, entries: Vec<Purged>);
}

/// The fate of one entry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Purged {
    /// Which object.
    pub object: u64,
    /// Where it still is.
    pub left: Option<Placement>,
}

/// The progress of purging.
#[derive(Debug)]
pub struct Purger {
    /// The last object looked at in this pass.
    after: u64,
    /// Whether any iod was asked in this pass.
    asked: bool,
    patience: Patience,
}

impl Default for Purger {
    fn default() -> Self {
        let patience = Patience::new(FIRST_WAIT_NS, LONGEST_WAIT_NS);
        Self { after: 0, asked: false, patience }
    }
}

impl Purger {
    /// Purges one batch. Returns how long to wait before the next, in nanoseconds.
    pub fn step(&mut self, queue: &dyn PurgeQueue, iods: &dyn Iods, now_ns: u64) -> u64 {
        let Ok(entries) = queue.entries(self.after, ENTRIES_PER_STEP) else { return PAUSE_NS };
        let confirmed = self.remove(iods, &entries, now_ns);
        let purged: Vec<Purged> =
            entries.iter().filter_map(|entry| strike_off(entry, &confirmed)).collect();
        if !purged.is_empty() {
            queue.purged(purged);
        }
        self.after = entries.last().map_or(0, |last| last.handle.object);
        if entries.is_empty() { self.end_pass(now_ns) } else { 0 }
    }

    /// Asks every iod of these objects, all at once; returns who confirmed what.
    fn remove(
        &mut self,
        iods: &dyn Iods,
        entries: &[Purge],
        now_ns: u64,
    ) -> BTreeSet<(u64, IodId)> {
        let questions: Vec<(IodId, Vec<Handle>)> =
            self.questions(entries, now_ns).into_iter().collect();
        self.asked |= !questions.is_empty();
        let answers = ask_each(&questions, |iod, handles| iods.remove(iod, handles));
        let mut confirmed = BTreeSet::new();
        for ((iod, answer), (_, handles)) in answers.into_iter().zip(&questions) {
            let news = self.patience.note(iod, answer.is_ok(), now_ns);
            match answer {
                Ok(()) => confirmed.extend(handles.iter().map(|handle| (handle.object, iod))),
                Err(error) if news => {
                    tracing::warn!(iod = iod.0, %error, "objects of removed files stay for now");
                }
                Err(_) => {}
            }
        }
        confirmed
    }

    fn questions(&self, entries: &[Purge], now_ns: u64) -> BTreeMap<IodId, Vec<Handle>> {
        let mut questions: BTreeMap<IodId, Vec<Handle>> = BTreeMap::new();
        for entry in entries {
            let iods = entry.placement.iods.iter();
            for iod in iods.filter(|iod| self.patience.allows(*iod, now_ns)) {
                questions.entry(iod).or_default().push(entry.handle);
            }
        }
        questions
    }

    /// A long queue that waits for an iod is not read for nothing.
    fn end_pass(&mut self, now_ns: u64) -> u64 {
        let waits = self.patience.next_ns().filter(|_| !self.asked);
        self.asked = false;
        let wait_ns = waits.map_or(0, |next_ns| next_ns.saturating_sub(now_ns));
        wait_ns.clamp(PAUSE_NS, LONGEST_PAUSE_NS)
    }
}

/// What is left of an entry, when some iod has confirmed.
fn strike_off(entry: &Purge, confirmed: &BTreeSet<(u64, IodId)>) -> Option<Purged> {
    let object = entry.handle.object;
    let all = entry.placement.iods.iter();
    let left: Vec<IodId> = all.filter(|iod| !confirmed.contains(&(object, *iod))).collect();
    if left.len() == entry.placement.iods.len() as usize {
        return None;
    }
    // Only an empty list cannot be made of some of a list's iods.
    let iods = IodList::new(left).ok();
    let left = iods.map(|iods| Placement { iods, ..entry.placement.clone() });
    Some(Purged { object, left })
}

/// Objects in one request to an iod, and removed from the queue in one group.
const ENTRIES_PER_STEP: usize = 1024;

/// Between passes, and at most when all that is left waits for iods.
const PAUSE_NS: u64 = 1_000_000_000;
const LONGEST_PAUSE_NS: u64 = 10_000_000_000;

/// After the first failure of an iod, and at most.
const FIRST_WAIT_NS: u64 = 1_000_000_000;
const LONGEST_WAIT_NS: u64 = 60_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_layout::Dist;
    use pvfs_wire::ops::StoreStat;
    use std::sync::Mutex;

    struct Entries(Mutex<BTreeMap<u64, Purge>>);

    impl PurgeQueue for Entries {
        fn entries(&self, after: u64, entries_max: usize) -> Result<Vec<Purge>, Errno> {
            let entries = self.0.lock().unwrap();
            Ok(entries.range(after + 1..).take(entries_max).map(|(_, e)| e.clone()).collect())
        }

        fn purged(&self, purged: Vec<Purged>) {
            let mut entries = self.0.lock().unwrap();
            for Purged { object, left } in purged {
                let entry = entries.remove(&object).expect("only what is queued is purged");
                entries.extend(left.map(|placement| (object, Purge { placement, ..entry })));
            }
        }
    }

    /// Iods that hold what was put there and fail when told to.
    #[derive(Default)]
    struct Disks {
        objects: Mutex<BTreeSet<(u32, u64)>>,
        failing: Mutex<BTreeSet<u32>>,
        asked: Mutex<Vec<(u32, usize)>>,
    }

    impl Iods for Disks {
        fn remove(&self, iod: IodId, handles: &[Handle]) -> Result<(), Errno> {
            self.asked.lock().unwrap().push((iod.0, handles.len()));
            if self.failing.lock().unwrap().contains(&iod.0) {
                return Err(Errno::ETIMEDOUT);
            }
            let mut objects = self.objects.lock().unwrap();
            for handle in handles {
                objects.remove(&(iod.0, handle.object));
            }
            Ok(())
        }

        fn stat_store(&self, _: IodId) -> Result<StoreStat, Errno> {
            Err(Errno::ENOSYS)
        }
    }

    /// Objects 1 to `count`, each on three iods of four.
    fn world(count: u64) -> (Entries, Disks) {
        let (mut entries, disks) = (BTreeMap::new(), Disks::default());
        for object in 1..=count {
            let iods: Vec<IodId> = (0..3).map(|n| IodId((object as u32 + n) % 4)).collect();
            disks.objects.lock().unwrap().extend(iods.iter().map(|iod| (iod.0, object)));
            let placement = Placement {
                dist: Dist::simple_stripe(65536, 3).unwrap(),
                iods: IodList::new(iods).unwrap(),
            };
            let handle = Handle { fsid: 1, generation: 2, object };
            entries.insert(object, Purge { handle, placement });
        }
        (Entries(Mutex::new(entries)), disks)
    }

    fn left(entries: &Entries) -> usize {
        entries.0.lock().unwrap().len()
    }

    /// Nothing leaves the queue while an iod still holds its object.
    fn assert_nothing_leaked(entries: &Entries, disks: &Disks) {
        let entries = entries.0.lock().unwrap();
        for (iod, object) in disks.objects.lock().unwrap().iter() {
            assert!(entries.contains_key(object), "object {object} leaked on iod {iod}");
        }
    }

    #[test]
    fn everything_in_the_queue_is_removed_from_all_its_iods() {
        let (entries, disks) = world(3000);
        let mut purger = Purger::default();
        let waits: Vec<u64> = (0..4).map(|_| purger.step(&entries, &disks, 0)).collect();
        assert_eq!(waits, [0, 0, 0, PAUSE_NS]);
        assert_eq!((left(&entries), disks.objects.lock().unwrap().len()), (0, 0));
        assert_eq!(disks.asked.lock().unwrap().len(), 12, "one request per iod and batch");
    }

    #[test]
    fn an_iod_that_is_away_holds_up_its_own_objects_only_and_is_asked_seldom() {
        let (entries, disks) = world(100);
        disks.failing.lock().unwrap().insert(2);
        let mut purger = Purger::default();
        for second in 0..600 {
            let wait_ns = purger.step(&entries, &disks, second * PAUSE_NS);
            assert!(wait_ns <= LONGEST_PAUSE_NS);
            assert_nothing_leaked(&entries, &disks);
        }
        assert_eq!(left(&entries), 75, "a quarter lies on the others only");
        let asked = disks.asked.lock().unwrap();
        let of = |iod| asked.iter().filter(|question| question.0 == iod).count();
        assert_eq!((of(0), of(1), of(3)), (1, 1, 1), "who has confirmed is not asked again");
        assert!((8..20).contains(&of(2)), "asked {} times in ten minutes", of(2));
        drop(asked);
        disks.failing.lock().unwrap().clear();
        for second in 600..700 {
            purger.step(&entries, &disks, second * PAUSE_NS);
        }
        assert_eq!((left(&entries), disks.objects.lock().unwrap().len()), (0, 0));
    }

    /// Killed between any two steps: a new purger knows nothing and finishes the work.
    #[test]
    fn a_crash_at_any_step_leaks_nothing() {
        for crash_at in 0..6 {
            let (entries, disks) = world(2500);
            disks.failing.lock().unwrap().insert(crash_at % 4);
            let mut purger = Purger::default();
            for _ in 0..crash_at {
                purger.step(&entries, &disks, 0);
            }
            assert_nothing_leaked(&entries, &disks);
            disks.failing.lock().unwrap().clear();
            let mut purger = Purger::default();
            for _ in 0..5 {
                purger.step(&entries, &disks, 0);
            }
            assert_eq!((left(&entries), disks.objects.lock().unwrap().len()), (0, 0));
        }
    }
}
