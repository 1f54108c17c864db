//! To whom a call goes: to us, or to the C library.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use libc::AT_FDCWD;
use pvfs_posix::numbers::{KEPT, OURS};
use pvfs_posix::{At, Process, Reach, Stop};
use pvfs_wire::Errno;

use crate::answer::{Answer, errno, fail, set_errno};
use crate::memory::text;
use crate::state::{INSIDE, prefix, with};

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
    let mut out: Option<CString> = None;
    // Links may lead out and in and out again.
    for _ in 0..CROSSINGS_MAX {
        let (directory, path) =
            out.as_ref().map_or((directory, path), |out| (AT_FDCWD, out.as_ptr()));
        // SAFETY: the caller's promise, or a C string of ours.
        let reach = if unsafe { leads_in(directory, path) } {
            // SAFETY: as above; a path that leads in is not null.
            let given = unsafe { text(path) };
            with(|process| ours(process, at(directory), given))
        } else {
            let answer = real(directory, path);
            if !answer.is_failed() || !may_be_linked_in(errno()) || path.is_null() {
                return answer;
            }
            let before = errno();
            // SAFETY: as above; it is not null.
            match linked_in(directory, unsafe { text(path) }) {
                Some(inside) => with(|process| ours(process, At::Working, &inside)),
                None => return fail(before),
            }
        };
        match reach {
            Err(Stop::NotOurs) => return real(directory, path),
            Err(Stop::Outside(path)) => match CString::new(path) {
                Ok(path) => out = Some(path),
                Err(_) => return fail(Errno::ENOENT),
            },
            reach => return finish(reach, |_| fail(Errno::ENOENT)),
        }
    }
    fail(Errno::ELOOP)
}

/// A call that names a descriptor.
#[inline]
pub fn at_descriptor<T: Answer>(
    fd: RawFd,
    real: impl FnOnce() -> T,
    ours: impl FnOnce(&'static Process) -> Reach<T>,
) -> T {
    if !OURS.has(fd) {
        return real();
    }
    match with(ours) {
        Err(Stop::NotOurs) => real(),
        reach => finish(reach, |_| fail(Errno::EBADF)),
    }
}

/// The end of a call: its value, or errno and the value for failure; `outside` where it leads out.
pub fn finish<T: Answer>(reach: Reach<T>, outside: impl FnOnce(Option<CString>) -> T) -> T {
    match reach {
        Ok(value) => value,
        Err(Stop::Errno(errno)) => fail(errno),
        Err(Stop::NotOurs) => outside(None),
        Err(Stop::Outside(path)) => match CString::new(path) {
            Ok(path) => outside(Some(path)),
            Err(_) => fail(Errno::ENOENT),
        },
    }
}

/// Whether a path leads into the file system, as far as its text tells.
///
/// # Safety
///
/// `path` is null or a C string.
#[inline]
pub unsafe fn leads_in(directory: c_int, path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: the caller's promise.
    let path = unsafe { text(path) };
    if path.first() == Some(&b'/') {
        return prefix().is_some_and(|prefix| prefix.covers(path));
    }
    begins_inside(directory)
}

/// Whether relative paths begin in the file system.
#[inline]
pub fn begins_inside(directory: c_int) -> bool {
    if directory == AT_FDCWD { INSIDE.load(Ordering::Relaxed) } else { OURS.has(directory) }
}

/// Where relative paths begin.
pub fn at(directory: c_int) -> At {
    if directory == AT_FDCWD { At::Working } else { At::Directory(directory) }
}

/// Whether a number is one that no program may touch.
pub fn is_kept(fd: RawFd) -> bool {
    KEPT.has(fd) && !crate::state::is_borrowed()
}

/// [`alias`] of a path as programs pass it.
///
/// # Safety
///
/// `path` is null or a C string.
pub unsafe fn alias_at(path: *const c_char) -> Option<RawFd> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    alias(unsafe { text(path) })
}

/// The descriptor of ours that a path of the kernel's stands for: /proc/self/fd/3, /dev/stdin.
pub fn alias(path: &[u8]) -> Option<RawFd> {
    let number = match path {
        b"/dev/stdin" => return Some(0).filter(|fd| OURS.has(*fd)),
        b"/dev/stdout" => return Some(1).filter(|fd| OURS.has(*fd)),
        b"/dev/stderr" => return Some(2).filter(|fd| OURS.has(*fd)),
        path => path.strip_prefix(b"/dev/fd/").or_else(|| path.strip_prefix(b"/proc/self/fd/"))?,
    };
    let fd = std::str::from_utf8(number).ok()?.parse().ok()?;
    OURS.has(fd).then_some(fd)
}

fn may_be_linked_in(errno: Errno) -> bool {
    matches!(errno, Errno::ENOENT | Errno::ENOTDIR)
}

/// The path below the prefix that a path of the kernel's leads to by a link, or by beginning above the prefix.
fn linked_in(directory: c_int, path: &[u8]) -> Option<Vec<u8>> {
    let before = errno();
    let absolute = match path.first()? {
        b'/' => path.to_vec(),
        _ => {
            let of = if directory == AT_FDCWD { "cwd".into() } else { format!("fd/{directory}") };
            let base = rustix::fs::readlink(format!("/proc/self/{of}"), Vec::new()).ok()?;
            [base.as_bytes(), b"/", path].concat()
        }
    };
    let found = with(|process| Ok(process.linked_in(&absolute)));
    set_errno(before);
    found.ok().flatten()
}

/// As many as Linux follows links.
const CROSSINGS_MAX: u32 = 40;
