//! fcntl, flock, ioctl.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_ulong, c_void};

use pvfs_posix::c::answer::fail;
use pvfs_posix::c::control::{control, whole_file};
use pvfs_posix::c::state::is_borrowed;
use pvfs_posix::numbers::KEPT;
use pvfs_posix::{From, Process, Reach};
use pvfs_wire::Errno;

use super::open::{duplicated, tell};
use crate::export;
use crate::ffi::arguments::{check_pointer, given, place};
use crate::ffi::partition::{Fpart, view_of};
use crate::ffi::route::at_descriptor;

export! {
    /// fcntl(2). Variadic in C: see pvfs_open.
    fn pvfs_fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        let real = || libc::fcntl(fd, command, argument);
        if KEPT.has(fd) && !is_borrowed() {
            return fail(Errno::EBADF);
        }
        if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
            return duplicated(fd, real());
        }
        at_descriptor(fd, real, |process| {
            if is_lock(command) {
                check_lock(process, fd, argument.cast())?;
            }
            control(process, fd, command, argument, real)
        })
    }
    /// flock(2)
    fn pvfs_flock(fd: c_int, operation: c_int) -> c_int {
        at_descriptor(fd, || libc::flock(fd, operation), |process| {
            process.lock(fd, whole_file(operation)?).map(|()| 0)
        })
    }
    /// ioctl(2): partitions and metadata, and what concerns the descriptor itself.
    fn pvfs_ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
        let real = || libc::ioctl(fd, request, argument);
        at_descriptor(fd, real, |process| match request {
            GETPART => {
                let to = place(argument.cast::<Fpart>())?;
                *to = Fpart::of(&process.view(fd)?);
                Ok(0)
            }
            SETPART => {
                let view = view_of(given(argument.cast::<Fpart>())?)?;
                process.set_view(fd, Some(view)).map(|()| 0)
            }
            GETMETA => tell(process, fd, argument.cast()).map(|()| 0),
            libc::FIOCLEX | libc::FIONCLEX => Ok(real()),
            libc::FIONREAD => {
                let to = place(argument.cast::<c_int>())?;
                let here = process.seek(fd, From::Here, 0)?;
                let size = process.view(fd)?.bytes_before(process.stat_open(fd)?.size);
                *to = c_int::try_from(size.saturating_sub(here)).unwrap_or(c_int::MAX);
                Ok(0)
            }
            _ => Err(Errno::ENOTTY.into()),
        })
    }
}

/// A lock is in the file: where the position is in a partition, only offsets from the start say where.
///
/// # Safety
///
/// `lock` is null, misaligned or points to one.
unsafe fn check_lock(process: &Process, fd: c_int, lock: *const libc::flock) -> Reach<()> {
    check_pointer(lock)?;
    // SAFETY: it is neither null nor misaligned; the rest is the caller's promise.
    let from_start = c_int::from(unsafe { (*lock).l_whence }) == libc::SEEK_SET;
    let has_view = || process.view(fd).is_ok_and(|view| view != pvfs_client::View::whole());
    if !from_start && has_view() {
        return Err(Errno::EINVAL.into());
    }
    Ok(())
}

fn is_lock(command: c_int) -> bool {
    matches!(
        command,
        libc::F_GETLK
            | libc::F_SETLK
            | libc::F_SETLKW
            | libc::F_OFD_GETLK
            | libc::F_OFD_SETLK
            | libc::F_OFD_SETLKW
    )
}

const GETPART: c_ulong = 0x5601;
const SETPART: c_ulong = 0x5602;
const GETMETA: c_ulong = 0x5603;
