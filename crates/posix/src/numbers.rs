//! Which descriptor numbers are ours: sets of bits, asked before every call on a descriptor.
//!
//! A question costs one relaxed load. The answer may be stale, when a program closed a descriptor behind our
//! back; whoever acts on a yes looks closer.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Descriptors of open files of ours.
pub static OURS: Numbers = Numbers::new();

/// Descriptors of our own connections, which no program may take or close.
pub static KEPT: Numbers = Numbers::new();

/// Whether somebody sees to that: all calls that close or replace a descriptor come through us.
pub static IS_KEPT_SAFE: AtomicBool = AtomicBool::new(false);

/// A set of descriptor numbers.
pub struct Numbers {
    words: [AtomicU64; WORDS],
}

/// Numbers from here on are never ours; no kernel gives them out unless told to.
pub const NUMBERS_END: RawFd = 1 << 20;

const WORDS: usize = NUMBERS_END as usize / 64;

impl Numbers {
    const fn new() -> Self {
        Self { words: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// Whether a number is in the set.
    #[inline]
    pub fn has(&self, fd: RawFd) -> bool {
        let index = fd as u32 as usize;
        index < NUMBERS_END as usize
            && self.words[index / 64].load(Ordering::Relaxed) >> (index % 64) & 1 == 1
    }

    /// Puts a number in. Says whether it can be.
    pub fn insert(&self, fd: RawFd) -> bool {
        let Some((word, bit)) = self.place(fd) else { return false };
        word.fetch_or(bit, Ordering::Relaxed);
        true
    }

    /// Takes a number out.
    pub fn remove(&self, fd: RawFd) {
        if let Some((word, bit)) = self.place(fd) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// All numbers in the set from `first` to `last`.
    pub fn between(&self, first: RawFd, last: RawFd) -> Vec<RawFd> {
        let (first, last) = (first.max(0), last.min(NUMBERS_END - 1));
        let mut found = Vec::new();
        let mut at = first;
        while at <= last {
            if self.words[at as usize / 64].load(Ordering::Relaxed) == 0 {
                at = (at / 64 + 1) * 64;
                continue;
            }
            if self.has(at) {
                found.push(at);
            }
            at += 1;
        }
        found
    }

    /// All numbers in the set.
    pub fn all(&self) -> Vec<RawFd> {
        self.between(0, NUMBERS_END - 1)
    }

    fn place(&self, fd: RawFd) -> Option<(&AtomicU64, u64)> {
        let index = usize::try_from(fd).ok().filter(|index| *index < NUMBERS_END as usize)?;
        Some((&self.words[index / 64], 1 << (index % 64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_in_the_set_from_insert_to_remove() {
        static SET: Numbers = Numbers::new();
        for fd in [0, 1, 63, 64, 65, 1000, NUMBERS_END - 1] {
            assert!(!SET.has(fd) && SET.insert(fd) && SET.has(fd), "{fd}");
        }
        assert_eq!(SET.between(1, 64), [1, 63, 64]);
        assert_eq!(SET.all().len(), 7);
        SET.remove(64);
        assert_eq!(SET.between(2, 999), [63, 65]);
    }

    #[test]
    fn numbers_that_cannot_be_are_not_in_it() {
        static SET: Numbers = Numbers::new();
        for fd in [-1, RawFd::MIN, NUMBERS_END, RawFd::MAX] {
            assert!(!SET.insert(fd) && !SET.has(fd), "{fd}");
            SET.remove(fd);
        }
        assert_eq!(SET.all(), [0; 0]);
    }
}
