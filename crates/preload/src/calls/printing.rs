//! dprintf: the C library writes by calls of its own, so what is for a descriptor of ours is printed into memory first.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use pvfs_posix::numbers::OURS;
use pvfs_wire::Errno;

use crate::interpose;
#[cfg(target_arch = "x86_64")]
use crate::listing::listing;
use pvfs_posix::c::answer::fail;

/// A `va_list`, as it is passed: a pointer to a list, on the machines we know.
type List = *mut c_void;

interpose! {
    /// vdprintf(3)
    fn vdprintf(fd: c_int, format: *const c_char, list: List) -> c_int as real {
        if OURS.has(fd) { printed(fd, format, list) } else { real(fd, format, list) }
    }
    /// vdprintf(3) as checked by the compiler.
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: List) -> c_int as real {
        if OURS.has(fd) { printed(fd, format, list) } else { real(fd, flag, format, list) }
    }
}

unsafe extern "C" {
    fn vasprintf(to: *mut *mut c_char, format: *const c_char, list: List) -> c_int;
}

/// # Safety
///
/// The format is a C string, the list has what it demands.
unsafe fn printed(fd: c_int, format: *const c_char, list: List) -> c_int {
    let mut text = null_mut();
    // SAFETY: the caller's promise.
    let length = unsafe { vasprintf(&raw mut text, format, list) };
    if length < 0 {
        return fail(Errno::ENOMEM);
    }
    // SAFETY: the C library made it that long, for us to free.
    let written = unsafe {
        let written = super::data::write(fd, text.cast(), length as usize);
        libc::free(text.cast());
        written
    };
    if written < 0 { -1 } else { length }
}

#[cfg(target_arch = "x86_64")]
listing! {
    /// dprintf(3)
    dprintf, "16", "rdx", vdprintf
}

#[cfg(target_arch = "x86_64")]
listing! {
    /// dprintf(3) as checked by the compiler.
    __dprintf_chk, "24", "rcx", __vdprintf_chk
}
