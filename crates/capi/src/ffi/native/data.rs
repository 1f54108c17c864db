//! Reading, writing, the position, sizes.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};

use libc::{AT_FDCWD, iovec, off_t, size_t, ssize_t};
use pvfs_posix::Demands;
use pvfs_posix::c::data::{allocate, from, gather_reads, gather_writes, positive};

use crate::export;
use crate::ffi::arguments::{bytes, pieces, room};
use crate::ffi::route::{at_descriptor, at_path};

export! {
    /// read(2)
    fn pvfs_read(fd: c_int, to: *mut c_void, count: size_t) -> ssize_t {
        at_descriptor(fd, || libc::read(fd, to, count), |process| {
            Ok(process.read(fd, room(to, count)?)? as ssize_t)
        })
    }
    /// write(2)
    fn pvfs_write(fd: c_int, from: *const c_void, count: size_t) -> ssize_t {
        at_descriptor(fd, || libc::write(fd, from, count), |process| {
            Ok(process.write(fd, bytes(from, count)?)? as ssize_t)
        })
    }
    /// readv(2)
    fn pvfs_readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
        at_descriptor(fd, || libc::readv(fd, list, count), |process| {
            gather_reads(process, fd, None, pieces(list, count)?)
        })
    }
    /// writev(2)
    fn pvfs_writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
        at_descriptor(fd, || libc::writev(fd, list, count), |process| {
            gather_writes(process, fd, None, pieces(list, count)?, Demands::default())
        })
    }
    /// pread(2)
    fn pvfs_pread(fd: c_int, to: *mut c_void, count: size_t, offset: off_t) -> ssize_t {
        at_descriptor(fd, || libc::pread(fd, to, count, offset), |process| {
            Ok(process.read_at(fd, positive(offset)?, room(to, count)?)? as ssize_t)
        })
    }
    /// pwrite(2)
    fn pvfs_pwrite(fd: c_int, from: *const c_void, count: size_t, offset: off_t) -> ssize_t {
        at_descriptor(fd, || libc::pwrite(fd, from, count, offset), |process| {
            Ok(process.write_at(fd, positive(offset)?, bytes(from, count)?)? as ssize_t)
        })
    }
    /// preadv(2)
    fn pvfs_preadv(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t {
        at_descriptor(fd, || libc::preadv(fd, list, count, offset), |process| {
            gather_reads(process, fd, Some(positive(offset)?), pieces(list, count)?)
        })
    }
    /// pwritev(2)
    fn pvfs_pwritev(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t {
        at_descriptor(fd, || libc::pwritev(fd, list, count, offset), |process| {
            gather_writes(process, fd, Some(positive(offset)?), pieces(list, count)?, Demands::default())
        })
    }
    /// lseek(2), in the partition where one is set.
    fn pvfs_lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t {
        at_descriptor(fd, || libc::lseek(fd, offset, whence), |process| {
            Ok(process.seek(fd, from(whence)?, offset)? as off_t)
        })
    }
    /// truncate(2)
    fn pvfs_truncate(path: *const c_char, size: off_t) -> c_int {
        at_path(AT_FDCWD, path, |_, path| libc::truncate(path, size), |process, at, path| {
            process.truncate(at, path, positive(size)?).map(|()| 0)
        })
    }
    /// ftruncate(2), of the file also where a partition is set.
    fn pvfs_ftruncate(fd: c_int, size: off_t) -> c_int {
        at_descriptor(fd, || libc::ftruncate(fd, size), |process| {
            process.truncate_open(fd, positive(size)?).map(|()| 0)
        })
    }
    /// fallocate(2)
    fn pvfs_fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
        at_descriptor(fd, || libc::fallocate(fd, mode, offset, length), |process| {
            allocate(process, fd, mode, offset, length).map(|()| 0)
        })
    }
    /// fsync(2)
    fn pvfs_fsync(fd: c_int) -> c_int {
        at_descriptor(fd, || libc::fsync(fd), |process| process.sync(fd).map(|()| 0))
    }
    /// fdatasync(2)
    fn pvfs_fdatasync(fd: c_int) -> c_int {
        at_descriptor(fd, || libc::fdatasync(fd), |process| process.sync(fd).map(|()| 0))
    }
}
