//! The functions that ours stand in front of.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_long, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

#[cfg(target_arch = "x86_64")]
use pvfs_posix::c::answer::fail;
use pvfs_wire::Errno;

/// Where a function is.
pub type Address = *mut c_void;

/// A function of the next library, found when first needed.
pub struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    /// Not looked for yet.
    pub const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    /// Where it is; a function that fails with ENOSYS when there is none.
    #[inline]
    pub fn address(&self) -> Address {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.find() } else { address }
    }

    #[cold]
    fn find(&self) -> Address {
        // SAFETY: the name is a C string; looking up a symbol has no other demands.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        let address = if found.is_null() { missing as *mut c_void } else { found };
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

extern "C" fn missing() -> c_long {
    pvfs_posix::c::answer::set_errno(Errno::ENOSYS);
    -1
}

/// The call itself, by whoever wants no other function in between. Its first argument is the number.
///
/// # Safety
///
/// As the call of this number demands.
// SAFETY: arguments move from where functions have them to where the kernel has them; the kernel keeps all registers but
// rax, rcx and r11.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub unsafe extern "C" fn kernel(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    std::arch::naked_asm!(
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov r10, r8",
        "mov r8, r9",
        "mov r9, [rsp + 8]",
        "syscall",
        "cmp rax, -4095",
        "jae 2f",
        "ret",
        "2:",
        "mov rdi, rax",
        "jmp {failed}",
        failed = sym failed,
    )
}

#[cfg(target_arch = "x86_64")]
extern "C" fn failed(returned: c_long) -> c_long {
    fail(Errno(returned.unsigned_abs() as u32))
}

#[cfg(not(target_arch = "x86_64"))]
pub use libc::syscall as kernel;

/// Defines functions of the C library. After `as` stands the name by which the body calls the real one.
///
/// A body is unsafe code as a whole. Its reason is the same for all: the caller is a program that calls the C
/// function of this name, so that pointers, lengths and texts are what that function demands.
#[macro_export]
macro_rules! interpose {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty as $real:ident $body:block
    )*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        ///
        /// As the C function of this name demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            #[allow(unused_variables)]
            let $real = |$($argument: $kind),*| {
                static REAL: $crate::real::Real = $crate::real::Real::new($crate::c_name!($name));
                type Function = unsafe extern "C" fn($($kind),*) -> $result;
                let address = REAL.address();
                // SAFETY: the next function of this name is the C library's, of this type.
                let function = unsafe { std::mem::transmute::<$crate::real::Address, Function>(address) };
                // SAFETY: its demands are those of this function, which our caller has met.
                unsafe { function($($argument),*) }
            };
            // SAFETY: what the body does with its arguments is what the C function may do.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )*};
}

/// A name as a C string.
#[macro_export]
macro_rules! c_name {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("a name has no zero in it"),
        }
    };
}
