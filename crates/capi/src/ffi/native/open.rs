//! Opening and closing, and second descriptors.

#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libc::{AT_FDCWD, O_CREAT, O_TRUNC, O_WRONLY};
use pvfs_posix::c::answer::{Answer, fail};
use pvfs_posix::c::memory::text;
use pvfs_posix::c::route::{alias_at, finish};
use pvfs_posix::c::state::{is_borrowed, prefix, with};
use pvfs_posix::numbers::KEPT;
use pvfs_posix::{Process, Reach};
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use rustix::fs::OFlags;

use crate::export;
use crate::ffi::arguments::{check_pointer, given};
use crate::ffi::partition::{Fpart, view_of};
use crate::ffi::route::{at_path, is_ours};
use crate::striping::{Filestat, wishes_of};

export! {
    /// pvfs_open(path, flags, [mode, [metadata,] [partition]]). Variadic in C: the integers and pointers of a variadic call
    /// lie where those of this one do, on x86-64 as on 64-bit ARM, and are looked at only where the flags say so.
    fn pvfs_open(path: *const c_char, flags: c_int, mode: c_uint, third: *mut c_void, fourth: *mut c_void) -> c_int {
        let (meta, partition) = match (flags & O_META != 0, flags & O_PART != 0) {
            (true, true) => (third.cast::<Filestat>(), fourth.cast::<Fpart>()),
            (true, false) => (third.cast::<Filestat>(), std::ptr::null_mut()),
            (false, true) => (std::ptr::null_mut(), third.cast::<Fpart>()),
            (false, false) => (std::ptr::null_mut(), std::ptr::null_mut()),
        };
        opened_with(path, flags, mode, meta, partition)
    }
    /// creat(2)
    fn pvfs_creat(path: *const c_char, mode: c_uint) -> c_int {
        opened(path, O_CREAT | O_WRONLY | O_TRUNC, mode, &Striping::default())
    }
    /// close(2)
    fn pvfs_close(fd: c_int) -> c_int {
        if KEPT.has(fd) && !is_borrowed() {
            return fail(Errno::EBADF);
        }
        if is_borrowed() {
            return libc::close(fd);
        }
        let flushed = crate::ffi::blk::end(fd);
        let released = if is_ours(fd) { with(|process| process.release(fd)) } else { Ok(()) };
        let closed = libc::close(fd);
        match flushed {
            Err(errno) => fail(errno),
            Ok(()) if closed == 0 => finish(released.map(|()| 0), |_| 0),
            Ok(()) => closed,
        }
    }
    /// dup(2)
    fn pvfs_dup(fd: c_int) -> c_int {
        duplicated(fd, libc::dup(fd))
    }
    /// dup2(2)
    fn pvfs_dup2(from: c_int, to: c_int) -> c_int {
        if KEPT.has(to) && !is_borrowed() {
            return fail(Errno::EBUSY);
        }
        if from == to {
            return libc::dup2(from, to);
        }
        if is_ours(to) && !is_borrowed() && pvfs_posix::shared::identity(from).is_some() {
            let _ = crate::ffi::blk::end(to);
            let _ = with(|process| process.release(to));
        }
        duplicated(from, libc::dup2(from, to))
    }
}

/// The kernel has made `to` a duplicate of `from`.
pub fn duplicated(from: c_int, to: c_int) -> c_int {
    if to >= 0 && !is_borrowed() && is_ours(from) {
        let _ = with(|process| process.duplicated(from, to));
    }
    to
}

/// Opens, here or there.
///
/// # Safety
///
/// `path` is null or a C string.
pub unsafe fn opened(path: *const c_char, flags: c_int, mode: c_uint, wishes: &Striping) -> c_int {
    let plain = flags & !(O_META | O_PART);
    let wanted = OFlags::from_bits_retain(plain as u32);
    // SAFETY: the caller's promise.
    if let Some(fd) = unsafe { alias_at(path) } {
        return finish(with(|process| process.open_again(fd, wanted, mode)), |_| c_int::FAILED);
    }
    // SAFETY: the caller's promise; the C library looks at the path as we do.
    unsafe {
        at_path(
            AT_FDCWD,
            path,
            |_, path| libc::open(path, plain, mode),
            |process, at, path| process.open_striped(at, path, wanted, mode, wishes),
        )
    }
}

/// # Safety
///
/// `path` is null or a C string; the others are null, misaligned or point to what they say.
unsafe fn opened_with(
    path: *const c_char,
    flags: c_int,
    mode: c_uint,
    meta: *mut Filestat,
    partition: *const Fpart,
) -> c_int {
    let prepared = || -> Result<_, Errno> {
        let mut wishes = Striping::default();
        if flags & O_META != 0 {
            // SAFETY: the caller's promise.
            wishes = wishes_of(unsafe { given(meta) }?)?;
        }
        let view = match flags & O_PART != 0 {
            // SAFETY: the caller's promise.
            true => Some(view_of(unsafe { given(partition) }?)?),
            false => None,
        };
        Ok((wishes, view))
    };
    let (wishes, view) = match prepared() {
        Ok(prepared) => prepared,
        Err(errno) => return fail(errno),
    };
    // SAFETY: the caller's promise.
    let fd = unsafe { opened(path, flags, mode, &wishes) };
    if fd < 0 || flags & (O_META | O_PART) == 0 {
        return fd;
    }
    let completed = match is_ours(fd) {
        true => with(|process| {
            // What has no data has neither metadata nor partitions.
            if let Some(view) = view {
                process.set_view(fd, Some(view))?;
            }
            if flags & O_META != 0 {
                // SAFETY: the caller's promise.
                unsafe { tell(process, fd, meta) }?;
            }
            Ok(())
        }),
        false if view.is_some() => Err(Errno::EOPNOTSUPP.into()),
        // SAFETY: the caller's promise; it was looked at before.
        false => unsafe {
            meta.write(Filestat::default());
            Ok(())
        },
    };
    if let Err(stop) = completed {
        // SAFETY: it was just opened, and nobody has heard of it.
        unsafe { pvfs_close(fd) };
        return fail(stop.errno());
    }
    fd
}

/// # Safety
///
/// `meta` is null, misaligned or has room.
pub unsafe fn tell(process: &Process, fd: c_int, meta: *mut Filestat) -> Reach<()> {
    check_pointer(meta)?;
    let told = Filestat::of(&process.placement(fd)?);
    // SAFETY: it is neither null nor misaligned; the rest is the caller's promise.
    unsafe { meta.write(told) };
    Ok(())
}

/// Whether a path is one of ours, by its text.
///
/// # Safety
///
/// `path` is null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pvfs_is_ours(path: *const c_char) -> c_int {
    crate::ffi::enter::entered(|| {
        if path.is_null() {
            return 0;
        }
        // SAFETY: the caller's promise; an empty path is nobody's.
        unsafe { c_int::from(!text(path).is_empty() && crate::ffi::route::leads_in(path)) }
    })
}

/// Where our files appear.
#[unsafe(no_mangle)]
pub extern "C" fn pvfs_prefix() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    crate::ffi::enter::entered(|| {
        TEXT.get_or_init(|| {
            let bytes = prefix().map_or(&b"/pvfs"[..], |prefix| prefix.as_bytes());
            CString::new(bytes).expect("a path from the environment or a line has no zero byte")
        });
        0
    });
    TEXT.get().map_or(c"/pvfs".as_ptr(), |text| text.as_ptr())
}

/// The fourth argument says how a new file is striped, and is told what is so.
pub const O_META: c_int = 0x1000_0000;

/// The next argument is the partition to begin with.
pub const O_PART: c_int = 0x2000_0000;
