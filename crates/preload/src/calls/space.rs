//! Space and limits: statfs, statvfs, pathconf.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_long};

use libc::AT_FDCWD;
use pvfs_client::Space;
use pvfs_posix::c::space::{FRAGMENT_BYTES, statfs_of};
use pvfs_wire::Errno;

use crate::interpose;
use pvfs_posix::c::route::{at_descriptor, at_path};

type Statfs = libc::statfs64;
type Statvfs = libc::statvfs64;

interpose! {
    /// statfs(2)
    fn statfs(path: *const c_char, to: *mut Statfs) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, to), |process, at, path| {
            to.write(statfs_of(&process.space(at, path)?)?);
            Ok(0)
        })
    }
    /// statfs(2)
    fn statfs64(path: *const c_char, to: *mut Statfs) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, to), |process, at, path| {
            to.write(statfs_of(&process.space(at, path)?)?);
            Ok(0)
        })
    }
    /// fstatfs(2)
    fn fstatfs(fd: c_int, to: *mut Statfs) -> c_int as real {
        at_descriptor(fd, || real(fd, to), |process| {
            to.write(statfs_of(&process.space_open(fd)?)?);
            Ok(0)
        })
    }
    /// fstatfs(2)
    fn fstatfs64(fd: c_int, to: *mut Statfs) -> c_int as real {
        at_descriptor(fd, || real(fd, to), |process| {
            to.write(statfs_of(&process.space_open(fd)?)?);
            Ok(0)
        })
    }
    /// statvfs(3)
    fn statvfs(path: *const c_char, to: *mut Statvfs) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, to), |process, at, path| {
            to.write(statvfs_of(&process.space(at, path)?)?);
            Ok(0)
        })
    }
    /// statvfs(3)
    fn statvfs64(path: *const c_char, to: *mut Statvfs) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, to), |process, at, path| {
            to.write(statvfs_of(&process.space(at, path)?)?);
            Ok(0)
        })
    }
    /// fstatvfs(3)
    fn fstatvfs(fd: c_int, to: *mut Statvfs) -> c_int as real {
        at_descriptor(fd, || real(fd, to), |process| {
            to.write(statvfs_of(&process.space_open(fd)?)?);
            Ok(0)
        })
    }
    /// fstatvfs(3)
    fn fstatvfs64(fd: c_int, to: *mut Statvfs) -> c_int as real {
        at_descriptor(fd, || real(fd, to), |process| {
            to.write(statvfs_of(&process.space_open(fd)?)?);
            Ok(0)
        })
    }
    /// pathconf(3)
    fn pathconf(path: *const c_char, name: c_int) -> c_long as real {
        at_path(AT_FDCWD, path, |_, path| real(path, name), |process, at, path| {
            process.stat(at, path, true)?;
            Ok(limit(name)?)
        })
    }
    /// fpathconf(3)
    fn fpathconf(fd: c_int, name: c_int) -> c_long as real {
        at_descriptor(fd, || real(fd, name), |_| Ok(limit(name)?))
    }
}

fn statvfs_of(space: &Space) -> Result<Statvfs, Errno> {
    let from = statfs_of(space)?;
    // SAFETY: it is numbers, for which zeros are valid.
    let mut stat: Statvfs = unsafe { std::mem::zeroed() };
    stat.f_bsize = FRAGMENT_BYTES;
    stat.f_frsize = FRAGMENT_BYTES;
    (stat.f_blocks, stat.f_bfree, stat.f_bavail) = (from.f_blocks, from.f_bfree, from.f_bavail);
    (stat.f_files, stat.f_ffree, stat.f_favail) = (from.f_files, from.f_ffree, from.f_ffree);
    stat.f_namemax = pvfs_wire::NAME_BYTES_MAX as _;
    Ok(stat)
}

fn limit(name: c_int) -> Result<c_long, Errno> {
    match name {
        libc::_PC_NAME_MAX => Ok(pvfs_wire::NAME_BYTES_MAX as c_long),
        libc::_PC_PATH_MAX => Ok(pvfs_wire::PATH_BYTES_MAX as c_long + 1),
        libc::_PC_LINK_MAX => Ok(c_long::from(i32::MAX)),
        libc::_PC_PIPE_BUF => Ok(4096),
        libc::_PC_FILESIZEBITS => Ok(64),
        libc::_PC_NO_TRUNC | libc::_PC_CHOWN_RESTRICTED => Ok(1),
        libc::_PC_SYMLINK_MAX => Ok(pvfs_wire::PATH_BYTES_MAX as c_long),
        _ => Err(Errno::EINVAL),
    }
}
