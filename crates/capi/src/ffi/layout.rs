//! Layouts: seen, chosen for one file, and given to a directory's new files.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint};

use libc::AT_FDCWD;
use pvfs_posix::c::answer::fail;
use pvfs_posix::c::state::with;
use pvfs_posix::{Layout, Process, Reach};
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;

use super::native::opened;
use crate::export;
use crate::ffi::arguments::{check_pointer, given, place};
use crate::ffi::route::{at_descriptor, at_path};
use crate::striping::{DISTRIBUTION_MAX, IODS_MAX, Laid, laid_directory, laid_file, striping};

/// `struct pvfs_layout`
#[repr(C)]
pub struct CLayout {
    distribution: [c_char; DISTRIBUTION_MAX],
    base: i32,
    pcount: i32,
    ssize: i64,
    iod_count: u32,
    iods: [u32; IODS_MAX],
}

export! {
    /// The layout of a file, or what a directory gives to new ones.
    fn pvfs_getlayout(path: *const c_char, to: *mut CLayout) -> c_int {
        at_path(AT_FDCWD, path, |_, path| ordinary(path), |process, at, path| {
            check_pointer(to)?;
            tell(&process.layout(at, path)?, to)
        })
    }
    /// The layout of what a descriptor is of.
    fn pvfs_fgetlayout(fd: c_int, to: *mut CLayout) -> c_int {
        at_descriptor(fd, || ordinary_descriptor(fd), |process| {
            check_pointer(to)?;
            tell(&process.layout_open(fd)?, to)
        })
    }
    /// What a directory gives to files that are created in it from now on.
    fn pvfs_setlayout(path: *const c_char, layout: *const CLayout) -> c_int {
        at_path(AT_FDCWD, path, |_, path| ordinary(path), |process, at, path| {
            let wishes = wishes(process, given(layout)?)?;
            process.set_layout(at, path, &wishes).map(|()| 0)
        })
    }
    /// open(2); a file that it creates is laid out as said.
    fn pvfs_open_layout(path: *const c_char, flags: c_int, mode: c_uint, layout: *const CLayout) -> c_int {
        match wishes_before_open(layout) {
            Ok(wishes) => opened(path, flags, mode, &wishes),
            Err(errno) => fail(errno),
        }
    }
}

/// # Safety
///
/// `layout` is null, misaligned or points to one.
unsafe fn wishes_before_open(layout: *const CLayout) -> Result<Striping, Errno> {
    // SAFETY: the caller's promise.
    let layout = unsafe { given(layout) }?;
    with(|process| wishes(process, layout)).map_err(|stop| stop.errno())
}

/// What a program wishes for.
pub fn wishes(process: &Process, layout: &CLayout) -> Reach<Striping> {
    let text: Vec<u8> = layout.distribution.iter().map(|byte| *byte as u8).collect();
    let end = text.iter().position(|byte| *byte == 0).ok_or(Errno::EINVAL)?;
    let count = usize::try_from(layout.iod_count).unwrap_or(usize::MAX);
    let iods = layout.iods.get(..count).ok_or(Errno::EINVAL)?;
    let laid = Laid {
        distribution: String::from_utf8(text[..end].to_vec()).map_err(|_| Errno::EINVAL)?,
        base: layout.base,
        pcount: layout.pcount,
        ssize: layout.ssize,
        iods: iods.to_vec(),
    };
    // Only a list of iods takes knowing how many there are.
    let iod_count = if iods.is_empty() { 0 } else { process.iod_count()? };
    Ok(striping(&laid, iod_count)?)
}

/// # Safety
///
/// `to` is null, misaligned or has room.
unsafe fn tell(layout: &Layout, to: *mut CLayout) -> Reach<c_int> {
    let laid = match layout {
        Layout::File(placement) => laid_file(placement)?,
        Layout::Directory(striping) => laid_directory(striping)?,
    };
    // SAFETY: the caller's promise.
    let to = unsafe { place(to) }?;
    to.distribution.fill(0);
    for (to, from) in to.distribution.iter_mut().zip(laid.distribution.bytes()) {
        *to = from as c_char;
    }
    (to.base, to.pcount, to.ssize) = (laid.base, laid.pcount, laid.ssize);
    to.iod_count = laid.iods.len() as u32;
    to.iods.fill(0);
    to.iods[..laid.iods.len()].copy_from_slice(&laid.iods);
    Ok(0)
}

/// The end of a call that only files of ours know; ENOENT and the like where there is nothing at all.
///
/// # Safety
///
/// `path` is null or a C string.
pub unsafe fn ordinary(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { libc::access(path, libc::F_OK) } {
        0 => fail(Errno::EOPNOTSUPP),
        failed => failed,
    }
}

fn ordinary_descriptor(fd: c_int) -> c_int {
    match pvfs_posix::shared::identity(fd) {
        Some(_) if fd >= 0 => fail(Errno::EOPNOTSUPP),
        _ => fail(Errno::EBADF),
    }
}
