//! Names: making, removing, moving, links.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};

use libc::{
    AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, dev_t, mode_t, size_t, ssize_t,
};
use pvfs_posix::numbers::OURS;
use pvfs_posix::{At, Process, Reach, Stop};
use pvfs_wire::Errno;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::RenameFlags;

use crate::interpose;
use pvfs_posix::c::answer::fail;
use pvfs_posix::c::memory::{room, text};
use pvfs_posix::c::route::{Name, alias_at, at, at_path, finish, paired};
use pvfs_posix::c::state::with;

interpose! {
    /// mkdir(2)
    fn mkdir(path: *const c_char, mode: mode_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, mode), |process, at, path| {
            process.make_directory(at, path, mode).map(|()| 0)
        })
    }
    /// mkdirat(2)
    fn mkdirat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int as real {
        at_path(dir, path, |dir, path| real(dir, path, mode), |process, at, path| {
            process.make_directory(at, path, mode).map(|()| 0)
        })
    }
    /// rmdir(2)
    fn rmdir(path: *const c_char) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path), |process, at, path| {
            process.remove_directory(at, path).map(|()| 0)
        })
    }
    /// unlink(2)
    fn unlink(path: *const c_char) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path), |process, at, path| {
            process.unlink(at, path).map(|()| 0)
        })
    }
    /// unlinkat(2)
    fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int as real {
        at_path(dir, path, |dir, path| real(dir, path, flags), |process, at, path| match flags {
            0 => process.unlink(at, path).map(|()| 0),
            AT_REMOVEDIR => process.remove_directory(at, path).map(|()| 0),
            _ => Err(Errno::EINVAL.into()),
        })
    }
    /// remove(3)
    fn remove(path: *const c_char) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path), |process, at, path| {
            match process.unlink(at, path) {
                Err(Stop::Errno(Errno::EISDIR)) => process.remove_directory(at, path),
                removed => removed,
            }
            .map(|()| 0)
        })
    }
    /// rename(2)
    fn rename(from: *const c_char, to: *const c_char) -> c_int as real {
        moved((AT_FDCWD, from), (AT_FDCWD, to), 0, || real(from, to))
    }
    /// renameat(2)
    fn renameat(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char) -> c_int as real {
        moved((from_dir, from), (to_dir, to), 0, || real(from_dir, from, to_dir, to))
    }
    /// renameat2(2)
    fn renameat2(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_uint) -> c_int as real {
        moved((from_dir, from), (to_dir, to), flags, || real(from_dir, from, to_dir, to, flags))
    }
    /// link(2)
    fn link(from: *const c_char, to: *const c_char) -> c_int as real {
        linked((AT_FDCWD, from), (AT_FDCWD, to), 0, || real(from, to))
    }
    /// linkat(2)
    fn linkat(from_dir: c_int, from: *const c_char, to_dir: c_int, to: *const c_char, flags: c_int) -> c_int as real {
        linked((from_dir, from), (to_dir, to), flags, || real(from_dir, from, to_dir, to, flags))
    }
    /// symlink(2)
    fn symlink(link: *const c_char, path: *const c_char) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(link, path), |process, at, path| {
            process.make_symlink(text(link), at, path).map(|()| 0)
        })
    }
    /// symlinkat(2)
    fn symlinkat(link: *const c_char, dir: c_int, path: *const c_char) -> c_int as real {
        at_path(dir, path, |dir, path| real(link, dir, path), |process, at, path| {
            process.make_symlink(text(link), at, path).map(|()| 0)
        })
    }
    /// readlink(2)
    fn readlink(path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t as real {
        read_link(AT_FDCWD, path, to, size, |_, path| real(path, to, size))
    }
    /// readlink(2) as checked by the compiler.
    fn __readlink_chk(path: *const c_char, to: *mut c_char, size: size_t, room: size_t) -> ssize_t as real {
        read_link(AT_FDCWD, path, to, size, |_, path| real(path, to, size, room))
    }
    /// readlinkat(2)
    fn readlinkat(dir: c_int, path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t as real {
        read_link(dir, path, to, size, |dir, path| real(dir, path, to, size))
    }
    /// readlinkat(2) as checked by the compiler.
    fn __readlinkat_chk(dir: c_int, path: *const c_char, to: *mut c_char, size: size_t, room: size_t) -> ssize_t as real {
        read_link(dir, path, to, size, |dir, path| real(dir, path, to, size, room))
    }
    /// mknod(2)
    fn mknod(path: *const c_char, mode: mode_t, device: dev_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, mode, device), |process, at, path| {
            make(process, at, path, mode, device)
        })
    }
    /// mknodat(2)
    fn mknodat(dir: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int as real {
        at_path(dir, path, |dir, path| real(dir, path, mode, device), |process, at, path| {
            make(process, at, path, mode, device)
        })
    }
    /// mknod(2), as programs built with an older C library call it.
    fn __xmknod(version: c_int, path: *const c_char, mode: mode_t, device: *mut dev_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(version, path, mode, device), |process, at, path| {
            make(process, at, path, mode, *device)
        })
    }
    /// mkfifo(3)
    fn mkfifo(path: *const c_char, mode: mode_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, mode), |process, at, path| {
            make(process, at, path, libc::S_IFIFO | (mode & 0o7777), 0)
        })
    }
    /// mkfifoat(3)
    fn mkfifoat(dir: c_int, path: *const c_char, mode: mode_t) -> c_int as real {
        at_path(dir, path, |dir, path| real(dir, path, mode), |process, at, path| {
            make(process, at, path, libc::S_IFIFO | (mode & 0o7777), 0)
        })
    }
}

