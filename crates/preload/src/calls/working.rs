//! The working directory, and paths without links.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int};
use std::sync::atomic::Ordering;

use libc::{AT_FDCWD, size_t};
use pvfs_posix::numbers::OURS;
use pvfs_posix::{Process, Reach};
use pvfs_wire::Errno;

use crate::interpose;
use pvfs_posix::c::answer::{Answer, fail};
use pvfs_posix::c::memory::{allocated, give_text};
use pvfs_posix::c::route::{at_path, finish};
use pvfs_posix::c::state::{INSIDE, WORKING_VARIABLE, with};

interpose! {
    /// chdir(2)
    fn chdir(path: *const c_char) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| left(real(path)), |process, at, path| {
            process.change_directory(at, path).map(|()| entered(process))
        })
    }
    /// fchdir(2)
    fn fchdir(fd: c_int) -> c_int as real {
        if !OURS.has(fd) {
            return left(real(fd));
        }
        finish(with(|process| process.change_to(fd).map(|()| entered(process))), |_| left(real(fd)))
    }
    /// getcwd(3)
    fn getcwd(to: *mut c_char, size: size_t) -> *mut c_char as real {
        if !INSIDE.load(Ordering::Relaxed) {
            return real(to, size);
        }
        finish(with(|process| told(process, to, size)), |_| real(to, size))
    }
    /// getcwd(3) as checked by the compiler.
    fn __getcwd_chk(to: *mut c_char, size: size_t, room: size_t) -> *mut c_char as real {
        if !INSIDE.load(Ordering::Relaxed) {
            return real(to, size, room);
        }
        finish(with(|process| told(process, to, size)), |_| real(to, size, room))
    }
    /// getwd(3)
    fn getwd(to: *mut c_char) -> *mut c_char as real {
        if !INSIDE.load(Ordering::Relaxed) {
            return real(to);
        }
        finish(with(|process| told(process, to, libc::PATH_MAX as size_t)), |_| real(to))
    }
    /// get_current_dir_name(3)
    fn get_current_dir_name() -> *mut c_char as real {
        if !INSIDE.load(Ordering::Relaxed) {
            return real();
        }
        finish(with(|process| told(process, std::ptr::null_mut(), 0)), |_| real())
    }
    /// realpath(3)
    fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char as real {
        resolved(path, to, |path| real(path, to))
    }
    /// realpath(3) as checked by the compiler.
    fn __realpath_chk(path: *const c_char, to: *mut c_char, room: size_t) -> *mut c_char as real {
        resolved(path, to, |path| real(path, to, room))
    }
    /// canonicalize_file_name(3)
    fn canonicalize_file_name(path: *const c_char) -> *mut c_char as real {
        resolved(path, std::ptr::null_mut(), real)
    }
}

/// The kernel has gone to another directory.
fn left(done: c_int) -> c_int {
    if !done.is_failed() && INSIDE.swap(false, Ordering::Relaxed) {
        let _ = with(|process| {
            process.leave();
            Ok(())
        });
        // SAFETY: the name is a C string. As with chdir itself, other threads have to look out.
        unsafe { libc::unsetenv(variable().as_ptr()) };
    }
    done
}

/// The working directory is ours. Programs that this one starts without passing on an environment of its own
/// making, as by system(3), learn it from there.
fn entered(process: &Process) -> c_int {
    INSIDE.store(true, Ordering::Relaxed);
    let text = process.working_to_resume().and_then(|text| CString::new(text).ok());
    if let Some(text) = text {
        // SAFETY: both are C strings. As with chdir itself, other threads have to look out.
        unsafe { libc::setenv(variable().as_ptr(), text.as_ptr(), 1) };
    }
    0
}

fn variable() -> CString {
    CString::new(WORKING_VARIABLE).expect("a name has no zero in it")
}

/// # Safety
///
/// `to` is null or has `size` bytes of room.
unsafe fn told(process: &Process, to: *mut c_char, size: size_t) -> Reach<*mut c_char> {
    let path = process.working().ok_or(pvfs_posix::Stop::NotOurs)?;
    process.check_working()?;
    if to.is_null() {
        if size != 0 && size <= path.len() {
            return Err(Errno::ERANGE.into());
        }
        return Ok(allocated(&path)?);
    }
    if size == 0 {
        return Err(Errno::EINVAL.into());
    }
    // SAFETY: the caller's promise.
    unsafe { give_text(&path, to, size) }?;
    Ok(to)
}

/// # Safety
///
/// `path` is null or a C string, `to` is null or has PATH_MAX bytes of room.
unsafe fn resolved(
    path: *const c_char,
    to: *mut c_char,
    real: impl Fn(*const c_char) -> *mut c_char,
) -> *mut c_char {
    if path.is_null() {
        return fail(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    unsafe {
        at_path(
            AT_FDCWD,
            path,
            |_, path| real(path),
            |process, at, path| {
                let (path, _) = process.canonical(at, path)?;
                if to.is_null() {
                    return Ok(allocated(&path)?);
                }
                give_text(&path, to, libc::PATH_MAX as usize).map_err(|_| Errno::ENAMETOOLONG)?;
                Ok(to)
            },
        )
    }
}
