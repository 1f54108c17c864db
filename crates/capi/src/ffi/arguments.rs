//! What programs pass: looked at before it is used.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::slice;

use libc::iovec;
use pvfs_posix::c::memory;
use pvfs_wire::Errno;

/// Memory to be read.
///
/// # Safety
///
/// `start` is null or points to `length` readable bytes that outlive the use.
pub unsafe fn bytes<'a>(start: *const c_void, length: usize) -> Result<&'a [u8], Errno> {
    check_memory(start, length)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { memory::bytes(start, length) })
}

/// Memory to be filled.
///
/// # Safety
///
/// `start` is null or points to `length` writable bytes that nobody else uses meanwhile.
pub unsafe fn room<'a>(start: *mut c_void, length: usize) -> Result<&'a mut [u8], Errno> {
    check_memory(start, length)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { memory::room(start, length) })
}

fn check_memory(start: *const c_void, length: usize) -> Result<(), Errno> {
    match (start.is_null(), isize::try_from(length)) {
        (true, _) if length > 0 => Err(Errno::EFAULT),
        (_, Err(_)) => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// A structure that is read.
///
/// # Safety
///
/// `pointer` is null, misaligned or points to a `T` that outlives the use.
pub unsafe fn given<'a, T>(pointer: *const T) -> Result<&'a T, Errno> {
    check_pointer(pointer)?;
    // SAFETY: it is not null and aligned; the rest is the caller's promise.
    Ok(unsafe { &*pointer })
}

/// A structure that is written, or read and written.
///
/// # Safety
///
/// `pointer` is null, misaligned or points to a `T` that nobody else uses meanwhile.
pub unsafe fn place<'a, T>(pointer: *mut T) -> Result<&'a mut T, Errno> {
    check_pointer(pointer)?;
    // SAFETY: it is not null and aligned; the rest is the caller's promise.
    Ok(unsafe { &mut *pointer })
}

/// EFAULT for null, EINVAL for what cannot be the address of a `T`.
pub fn check_pointer<T>(pointer: *const T) -> Result<(), Errno> {
    match pointer {
        pointer if pointer.is_null() => Err(Errno::EFAULT),
        pointer if !pointer.is_aligned() => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

/// A list of structures.
///
/// # Safety
///
/// `list` is null, misaligned or points to `count` of them that outlive the use.
pub unsafe fn list<'a, T>(list: *const T, count: usize) -> Result<&'a [T], Errno> {
    if count == 0 {
        return Ok(&[]);
    }
    check_pointer(list)?;
    let bytes = count.checked_mul(size_of::<T>()).and_then(|bytes| isize::try_from(bytes).ok());
    bytes.ok_or(Errno::EINVAL)?;
    // SAFETY: it is neither null nor misaligned nor longer than memory; the rest is the caller's promise.
    Ok(unsafe { slice::from_raw_parts(list, count) })
}

/// The pieces of a readv or writev, each of which is there.
///
/// # Safety
///
/// As [`list`], and each piece as readv(2) and writev(2) demand.
pub unsafe fn pieces<'a>(start: *const iovec, count: c_int) -> Result<&'a [iovec], Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    if count > libc::UIO_MAXIOV as usize {
        return Err(Errno::EINVAL);
    }
    // SAFETY: the caller's promise.
    let pieces = unsafe { list(start, count) }?;
    check_pieces(pieces)?;
    Ok(pieces)
}

/// The bytes of all pieces. EFAULT where one is not there, EINVAL where they are more than can be counted.
pub fn check_pieces(pieces: &[iovec]) -> Result<usize, Errno> {
    let mut total = 0usize;
    for piece in pieces {
        check_memory(piece.iov_base, piece.iov_len)?;
        total = total.checked_add(piece.iov_len).ok_or(Errno::EINVAL)?;
    }
    isize::try_from(total).map_err(|_| Errno::EINVAL)?;
    Ok(total)
}
