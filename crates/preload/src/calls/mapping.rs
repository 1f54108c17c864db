//! mmap: a private mapping, or one that is only read, is a copy of the file's bytes at the time. A shared one that
//! is written would have to bring changes back at moments only the kernel knows: it is refused with ENODEV.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use libc::{MAP_ANONYMOUS, MAP_FAILED, MAP_SHARED, MAP_TYPE, PROT_READ, PROT_WRITE, off_t, size_t};
use pvfs_posix::numbers::OURS;
use pvfs_posix::{Process, Reach};
use pvfs_wire::Errno;

use crate::interpose;
#[cfg(target_arch = "x86_64")]
use crate::real::kernel;
use pvfs_posix::c::answer::set_errno;
use pvfs_posix::c::memory::room;
use pvfs_posix::c::state::with;

type Real<'a> = &'a dyn Fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;

interpose! {
    /// mmap(2)
    fn mmap(at: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void as real {
        mapped(&real, (at, length), protection, flags, fd, offset)
    }
    /// mmap(2)
    fn mmap64(at: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void as real {
        mapped(&real, (at, length), protection, flags, fd, offset)
    }
}

/// mmap(2) by its number: for whoever has put another function in the place of the C library's, and wants the kernel.
///
/// # Safety
///
/// As mmap demands.
#[cfg(target_arch = "x86_64")]
pub unsafe fn mmap_by_number(
    at: *mut c_void,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let real = |at: *mut c_void, length, protection, flags, fd: c_int, offset| {
        let (protection, flags, fd) = (protection as usize, flags as usize, fd as usize);
        // SAFETY: the caller's promise.
        let made = unsafe {
            kernel(libc::SYS_mmap, at as usize, length, protection, flags, fd, offset as usize)
        };
        made as *mut c_void
    };
    mapped(&real, (at, length), protection, flags, fd, offset)
}

fn mapped(
    real: Real<'_>,
    (at, length): (*mut c_void, size_t),
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    if fd < 0 || flags & MAP_ANONYMOUS != 0 || !OURS.has(fd) {
        return real(at, length, protection, flags, fd, offset);
    }
    let filled = with(|process| {
        check(process, protection, flags, fd, offset)?;
        let anonymous = (flags & !MAP_TYPE) | libc::MAP_PRIVATE | MAP_ANONYMOUS;
        let memory = real(at, length, PROT_READ | PROT_WRITE, anonymous, -1, 0);
        if memory == MAP_FAILED {
            return Ok(memory);
        }
        if let Err(stop) = fill(process, memory, length, fd, offset as u64) {
            // SAFETY: it was just made, and nobody knows of it.
            unsafe { libc::munmap(memory, length) };
            return Err(stop);
        }
        // SAFETY: it was just made; nobody relies on its protection yet.
        let protected = unsafe { libc::mprotect(memory, length, protection) };
        if protected != 0 {
            return Err(Errno::EACCES.into());
        }
        Ok(memory)
    });
    match filled {
        Ok(memory) => memory,
        Err(pvfs_posix::Stop::NotOurs) => real(at, length, protection, flags, fd, offset),
        Err(stop) => {
            set_errno(stop.errno());
            MAP_FAILED
        }
    }
}

fn check(
    process: &Process,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> Reach<()> {
    let description = process.description(fd)?;
    if description.flags().contains(rustix::fs::OFlags::WRONLY) {
        return Err(Errno::EACCES.into());
    }
    if flags & MAP_TYPE != libc::MAP_PRIVATE && protection & PROT_WRITE != 0 {
        let may_write = description.flags().contains(rustix::fs::OFlags::RDWR);
        return Err(if may_write { Errno::ENODEV } else { Errno::EACCES }.into());
    }
    if offset < 0 || offset % PAGE_BYTES != 0 || flags & (MAP_SHARED | libc::MAP_PRIVATE) == 0 {
        return Err(Errno::EINVAL.into());
    }
    Ok(())
}

fn fill(
    process: &Process,
    memory: *mut c_void,
    length: size_t,
    fd: c_int,
    offset: u64,
) -> Reach<()> {
    let mut done = 0;
    while done < length {
        // SAFETY: within the mapping that was just made, which nobody else knows of.
        let part = unsafe { room(memory.cast::<u8>().add(done).cast(), length - done) };
        match process.read_at(fd, offset + done as u64, part)? {
            0 => break,
            got => done += got,
        }
    }
    Ok(())
}

const PAGE_BYTES: off_t = 4096;
