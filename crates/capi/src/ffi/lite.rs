//! Attributes by mask: statlite and its kin.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_ulong};

use libc::{AT_FDCWD, dev_t, gid_t, ino_t, mode_t, nlink_t, stat64, timespec, uid_t};
use pvfs_client::{LiteAttr, LiteMask};
use pvfs_posix::c::answer::errno;
use pvfs_posix::c::stat::stat_of;
use pvfs_wire::Errno;

use crate::export;
use crate::ffi::arguments::place;
use crate::ffi::route::{at_descriptor, at_path};

/// `struct stat_lite`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StatLite {
    st_dev: dev_t,
    st_ino: ino_t,
    st_mode: mode_t,
    st_nlink: nlink_t,
    st_uid: uid_t,
    st_gid: gid_t,
    st_rdev: dev_t,
    st_litemask: c_ulong,
    st_size: i64,
    st_blksize: i64,
    st_blocks: i64,
    st_atim: timespec,
    st_mtim: timespec,
    st_ctim: timespec,
}

export! {
    /// stat(2) by mask.
    fn statlite(path: *const c_char, to: *mut StatLite) -> c_int {
        let real = |_, path: *const c_char| ordinary(to, |stat| libc::stat64(path, stat));
        at_path(AT_FDCWD, path, real, |process, at, path| {
            let to = place(to)?;
            let wanted = wanted(to.st_litemask)?;
            *to = StatLite::of(&process.statlite(at, path, true, wanted)?);
            Ok(0)
        })
    }
    /// lstat(2) by mask.
    fn lstatlite(path: *const c_char, to: *mut StatLite) -> c_int {
        let real = |_, path: *const c_char| ordinary(to, |stat| libc::lstat64(path, stat));
        at_path(AT_FDCWD, path, real, |process, at, path| {
            let to = place(to)?;
            let wanted = wanted(to.st_litemask)?;
            *to = StatLite::of(&process.statlite(at, path, false, wanted)?);
            Ok(0)
        })
    }
    /// fstat(2) by mask.
    fn fstatlite(fd: c_int, to: *mut StatLite) -> c_int {
        at_descriptor(fd, || ordinary(to, |stat| libc::fstat64(fd, stat)), |process| {
            let to = place(to)?;
            let wanted = wanted(to.st_litemask)?;
            *to = StatLite::of(&process.statlite_open(fd, wanted)?);
            Ok(0)
        })
    }
}

/// Of ordinary files everything is exact.
///
/// # Safety
///
/// `to` is null, misaligned or has room.
unsafe fn ordinary(to: *mut StatLite, stat: impl FnOnce(*mut stat64) -> c_int) -> c_int {
    let fill = || -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let to = unsafe { place(to) }?;
        wanted(to.st_litemask)?;
        // SAFETY: a stat is numbers, for which zeros are valid.
        let mut full: stat64 = unsafe { std::mem::zeroed() };
        if stat(&raw mut full) != 0 {
            return Err(errno());
        }
        *to = StatLite::exact(&full);
        Ok(())
    };
    fill().map_or_else(pvfs_posix::c::answer::fail, |()| 0)
}

impl StatLite {
    /// Attributes, and the mask of those that are exact.
    pub fn of(lite: &LiteAttr) -> Self {
        Self { st_litemask: told(lite.valid), ..Self::exact(&stat_of(&lite.attr)) }
    }

    /// All of it is exact.
    #[allow(clippy::useless_conversion, reason = "a block's size has 32 bits on ARM")]
    pub fn exact(full: &stat64) -> Self {
        let time = |tv_sec, tv_nsec| timespec { tv_sec, tv_nsec };
        Self {
            st_dev: full.st_dev,
            st_ino: full.st_ino,
            st_mode: full.st_mode,
            st_nlink: full.st_nlink,
            st_uid: full.st_uid,
            st_gid: full.st_gid,
            st_rdev: full.st_rdev,
            st_litemask: ALL,
            st_size: full.st_size,
            st_blksize: i64::from(full.st_blksize),
            st_blocks: full.st_blocks,
            st_atim: time(full.st_atime, full.st_atime_nsec),
            st_mtim: time(full.st_mtime, full.st_mtime_nsec),
            st_ctim: time(full.st_ctime, full.st_ctime_nsec),
        }
    }
}

/// The lazy attributes that a mask wants. EINVAL for bits without a meaning.
pub fn wanted(mask: c_ulong) -> Result<LiteMask, Errno> {
    if mask & !ALL != 0 {
        return Err(Errno::EINVAL);
    }
    let lazy = |bits| mask & bits != 0;
    Ok(LiteMask::NONE
        .with_if(lazy(SIZET | BLOCKS), LiteMask::SIZE)
        .with_if(lazy(ATIME), LiteMask::ATIME)
        .with_if(lazy(MTIME), LiteMask::MTIME)
        .with_if(lazy(CTIME), LiteMask::CTIME))
}

/// The mask that says what is exact; a block's size always is.
fn told(valid: LiteMask) -> c_ulong {
    let exact = |mask, bits| if valid.has(mask) { bits } else { 0 };
    BLKSIZE
        | exact(LiteMask::SIZE, SIZET | BLOCKS)
        | exact(LiteMask::ATIME, ATIME)
        | exact(LiteMask::MTIME, MTIME)
        | exact(LiteMask::CTIME, CTIME)
}

const SIZET: c_ulong = 0x1;
const BLKSIZE: c_ulong = 0x2;
const BLOCKS: c_ulong = 0x4;
const ATIME: c_ulong = 0x8;
const MTIME: c_ulong = 0x10;
const CTIME: c_ulong = 0x20;

/// Every attribute that a mask can name.
pub const ALL: c_ulong = 0x3f;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_mask_comes_back_and_no_other_is_taken() {
        for mask in 0..=ALL {
            let lazy = wanted(mask).unwrap();
            assert_eq!(told(lazy) & mask, mask, "{mask:x}");
        }
        assert_eq!(told(LiteMask::ALL), ALL);
        for bit in 6..c_ulong::BITS {
            assert_eq!(wanted(1 << bit), Err(Errno::EINVAL));
        }
    }
}
