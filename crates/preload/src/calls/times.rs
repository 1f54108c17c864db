//! Access and modification times.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, timespec, timeval, utimbuf};
use pvfs_posix::Times;
use pvfs_posix::c::times::{NOW, of_seconds, of_specs};
use pvfs_wire::Errno;
use pvfs_wire::attr::Time;
use pvfs_wire::ops::SetTime;

use crate::interpose;
use pvfs_posix::c::route::{at_descriptor, at_path, begins_inside};

interpose! {
    /// utimensat(2); without a path, of the descriptor.
    fn utimensat(dir: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int as real {
        if path.is_null() {
            if !begins_inside(dir) {
                return real(dir, path, times, flags);
            }
            return futimens(dir, times);
        }
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        at_path(dir, path, |dir, path| real(dir, path, times, flags), |process, at, path| {
            process.set_times(at, path, follow, of_specs(times)?).map(|()| 0)
        })
    }
    /// futimens(3)
    fn futimens(fd: c_int, times: *const timespec) -> c_int as real {
        at_descriptor(fd, || real(fd, times), |process| {
            process.set_times_open(fd, of_specs(times)?).map(|()| 0)
        })
    }
    /// utimes(2)
    fn utimes(path: *const c_char, times: *const timeval) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, times), |process, at, path| {
            process.set_times(at, path, true, of_values(times)?).map(|()| 0)
        })
    }
    /// lutimes(3)
    fn lutimes(path: *const c_char, times: *const timeval) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, times), |process, at, path| {
            process.set_times(at, path, false, of_values(times)?).map(|()| 0)
        })
    }
    /// futimes(3)
    fn futimes(fd: c_int, times: *const timeval) -> c_int as real {
        at_descriptor(fd, || real(fd, times), |process| {
            process.set_times_open(fd, of_values(times)?).map(|()| 0)
        })
    }
    /// futimesat(2); without a path, of the descriptor, as Java calls it.
    fn futimesat(dir: c_int, path: *const c_char, times: *const timeval) -> c_int as real {
        if path.is_null() && begins_inside(dir) {
            return futimes(dir, times);
        }
        at_path(dir, path, |dir, path| real(dir, path, times), |process, at, path| {
            process.set_times(at, path, true, of_values(times)?).map(|()| 0)
        })
    }
    /// utime(2)
    fn utime(path: *const c_char, times: *const utimbuf) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, times), |process, at, path| {
            let times = of_seconds(times.as_ref());
            process.set_times(at, path, true, times).map(|()| 0)
        })
    }
}

/// # Safety
///
/// `times` is null or points to two.
unsafe fn of_values(times: *const timeval) -> Result<Times, Errno> {
    if times.is_null() {
        return Ok(NOW);
    }
    let one = |time: timeval| match time.tv_usec {
        micros @ 0..1_000_000 => {
            Ok(Some(SetTime::At(Time { seconds: time.tv_sec, nanos: micros as u32 * 1000 })))
        }
        _ => Err(Errno::EINVAL),
    };
    // SAFETY: the caller's promise.
    let (access, modification) = unsafe { (times.read(), times.add(1).read()) };
    Ok(Times { access: one(access)?, modification: one(modification)? })
}
