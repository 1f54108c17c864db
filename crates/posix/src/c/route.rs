//! To whom a call goes: to us, or to the C library.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use crate::numbers::{KEPT, OURS};
use crate::{At, Process, Reach, Stop};
use libc::AT_FDCWD;
use pvfs_wire::Errno;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use super::answer::{Answer, errno, fail, set_errno};
use super::memory::text;
use super::state::{INSIDE, prefix, with};

/// A directory and a path from there, as C passes them.
pub type Name = (c_int, *const c_char);

/// A call that names a path. `real` is given the path as the program gave it, or as a link of ours leads.
///
/// # Safety
///
/// `path` is null or a C string.
#[inline]
pub unsafe fn at_path<T: Answer>(
    directory: c_int,
    path: *const c_char,
    real: impl Fn(c_int, *const c_char) -> T,
    ours: impl Fn(&'static Process, At, &[u8]) -> Reach<T>,
) -> T {
    // What programs do most, with what no other call needs: a file of theirs that is there.
    // SAFETY: the caller's promise.
    let answer = if unsafe { leads_in(directory, path) } {
        None
    } else {
        let answer = real(directory, path);
        if !answer.is_failed() {
            return answer;
        }
        Some(answer)
    };
    // SAFETY: the caller's promise.
    unsafe { at_path_by_links(directory, path, answer, real, ours) }
}

/// The like, after `failure` if that is what the path as it was given led to.
unsafe fn at_path_by_links<T: Answer>(
    directory: c_int,
    path: *const c_char,
    mut failure: Option<T>,
    real: impl Fn(c_int, *const c_char) -> T,
    ours: impl Fn(&'static Process, At, &[u8]) -> Reach<T>,
) -> T {
    let (mut out, mut is_inside): (Option<CString>, _) = (None, failure.is_none());
    // Links may lead out and in and out again.
    for _ in 0..CROSSINGS_MAX {
        let (directory, path) =
            out.as_ref().map_or((directory, path), |out| (AT_FDCWD, out.as_ptr()));
        let reach = if is_inside {
            // SAFETY: the caller's promise, or a C string of ours; a path that leads in is not null.
            let given = unsafe { text(path) };
            with(|process| ours(process, at(directory), given))
        } else {
            let answer = failure.take().unwrap_or_else(|| real(directory, path));
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
                Ok(path) => {
                    // SAFETY: a C string of ours.
                    is_inside = unsafe { leads_in(AT_FDCWD, path.as_ptr()) };
                    out = Some(path);
                }
                Err(_) => return fail(Errno::ENOENT),
            },
            reach => return finish(reach, |_| fail(Errno::ENOENT)),
        }
    }
    fail(Errno::ELOOP)
}

/// Does something with two names, if one of them is ours.
///
/// # Safety
///
/// The names are null or C strings.
pub unsafe fn paired(
    from: Name,
    to: Name,
    real: impl FnOnce() -> c_int,
    ours: impl FnOnce(&Process, (At, &[u8]), (At, &[u8])) -> Reach<()>,
) -> c_int {
    // SAFETY: the caller's promise.
    if !unsafe { leads_in(from.0, from.1) || leads_in(to.0, to.1) } {
        return real();
    }
    if from.1.is_null() || to.1.is_null() {
        return fail(Errno::EFAULT);
    }
    // SAFETY: the caller's promise.
    let (old, new) = unsafe { (text(from.1), text(to.1)) };
    let done = with(|process| ours(process, (at(from.0), old), (at(to.0), new)).map(|()| 0));
    match done {
        Err(Stop::NotOurs) => real(),
        // One of them leads out, and the other is ours.
        done => finish(done, |_| fail(Errno::EXDEV)),
    }
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
    KEPT.has(fd) && !super::state::is_borrowed()
}

/// [`alias`] of a path as programs pass it.
///
/// # Safety
///
/// `path` is null or a C string.
#[inline]
pub unsafe fn alias_at(path: *const c_char) -> Option<RawFd> {
    // By the first letter, without the length: this is asked at every open.
    // SAFETY: the caller's promise; there is a second byte where the first is not the zero at the end.
    let may_be =
        !path.is_null() && unsafe { *path == SLASH && (*path.add(1) == D || *path.add(1) == P) };
    // SAFETY: the caller's promise.
    if may_be { alias(unsafe { text(path) }) } else { None }
}

/// The descriptor of ours that a path of the kernel's stands for: /proc/self/fd/3, /dev/stdin.
#[inline]
pub fn alias(path: &[u8]) -> Option<RawFd> {
    if path.starts_with(b"/dev/") || path.starts_with(b"/proc/") { alias_of(path) } else { None }
}

fn alias_of(path: &[u8]) -> Option<RawFd> {
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
    if is_plainly_absent(directory, path) {
        return None;
    }
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

/// Whether the kernel meets no link on the way to what is not there: then none leads elsewhere. One question for what may be
/// many, since programs look for much that is not there. Where it cannot be asked (before Linux 5.6, in some sandboxes), the
/// many are.
fn is_plainly_absent(directory: c_int, path: &[u8]) -> bool {
    // From above it the prefix is such a name. A path from the root would have been seen to lead in.
    let of_prefix = prefix().and_then(|prefix| prefix.as_bytes().rsplit(is_slash).next());
    if !path.starts_with(b"/") && path.split(is_slash).any(|name| of_prefix == Some(name)) {
        return false;
    }
    let at = if directory == AT_FDCWD { CWD } else { crate::shared::borrow(directory) };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Not through the C library: its errno is the program's.
    let found = openat2(at, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
    matches!(found, Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR))
}

fn is_slash(byte: &u8) -> bool {
    *byte == b'/'
}

/// How /dev and /proc begin.
const SLASH: c_char = b'/' as c_char;
const D: c_char = b'd' as c_char;
const P: c_char = b'p' as c_char;

/// As many as Linux follows links.
const CROSSINGS_MAX: u32 = 40;
