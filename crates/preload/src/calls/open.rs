//! Opening.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};

use libc::{AT_FDCWD, O_CREAT, O_TRUNC, O_WRONLY};
use rustix::fs::OFlags;

use crate::interpose;
use pvfs_posix::c::answer::Answer;
use pvfs_posix::c::route::{alias_at, at_path, finish};
use pvfs_posix::c::state::with;
use pvfs_posix::numbers::OURS;

interpose! {
    /// open(2)
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int as real {
        opened(AT_FDCWD, path, flags, mode, |_, path| real(path, flags, mode))
    }
    /// open(2)
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int as real {
        opened(AT_FDCWD, path, flags, mode, |_, path| real(path, flags, mode))
    }
    /// open(2) as checked by the compiler.
    fn __open_2(path: *const c_char, flags: c_int) -> c_int as real {
        opened(AT_FDCWD, path, flags, 0, |_, path| real(path, flags))
    }
    /// open(2) as checked by the compiler.
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int as real {
        opened(AT_FDCWD, path, flags, 0, |_, path| real(path, flags))
    }
    /// openat(2)
    fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int as real {
        opened(dir, path, flags, mode, |dir, path| real(dir, path, flags, mode))
    }
    /// openat(2)
    fn openat64(dir: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int as real {
        opened(dir, path, flags, mode, |dir, path| real(dir, path, flags, mode))
    }
    /// openat(2) as checked by the compiler.
    fn __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int as real {
        opened(dir, path, flags, 0, |dir, path| real(dir, path, flags))
    }
    /// openat(2) as checked by the compiler.
    fn __openat64_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int as real {
        opened(dir, path, flags, 0, |dir, path| real(dir, path, flags))
    }
    /// creat(2)
    fn creat(path: *const c_char, mode: c_uint) -> c_int as real {
        opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, |_, path| real(path, mode))
    }
    /// creat(2)
    fn creat64(path: *const c_char, mode: c_uint) -> c_int as real {
        opened(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode, |_, path| real(path, mode))
    }
}

/// Opens, here or there.
///
/// # Safety
///
/// `path` is null or a C string.
pub unsafe fn opened(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
    real: impl Fn(c_int, *const c_char) -> c_int,
) -> c_int {
    let wanted = OFlags::from_bits_retain(flags as u32);
    // SAFETY: the caller's promise.
    let stands_for = unsafe { alias_at(path) };
    if let Some(fd) = stands_for {
        let again = finish(with(|process| process.open_again(fd, wanted, mode)), |_| c_int::FAILED);
        return followed(again);
    }
    // SAFETY: the caller's promise.
    followed(unsafe {
        at_path(dir, path, real, |process, at, path| process.open(at, path, wanted, mode))
    })
}

/// A new descriptor may be one that a standard stream has to follow, or have a number that was closed behind our back.
pub fn followed(fd: c_int) -> c_int {
    if OURS.has(fd) {
        let _ = with(|process| {
            process.doubt(fd);
            Ok(())
        });
    }
    if (0..3).contains(&fd) {
        super::stdio::follow_descriptors();
    }
    fd
}
