//! The opens for writing through which nothing was written yet.
//!
//! While such an open is the only one that may write a file ([`SizeState::Alone`]), the size is what the manager says, and
//! no iod need be asked: programs look at what they have just made before they write it.
//!
//! [`SizeState::Alone`]: pvfs_wire::attr::SizeState::Alone

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pvfs_wire::Handle;

/// Whether a write through an open has begun, or its close.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched(Arc<AtomicBool>);

impl Touched {
    /// From now on others may see more than the manager knows.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether that is so.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

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
    touched: Weak<AtomicBool>,
}

impl Entry {
    fn untouched(&self) -> Option<Touched> {
        self.touched.upgrade().map(Touched).filter(|touched| !touched.is_set())
    }

    fn is_untouched(&self) -> bool {
        self.untouched().is_some()
    }
}

impl Writers {
    /// A file was opened for writing, under this lease.
    pub fn opened(&self, handle: Handle, touched: &Touched, lease: u64) {
        let table = &mut *self.lock();
        if table.opens.len() >= table.files_max {
            table.opens.retain(|_, entries| entries.iter().any(Entry::is_untouched));
            table.files_max = (table.opens.len() * 2).max(FILES_MAX_LEAST);
        }
        table.count += 1;
        let touched = Arc::downgrade(&touched.0);
        let entry = Entry { number: table.count, lease, touched };
        table.opens.entry(handle).or_default().push(entry);
    }

    /// An open of it was closed, which touched it.
    pub fn closed(&self, handle: Handle) {
        let opens = &mut self.lock().opens;
        if let Some(entries) = opens.get_mut(&handle) {
            entries.retain(Entry::is_untouched);
            if entries.is_empty() {
                opens.remove(&handle);
            }
        }
    }

    /// To be taken before the manager is asked.
    pub fn ask(&self) -> Asked {
        Asked(self.lock().count)
    }

    /// If the file was open for writing when that was asked, and is, and nothing was written through that open: what says
    /// when that ends.
    pub fn untouched(&self, handle: Handle, asked: Asked, lease: u64) -> Option<Touched> {
        let table = self.lock();
        let entries = table.opens.get(&handle).into_iter().flatten();
        let mut earlier = entries.filter(|entry| entry.number <= asked.0 && entry.lease == lease);
        earlier.find_map(Entry::untouched)
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

    #[test]
    fn an_open_counts_from_before_the_question_until_it_is_written_or_closed() {
        let (writers, touched) = (Writers::default(), Touched::default());
        let before = writers.ask();
        writers.opened(handle(1), &touched, 0);
        let asked = writers.ask();
        assert!(writers.untouched(handle(1), before, 0).is_none(), "it may be somebody else's");
        assert!(writers.untouched(handle(1), asked, 0).is_some());
        assert!(writers.untouched(handle(2), asked, 0).is_none());
        assert!(writers.untouched(handle(1), asked, 1).is_none(), "the manager has forgotten it");
        touched.set();
        assert!(writers.untouched(handle(1), asked, 0).is_none());
        writers.closed(handle(1));
        assert!(writers.lock().opens.is_empty());
    }

    #[test]
    fn what_is_dropped_without_a_close_takes_no_memory_for_ever() {
        let writers = Writers::default();
        for object in 0..100_000 {
            writers.opened(handle(object), &Touched::default(), 0);
        }
        assert!(writers.lock().opens.len() <= FILES_MAX_LEAST);
        let asked = writers.ask();
        assert!(writers.untouched(handle(99_999), asked, 0).is_none());
    }
}
