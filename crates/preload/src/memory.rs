//! Copies in memory of what lies in the file system, as files of the kernel's: it executes and maps those.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::ptr::null_mut;

use pvfs_posix::Reach;
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A copy that `fill` makes. Its number is out of the way of whatever the program does with descriptors.
pub fn copied(name: &[u8], fill: impl FnOnce(&OwnedFd) -> Reach<()>) -> Reach<OwnedFd> {
    let name = CString::new(name).unwrap_or_default();
    let made = memfd_create(&name, MemfdFlags::CLOEXEC | MemfdFlags::EXEC);
    // Kernels before 6.3 do not know the word, and need not be told.
    let made = made.or_else(|_| memfd_create(&name, MemfdFlags::CLOEXEC))?;
    let copy = fcntl_dupfd_cloexec(&made, pvfs_posix::lowest()).unwrap_or(made);
    fill(&copy)?;
    Ok(copy)
}

/// Looks at all bytes of a copy; at none where there are none, or it cannot be mapped.
pub fn look<T>(copy: &OwnedFd, look: impl FnOnce(&[u8]) -> T) -> T {
    let bytes = fstat(copy).map_or(0, |about| about.st_size as usize);
    // SAFETY: a new mapping of so many bytes of a file that nobody else has; it is gone when nobody looks at it any more.
    unsafe {
        let Ok(start) = mmap(null_mut(), bytes, ProtFlags::READ, MapFlags::PRIVATE, copy, 0) else {
            return look(&[]);
        };
        let seen = look(std::slice::from_raw_parts(start.cast::<u8>(), bytes));
        let _ = munmap(start, bytes);
        seen
    }
}
