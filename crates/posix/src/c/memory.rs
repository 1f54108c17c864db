//! Memory and texts that programs pass.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use pvfs_wire::Errno;

/// A text, without its zero.
///
/// # Safety
///
/// `text` is a C string that outlives the use.
#[inline]
pub unsafe fn text<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// The texts of a list that ends in null; of none, none.
///
/// # Safety
///
/// `list` is null, or such a list of C strings that outlives the use.
pub unsafe fn texts(list: *const *const c_char) -> impl Iterator<Item = *const c_char> {
    let mut at = list;
    std::iter::from_fn(move || {
        if at.is_null() {
            return None;
        }
        // SAFETY: the caller's promise; it goes no further than the null.
        unsafe {
            let text = at.read();
            at = if text.is_null() { std::ptr::null() } else { at.add(1) };
            (!text.is_null()).then_some(text)
        }
    })
}

/// Memory to be read.
///
/// # Safety
///
/// `start` points to `length` readable bytes that outlive the use, if `length` is not 0.
pub unsafe fn bytes<'a>(start: *const c_void, length: usize) -> &'a [u8] {
    if length == 0 || start.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(start.cast(), length.min(TRANSFER_MAX)) }
}

/// Memory to be filled.
///
/// # Safety
///
/// `start` points to `length` writable bytes that nobody else uses meanwhile, if `length` is not 0.
pub unsafe fn room<'a>(start: *mut c_void, length: usize) -> &'a mut [u8] {
    if length == 0 || start.is_null() {
        return &mut [];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts_mut(start.cast(), length.min(TRANSFER_MAX)) }
}

/// A list of pieces.
///
/// # Safety
///
/// `list` points to `count` pieces as `readv` and `writev` demand.
pub unsafe fn pieces<'a>(list: *const libc::iovec, count: i32) -> Result<&'a [libc::iovec], Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    if count > PIECES_MAX {
        return Err(Errno::EINVAL);
    }
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts(list, count) })
}

/// Gives a program a text with its zero.
///
/// # Safety
///
/// `to` points to `room` writable bytes.
pub unsafe fn give_text(text: &[u8], to: *mut c_char, room: usize) -> Result<(), Errno> {
    if text.len() >= room {
        return Err(Errno::ERANGE);
    }
    // SAFETY: it fits, as was just seen, and the two do not overlap: one is ours.
    unsafe {
        to.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len());
        to.add(text.len()).write(0);
    }
    Ok(())
}

/// A copy of a text with its zero in memory that the program frees.
pub fn allocated(text: &[u8]) -> Result<*mut c_char, Errno> {
    // SAFETY: allocation has no demands; null is told.
    let copy: *mut c_char = unsafe { libc::malloc(text.len() + 1) }.cast();
    if copy.is_null() {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: it was made that long.
    unsafe { give_text(text, copy, text.len() + 1) }?;
    Ok(copy)
}

/// What the kernel moves at once at most.
pub const TRANSFER_MAX: usize = 0x7fff_f000;

/// IOV_MAX
const PIECES_MAX: usize = 1024;
