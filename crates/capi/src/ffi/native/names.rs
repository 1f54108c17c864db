//! Names: making, removing, moving, links.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use libc::{AT_FDCWD, mode_t, size_t, ssize_t};
use pvfs_posix::c::memory::text;
use pvfs_wire::Errno;
use pvfs_wire::ops::RenameFlags;

use crate::export;
use crate::ffi::arguments::room;
use crate::ffi::route::{at_path, paired};

export! {
    /// unlink(2)
    fn pvfs_unlink(path: *const c_char) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::unlink(path), |process, at, path| {
            process.unlink(at, path).map(|()| 0)
        })
    }
    /// rename(2); EXDEV where one is ours and the other is not.
    fn pvfs_rename(from: *const c_char, to: *const c_char) -> c_int {
        paired(from, to, || libc::rename(from, to), |process, from, to| {
            process.rename(from, to, RenameFlags::NONE)
        })
    }
    /// link(2); EXDEV where one is ours and the other is not.
    fn pvfs_link(from: *const c_char, to: *const c_char) -> c_int {
        paired(from, to, || libc::link(from, to), |process, from, to| process.link(from, to, false))
    }
    /// symlink(2)
    fn pvfs_symlink(target: *const c_char, path: *const c_char) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::symlink(target, path), |process, at, path| {
            if target.is_null() {
                return Err(Errno::EFAULT.into());
            }
            process.make_symlink(text(target), at, path).map(|()| 0)
        })
    }
    /// readlink(2)
    fn pvfs_readlink(path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t {
        at_path(AT_FDCWD, path, |_, path| libc::readlink(path, to, size), |process, at, path| {
            if size == 0 {
                return Err(Errno::EINVAL.into());
            }
            let room = room(to.cast(), size)?;
            let link = process.read_link(at, path)?;
            let count = link.len().min(room.len());
            room[..count].copy_from_slice(&link[..count]);
            Ok(count as ssize_t)
        })
    }
    /// mkdir(2)
    fn pvfs_mkdir(path: *const c_char, mode: mode_t) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::mkdir(path, mode), |process, at, path| {
            process.make_directory(at, path, mode).map(|()| 0)
        })
    }
    /// rmdir(2)
    fn pvfs_rmdir(path: *const c_char) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::rmdir(path), |process, at, path| {
            process.remove_directory(at, path).map(|()| 0)
        })
    }
}
