//! Calls that move data from one descriptor to another inside the kernel: it cannot where one is ours.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};

use libc::{off_t, size_t, ssize_t};
use pvfs_posix::numbers::OURS;
use pvfs_posix::{Process, Reach};
use pvfs_wire::Errno;

use crate::interpose;
use pvfs_posix::c::answer::{errno, fail};
use pvfs_posix::c::route::finish;
use pvfs_posix::c::state::with;

interpose! {
    /// sendfile(2)
    fn sendfile(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t as real {
        if !(OURS.has(to) || OURS.has(from)) {
            return real(to, from, offset, count);
        }
        copied((from, offset), (to, std::ptr::null_mut()), count)
    }
    /// sendfile(2)
    fn sendfile64(to: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t as real {
        if !(OURS.has(to) || OURS.has(from)) {
            return real(to, from, offset, count);
        }
        copied((from, offset), (to, std::ptr::null_mut()), count)
    }
    /// copy_file_range(2)
    fn copy_file_range(from: c_int, at: *mut off_t, to: c_int, to_at: *mut off_t, count: size_t, flags: c_uint) -> ssize_t as real {
        if !(OURS.has(to) || OURS.has(from)) {
            return real(from, at, to, to_at, count, flags);
        }
        if flags != 0 {
            return fail(Errno::EINVAL);
        }
        if OURS.has(to) && OURS.has(from) {
            return copied_within((from, at), (to, to_at), count);
        }
        copied((from, at), (to, to_at), count)
    }
    /// splice(2): programs fall back to read and write.
    fn splice(from: c_int, at: *mut off_t, to: c_int, to_at: *mut off_t, count: size_t, flags: c_uint) -> ssize_t as real {
        if OURS.has(to) || OURS.has(from) {
            return fail(Errno::EINVAL);
        }
        real(from, at, to, to_at, count, flags)
    }
}

/// Moves one buffer's worth, which is less than was asked for only if that was more than a buffer, or at the end.
///
/// # Safety
///
/// The offsets are null or may be read and written.
unsafe fn copied(from: (c_int, *mut off_t), to: (c_int, *mut off_t), count: size_t) -> ssize_t {
    let mut buffer = vec![0; count.min(BUFFER_BYTES)];
    // SAFETY: the caller's promise.
    let (at, to_at) = unsafe { (from.1.as_ref().copied(), to.1.as_ref().copied()) };
    let got =
        finish(with(|process| take(process, from.0, at, &mut buffer)), |_| fail(Errno::EBADF));
    if got <= 0 {
        return got;
    }
    let put = finish(with(|process| give(process, to.0, to_at, &buffer[..got as usize])), |_| {
        fail(Errno::EBADF)
    });
    if at.is_none() && put < got {
        // What could not be written is to be read again.
        let back = got - put.max(0);
        let before = errno();
        // SAFETY: moving a position touches no memory.
        unsafe { super::data::lseek(from.0, -(back as off_t), libc::SEEK_CUR) };
        pvfs_posix::c::answer::set_errno(before);
    }
    if put > 0 {
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(offset) = from.1.as_mut() {
                *offset += put as off_t;
            }
            if let Some(offset) = to.1.as_mut() {
                *offset += put as off_t;
            }
        }
    }
    put
}

/// Between files of ours: the daemons do it where they can.
///
/// # Safety
///
/// The offsets are null or may be read and written.
unsafe fn copied_within(
    from: (c_int, *mut off_t),
    to: (c_int, *mut off_t),
    count: size_t,
) -> ssize_t {
    // SAFETY: the caller's promise.
    let (at, to_at) = unsafe { (from.1.as_ref().copied(), to.1.as_ref().copied()) };
    let copied = with(|process| {
        let at = at.map(pvfs_posix::c::data::positive).transpose()?;
        let to_at = to_at.map(pvfs_posix::c::data::positive).transpose()?;
        let bytes = count.min(pvfs_posix::c::memory::TRANSFER_MAX) as u64;
        Ok(process.copy((from.0, at), (to.0, to_at), bytes)? as ssize_t)
    });
    let copied = finish(copied, |_| fail(Errno::EBADF));
    if copied > 0 {
        // SAFETY: the caller's promise.
        unsafe {
            for offset in [from.1, to.1] {
                if let Some(offset) = offset.as_mut() {
                    *offset += copied as off_t;
                }
            }
        }
    }
    copied
}

fn take(process: &Process, fd: c_int, at: Option<off_t>, buffer: &mut [u8]) -> Reach<ssize_t> {
    let at = at.map(pvfs_posix::c::data::positive).transpose()?;
    let fd_of_kernel = pvfs_posix::shared::borrow(fd);
    let got = match (OURS.has(fd), at) {
        (true, Some(at)) => process.read_at(fd, at, buffer)?,
        (true, None) => process.read(fd, buffer)?,
        (false, Some(at)) => rustix::io::pread(fd_of_kernel, buffer, at)?,
        (false, None) => rustix::io::read(fd_of_kernel, buffer)?,
    };
    Ok(got as ssize_t)
}

fn give(process: &Process, fd: c_int, at: Option<off_t>, buffer: &[u8]) -> Reach<ssize_t> {
    let at = at.map(pvfs_posix::c::data::positive).transpose()?;
    let fd_of_kernel = pvfs_posix::shared::borrow(fd);
    let put = match (OURS.has(fd), at) {
        (true, Some(at)) => process.write_at(fd, at, buffer)?,
        (true, None) => process.write(fd, buffer)?,
        (false, Some(at)) => rustix::io::pwrite(fd_of_kernel, buffer, at)?,
        (false, None) => rustix::io::write(fd_of_kernel, buffer)?,
    };
    Ok(put as ssize_t)
}

const BUFFER_BYTES: usize = 4 << 20;
