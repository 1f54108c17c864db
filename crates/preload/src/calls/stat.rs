//! stat and its many names, permissions, owners.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};

use libc::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, gid_t, mode_t, uid_t};
use pvfs_posix::c::stat::{BLOCK_BYTES, DEVICE_MAJOR, stat_of, type_bits};
use pvfs_posix::{At, Process, Reach};
use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, FileKind, Time};
use pvfs_wire::ops::AccessBits;

use crate::interpose;
use pvfs_posix::c::memory::text;
use pvfs_posix::c::route::{alias, at_descriptor, at_path, begins_inside, finish};
use pvfs_posix::c::state::with;

type Stat = libc::stat64;

interpose! {
    /// stat(2)
    fn stat(path: *const c_char, to: *mut Stat) -> c_int as real {
        stated(AT_FDCWD, path, 0, to, |_, path| real(path, to))
    }
    /// stat(2)
    fn stat64(path: *const c_char, to: *mut Stat) -> c_int as real {
        stated(AT_FDCWD, path, 0, to, |_, path| real(path, to))
    }
    /// lstat(2)
    fn lstat(path: *const c_char, to: *mut Stat) -> c_int as real {
        stated(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, to, |_, path| real(path, to))
    }
    /// lstat(2)
    fn lstat64(path: *const c_char, to: *mut Stat) -> c_int as real {
        stated(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, to, |_, path| real(path, to))
    }
    /// fstat(2)
    fn fstat(fd: c_int, to: *mut Stat) -> c_int as real {
        at_descriptor(fd, || real(fd, to), |process| given(process.stat_open(fd), to))
    }
    /// fstat(2)
    fn fstat64(fd: c_int, to: *mut Stat) -> c_int as real {
        at_descriptor(fd, || real(fd, to), |process| given(process.stat_open(fd), to))
    }
    /// fstatat(2)
    fn fstatat(dir: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int as real {
        stated(dir, path, flags, to, |dir, path| real(dir, path, to, flags))
    }
    /// fstatat(2)
    fn fstatat64(dir: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int as real {
        stated(dir, path, flags, to, |dir, path| real(dir, path, to, flags))
    }
    /// stat(2), as programs built with an older C library call it.
    fn __xstat(version: c_int, path: *const c_char, to: *mut Stat) -> c_int as real {
        stated(AT_FDCWD, path, 0, to, |_, path| real(version, path, to))
    }
    /// stat(2), as programs built with an older C library call it.
    fn __xstat64(version: c_int, path: *const c_char, to: *mut Stat) -> c_int as real {
        stated(AT_FDCWD, path, 0, to, |_, path| real(version, path, to))
    }
    /// lstat(2), as programs built with an older C library call it.
    fn __lxstat(version: c_int, path: *const c_char, to: *mut Stat) -> c_int as real {
        stated(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, to, |_, path| real(version, path, to))
    }
    /// lstat(2), as programs built with an older C library call it.
    fn __lxstat64(version: c_int, path: *const c_char, to: *mut Stat) -> c_int as real {
        stated(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, to, |_, path| real(version, path, to))
    }
    /// fstat(2), as programs built with an older C library call it.
    fn __fxstat(version: c_int, fd: c_int, to: *mut Stat) -> c_int as real {
        at_descriptor(fd, || real(version, fd, to), |process| given(process.stat_open(fd), to))
    }
    /// fstat(2), as programs built with an older C library call it.
    fn __fxstat64(version: c_int, fd: c_int, to: *mut Stat) -> c_int as real {
        at_descriptor(fd, || real(version, fd, to), |process| given(process.stat_open(fd), to))
    }
    /// fstatat(2), as programs built with an older C library call it.
    fn __fxstatat(version: c_int, dir: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int as real {
        stated(dir, path, flags, to, |dir, path| real(version, dir, path, to, flags))
    }
    /// fstatat(2), as programs built with an older C library call it.
    fn __fxstatat64(version: c_int, dir: c_int, path: *const c_char, to: *mut Stat, flags: c_int) -> c_int as real {
        stated(dir, path, flags, to, |dir, path| real(version, dir, path, to, flags))
    }
    /// statx(2)
    fn statx(dir: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut libc::statx) -> c_int as real {
        attributes(dir, path, flags, |dir, path| real(dir, path, flags, mask, to), |attr| {
            to.write(extended(attr));
        })
    }
    /// access(2)
    fn access(path: *const c_char, mode: c_int) -> c_int as real {
        allowed(AT_FDCWD, path, mode, 0, |_, path| real(path, mode))
    }
    /// eaccess(3)
    fn eaccess(path: *const c_char, mode: c_int) -> c_int as real {
        allowed(AT_FDCWD, path, mode, 0, |_, path| real(path, mode))
    }
    /// euidaccess(3)
    fn euidaccess(path: *const c_char, mode: c_int) -> c_int as real {
        allowed(AT_FDCWD, path, mode, 0, |_, path| real(path, mode))
    }
    /// faccessat(2)
    fn faccessat(dir: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int as real {
        allowed(dir, path, mode, flags, |dir, path| real(dir, path, mode, flags))
    }
    /// chmod(2)
    fn chmod(path: *const c_char, mode: mode_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, mode), |process, at, path| {
            process.set_mode(at, path, true, mode).map(|()| 0)
        })
    }
    /// lchmod(3): a link has no permissions of its own.
    fn lchmod(path: *const c_char, mode: mode_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, mode), |process, at, path| {
            set_mode_nofollow(process, at, path, mode).map(|()| 0)
        })
    }
    /// fchmod(2)
    fn fchmod(fd: c_int, mode: mode_t) -> c_int as real {
        at_descriptor(fd, || real(fd, mode), |process| process.set_mode_open(fd, mode).map(|()| 0))
    }
    /// fchmodat(2)
    fn fchmodat(dir: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int as real {
        at_path(dir, path, |dir, path| real(dir, path, mode, flags), |process, at, path| {
            if flags & AT_SYMLINK_NOFOLLOW != 0 {
                set_mode_nofollow(process, at, path, mode)?;
            } else {
                process.set_mode(at, path, true, mode)?;
            }
            Ok(0)
        })
    }
    /// chown(2)
    fn chown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, uid, gid), |process, at, path| {
            process.set_owner(at, path, true, owner(uid, gid)).map(|()| 0)
        })
    }
    /// lchown(2)
    fn lchown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, uid, gid), |process, at, path| {
            process.set_owner(at, path, false, owner(uid, gid)).map(|()| 0)
        })
    }
    /// fchown(2)
    fn fchown(fd: c_int, uid: uid_t, gid: gid_t) -> c_int as real {
        at_descriptor(fd, || real(fd, uid, gid), |process| {
            process.set_owner_open(fd, owner(uid, gid)).map(|()| 0)
        })
    }
    /// fchownat(2)
    fn fchownat(dir: c_int, path: *const c_char, uid: uid_t, gid: gid_t, flags: c_int) -> c_int as real {
        if flags & AT_EMPTY_PATH != 0 && !path.is_null() && text(path).is_empty() && begins_inside(dir) {
            return fchown(dir, uid, gid);
        }
        let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
        at_path(dir, path, |dir, path| real(dir, path, uid, gid, flags), |process, at, path| {
            process.set_owner(at, path, follow, owner(uid, gid)).map(|()| 0)
        })
    }
    /// umask(2)
    fn umask(mask: mode_t) -> mode_t as real {
        let _ = with(|process| {
            process.note_umask(mask);
            Ok(())
        });
        real(mask)
    }
}

