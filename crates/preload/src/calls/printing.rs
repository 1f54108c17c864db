//! dprintf: the C library writes by calls of its own, so what is for a descriptor of ours is printed into memory first.
//!
//! A function with any number of arguments cannot be written in Rust. A few instructions put them in a list, as the
//! calling convention has it, and go on with the function that takes a list.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use pvfs_posix::numbers::OURS;
use pvfs_wire::Errno;

use crate::interpose;
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

/// A function that lists its arguments and goes on. `$taken`: the bytes of the registers of those before `...`;
/// `$register`: where the list is passed.
#[cfg(target_arch = "x86_64")]
macro_rules! listing {
    ($(#[$meta:meta])* $name:ident, $taken:literal, $register:literal, $onward:path) => {
        $(#[$meta])*
        ///
        /// # Safety
        ///
        /// As the C function of this name demands.
        // SAFETY: the list is laid out as the System V convention has it (registers saved in an area of 176
        // bytes, its offsets, the address of what is on the stack); the stack is aligned at the call, and given
        // back; no register that the caller keeps is touched.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "sub rsp, 0xd8",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                concat!("mov dword ptr [rsp], ", $taken),
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 0xe0]",
                "mov [rsp + 8], rax",
                "lea rax, [rsp + 32]",
                "mov [rsp + 16], rax",
                concat!("mov ", $register, ", rsp"),
                "call {onward}",
                "add rsp, 0xd8",
                "ret",
                onward = sym $onward,
            )
        }
    };
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
