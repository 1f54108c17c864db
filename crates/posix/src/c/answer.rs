//! What C functions return.

#![allow(unsafe_code)]

use std::ffi::c_int;

use pvfs_wire::Errno;

/// A type that C functions return, with its value for failure.
pub trait Answer: Copy {
    /// Given back with errno set.
    const FAILED: Self;

    /// Whether this is that value.
    fn is_failed(self) -> bool;
}

macro_rules! numbers {
    ($($kind:ty),*) => {$(
        impl Answer for $kind {
            const FAILED: Self = -1;
            fn is_failed(self) -> bool {
                self == -1
            }
        }
    )*};
}
numbers!(i32, i64, isize);

/// A ticket.
impl Answer for u64 {
    const FAILED: Self = 0;
    fn is_failed(self) -> bool {
        self == 0
    }
}

/// A count that is never so large.
impl Answer for usize {
    const FAILED: Self = Self::MAX;
    fn is_failed(self) -> bool {
        self == Self::MAX
    }
}

impl<T> Answer for *mut T {
    const FAILED: Self = std::ptr::null_mut();
    fn is_failed(self) -> bool {
        self.is_null()
    }
}

/// Sets errno.
pub fn set_errno(errno: Errno) {
    // SAFETY: the C library gives each thread its own, for as long as the thread runs.
    unsafe { *libc::__errno_location() = errno.0 as c_int }
}

/// The present errno.
pub fn errno() -> Errno {
    // SAFETY: as above.
    Errno(unsafe { *libc::__errno_location() }.unsigned_abs())
}

/// Fails with this number.
pub fn fail<T: Answer>(errno: Errno) -> T {
    set_errno(errno);
    T::FAILED
}
