//! What the manager asks of I/O daemons. It never moves data; it removes objects and looks at space.

use std::collections::HashMap;
use std::thread;

use pvfs_layout::IodId;
use pvfs_wire::ops::StoreStat;
use pvfs_wire::{Errno, Handle};

/// The I/O daemons of the cluster. Every call ends within a deadline of its own.
pub trait Iods: Send + Sync {
    /// Removes objects for good; those it does not have are removed already. At most
    /// [`pvfs_wire::ops::OBJECTS_MAX`].
    fn remove(&self, iod: IodId, handles: &[Handle]) -> Result<(), Errno>;

    /// Space of the iod's store.
    fn stat_store(&self, iod: IodId) -> Result<StoreStat, Errno>;
}

/// Which iods fail to answer, and when to try them again.
#[derive(Debug)]
pub struct Patience {
    first_ns: u64,
    longest_ns: u64,
    failing: HashMap<IodId, Failing>,
}

#[derive(Clone, Copy, Debug)]
struct Failing {
    until_ns: u64,
    wait_ns: u64,
}

impl Patience {
    /// Waits `first_ns` after a failure, twice as long after each further one, up to `longest_ns`.
    pub fn new(first_ns: u64, longest_ns: u64) -> Self {
        Self { first_ns, longest_ns, failing: HashMap::new() }
    }

    /// Whether the iod may be asked now.
    pub fn allows(&self, iod: IodId, now_ns: u64) -> bool {
        self.failing.get(&iod).is_none_or(|failing| failing.until_ns <= now_ns)
    }

    /// Notes how it went. Says whether that is news.
    pub fn note(&mut self, iod: IodId, succeeded: bool, now_ns: u64) -> bool {
        if succeeded {
            return self.failing.remove(&iod).is_some();
        }
        let before = self.failing.get(&iod).map(|failing| failing.wait_ns);
        let wait_ns = before.map_or(self.first_ns, |wait_ns| (wait_ns * 2).min(self.longest_ns));
        let until_ns = now_ns.saturating_add(wait_ns);
        self.failing.insert(iod, Failing { until_ns, wait_ns });
        before.is_none()
    }

    /// Whether the last call failed.
    pub fn is_failing(&self, iod: IodId) -> bool {
        self.failing.contains_key(&iod)
    }

    /// When the next of the failing iods may be asked.
    pub fn next_ns(&self) -> Option<u64> {
        self.failing.values().map(|failing| failing.until_ns).min()
    }
}

/// Asks many iods at once, so that one that hangs costs its own deadline only.
pub fn ask_each<Q: Sync, A: Send>(
    questions: &[(IodId, Q)],
    ask: impl Fn(IodId, &Q) -> A + Sync,
) -> Vec<(IodId, A)> {
    let mut answers = Vec::with_capacity(questions.len());
    for some in questions.chunks(ASKED_AT_ONCE) {
        thread::scope(|scope| {
            let ask = &ask;
            let asked: Vec<_> = some
                .iter()
                .map(|(iod, question)| (*iod, scope.spawn(move || ask(*iod, question))))
                .collect();
            answers.extend(asked.into_iter().map(|(iod, answer)| {
                (iod, answer.join().expect("asking an iod fails with an error, not a panic"))
            }));
        });
    }
    answers
}

/// Threads for asking, while it lasts.
const ASKED_AT_ONCE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_grows_to_its_limit_and_is_restored_by_success() {
        let (iod, mut patience) = (IodId(1), Patience::new(10, 35));
        assert!(patience.allows(iod, 0));
        assert!(patience.note(iod, false, 0), "the first failure is news");
        assert!(!patience.allows(iod, 9) && patience.allows(iod, 10));
        assert!(!patience.note(iod, false, 10));
        assert_eq!(patience.next_ns(), Some(30));
        patience.note(iod, false, 30);
        patience.note(iod, false, 100);
        assert_eq!(patience.next_ns(), Some(135));
        assert!(patience.allows(IodId(2), 0), "others do not suffer");
        assert!(patience.note(iod, true, 135));
        assert!(patience.allows(iod, 135) && !patience.is_failing(iod));
    }

    #[test]
    fn everybody_is_asked_and_answers_keep_their_order() {
        let questions: Vec<(IodId, u32)> = (0..100).map(|n| (IodId(n), n)).collect();
        let answers = ask_each(&questions, |iod, n| iod.0 + n);
        assert_eq!(answers, (0..100).map(|n| (IodId(n), 2 * n)).collect::<Vec<_>>());
    }
}
