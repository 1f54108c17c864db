//! To whom a call goes: to us, or to the C library.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::RawFd;

use libc::AT_FDCWD;
use pvfs_posix::c::answer::{Answer, fail};
use pvfs_posix::c::route::{self, Name, finish};
use pvfs_posix::c::state::{prefix, with};
use pvfs_posix::numbers::OURS;
use pvfs_posix::{At, Process, Reach, Stop};
use pvfs_wire::Errno;

/// A call that names a path. `real` is given the path as the program gave it, or as a link of ours leads.
///
/// # Safety
///
/// `path` is null or a C string.
pub unsafe fn at_path<T: Answer>(
    directory: c_int,
    path: *const c_char,
    real: impl Fn(c_int, *const c_char) -> T,
    ours: impl Fn(&'static Process, At, &[u8]) -> Reach<T>,
) -> T {
    // SAFETY: the caller's promise.
    let inside = unsafe { below_working(directory, path) };
    let (directory, path) = match &inside {
        Some(inside) => (AT_FDCWD, inside.as_ptr()),
        None => (directory, path),
    };
    discovered(directory);
    // SAFETY: the caller's promise, or a C string of ours.
    unsafe { route::at_path(directory, path, real, ours) }
}

/// Does something with two names, if one of them is ours.
///
/// # Safety
///
/// The paths are null or C strings.
pub unsafe fn paired(
    from: *const c_char,
    to: *const c_char,
    real: impl FnOnce() -> c_int,
    ours: impl FnOnce(&Process, (At, &[u8]), (At, &[u8])) -> Reach<()>,
) -> c_int {
    // SAFETY: the caller's promise.
    let (old, new) = unsafe { (below_working(AT_FDCWD, from), below_working(AT_FDCWD, to)) };
    let name = |inside: &Option<CString>, given| -> Name {
        (AT_FDCWD, inside.as_ref().map_or(given, |inside| inside.as_ptr()))
    };
    // SAFETY: the caller's promise, or C strings of ours.
    unsafe { route::paired(name(&old, from), name(&new, to), real, ours) }
}

/// A call that names a descriptor. `ours` comes after it is clear that the descriptor is.
pub fn at_descriptor<T: Answer>(
    fd: RawFd,
    real: impl FnOnce() -> T,
    ours: impl FnOnce(&'static Process) -> Reach<T>,
) -> T {
    if !may_be_ours(fd) {
        return real();
    }
    let reach = with(|process| {
        process.description(fd)?;
        ours(process)
    });
    match reach {
        Err(Stop::NotOurs) => real(),
        reach => finish(reach, |_| fail(Errno::EBADF)),
    }
}

/// Whether a descriptor is one of ours, also one that came through a socket or was made by dup(2).
pub fn is_ours(fd: RawFd) -> bool {
    may_be_ours(fd) && with(|process| process.description(fd).map(drop)).is_ok()
}

/// Only memfds have seals, so that an ordinary descriptor costs one question to the kernel.
fn may_be_ours(fd: RawFd) -> bool {
    OURS.has(fd) || fd >= 0 && rustix::fs::fcntl_get_seals(pvfs_posix::shared::borrow(fd)).is_ok()
}

/// A directory that paths begin at may be one of ours that we have not seen yet.
fn discovered(directory: c_int) {
    if directory >= 0 && !OURS.has(directory) {
        is_ours(directory);
    }
}

/// Whether a path is ours by its text.
///
/// # Safety
///
/// `path` is null or a C string.
pub unsafe fn leads_in(path: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    let inside = unsafe { below_working(AT_FDCWD, path) };
    let path = inside.as_ref().map_or(path, |inside| inside.as_ptr());
    // SAFETY: the caller's promise, or a C string of ours.
    unsafe { route::leads_in(AT_FDCWD, path) }
}

/// The path below the prefix that a path is by its text; nothing for one that is not ours.
///
/// # Safety
///
/// `path` is a C string.
pub unsafe fn inner(path: *const c_char) -> Option<Vec<u8>> {
    // SAFETY: the caller's promise.
    let inside = unsafe { below_working(AT_FDCWD, path) };
    let path = inside.as_ref().map_or(path, |inside| inside.as_ptr());
    // SAFETY: the caller's promise, or a C string of ours.
    unsafe { route::leads_in(AT_FDCWD, path).then(|| CStr::from_ptr(path).to_bytes().to_vec()) }
}

/// A relative path as an absolute one, where the working directory is below the prefix: in a mount.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn below_working(directory: c_int, path: *const c_char) -> Option<CString> {
    if directory != AT_FDCWD || path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; it is not null.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if path.is_empty() || path[0] == b'/' {
        return None;
    }
    let mut room = [0; libc::PATH_MAX as usize];
    // SAFETY: there is as much room as is said.
    let working = unsafe { libc::getcwd(room.as_mut_ptr(), room.len()) };
    if working.is_null() {
        return None;
    }
    // SAFETY: getcwd has put a text into the room.
    let working = unsafe { CStr::from_ptr(working) }.to_bytes();
    if !prefix()?.covers(working) {
        return None;
    }
    CString::new([working, b"/", path].concat()).ok()
}
