//! Extended attributes.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use libc::{AT_FDCWD, size_t, ssize_t};
use pvfs_posix::{Object, Process, Reach};
use pvfs_wire::Errno;
use pvfs_wire::ops::XattrFlags;

use crate::interpose;
use pvfs_posix::c::memory::{bytes, room, text};
use pvfs_posix::c::route::{at_descriptor, at_path};

interpose! {
    /// getxattr(2)
    fn getxattr(path: *const c_char, name: *const c_char, to: *mut c_void, size: size_t) -> ssize_t as real {
        at_path(AT_FDCWD, path, |_, path| real(path, name, to, size), |process, _, path| {
            got(process, Object::Path(path, true), name, to, size)
        })
    }
    /// lgetxattr(2)
    fn lgetxattr(path: *const c_char, name: *const c_char, to: *mut c_void, size: size_t) -> ssize_t as real {
        at_path(AT_FDCWD, path, |_, path| real(path, name, to, size), |process, _, path| {
            got(process, Object::Path(path, false), name, to, size)
        })
    }
    /// fgetxattr(2)
    fn fgetxattr(fd: c_int, name: *const c_char, to: *mut c_void, size: size_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, name, to, size), |process| {
            got(process, Object::Open(fd), name, to, size)
        })
    }
    /// listxattr(2)
    fn listxattr(path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t as real {
        at_path(AT_FDCWD, path, |_, path| real(path, to, size), |process, _, path| {
            given(&process.list_xattrs(Object::Path(path, true))?, to.cast(), size)
        })
    }
    /// llistxattr(2)
    fn llistxattr(path: *const c_char, to: *mut c_char, size: size_t) -> ssize_t as real {
        at_path(AT_FDCWD, path, |_, path| real(path, to, size), |process, _, path| {
            given(&process.list_xattrs(Object::Path(path, false))?, to.cast(), size)
        })
    }
    /// flistxattr(2)
    fn flistxattr(fd: c_int, to: *mut c_char, size: size_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, to, size), |process| {
            given(&process.list_xattrs(Object::Open(fd))?, to.cast(), size)
        })
    }
    /// setxattr(2)
    fn setxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, name, value, size, flags), |process, _, path| {
            put(process, Object::Path(path, true), name, bytes(value, size), flags)
        })
    }
    /// lsetxattr(2)
    fn lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, name, value, size, flags), |process, _, path| {
            put(process, Object::Path(path, false), name, bytes(value, size), flags)
        })
    }
    /// fsetxattr(2)
    fn fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int as real {
        at_descriptor(fd, || real(fd, name, value, size, flags), |process| {
            put(process, Object::Open(fd), name, bytes(value, size), flags)
        })
    }
    /// removexattr(2)
    fn removexattr(path: *const c_char, name: *const c_char) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, name), |process, _, path| {
            process.remove_xattr(Object::Path(path, true), text(name)).map(|()| 0)
        })
    }
    /// lremovexattr(2)
    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, name), |process, _, path| {
            process.remove_xattr(Object::Path(path, false), text(name)).map(|()| 0)
        })
    }
    /// fremovexattr(2)
    fn fremovexattr(fd: c_int, name: *const c_char) -> c_int as real {
        at_descriptor(fd, || real(fd, name), |process| {
            process.remove_xattr(Object::Open(fd), text(name)).map(|()| 0)
        })
    }
}

/// # Safety
///
/// `name` is a C string, `to` has `size` bytes of room.
unsafe fn got(
    process: &Process,
    object: Object<'_>,
    name: *const c_char,
    to: *mut c_void,
    size: size_t,
) -> Reach<ssize_t> {
    // SAFETY: the caller's promise.
    unsafe { given(&process.get_xattr(object, text(name))?, to, size) }
}

/// Without room, the length is the answer.
///
/// # Safety
///
/// `to` has `size` bytes of room.
unsafe fn given(value: &[u8], to: *mut c_void, size: size_t) -> Reach<ssize_t> {
    if size > 0 {
        // SAFETY: the caller's promise.
        let room = unsafe { room(to, size) };
        room.get_mut(..value.len()).ok_or(Errno::ERANGE)?.copy_from_slice(value);
    }
    Ok(value.len() as ssize_t)
}

/// # Safety
///
/// `name` is a C string.
unsafe fn put(
    process: &Process,
    object: Object<'_>,
    name: *const c_char,
    value: &[u8],
    flags: c_int,
) -> Reach<c_int> {
    let flags = XattrFlags::from_bits(flags as u32).ok_or(Errno::EINVAL)?;
    // SAFETY: the caller's promise.
    process.set_xattr(object, unsafe { text(name) }, value, flags).map(|()| 0)
}
