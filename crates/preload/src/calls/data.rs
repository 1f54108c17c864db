//! Reading and writing.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{AT_FDCWD, iovec, off_t, size_t, ssize_t};
use pvfs_posix::c::data::{allocate, demands, from, gather_reads, gather_writes, hints, positive};
use pvfs_posix::{Demands, Reach};
use pvfs_wire::Errno;

use crate::interpose;
use pvfs_posix::c::memory::{bytes, pieces, room};
use pvfs_posix::c::route::{at_descriptor, at_path};

interpose! {
    /// read(2)
    fn read(fd: c_int, to: *mut c_void, count: size_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, to, count), |process| {
            Ok(process.read(fd, room(to, count))? as ssize_t)
        })
    }
    /// read(2) as checked by the compiler.
    fn __read_chk(fd: c_int, to: *mut c_void, count: size_t, size: size_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, to, count, size), |process| {
            Ok(process.read(fd, room(to, count))? as ssize_t)
        })
    }
    /// pread(2)
    fn pread(fd: c_int, to: *mut c_void, count: size_t, offset: off_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, to, count, offset), |process| {
            Ok(process.read_at(fd, positive(offset)?, room(to, count))? as ssize_t)
        })
    }
    /// pread(2)
    fn pread64(fd: c_int, to: *mut c_void, count: size_t, offset: off_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, to, count, offset), |process| {
            Ok(process.read_at(fd, positive(offset)?, room(to, count))? as ssize_t)
        })
    }
    /// pread(2) as checked by the compiler.
    fn __pread_chk(fd: c_int, to: *mut c_void, count: size_t, offset: off_t, size: size_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, to, count, offset, size), |process| {
            Ok(process.read_at(fd, positive(offset)?, room(to, count))? as ssize_t)
        })
    }
    /// pread(2) as checked by the compiler.
    fn __pread64_chk(fd: c_int, to: *mut c_void, count: size_t, offset: off_t, size: size_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, to, count, offset, size), |process| {
            Ok(process.read_at(fd, positive(offset)?, room(to, count))? as ssize_t)
        })
    }
    /// write(2)
    fn write(fd: c_int, from: *const c_void, count: size_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, from, count), |process| {
            Ok(process.write(fd, bytes(from, count))? as ssize_t)
        })
    }
    /// pwrite(2)
    fn pwrite(fd: c_int, from: *const c_void, count: size_t, offset: off_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, from, count, offset), |process| {
            Ok(process.write_at(fd, positive(offset)?, bytes(from, count))? as ssize_t)
        })
    }
    /// pwrite(2)
    fn pwrite64(fd: c_int, from: *const c_void, count: size_t, offset: off_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, from, count, offset), |process| {
            Ok(process.write_at(fd, positive(offset)?, bytes(from, count))? as ssize_t)
        })
    }
    /// readv(2)
    fn readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count), |process| {
            gather_reads(process, fd, None, pieces(list, count)?)
        })
    }
    /// writev(2)
    fn writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count), |process| {
            gather_writes(process, fd, None, pieces(list, count)?, Demands::default())
        })
    }
    /// preadv(2)
    fn preadv(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count, offset), |process| {
            gather_reads(process, fd, Some(positive(offset)?), pieces(list, count)?)
        })
    }
    /// preadv(2)
    fn preadv64(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count, offset), |process| {
            gather_reads(process, fd, Some(positive(offset)?), pieces(list, count)?)
        })
    }
    /// pwritev(2)
    fn pwritev(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count, offset), |process| {
            gather_writes(process, fd, Some(positive(offset)?), pieces(list, count)?, Demands::default())
        })
    }
    /// pwritev(2)
    fn pwritev64(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count, offset), |process| {
            gather_writes(process, fd, Some(positive(offset)?), pieces(list, count)?, Demands::default())
        })
    }
    /// preadv2(2)
    fn preadv2(fd: c_int, list: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count, offset, flags), |process| {
            hints(flags)?;
            gather_reads(process, fd, here_or(offset)?, pieces(list, count)?)
        })
    }
    /// preadv2(2)
    fn preadv64v2(fd: c_int, list: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count, offset, flags), |process| {
            hints(flags)?;
            gather_reads(process, fd, here_or(offset)?, pieces(list, count)?)
        })
    }
    /// pwritev2(2)
    fn pwritev2(fd: c_int, list: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count, offset, flags), |process| {
            let demands = demands(flags)?;
            gather_writes(process, fd, here_or(offset)?, pieces(list, count)?, demands)
        })
    }
    /// pwritev2(2)
    fn pwritev64v2(fd: c_int, list: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t as real {
        at_descriptor(fd, || real(fd, list, count, offset, flags), |process| {
            let demands = demands(flags)?;
            gather_writes(process, fd, here_or(offset)?, pieces(list, count)?, demands)
        })
    }
    /// lseek(2)
    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t as real {
        at_descriptor(fd, || real(fd, offset, whence), |process| {
            Ok(process.seek(fd, from(whence)?, offset)? as off_t)
        })
    }
    /// lseek(2)
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t as real {
        at_descriptor(fd, || real(fd, offset, whence), |process| {
            Ok(process.seek(fd, from(whence)?, offset)? as off_t)
        })
    }
    /// ftruncate(2)
    fn ftruncate(fd: c_int, size: off_t) -> c_int as real {
        at_descriptor(fd, || real(fd, size), |process| {
            process.truncate_open(fd, positive(size)?).map(|()| 0)
        })
    }
    /// ftruncate(2)
    fn ftruncate64(fd: c_int, size: off_t) -> c_int as real {
        at_descriptor(fd, || real(fd, size), |process| {
            process.truncate_open(fd, positive(size)?).map(|()| 0)
        })
    }
    /// truncate(2)
    fn truncate(path: *const c_char, size: off_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, size), |process, at, path| {
            process.truncate(at, path, positive(size)?).map(|()| 0)
        })
    }
    /// truncate(2)
    fn truncate64(path: *const c_char, size: off_t) -> c_int as real {
        at_path(AT_FDCWD, path, |_, path| real(path, size), |process, at, path| {
            process.truncate(at, path, positive(size)?).map(|()| 0)
        })
    }
    /// fsync(2)
    fn fsync(fd: c_int) -> c_int as real {
        at_descriptor(fd, || real(fd), |process| process.sync(fd).map(|()| 0))
    }
    /// fdatasync(2)
    fn fdatasync(fd: c_int) -> c_int as real {
        at_descriptor(fd, || real(fd), |process| process.sync(fd).map(|()| 0))
    }
    /// syncfs(2)
    fn syncfs(fd: c_int) -> c_int as real {
        at_descriptor(fd, || real(fd), |process| process.sync(fd).map(|()| 0))
    }
    /// sync_file_range(2)
    fn sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: c_uint) -> c_int as real {
        at_descriptor(fd, || real(fd, offset, bytes, flags), |process| process.sync(fd).map(|()| 0))
    }
    /// fallocate(2)
    fn fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int as real {
        at_descriptor(fd, || real(fd, mode, offset, length), |process| {
            allocate(process, fd, mode, offset, length).map(|()| 0)
        })
    }
    /// fallocate(2)
    fn fallocate64(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int as real {
        at_descriptor(fd, || real(fd, mode, offset, length), |process| {
            allocate(process, fd, mode, offset, length).map(|()| 0)
        })
    }
    /// posix_fallocate(3), which returns its error.
    fn posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int as real {
        at_descriptor(fd, || real(fd, offset, length), |process| {
            Ok(told(allocate(process, fd, 0, offset, length)))
        })
    }
    /// posix_fallocate(3), which returns its error.
    fn posix_fallocate64(fd: c_int, offset: off_t, length: off_t) -> c_int as real {
        at_descriptor(fd, || real(fd, offset, length), |process| {
            Ok(told(allocate(process, fd, 0, offset, length)))
        })
    }
    /// posix_fadvise(2): taken note of, as the manual allows.
    fn posix_fadvise(fd: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int as real {
        at_descriptor(fd, || real(fd, offset, length, advice), |_| Ok(advised(length, advice)))
    }
    /// posix_fadvise(2): taken note of, as the manual allows.
    fn posix_fadvise64(fd: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int as real {
        at_descriptor(fd, || real(fd, offset, length, advice), |_| Ok(advised(length, advice)))
    }
    /// readahead(2)
    fn readahead(fd: c_int, offset: off_t, count: size_t) -> ssize_t as real {
        at_descriptor(fd, || real(fd, offset, count), |_| Ok(0))
    }
}

/// What posix_fadvise returns: an error number, or 0.
fn advised(length: off_t, advice: c_int) -> c_int {
    let is_known = (libc::POSIX_FADV_NORMAL..=libc::POSIX_FADV_NOREUSE).contains(&advice);
    if is_known && length >= 0 { 0 } else { libc::EINVAL }
}

fn here_or(offset: off_t) -> Result<Option<u64>, Errno> {
    if offset == -1 { Ok(None) } else { positive(offset).map(Some) }
}

fn told(reach: Reach<()>) -> c_int {
    reach.map_or_else(|stop| stop.errno().0 as c_int, |()| 0)
}
