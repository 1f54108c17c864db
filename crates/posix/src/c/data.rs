//! Offsets and vectors of reads and writes as C passes them.

#![allow(unsafe_code)]

use std::ffi::c_int;

use libc::{iovec, off_t, ssize_t};
use pvfs_wire::Errno;
use pvfs_wire::ops::Allocation;

use super::memory::{bytes, room};
use crate::{Demands, From, Process, Reach};

/// An offset or a length: EINVAL below 0.
pub fn positive(offset: off_t) -> Result<u64, Errno> {
    u64::try_from(offset).map_err(|_| Errno::EINVAL)
}

/// Where lseek(2) counts from.
pub fn from(whence: c_int) -> Result<From, Errno> {
    match whence {
        libc::SEEK_SET => Ok(From::Start),
        libc::SEEK_CUR => Ok(From::Here),
        libc::SEEK_END => Ok(From::End),
        libc::SEEK_DATA => Ok(From::Data),
        libc::SEEK_HOLE => Ok(From::Hole),
        _ => Err(Errno::EINVAL),
    }
}

/// fallocate(2)
pub fn allocate(
    process: &Process,
    fd: c_int,
    mode: c_int,
    offset: off_t,
    length: off_t,
) -> Reach<()> {
    let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    let how = match mode & !libc::FALLOC_FL_KEEP_SIZE {
        0 => Allocation::Reserve,
        libc::FALLOC_FL_PUNCH_HOLE if keeps => Allocation::Punch,
        libc::FALLOC_FL_ZERO_RANGE => Allocation::Zero,
        _ => return Err(Errno::EOPNOTSUPP.into()),
    };
    if length <= 0 {
        return Err(Errno::EINVAL.into());
    }
    offset.checked_add(length).ok_or(Errno::EFBIG)?;
    process.allocate(fd, how, (positive(offset)?, positive(length)?), !keeps)
}

/// The flags of pwritev2(2). Polling is a hint; what cannot be promised is refused, as by file systems that cannot either.
pub fn demands(flags: c_int) -> Result<Demands, Errno> {
    hints(flags)?;
    let is_set = |flag| flags & flag != 0;
    Ok(Demands {
        append: is_set(libc::RWF_APPEND),
        sync: is_set(libc::RWF_DSYNC) || is_set(libc::RWF_SYNC),
    })
}

/// The like of preadv2(2), where none of those that are taken says anything.
pub fn hints(flags: c_int) -> Result<(), Errno> {
    let taken = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND;
    if flags & !taken == 0 { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
}

fn total(list: &[iovec]) -> Result<usize, Errno> {
    let add = |sum: usize, piece: &iovec| sum.checked_add(piece.iov_len);
    let total = list.iter().try_fold(0, add).filter(|total| isize::try_from(*total).is_ok());
    total.ok_or(Errno::EINVAL)
}

/// One read for all pieces, so that no other holder's comes in between.
pub fn gather_reads(
    process: &Process,
    fd: c_int,
    offset: Option<u64>,
    list: &[iovec],
) -> Reach<ssize_t> {
    let read = |buffer: &mut [u8]| match offset {
        Some(offset) => process.read_at(fd, offset, buffer),
        None => process.read(fd, buffer),
    };
    if let [piece] = list {
        // SAFETY: the pieces are as readv demands.
        return Ok(read(unsafe { room(piece.iov_base, piece.iov_len) })? as ssize_t);
    }
    let mut whole = vec![0; total(list)?.min(STAGED_MAX)];
    let got = read(&mut whole)?;
    let mut left = &whole[..got];
    for piece in list {
        // SAFETY: the pieces are as readv demands.
        let to = unsafe { room(piece.iov_base, piece.iov_len) };
        let part;
        (part, left) = left.split_at(left.len().min(to.len()));
        to[..part.len()].copy_from_slice(part);
    }
    Ok(got as ssize_t)
}

/// One write for all pieces, so that an append is one.
pub fn gather_writes(
    process: &Process,
    fd: c_int,
    offset: Option<u64>,
    list: &[iovec],
    demands: Demands,
) -> Reach<ssize_t> {
    let write = |buffer: &[u8]| process.write_as(fd, offset, buffer, demands);
    if let [piece] = list {
        // SAFETY: the pieces are as writev demands.
        return Ok(write(unsafe { bytes(piece.iov_base, piece.iov_len) })? as ssize_t);
    }
    let mut whole = Vec::with_capacity(total(list)?.min(STAGED_MAX));
    for piece in list {
        // SAFETY: the pieces are as writev demands.
        let part = unsafe { bytes(piece.iov_base, piece.iov_len) };
        whole.extend_from_slice(&part[..part.len().min(STAGED_MAX - whole.len())]);
    }
    Ok(write(&whole)? as ssize_t)
}

/// What is gathered in memory of ours at most; a longer call moves that much, and says so.
const STAGED_MAX: usize = 64 << 20;
