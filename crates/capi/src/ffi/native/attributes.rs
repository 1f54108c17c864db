//! Attributes: stat, permissions, owners, times, space.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, gid_t, mode_t, timespec, uid_t, utimbuf};
use pvfs_posix::c::space::statfs_of;
use pvfs_posix::c::stat::stat_of;
use pvfs_posix::c::times::{of_seconds, of_specs};
use pvfs_posix::{At, Process, Reach};
use pvfs_wire::Errno;
use pvfs_wire::ops::AccessBits;

use crate::export;
use crate::ffi::arguments::{check_pointer, given, place};
use crate::ffi::route::{at_descriptor, at_path};

type Stat = libc::stat64;
type Statfs = libc::statfs64;

export! {
    /// stat(2)
    fn pvfs_stat(path: *const c_char, to: *mut Stat) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::stat64(path, to), |process, at, path| {
            stated(process, at, path, true, to)
        })
    }
    /// stat(2), by its name in PVFS 1.
    fn pvfs_ostat(path: *const c_char, to: *mut Stat) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::stat64(path, to), |process, at, path| {
            stated(process, at, path, true, to)
        })
    }
    /// lstat(2)
    fn pvfs_lstat(path: *const c_char, to: *mut Stat) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::lstat64(path, to), |process, at, path| {
            stated(process, at, path, false, to)
        })
    }
    /// fstat(2)
    fn pvfs_fstat(fd: c_int, to: *mut Stat) -> c_int {
        at_descriptor(fd, || libc::fstat64(fd, to), |process| {
            let to = place(to)?;
            *to = stat_of(&process.stat_open(fd)?);
            Ok(0)
        })
    }
    /// chmod(2)
    fn pvfs_chmod(path: *const c_char, mode: mode_t) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::chmod(path, mode), |process, at, path| {
            process.set_mode(at, path, true, mode).map(|()| 0)
        })
    }
    /// fchmod(2)
    fn pvfs_fchmod(fd: c_int, mode: mode_t) -> c_int {
        at_descriptor(fd, || libc::fchmod(fd, mode), |process| process.set_mode_open(fd, mode).map(|()| 0))
    }
    /// chown(2)
    fn pvfs_chown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::chown(path, uid, gid), |process, at, path| {
            process.set_owner(at, path, true, owner(uid, gid)).map(|()| 0)
        })
    }
    /// lchown(2)
    fn pvfs_lchown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::lchown(path, uid, gid), |process, at, path| {
            process.set_owner(at, path, false, owner(uid, gid)).map(|()| 0)
        })
    }
    /// fchown(2)
    fn pvfs_fchown(fd: c_int, uid: uid_t, gid: gid_t) -> c_int {
        at_descriptor(fd, || libc::fchown(fd, uid, gid), |process| {
            process.set_owner_open(fd, owner(uid, gid)).map(|()| 0)
        })
    }
    /// utime(2)
    fn pvfs_utime(path: *const c_char, times: *const utimbuf) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::utime(path, times), |process, at, path| {
            let times = if times.is_null() { None } else { Some(given(times)?) };
            process.set_times(at, path, true, of_seconds(times)).map(|()| 0)
        })
    }
    /// utimensat(2); without a path, of the descriptor.
    fn pvfs_utimensat(dir: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int {
        if !times.is_null() && let Err(errno) = check_pointer(times) {
            return pvfs_posix::c::answer::fail(errno);
        }
        if path.is_null() {
            return at_descriptor(dir, || libc::futimens(dir, times), |process| {
                process.set_times_open(dir, of_specs(times)?).map(|()| 0)
            });
        }
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        at_path(dir, path, |dir, path| libc::utimensat(dir, path, times, flags), |process, at, path| {
            if flags & !AT_SYMLINK_NOFOLLOW != 0 {
                return Err(Errno::EINVAL.into());
            }
            process.set_times(at, path, follow, of_specs(times)?).map(|()| 0)
        })
    }
    /// access(2)
    fn pvfs_access(path: *const c_char, mode: c_int) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::access(path, mode), |process, at, path| {
            let wanted = u32::try_from(mode).ok().and_then(AccessBits::from_bits);
            process.access(at, path, true, wanted.ok_or(Errno::EINVAL)?).map(|()| 0)
        })
    }
    /// statfs(2)
    fn pvfs_statfs(path: *const c_char, to: *mut Statfs) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::statfs64(path, to), |process, at, path| {
            let to = place(to)?;
            *to = statfs_of(&process.space(at, path)?)?;
            Ok(0)
        })
    }
    /// fstatfs(2)
    fn pvfs_fstatfs(fd: c_int, to: *mut Statfs) -> c_int {
        at_descriptor(fd, || libc::fstatfs64(fd, to), |process| {
            let to = place(to)?;
            *to = statfs_of(&process.space_open(fd)?)?;
            Ok(0)
        })
    }
}

/// # Safety
///
/// `to` is null, misaligned or has room.
unsafe fn stated(
    process: &Process,
    at: At,
    path: &[u8],
    follow: bool,
    to: *mut Stat,
) -> Reach<c_int> {
    // SAFETY: the caller's promise.
    let to = unsafe { place(to) }?;
    *to = stat_of(&process.stat(at, path, follow)?);
    Ok(0)
}

/// All bits set means: as it is.
fn owner(uid: uid_t, gid: gid_t) -> (Option<u32>, Option<u32>) {
    let given = |id: u32| (id != u32::MAX).then_some(id);
    (given(uid), given(gid))
}
