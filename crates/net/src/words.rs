//! Words of memory that a daemon shares with the clients of its node: it changes them, they look.
//!
//! The memory is sealed before anybody is given it: it cannot shrink, so that looking never faults, and
//! nobody but the daemon can write it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::memfd_create;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

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

#[derive(Debug)]
struct Mapping {
    start: NonNull<AtomicU32>,
    count: usize,
}

impl Words {
    /// So many words, all zero.
    pub fn new(count: usize) -> io::Result<Self> {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let file = memfd_create("pvfs-words", flags)?;
        ftruncate(&file, (count * size_of::<u32>()) as u64)?;
        let memory = Mapping::new(&file, count, ProtFlags::READ | ProtFlags::WRITE)?;
        fcntl_add_seals(&file, SEALS | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(Self { memory, file })
    }

    /// What clients are given.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// How many words there are.
    pub fn count(&self) -> usize {
        self.memory.count
    }

    /// The value of a word.
    pub fn load(&self, word: u32) -> u32 {
        self.memory.words()[word as usize].load(Ordering::SeqCst)
    }

    /// Changes a word. Whoever looks from now on sees it changed.
    pub fn change(&self, word: u32) {
        self.memory.words()[word as usize].fetch_add(1, Ordering::SeqCst);
    }
}

impl SharedWords {
    /// The words in this file; EINVAL when it is not sealed as [`Words`] does it.
    pub fn map(file: impl AsFd) -> io::Result<Self> {
        let sealed = fcntl_get_seals(&file)?.contains(SEALS);
        let bytes = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if !sealed || bytes == 0 || bytes > BYTES_MAX {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let memory = Mapping::new(&file, bytes / size_of::<u32>(), ProtFlags::READ)?;
        Ok(Self { memory })
    }

    /// The value of a word; `None` when there is no such word.
    pub fn load(&self, word: u32) -> Option<u32> {
        self.memory.words().get(word as usize).map(|word| word.load(Ordering::SeqCst))
    }
}

impl Mapping {
    #[allow(unsafe_code)]
    fn new(file: impl AsFd, count: usize, protection: ProtFlags) -> io::Result<Self> {
        let bytes = count * size_of::<u32>();
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let start = unsafe {
            mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file.as_fd(), 0)?
        };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, count })
    }

    #[allow(unsafe_code)]
    fn words(&self) -> &[AtomicU32] {
        // SAFETY: `count` words were mapped at `start`, page-aligned, and stay so until `self` is dropped; the
        // seals keep the file as long as that; all processes touch them as atomics only.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl Drop for Mapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, with this length, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * size_of::<u32>()) };
    }
}

// SAFETY: it is memory touched by atomic operations only, whichever thread it is.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

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
        assert!(ftruncate(words.file(), 0).is_err());
        assert!(Mapping::new(words.file(), 100, ProtFlags::READ | ProtFlags::WRITE).is_err());
    }

    #[test]
    fn files_that_could_shrink_are_refused() {
        let file = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert!(SharedWords::map(&file).is_err());
    }
}