/// Attributes of a path or, with AT_EMPTY_PATH, of a descriptor.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn attributes(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    real: impl Fn(c_int, *const c_char) -> c_int,
    give: impl Fn(&Attr),
) -> c_int {
    // SAFETY: the caller's promise.
    let name = if path.is_null() { &[][..] } else { unsafe { text(path) } };
    let given = |reach: Reach<Attr>| reach.map(|attr| give(&attr)).map(|()| 0);
    if name.is_empty() && flags & AT_EMPTY_PATH != 0 && begins_inside(dir) {
        let stated = with(|process| {
            given(match dir {
                AT_FDCWD => process.stat_working(),
                fd => process.stat_open(fd),
            })
        });
        return finish(stated, |_| real(dir, path));
    }
    let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
    if follow && let Some(fd) = alias(name) {
        return finish(with(|process| given(process.stat_open(fd))), |_| real(dir, path));
    }
    // SAFETY: the caller's promise.
    unsafe { at_path(dir, path, real, |process, at, path| given(process.stat(at, path, follow))) }
}

/// # Safety
///
/// `path` is null or a C string, `to` has room.
unsafe fn stated(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    to: *mut Stat,
    real: impl Fn(c_int, *const c_char) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { attributes(dir, path, flags, real, |attr| to.write(stat_of(attr))) }
}