/// # Safety
///
/// The names are null or C strings.
unsafe fn moved(from: Name, to: Name, flags: c_uint, real: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        paired(from, to, real, |process, from, to| {
            let flags = RenameFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
            process.rename(from, to, flags)
        })
    }
}

/// # Safety
///
/// The names are null or C strings.
unsafe fn linked(from: Name, to: Name, flags: c_int, real: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    let stands_for = unsafe { alias_at(from.1) }.filter(|_| flags & AT_SYMLINK_FOLLOW != 0);
    // SAFETY: the caller's promise.
    let is_empty = !from.1.is_null() && unsafe { text(from.1) }.is_empty();
    let empty = Some(from.0).filter(|fd| is_empty && flags & AT_EMPTY_PATH != 0 && OURS.has(*fd));
    if let Some(fd) = stands_for.or(empty)
        && !to.1.is_null()
    {
        // SAFETY: the caller's promise; it is not null.
        let new = unsafe { text(to.1) };
        let done = with(|process| process.link_open(fd, (at(to.0), new)).map(|()| 0));
        return finish(done, |_| fail(Errno::EXDEV));
    }
    // SAFETY: the caller's promise.
    unsafe {
        paired(from, to, real, |process, from, to| {
            if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) != 0 {
                return Err(Errno::EINVAL.into());
            }
            process.link(from, to, flags & AT_SYMLINK_FOLLOW != 0)
        })
    }
}

/// # Safety
///
/// `path` is null or a C string, `to` has `size` bytes of room.
unsafe fn read_link(
    dir: c_int,
    path: *const c_char,
    to: *mut c_char,
    size: size_t,
    real: impl Fn(c_int, *const c_char) -> ssize_t,
) -> ssize_t {
    let give = |link: &[u8]| {
        // SAFETY: the caller's promise.
        let room = unsafe { room(to.cast(), size) };
        let count = link.len().min(room.len());
        room[..count].copy_from_slice(&link[..count]);
        count as ssize_t
    };
    // SAFETY: the caller's promise.
    let stands_for = unsafe { alias_at(path) };
    if let Some(fd) = stands_for {
        let named = with(|process| Ok(process.description(fd)?.path().to_vec()));
        return finish(named.map(|named| give(&named)), |_| real(dir, path));
    }
    // SAFETY: the caller's promise.
    unsafe {
        at_path(dir, path, real, |process, at, path| {
            if size == 0 {
                return Err(Errno::EINVAL.into());
            }
            process.read_link(at, path).map(|link| give(&link))
        })
    }
}

fn make(process: &Process, at: At, path: &[u8], mode: mode_t, device: dev_t) -> Reach<c_int> {
    let kind = match mode & libc::S_IFMT {
        0 | libc::S_IFREG => FileKind::Regular,
        libc::S_IFIFO => FileKind::Fifo,
        libc::S_IFCHR => FileKind::CharDevice,
        libc::S_IFBLK => FileKind::BlockDevice,
        libc::S_IFSOCK => FileKind::Socket,
        libc::S_IFDIR => return Err(Errno::EPERM.into()),
        _ => return Err(Errno::EINVAL.into()),
    };
    process.make_node(at, path, kind, mode, device).map(|()| 0)
}
