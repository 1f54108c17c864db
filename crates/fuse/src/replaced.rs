//! Files that are replaced while they are being opened.
//!
//! The kernel asks what a name means and opens that, in two requests. When another file takes the name in between
//! (rename(2)) and the first is gone, the open is ESTALE; the kernel then tries both once more, and never again. So who has met
//! that has what the next lookup finds *pinned* by an open of our own: it stays until the program has it open, whatever
//! becomes of its name.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// Threads whose last open has missed its file, and what is pinned for them.
pub struct Replaced<P> {
    threads: Mutex<HashMap<u32, Missed<P>>>,
}

struct Missed<P> {
    flags: OFlags,
    at: Instant,
    pin: Option<P>,
}

impl<P> Default for Replaced<P> {
    fn default() -> Self {
        Self { threads: Mutex::default() }
    }
}

impl<P> Replaced<P> {
    /// A thread's open with these flags has found nothing any more. Returns pins that nobody came for.
    pub fn missed(&self, thread: u32, flags: OFlags) -> Vec<P> {
        let mut unused = self.expired();
        let mut threads = self.lock();
        if threads.len() < THREADS_MAX {
            let missed = Missed { flags, at: Instant::now(), pin: None };
            unused.extend(threads.insert(thread, missed).and_then(|before| before.pin));
        }
        unused
    }

    /// The flags of the open that this thread is trying once more; `None` for almost everybody.
    pub fn tries_again(&self, thread: u32) -> Option<OFlags> {
        let threads = self.lock();
        let missed = threads.get(&thread).filter(|missed| missed.at.elapsed() < FRESH)?;
        Some(missed.flags)
    }

    /// Keeps what the thread is about to open. Returns what was kept for it before, or cannot be.
    pub fn pin(&self, thread: u32, pin: P) -> Option<P> {
        match self.lock().get_mut(&thread) {
            Some(missed) => missed.pin.replace(pin),
            None => Some(pin),
        }
    }

    /// The thread has opened something; what was kept for it.
    pub fn opened(&self, thread: u32) -> Option<P> {
        self.lock().remove(&thread)?.pin
    }

    /// Pins that nobody came for.
    pub fn expired(&self) -> Vec<P> {
        let mut threads = self.lock();
        let old = threads.extract_if(|_, missed| missed.at.elapsed() > FRESH);
        old.filter_map(|(_, missed)| missed.pin).collect()
    }

    /// Everything that is kept.
    pub fn drain(&self) -> Vec<P> {
        self.lock().drain().filter_map(|(_, missed)| missed.pin).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Missed<P>>> {
        self.threads.lock().expect("no code panics while it holds the table")
    }
}

/// How soon the kernel tries again.
const FRESH: Duration = Duration::from_secs(1);

/// Threads that are helped at a time.
const THREADS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_kept_from_the_lookup_to_the_open_of_who_missed_one() {
        let replaced = Replaced::default();
        assert_eq!(replaced.tries_again(5), None);
        assert_eq!(replaced.missed(5, OFlags::RDWR), [0; 0]);
        assert_eq!((replaced.tries_again(5), replaced.tries_again(6)), (Some(OFlags::RDWR), None));
        assert_eq!(replaced.pin(5, 1), None);
        assert_eq!(replaced.pin(5, 2), Some(1), "it looked up twice");
        assert_eq!(replaced.pin(6, 3), Some(3), "has missed nothing");
        assert_eq!(replaced.opened(5), Some(2));
        assert_eq!((replaced.opened(5), replaced.tries_again(5)), (None, None));
    }

    #[test]
    fn what_nobody_comes_for_is_given_back() {
        let replaced = Replaced::default();
        replaced.missed(5, OFlags::RDWR);
        replaced.pin(5, 1);
        replaced.lock().get_mut(&5).unwrap().at -= 2 * FRESH;
        assert_eq!(replaced.tries_again(5), None);
        assert_eq!(replaced.missed(6, OFlags::RDONLY), [1]);
        replaced.pin(6, 2);
        assert_eq!(replaced.missed(6, OFlags::RDONLY), [2], "missed again");
        replaced.pin(6, 3);
        assert_eq!(replaced.drain(), [3]);
        (0..2 * THREADS_MAX as u32).for_each(|thread| drop(replaced.missed(thread, OFlags::RDWR)));
        assert_eq!(replaced.lock().len(), THREADS_MAX);
    }
}
