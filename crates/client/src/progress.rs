//! What was done to a file through one open so far.
//!
//! While that open is the only one that may write the file ([`SizeState::Alone`]), this and what the manager knows are all
//! there is to know of its size and times, and no iod need be asked: programs look at what they are writing, and set its
//! times and permissions before they close it.
//!
//! [`SizeState::Alone`]: pvfs_wire::attr::SizeState::Alone

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use pvfs_wire::attr::{Attr, SizeState, Time};
use pvfs_wire::ops::Wrote;

use crate::holes::Holes;
use crate::ops::sizes::with_write;
use crate::unsynced::Unsynced;

/// What was done to a file through one open; shared by those who want to know.
#[derive(Clone, Debug)]
pub(crate) struct Progress(Arc<Shared>);

/// The like, that keeps nothing.
#[derive(Debug)]
pub(crate) struct WeakProgress(Weak<Shared>);

/// What was done to the file.
#[derive(Debug)]
pub(crate) struct Changes {
    pub wrote: Option<Wrote>,
    /// Whether its size still tells what it takes on disks.
    pub holes: Holes,
    /// What was written to which iod and not synced yet.
    pub unsynced: Unsynced,
    /// Of the changes that have begun, those of which all is noted here. One that failed, or that somebody stopped
    /// waiting for, never is.
    noted: u64,
}

#[derive(Debug)]
struct Shared {
    /// Writes, and other changes, that have begun.
    begun: AtomicU64,
    is_closed: AtomicBool,
    changes: Mutex<Changes>,
}

impl Progress {
    /// Of an open of a file that has these attributes.
    pub fn new(attr: &Attr) -> Self {
        let (holes, unsynced) = (Holes::new(attr), Unsynced::default());
        let changes = Mutex::new(Changes { wrote: None, holes, unsynced, noted: 0 });
        let (begun, is_closed) = (AtomicU64::new(0), false.into());
        Self(Arc::new(Shared { begun, is_closed, changes }))
    }

    /// A change begins: from now on others may see more than is noted.
    pub fn begin(&self) {
        self.0.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// All of a change that has begun is noted.
    pub fn end(&self) {
        self.changes().ended();
    }

    /// For who looks for it only as long as somebody has it.
    pub fn downgrade(&self) -> WeakProgress {
        WeakProgress(Arc::downgrade(&self.0))
    }

    /// The open ends, and with it what is known.
    pub fn close(&self) {
        self.0.is_closed.store(true, Ordering::SeqCst);
    }

    /// Whether the open lasts.
    pub fn is_open(&self) -> bool {
        !self.0.is_closed.load(Ordering::SeqCst)
    }

    /// What was noted.
    pub fn changes(&self) -> MutexGuard<'_, Changes> {
        self.0.changes.lock().expect("no code panics while it holds this")
    }

    /// The attributes of the file when the manager knows these and nobody else may have written it. Nothing where something
    /// is under way, went wrong, or made holes.
    pub fn applied_to(&self, attr: Attr) -> Option<Attr> {
        let (wrote, may_have_holes, noted) = {
            let changes = self.changes();
            let holes = &changes.holes;
            (changes.wrote, holes.may_be_there() || holes.are_left_to_iods(), changes.noted)
        };
        // Who has begun since that was read is not among those that were noted.
        if !self.is_open() || self.0.begun.load(Ordering::SeqCst) != noted {
            return None;
        }
        let settled = Attr { size_state: SizeState::Settled, ..attr };
        let Some(wrote) = wrote else { return Some(settled) };
        if wrote.uncertain || may_have_holes {
            return None;
        }
        let size = attr.size.max(wrote.end);
        Some(Attr { size, ..with_write(settled, wrote.mtime) })
    }
}

impl Changes {
    /// Notes a write of these ranges that is done, or (`uncertain`) one whose fate is not known.
    pub fn note(&mut self, ranges: impl Iterator<Item = Range<u64>>, mtime: Time, uncertain: bool) {
        let none = Wrote { end: 0, mtime, uncertain: false, disk_bytes: None };
        let before = self.wrote.unwrap_or(none);
        let mut end = before.end;
        for range in ranges {
            end = end.max(range.end);
            self.holes.wrote(range);
        }
        self.wrote = Some(Wrote {
            end,
            mtime: before.mtime.max(mtime),
            uncertain: before.uncertain || uncertain,
            disk_bytes: None,
        });
    }

    /// All of a change that has begun is noted.
    pub fn ended(&mut self) {
        self.noted += 1;
    }
}

impl WeakProgress {
    /// While somebody has it.
    pub fn upgrade(&self) -> Option<Progress> {
        self.0.upgrade().map(Progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::tests::attr;

    fn at(seconds: i64) -> Time {
        Time { seconds, nanos: 0 }
    }

    fn wrote(end: u64, seconds: i64) -> Wrote {
        Wrote { end, mtime: at(seconds), uncertain: false, disk_bytes: None }
    }

    fn note(progress: &Progress, wrote: Wrote) {
        let mut changes = progress.changes();
        changes.holes.wrote(0..wrote.end);
        changes.wrote = Some(wrote);
    }

    #[test]
    fn what_is_noted_is_added_to_what_the_manager_knows() {
        let alone = Attr { size: 0, size_state: SizeState::Alone, ..attr(7, 1) };
        let progress = Progress::new(&Attr { size: 0, ..attr(7, 1) });
        let settled = Attr { size_state: SizeState::Settled, ..alone };
        assert_eq!(progress.applied_to(alone), Some(settled));
        progress.begin();
        note(&progress, wrote(5, 10));
        assert_eq!(progress.applied_to(alone), None, "it is under way");
        progress.end();
        let written = Attr { size: 5, mtime: at(10), ctime: at(10), ..settled };
        assert_eq!(progress.applied_to(alone), Some(written));
        assert_eq!(progress.applied_to(written), Some(written));
        let chosen = Attr { mtime: at(3), ctime: at(11), ..alone };
        let kept = Attr { size: 5, size_state: SizeState::Settled, ..chosen };
        assert_eq!(progress.applied_to(chosen), Some(kept), "the time was chosen later");
        progress.close();
        assert_eq!(progress.applied_to(alone), None);
    }

    #[test]
    fn what_is_not_certain_is_not_told() {
        let empty = Attr { size: 0, ..attr(7, 1) };
        let abandoned = Progress::new(&empty);
        abandoned.begin();
        abandoned.begin();
        abandoned.end();
        assert_eq!(abandoned.applied_to(empty), None);
        let failed = Progress::new(&empty);
        note(&failed, Wrote { uncertain: true, ..wrote(5, 10) });
        assert_eq!(failed.applied_to(empty), None);
        let holes = Progress::new(&empty);
        note(&holes, wrote(5, 10));
        holes.changes().holes.wrote(10..12);
        assert_eq!(holes.applied_to(empty), None);
        let others = Progress::new(&Attr { size_state: SizeState::Unsettled, ..empty });
        note(&others, wrote(5, 10));
        assert_eq!(others.applied_to(empty), None);
    }
}
