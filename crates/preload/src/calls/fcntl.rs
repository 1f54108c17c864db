//! fcntl, ioctl, flock, lockf.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong, c_void};

use libc::off_t;
use pvfs_posix::c::control::{control, range, whole_file};
use pvfs_posix::{Family, From, Process, Reach, Wanted};
use pvfs_wire::Errno;
use pvfs_wire::ops::LockKind;

use super::descriptors::duplicated;
use crate::interpose;
use pvfs_posix::c::answer::fail;
use pvfs_posix::c::route::{at_descriptor, is_kept};

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
            // The kernel knows these for all file systems: cp tells by the number that ours cannot.
            libc::FICLONE | libc::FICLONERANGE => Err(Errno::EOPNOTSUPP.into()),
            _ => Err(Errno::ENOTTY.into()),
        })
    }
    /// flock(2)
    fn flock(fd: c_int, operation: c_int) -> c_int as real {
        at_descriptor(fd, || real(fd, operation), |process| {
            process.lock(fd, whole_file(operation)?).map(|()| 0)
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
    // SAFETY: the caller's promise.
    at_descriptor(fd, &real, |process| unsafe { control(process, fd, command, argument, &real) })
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
