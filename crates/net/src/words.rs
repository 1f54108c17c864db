//! Words of memory that a daemon shares with the clients of its node: it changes them, they look.
//!
//! The memory is sealed before anybody is given it: it cannot shrink, so that looking never faults, and
//! nobody but the daemon can write it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::SealFlags;

use crate::mapping::Mapping;

/// The daemon's side.
#[derive(Debug)]
pub struct Words {
    memory: Mapping,
    file: OwnedFd,
}

/// A client's side.
#[derive(Debug)]
pub struct SharedWords {
    memory: Mapping,
}

impl Words {
    /// So many words, all zero.
    pub fn new(count: usize) -> io::Result<Self> {
        let bytes = count * size_of::<u32>();
        let (file, memory) = Mapping::create("pvfs-words", bytes, SealFlags::FUTURE_WRITE)?;
        Ok(Self { memory, file })
    }

    /// What clients are given.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// How many words there are.
    pub fn count(&self) -> usize {
        words(&self.memory).len()
    }

    /// The value of a word.
    pub fn load(&self, word: u32) -> u32 {
        words(&self.memory)[word as usize].load(Ordering::SeqCst)
    }

    /// Changes a word. Whoever looks from now on sees it changed.
    pub fn change(&self, word: u32) {
        words(&self.memory)[word as usize].fetch_add(1, Ordering::SeqCst);
    }
}

impl SharedWords {
    /// The words in this file; EINVAL when it is not sealed as [`Words`] does it.
    pub fn map(file: impl AsFd) -> io::Result<Self> {
        Ok(Self { memory: Mapping::read_only(file, BYTES_MAX)? })
    }

    /// The value of a word; `None` when there is no such word.
    pub fn load(&self, word: u32) -> Option<u32> {
        words(&self.memory).get(word as usize).map(|word| word.load(Ordering::SeqCst))
    }
}

/// The words in it.
#[allow(unsafe_code)]
fn words(memory: &Mapping) -> &[AtomicU32] {
    let count = memory.bytes() / size_of::<u32>();
    // SAFETY: so many bytes are mapped, page-aligned, as long as `memory` lives; the seals keep the file as long as that;
    // all processes touch them as atomics only.
    unsafe { std::slice::from_raw_parts(memory.start().cast().as_ptr(), count) }
}

/// More than any daemon shares.
const BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_by_whoever_was_given_the_file() {
        let words = Words::new(100).unwrap();
        let shared = SharedWords::map(words.file()).unwrap();
        assert_eq!(shared.load(7), Some(0));
        words.change(7);
        words.change(7);
        assert_eq!((shared.load(7), words.load(7)), (Some(2), 2));
        assert_eq!((shared.load(6), shared.load(100)), (Some(0), None));
    }

    #[test]
    fn nobody_who_was_given_the_file_can_write_or_shrink_it() {
        let words = Words::new(100).unwrap();
        assert!(rustix::io::pwrite(words.file(), &[1], 0).is_err());
        assert!(rustix::fs::ftruncate(words.file(), 0).is_err());
    }
}
