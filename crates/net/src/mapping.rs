//! Files in memory: those of no name that processes of one node share, and parts of others.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::fs::{fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

/// Mapped until dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

/// A new file in memory, of so many bytes. ENOMEM where the process may not make files of that length (RLIMIT_FSIZE): the
/// kernel would send it a signal.
pub fn memory_file(name: &str, bytes: u64, flags: MemfdFlags) -> Result<OwnedFd, Errno> {
    if getrlimit(Resource::Fsize).current.is_some_and(|most| most < bytes) {
        return Err(Errno::NOMEM);
    }
    let file = memfd_create(name, flags)?;
    ftruncate(&file, bytes)?;
    Ok(file)
}

impl Mapping {
    /// A new file of so many bytes, all zero, and what it looks like to us, who may write it. It neither grows nor
    /// shrinks; `seals` say what else nobody can do who is given the file.
    pub fn create(name: &str, bytes: usize, seals: SealFlags) -> io::Result<(OwnedFd, Self)> {
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let file = memory_file(name, bytes as u64, flags)?;
        let memory = Self::new(&file, bytes, ProtFlags::READ | ProtFlags::WRITE)?;
        fcntl_add_seals(&file, SEALS | SealFlags::SEAL | seals)?;
        Ok((file, memory))
    }

    /// Somebody else's file, to be read; EINVAL when it could shrink, or has more than `bytes_max` bytes.
    pub fn read_only(file: impl AsFd, bytes_max: usize) -> io::Result<Self> {
        Self::of_another(file, bytes_max, ProtFlags::READ)
    }

    /// The like, to be written too.
    pub fn shared(file: impl AsFd, bytes_max: usize) -> io::Result<Self> {
        Self::of_another(file, bytes_max, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn of_another(file: impl AsFd, bytes_max: usize, protection: ProtFlags) -> io::Result<Self> {
        let sealed = fcntl_get_seals(&file)?.contains(SEALS);
        let bytes = usize::try_from(fstat(&file)?.st_size).unwrap_or(0);
        if !sealed || bytes == 0 || bytes > bytes_max {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Self::new(file, bytes, protection)
    }

    /// Part of a file, to be read; it begins at a page, and may reach beyond the end of the file, where
    /// nobody must look.
    pub fn of_file(file: impl AsFd, range: Range<u64>) -> io::Result<Self> {
        let bytes = usize::try_from(range.end - range.start).unwrap_or(0);
        Self::at(file, range.start, bytes, ProtFlags::READ)
    }

    /// Whether looking at these bytes of it waits for no disk.
    #[allow(unsafe_code)]
    pub fn is_resident(&self, range: Range<usize>) -> bool {
        let first = range.start / PAGE_BYTES * PAGE_BYTES;
        let mut start = first;
        while start < range.end {
            let mut pages = [0u8; PAGES_ASKED];
            let bytes = (range.end - start).min(pages.len() * PAGE_BYTES);
            // SAFETY: the range is inside of the mapping, and `pages` has a byte for each of its pages.
            let told = unsafe {
                libc::mincore(self.start.as_ptr().add(start).cast(), bytes, pages.as_mut_ptr())
            };
            let asked = &pages[..bytes.div_ceil(PAGE_BYTES)];
            if told != 0 || asked.iter().any(|page| page & 1 == 0) {
                return false;
            }
            start += bytes;
        }
        true
    }

    /// Part of it, for those who know how it may be touched.
    #[allow(unsafe_code)]
    pub fn part(&self, range: Range<usize>) -> NonNull<[u8]> {
        assert!(range.start <= range.end && range.end <= self.bytes, "a part of what is mapped");
        // SAFETY: the place is inside of the mapping, or its end.
        let start = unsafe { self.start.add(range.start) };
        NonNull::slice_from_raw_parts(start, range.len())
    }

    /// Where it begins; page-aligned.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn new(file: impl AsFd, bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        Self::at(file, 0, bytes, protection)
    }

    #[allow(unsafe_code)]
    fn at(file: impl AsFd, offset: u64, bytes: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let start = unsafe { mmap(null_mut(), bytes, protection, MapFlags::SHARED, file, offset)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }
}

impl Drop for Mapping {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, with this length, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: it is a place in memory, the same for all threads; how it is touched is up to those who use `start`.
#[allow(unsafe_code)]
unsafe impl Send for Mapping {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Mapping {}

/// Pages of the smallest size there is; where they are larger, a neighbour is asked about too.
const PAGE_BYTES: usize = 4096;

/// Asked about at once: a megabyte.
const PAGES_ASKED: usize = 256;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_could_shrink_are_refused() {
        let file = memfd_create("other", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert!(Mapping::read_only(&file, 4096).is_err());
        let plain = tempfile::tempfile().unwrap();
        plain.set_len(4096).unwrap();
        assert!(Mapping::read_only(&plain, 4096).is_err());
    }

    #[test]
    fn files_that_are_too_long_are_refused() {
        let (file, _memory) = Mapping::create("test", 8192, SealFlags::empty()).unwrap();
        assert!(Mapping::read_only(&file, 4096).is_err());
        assert!(Mapping::read_only(&file, 8192).is_ok());
    }
}