/// # Safety
///
/// `to` has room.
unsafe fn given(reach: Reach<Attr>, to: *mut Stat) -> Reach<c_int> {
    // SAFETY: the caller's promise.
    reach.map(|attr| unsafe { to.write(stat_of(&attr)) }).map(|()| 0)
}

/// # Safety
///
/// `path` is null or a C string.
unsafe fn allowed(
    dir: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
    real: impl Fn(c_int, *const c_char) -> c_int,
) -> c_int {
    let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
    // SAFETY: the caller's promise.
    unsafe {
        at_path(dir, path, real, |process, at, path| {
            let wanted = u32::try_from(mode).ok().and_then(AccessBits::from_bits);
            let wanted = wanted.ok_or(Errno::EINVAL)?;
            process.access(at, path, follow, wanted).map(|()| 0)
        })
    }
}

fn set_mode_nofollow(process: &Process, at: At, path: &[u8], mode: mode_t) -> Reach<()> {
    if process.stat(at, path, false)?.kind == FileKind::Symlink {
        return Err(Errno::EOPNOTSUPP.into());
    }
    process.set_mode(at, path, false, mode)
}

/// All bits set means: as it is.
fn owner(uid: uid_t, gid: gid_t) -> (Option<u32>, Option<u32>) {
    let given = |id: u32| (id != u32::MAX).then_some(id);
    (given(uid), given(gid))
}

fn extended(attr: &Attr) -> libc::statx {
    // SAFETY: as above.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let time = |time: Time| {
        // SAFETY: as above.
        let mut stamp: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        (stamp.tv_sec, stamp.tv_nsec) = (time.seconds, time.nanos);
        stamp
    };
    stat.stx_mask = libc::STATX_BASIC_STATS | libc::STATX_BTIME;
    stat.stx_blksize = BLOCK_BYTES;
    stat.stx_nlink = attr.nlink;
    stat.stx_uid = attr.uid;
    stat.stx_gid = attr.gid;
    stat.stx_mode = (type_bits(attr.kind) | (attr.mode & 0o7777)) as u16;
    stat.stx_ino = attr.handle.object;
    stat.stx_size = attr.size;
    stat.stx_blocks = attr.blocks();
    stat.stx_atime = time(attr.atime);
    stat.stx_btime = time(attr.btime);
    stat.stx_ctime = time(attr.ctime);
    stat.stx_mtime = time(attr.mtime);
    (stat.stx_rdev_major, stat.stx_rdev_minor) =
        (libc::major(attr.rdev) as u32, libc::minor(attr.rdev) as u32);
    (stat.stx_dev_major, stat.stx_dev_minor) = (DEVICE_MAJOR, attr.handle.fsid);
    stat
}
