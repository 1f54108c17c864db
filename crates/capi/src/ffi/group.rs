//! Group opens: openg, openfh and their kin.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{AT_FDCWD, size_t};
use pvfs_client::Group;
use pvfs_posix::c::answer::{Answer, fail};
use pvfs_posix::c::route::finish;
use pvfs_posix::c::state::with;
use pvfs_posix::{Process, Reach};
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::Sharers;
use rustix::fs::OFlags;

use crate::export;
use crate::ffi::arguments::{bytes, check_pointer, given, place};
use crate::ffi::layout::{CLayout, ordinary, wishes};
use crate::ffi::route::{at_descriptor, at_path};

export! {
    /// openg of the HEC extensions.
    fn openg(path: *const c_char, handle: *mut c_void, handle_len: *mut size_t, flags: c_int, mode: c_int) -> c_int {
        opened(path, (handle, handle_len), (flags, mode), Group::default(), std::ptr::null())
    }
    /// openg with a choice of sharers, lifetime and layout.
    fn pvfs_openg(path: *const c_char, handle: *mut c_void, handle_len: *mut size_t, flags: c_int, mode: c_int, share: c_int, lifetime_s: c_uint, layout: *const CLayout) -> c_int {
        let sharers = match share {
            0 => Sharers::User,
            1 => Sharers::Group,
            2 => Sharers::Anyone,
            _ => return fail(Errno::EINVAL),
        };
        let lifetime_s = if lifetime_s == 0 { Group::default().lifetime_s } else { lifetime_s };
        opened(path, (handle, handle_len), (flags, mode), Group { sharers, lifetime_s }, layout)
    }
    /// openfh of the HEC extensions: a descriptor, contacting no server.
    fn openfh(handle: *mut c_void, handle_len: size_t) -> c_int {
        answered(|process| process.openfh(whole(handle, handle_len)?))
    }
    /// A handle that is good for longer.
    fn pvfs_renewg(handle: *mut c_void, handle_len: *mut size_t, room: size_t) -> c_int {
        answered(|process| {
            let length = *given(handle_len)?;
            let renewed = process.renewg(whole(handle, length)?)?;
            *place(handle_len)? = room;
            give(&renewed, handle, handle_len).map(|()| 0)
        })
    }
    /// Adds to the number that all who share a group open have in common; what it was before.
    fn pvfs_fetch_and_add(fd: c_int, by: i64) -> i64 {
        at_descriptor(fd, || shared_by_none(fd), |process| process.fetch_and_add(fd, by))
    }
    /// The like, setting it.
    fn pvfs_fetch_and_set(fd: c_int, to: i64) -> i64 {
        at_descriptor(fd, || shared_by_none(fd), |process| process.fetch_and_set(fd, to))
    }
    /// Ends a group open for all.
    fn pvfs_closeg(handle: *const c_void, handle_len: size_t) -> c_int {
        answered(|process| process.closeg(whole(handle, handle_len)?).map(|()| 0))
    }
}

/// # Safety
///
/// Everything is null, misaligned or as the header demands.
unsafe fn opened(
    path: *const c_char,
    (handle, handle_len): (*mut c_void, *mut size_t),
    (flags, mode): (c_int, c_int),
    group: Group,
    layout: *const CLayout,
) -> c_int {
    if let Err(errno) = check_pointer(handle_len) {
        return fail(errno);
    }
    if handle.is_null() {
        return fail(Errno::EFAULT);
    }
    let wanted = OFlags::from_bits_retain(flags as u32);
    let ours = |process: &'static Process, at, path: &[u8]| {
        let striping = match layout.is_null() {
            true => Striping::default(),
            // SAFETY: the caller's promise.
            false => wishes(process, unsafe { given(layout) }?)?,
        };
        let opened = process.openg(at, path, wanted, mode as u32, &striping, group)?;
        // SAFETY: the caller's promise.
        let given = unsafe { give(&opened, handle, handle_len) };
        if given.is_err() {
            // Nobody else will.
            process.closeg(&opened)?;
        }
        given.map(|()| 0)
    };
    // SAFETY: the caller's promise.
    unsafe { at_path(AT_FDCWD, path, |_, path| ordinary(path), ours) }
}

/// A handle, which is never empty.
///
/// # Safety
///
/// `handle` is null or points to `length` bytes.
unsafe fn whole<'a>(handle: *const c_void, length: size_t) -> Result<&'a [u8], Errno> {
    if handle.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the caller's promise.
    unsafe { bytes(handle, length) }
}

/// Gives a handle away where there is room for it, and says how long it is in any case.
///
/// # Safety
///
/// `length` was looked at; there is as much room as it says.
unsafe fn give(handle: &[u8], to: *mut c_void, length: *mut size_t) -> Reach<()> {
    // SAFETY: the caller's promise.
    let length = unsafe { place(length) }?;
    let room = std::mem::replace(length, handle.len());
    if handle.len() > room {
        return Err(Errno::ERANGE.into());
    }
    // SAFETY: it fits, and one of the two is ours.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(handle.as_ptr(), handle.len()) };
    Ok(())
}

/// An ordinary descriptor, or none.
fn shared_by_none(fd: c_int) -> i64 {
    let is_open = pvfs_posix::shared::identity(fd).is_some();
    fail(if is_open { Errno::EINVAL } else { Errno::EBADF })
}

fn answered(operation: impl FnOnce(&'static Process) -> Reach<c_int>) -> c_int {
    finish(with(operation), |_| c_int::FAILED)
}
