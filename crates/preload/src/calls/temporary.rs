//! Temporary names, which the C library makes without calling open by its name.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use libc::{AT_FDCWD, O_CREAT, O_EXCL, O_RDWR};
use pvfs_wire::Errno;

use super::open::opened;
use crate::interpose;
use pvfs_posix::c::answer::{Answer, errno, fail};
use pvfs_posix::c::memory::text;
use pvfs_posix::c::route::leads_in;

interpose! {
    /// mkstemp(3)
    fn mkstemp(template: *mut c_char) -> c_int as real {
        if !leads_in(AT_FDCWD, template) {
            return real(template);
        }
        made_file(template, 0, 0)
    }
    /// mkstemp(3)
    fn mkstemp64(template: *mut c_char) -> c_int as real {
        if !leads_in(AT_FDCWD, template) {
            return real(template);
        }
        made_file(template, 0, 0)
    }
    /// mkostemp(3)
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int as real {
        if !leads_in(AT_FDCWD, template) {
            return real(template, flags);
        }
        made_file(template, 0, flags)
    }
    /// mkostemp(3)
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int as real {
        if !leads_in(AT_FDCWD, template) {
            return real(template, flags);
        }
        made_file(template, 0, flags)
    }
    /// mkstemps(3)
    fn mkstemps(template: *mut c_char, suffix: c_int) -> c_int as real {
        if !leads_in(AT_FDCWD, template) {
            return real(template, suffix);
        }
        made_file(template, suffix, 0)
    }
    /// mkstemps(3)
    fn mkstemps64(template: *mut c_char, suffix: c_int) -> c_int as real {
        if !leads_in(AT_FDCWD, template) {
            return real(template, suffix);
        }
        made_file(template, suffix, 0)
    }
    /// mkdtemp(3)
    fn mkdtemp(template: *mut c_char) -> *mut c_char as real {
        if !leads_in(AT_FDCWD, template) {
            return real(template);
        }
        let made = tried(template, 0, || super::names::mkdir(template, 0o700));
        if made.is_failed() { std::ptr::null_mut() } else { template }
    }
}

/// # Safety
///
/// `template` is a C string that may be written.
unsafe fn made_file(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    let flags = flags | O_RDWR | O_CREAT | O_EXCL;
    // SAFETY: the caller's promise.
    unsafe {
        tried(template, suffix, || {
            opened(AT_FDCWD, template, flags, 0o600, |_, path| {
                super::open::open(path, flags, 0o600)
            })
        })
    }
}

/// Puts chance in the place of the last six X until the name is new.
///
/// # Safety
///
/// `template` is a C string that may be written.
unsafe fn tried(template: *mut c_char, suffix: c_int, make: impl Fn() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    let length = unsafe { text(template) }.len();
    let start = usize::try_from(suffix).ok().and_then(|suffix| length.checked_sub(suffix + MARKS));
    let Some(start) = start else { return fail(Errno::EINVAL) };
    // SAFETY: within the template, as was just seen.
    let marks = unsafe { std::slice::from_raw_parts_mut(template.add(start).cast::<u8>(), MARKS) };
    if marks != [b'X'; MARKS] {
        return fail(Errno::EINVAL);
    }
    for _ in 0..TRIES {
        let mut chance = [0; MARKS];
        if getrandom::fill(&mut chance).is_err() {
            return fail(Errno::EIO);
        }
        for (mark, byte) in marks.iter_mut().zip(chance) {
            *mark = LETTERS[byte as usize % LETTERS.len()];
        }
        let made = make();
        if !made.is_failed() || errno() != Errno::EEXIST {
            return made;
        }
    }
    fail(Errno::EEXIST)
}

const MARKS: usize = 6;
const TRIES: u32 = 100;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
