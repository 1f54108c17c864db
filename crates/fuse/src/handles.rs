//! What programs have open: numbers that the kernel repeats with each request.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use pvfs_client::{Error, OpenFile, User};
use pvfs_net::blocking::Blocking;
use pvfs_wire::Errno;

use crate::protocol::FileHandle;

/// A table of open things. Numbers are never used twice, so a late request cannot hit another's file.
pub struct Handles<T> {
    table: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

/// An open regular file.
pub struct OpenEntry {
    /// The file.
    pub file: OpenFile,
    /// Who opened it: data is moved on their behalf, whoever has the descriptor now.
    pub user: User<Blocking>,
    /// Its node.
    pub node: u64,
    /// Each write waits for stable storage (O_SYNC, O_DSYNC).
    pub sync: bool,
    /// Each write goes to the end (O_APPEND).
    pub append: bool,
    /// It may write through the kernel's pages.
    pub writes_pages: bool,
    /// The read that an iod did not answer last.
    pub unanswered: Mutex<Option<Unanswered>>,
    /// Who asked for byte-range locks through it. A process gives its own up when it closes any descriptor of
    /// the file; those that belong to the open file itself (F_OFD_SETLK) go with the last one, unannounced.
    pub range_owners: Mutex<HashSet<u64>>,
}

/// A read that failed at its deadline.
#[derive(Clone, Debug)]
pub struct Unanswered {
    range: Range<u64>,
    at: Instant,
    error: Error,
}

impl OpenEntry {
    /// Notes a read that failed at its deadline.
    pub fn note_unanswered(&self, range: Range<u64>, error: &Error) {
        let unanswered = Unanswered { range, at: Instant::now(), error: error.clone() };
        *self.unanswered.lock().expect(NO_PANIC) = Some(unanswered);
    }

    /// Why this read is not to be tried: one that has just failed held it. The kernel reads ahead, and when that fails asks
    /// again for the page that the program waits for, which is not to wait for two deadlines.
    pub fn has_just_failed(&self, range: &Range<u64>) -> Option<Error> {
        let unanswered = self.unanswered.lock().expect(NO_PANIC);
        let failed = unanswered.as_ref()?;
        let holds = failed.range.start <= range.start && range.end <= failed.range.end;
        (holds && failed.at.elapsed() < AGAIN).then(|| failed.error.clone())
    }

    /// Notes somebody who asks for a byte-range lock.
    pub fn note_range_owner(&self, owner: u64) {
        self.range_owners.lock().expect(NO_PANIC).insert(owner);
    }

    /// Those who asked.
    pub fn take_range_owners(&self) -> HashSet<u64> {
        std::mem::take(&mut self.range_owners.lock().expect(NO_PANIC))
    }
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { table: RwLock::new(HashMap::new()), next: AtomicU64::new(1) }
    }
}

impl<T> Handles<T> {
    /// Adds a thing and numbers it.
    pub fn insert(&self, thing: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.table.write().expect(NO_PANIC).insert(number, Arc::new(thing));
        FileHandle(number)
    }

    /// The thing of a number.
    pub fn get(&self, number: FileHandle) -> Result<Arc<T>, Errno> {
        self.table.read().expect(NO_PANIC).get(&number.0).cloned().ok_or(Errno::EBADF)
    }

    /// Takes a thing out.
    pub fn remove(&self, number: FileHandle) -> Option<Arc<T>> {
        self.table.write().expect(NO_PANIC).remove(&number.0)
    }

    /// Takes everything out.
    pub fn drain(&self) -> Vec<Arc<T>> {
        self.table.write().expect(NO_PANIC).drain().map(|(_, thing)| thing).collect()
    }
}

/// The kernel asks again at once.
const AGAIN: Duration = Duration::from_millis(200);

const NO_PANIC: &str = "no code panics while it holds the table";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_number_is_bad_and_never_given_again() {
        let handles = Handles::default();
        let first = handles.insert("a");
        assert_eq!(*handles.get(first).unwrap(), "a");
        handles.remove(first);
        assert_eq!(handles.get(first), Err(Errno::EBADF));
        assert_ne!(handles.insert("b"), first);
    }
}
