//! Times as C has them.

#![allow(unsafe_code)]

use libc::{timespec, utimbuf};
use pvfs_wire::Errno;
use pvfs_wire::attr::Time;
use pvfs_wire::ops::SetTime;

use crate::Times;

/// What utimensat(2) is given: null means now.
///
/// # Safety
///
/// `times` is null or points to two.
pub unsafe fn of_specs(times: *const timespec) -> Result<Times, Errno> {
    if times.is_null() {
        return Ok(NOW);
    }
    let one = |time: timespec| match time.tv_nsec {
        libc::UTIME_NOW => Ok(Some(SetTime::Now)),
        libc::UTIME_OMIT => Ok(None),
        nanos @ 0..1_000_000_000 => {
            Ok(Some(SetTime::At(Time { seconds: time.tv_sec, nanos: nanos as u32 })))
        }
        _ => Err(Errno::EINVAL),
    };
    // SAFETY: the caller's promise.
    let (access, modification) = unsafe { (times.read(), times.add(1).read()) };
    Ok(Times { access: one(access)?, modification: one(modification)? })
}

/// What utime(2) is given.
pub fn of_seconds(times: Option<&utimbuf>) -> Times {
    let at_second = |seconds| Some(SetTime::At(Time { seconds, nanos: 0 }));
    times.map_or(NOW, |times| Times {
        access: at_second(times.actime),
        modification: at_second(times.modtime),
    })
}

/// Both times are the present one.
pub const NOW: Times = Times { access: Some(SetTime::Now), modification: Some(SetTime::Now) };
