//! fcntl, ioctl, flock, lockf.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong, c_void};

use libc::off_t;
use pvfs_posix::{Family, From, Process, Reach, Wanted};
use pvfs_wire::Errno;
use pvfs_wire::ops::LockKind;
use rustix::fs::OFlags;

use super::descriptors::duplicated;
use crate::answer::fail;
use crate::interpose;
use crate::route::{at_descriptor, is_kept};

interpose! {
    /// fcntl(2)
    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int as real {
        controlled(fd, command, argument, || real(fd, command, argument))
    }
    /// fcntl(2)
    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int as real {
        controlled(fd, command, argument, || real(fd, command, argument))
    }
    /// ioctl(2): a regular file knows none but those about the descriptor itself.
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int as real {
        at_descriptor(fd, || real(fd, request, argument), |process| match request {
            libc::FIOCLEX | libc::FIONCLEX => Ok(real(fd, request, argument)),
            libc::FIONREAD => {
                let here = process.seek(fd, From::Here, 0)?;
                let left = process.stat_open(fd)?.size.saturating_sub(here);
                argument.cast::<c_int>().write(c_int::try_from(left).unwrap_or(c_int::MAX));
                Ok(0)
            }
            _ => Err(Errno::ENOTTY.into()),
        })
    }
    /// flock(2)
    fn flock(fd: c_int, operation: c_int) -> c_int as real {
        at_descriptor(fd, || real(fd, operation), |process| {
            let kind = match operation & !libc::LOCK_NB {
                libc::LOCK_SH => LockKind::Read,
                libc::LOCK_EX => LockKind::Write,
                libc::LOCK_UN => LockKind::Unlock,
                _ => return Err(Errno::EINVAL.into()),
            };
            let wait = operation & libc::LOCK_NB == 0;
            let whole = Wanted { family: Family::Whole, kind, start: 0, end: u64::MAX, wait };
            process.lock(fd, whole).map(|()| 0)
        })
    }
    /// lockf(3)
    fn lockf(fd: c_int, command: c_int, length: off_t) -> c_int as real {
        at_descriptor(fd, || real(fd, command, length), |process| {
            lock_from_here(process, fd, command, length).map(|()| 0)
        })
    }
    /// lockf(3)
    fn lockf64(fd: c_int, command: c_int, length: off_t) -> c_int as real {
        at_descriptor(fd, || real(fd, command, length), |process| {
            lock_from_here(process, fd, command, length).map(|()| 0)
        })
    }
}

/// # Safety
///
/// `argument` is what the command demands.
unsafe fn controlled(
    fd: c_int,
    command: c_int,
    argument: *mut c_void,
    real: impl Fn() -> c_int,
) -> c_int {
    if is_kept(fd) {
        return fail(Errno::EBADF);
    }
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return duplicated(fd, real());
    }
    let lock = argument.cast::<libc::flock>();
    at_descriptor(fd, &real, |process| match command {
        libc::F_GETFD | libc::F_SETFD | libc::F_GETOWN | libc::F_SETOWN => Ok(real()),
        libc::F_GETFL => Ok(process.description(fd)?.flags().bits() as c_int),
        libc::F_SETFL => {
            let flags = OFlags::from_bits_retain(argument.addr() as u32);
            process.set_flags(fd, flags).map(|()| 0)
        }
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
            let wait = matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW);
            // SAFETY: the caller's promise.
            let wanted = wanted(process, fd, family(command), unsafe { &*lock }, wait)?;
            process.lock(fd, wanted).map(|()| 0)
        }
        libc::F_GETLK | libc::F_OFD_GETLK => {
            // SAFETY: the caller's promise.
            let asked = unsafe { &mut *lock };
            let wanted = wanted(process, fd, family(command), asked, false)?;
            asked.l_type = libc::F_UNLCK as i16;
            if let Some(held) = process.test_lock(fd, wanted)? {
                let write = held.kind == LockKind::Write;
                asked.l_type = if write { libc::F_WRLCK } else { libc::F_RDLCK } as i16;
                asked.l_whence = libc::SEEK_SET as i16;
                asked.l_start = held.start as off_t;
                let endless = held.end == u64::MAX;
                asked.l_len = if endless { 0 } else { (held.end - held.start) as off_t };
                asked.l_pid = if command == libc::F_GETLK { held.pid as c_int } else { -1 };
            }
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    })
}

fn family(command: c_int) -> Family {
    match command {
        libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK => Family::Open,
        _ => Family::Process,
    }
}

fn wanted(
    process: &Process,
    fd: c_int,
    family: Family,
    lock: &libc::flock,
    wait: bool,
) -> Reach<Wanted> {
    let kind = match c_int::from(lock.l_type) {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        libc::F_UNLCK => LockKind::Unlock,
        _ => return Err(Errno::EINVAL.into()),
    };
    let base = match c_int::from(lock.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => process.seek(fd, From::Here, 0)? as off_t,
        libc::SEEK_END => process.stat_open(fd)?.size as off_t,
        _ => return Err(Errno::EINVAL.into()),
    };
    let start = base.checked_add(lock.l_start).ok_or(Errno::EOVERFLOW)?;
    let (start, end) = range(start, lock.l_len)?;
    Ok(Wanted { family, kind, start, end, wait })
}

/// The bytes from `start`, or before it when the length is negative; 0 is all that may come.
fn range(start: off_t, length: off_t) -> Result<(u64, u64), Errno> {
    let other = start.checked_add(length).ok_or(Errno::EOVERFLOW)?;
    let first = start.min(other);
    let first = u64::try_from(first).map_err(|_| Errno::EINVAL)?;
    let end = if length == 0 { u64::MAX } else { start.max(other) as u64 };
    Ok((first, end))
}

fn lock_from_here(process: &Process, fd: c_int, command: c_int, length: off_t) -> Reach<()> {
    let here = process.seek(fd, From::Here, 0)? as off_t;
    let (start, end) = range(here, length)?;
    let lock = |kind, wait| Wanted { family: Family::Process, kind, start, end, wait };
    match command {
        libc::F_ULOCK => process.lock(fd, lock(LockKind::Unlock, false)),
        libc::F_LOCK => process.lock(fd, lock(LockKind::Write, true)),
        libc::F_TLOCK => process.lock(fd, lock(LockKind::Write, false)),
        libc::F_TEST => match process.test_lock(fd, lock(LockKind::Write, false))? {
            Some(_) => Err(Errno::EACCES.into()),
            None => Ok(()),
        },
        _ => Err(Errno::EINVAL.into()),
    }
}
