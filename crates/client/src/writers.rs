//! This client's opens for writing, so that it can tell its own writes from those of others ([`crate::progress`]).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pvfs_wire::Handle;

use crate::progress::{Progress, WeakProgress};

/// How many opens there were when a question was asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Asked(u64);

/// This client's opens for writing.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    count: u64,
    opens: HashMap<Handle, Vec<Entry>>,
    /// How many files there may be before those are looked for whose opens were dropped without a close.
    files_max: usize,
}

#[derive(Debug)]
struct Entry {
    number: u64,
    /// How many leases had been lost.
    lease: u64,
    progress: WeakProgress,
}

impl Entry {
    fn progress(&self) -> Option<Progress> {
        self.progress.upgrade().filter(Progress::is_open)
    }

    fn is_open(&self) -> bool {
        self.progress().is_some()
    }
}

impl Writers {
    /// A file was opened for writing, under this lease.
    pub fn opened(&self, handle: Handle, progress: &Progress, lease: u64) {
        let table = &mut *self.lock();
        if table.opens.len() >= table.files_max {
            table.opens.retain(|_, entries| entries.iter().any(Entry::is_open));
            table.files_max = (table.opens.len() * 2).max(FILES_MAX_LEAST);
        }
        table.count += 1;
        let entry = Entry { number: table.count, lease, progress: progress.downgrade() };
        table.opens.entry(handle).or_default().push(entry);
    }

    /// An open of it was closed.
    pub fn closed(&self, handle: Handle) {
        let opens = &mut self.lock().opens;
        if let Some(entries) = opens.get_mut(&handle) {
            entries.retain(Entry::is_open);
            if entries.is_empty() {
                opens.remove(&handle);
            }
        }
    }

    /// To be taken before the manager is asked.
    pub fn ask(&self) -> Asked {
        Asked(self.lock().count)
    }

    /// If the file was open for writing when that was asked, and is: what was written through that open.
    pub fn progress(&self, handle: Handle, asked: Asked, lease: u64) -> Option<Progress> {
        let table = self.lock();
        let entries = table.opens.get(&handle).into_iter().flatten();
        let mut earlier = entries.filter(|entry| entry.number <= asked.0 && entry.lease == lease);
        earlier.find_map(Entry::progress)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const FILES_MAX_LEAST: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(object: u64) -> Handle {
        Handle { object, ..Handle::default() }
    }

    fn progress() -> Progress {
        Progress::new(&crate::cache::tests::attr(1, 1))
    }

    #[test]
    fn an_open_counts_from_before_the_question_until_it_is_closed() {
        let (writers, progress) = (Writers::default(), progress());
        let before = writers.ask();
        writers.opened(handle(1), &progress, 0);
        let asked = writers.ask();
        assert!(writers.progress(handle(1), before, 0).is_none(), "it may be somebody else's");
        assert!(writers.progress(handle(1), asked, 0).is_some());
        assert!(writers.progress(handle(2), asked, 0).is_none());
        assert!(writers.progress(handle(1), asked, 1).is_none(), "the manager has forgotten it");
        progress.close();
        assert!(writers.progress(handle(1), asked, 0).is_none());
        writers.closed(handle(1));
        assert!(writers.lock().opens.is_empty());
    }

    #[test]
    fn what_is_dropped_without_a_close_takes_no_memory_for_ever() {
        let writers = Writers::default();
        for object in 0..100_000 {
            writers.opened(handle(object), &progress(), 0);
        }
        assert!(writers.lock().opens.len() <= FILES_MAX_LEAST);
        let asked = writers.ask();
        assert!(writers.progress(handle(99_999), asked, 0).is_none());
    }
}
