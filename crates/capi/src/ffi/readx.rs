//! Noncontiguous access: readx and writex, for our files and ordinary ones.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::slice;

use libc::{iovec, size_t, ssize_t};
use pvfs_client::Region;
use pvfs_posix::Stop;
use pvfs_posix::c::answer::{errno, fail};
use pvfs_posix::c::state::with;
use pvfs_wire::Errno;

use crate::export;
use crate::ffi::arguments::{check_pieces, list};
use crate::ffi::route::is_ours;

/// `struct xtvec`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Xtvec {
    xtv_off: i64,
    xtv_len: usize,
}

export! {
    /// readx of the HEC extensions.
    fn readx(fd: c_int, iov: *const iovec, iov_count: size_t, xtv: *const Xtvec, xtv_count: size_t) -> ssize_t {
        let checked = checked(fd, (iov, iov_count), (xtv, xtv_count));
        let read = checked.and_then(|(pieces, regions)| {
            check_apart(pieces)?;
            let room = |piece: &iovec| room(piece);
            let mut memory: Vec<&mut [u8]> = pieces.iter().map(room).collect();
            read_regions(fd, &mut memory, &regions)
        });
        read.map_or_else(fail, |bytes| bytes as ssize_t)
    }
    /// writex of the HEC extensions.
    fn writex(fd: c_int, iov: *const iovec, iov_count: size_t, xtv: *const Xtvec, xtv_count: size_t) -> ssize_t {
        let checked = checked(fd, (iov, iov_count), (xtv, xtv_count));
        let written = checked.and_then(|(pieces, regions)| {
            let memory: Vec<&[u8]> = pieces.iter().map(|piece| &*room(piece)).collect();
            write_regions(fd, &memory, &regions)
        });
        written.map_or_else(fail, |bytes| bytes as ssize_t)
    }
}

/// Both vectors, once everything that can be seen to be wrong with them is not.
///
/// # Safety
///
/// They are null, misaligned or as the header demands.
pub unsafe fn checked<'a>(
    fd: c_int,
    iov: (*const iovec, size_t),
    xtv: (*const Xtvec, size_t),
) -> Result<(&'a [iovec], Vec<Region>), Errno> {
    if pvfs_posix::shared::identity(fd).is_none() {
        return Err(Errno::EBADF);
    }
    // SAFETY: the caller's promise.
    let (pieces, vector) = unsafe { (list(iov.0, iov.1)?, list(xtv.0, xtv.1)?) };
    let bytes = check_pieces(pieces)? as u64;
    let mut regions = Vec::new();
    regions.try_reserve_exact(vector.len()).map_err(|_| Errno::ENOMEM)?;
    let mut total = 0u64;
    for xtvec in vector {
        let region = region(xtvec)?;
        total = total.checked_add(region.len).ok_or(Errno::EINVAL)?;
        regions.push(region);
    }
    if total != bytes {
        return Err(Errno::EINVAL);
    }
    Ok((pieces, regions))
}

fn region(xtvec: &Xtvec) -> Result<Region, Errno> {
    let offset = u64::try_from(xtvec.xtv_off).map_err(|_| Errno::EINVAL)?;
    let len = i64::try_from(xtvec.xtv_len).map_err(|_| Errno::EINVAL)?;
    xtvec.xtv_off.checked_add(len).ok_or(Errno::EFBIG)?;
    Ok(Region { offset, len: len.unsigned_abs() })
}

/// Memory that is filled twice would hold one of two contents.
pub fn check_apart(pieces: &[iovec]) -> Result<(), Errno> {
    let range = |piece: &iovec| {
        let start = piece.iov_base.addr();
        (start, start.saturating_add(piece.iov_len))
    };
    if pieces.windows(2).all(|pair| range(&pair[0]).1 <= range(&pair[1]).0) {
        return Ok(());
    }
    let mut ranges: Vec<(usize, usize)> =
        pieces.iter().filter(|piece| piece.iov_len > 0).map(range).collect();
    ranges.sort_unstable();
    match ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0) {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

/// # Safety
///
/// The piece was checked, is the program's, and nobody else uses it meanwhile.
pub unsafe fn room<'a>(piece: &iovec) -> &'a mut [u8] {
    if piece.iov_len == 0 {
        return &mut [];
    }
    // SAFETY: it is not null; the rest is the caller's promise.
    unsafe { slice::from_raw_parts_mut(piece.iov_base.cast(), piece.iov_len) }
}

/// Reads regions of a file, ours or not, into pieces of memory; how many of the bytes lie before its end.
pub fn read_regions(fd: c_int, memory: &mut [&mut [u8]], regions: &[Region]) -> Result<u64, Errno> {
    if is_ours(fd) {
        return with(|process| process.readx(fd, memory, regions)).map_err(|stop| stop.errno());
    }
    let mut done = 0;
    let parts = joined(memory.iter_mut().map(|piece| piece.len()), regions);
    for Part { piece, at, offset, len } in parts {
        done += read_fully(fd, &mut memory[piece][at..at + len], offset)?;
    }
    Ok(done)
}

/// Writes pieces of memory to regions of a file, ours or not.
pub fn write_regions(fd: c_int, memory: &[&[u8]], regions: &[Region]) -> Result<u64, Errno> {
    if is_ours(fd) {
        let written = with(|process| process.writex(fd, memory, regions));
        return written.map_err(|stop: Stop| stop.errno());
    }
    // SAFETY: a question about a number.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    if flags >= 0 && flags & libc::O_APPEND != 0 {
        return Err(Errno::EINVAL);
    }
    let mut done = 0;
    let parts = joined(memory.iter().map(|piece| piece.len()), regions);
    for Part { piece, at, offset, len } in parts {
        write_fully(fd, &memory[piece][at..at + len], offset)?;
        done += len as u64;
    }
    Ok(done)
}

/// Bytes that are contiguous in memory and in the file.
struct Part {
    piece: usize,
    at: usize,
    offset: u64,
    len: usize,
}

/// Memory and file side by side; both are as long in all.
fn joined(pieces: impl Iterator<Item = usize>, regions: &[Region]) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut pieces = pieces.enumerate();
    let (mut piece, mut at, mut left) = (0, 0, 0);
    for region in regions {
        let mut done = 0;
        while done < region.len {
            while left == 0 {
                let Some(next) = pieces.next() else { return parts };
                (piece, left) = next;
                at = 0;
            }
            let len = usize::try_from(region.len - done).map_or(left, |wanted| wanted.min(left));
            parts.push(Part { piece, at, offset: region.offset + done, len });
            (at, left, done) = (at + len, left - len, done + len as u64);
        }
    }
    parts
}

/// Fills all of `to`, with zeros beyond the end of the file.
fn read_fully(fd: c_int, to: &mut [u8], offset: u64) -> Result<u64, Errno> {
    let mut done = 0;
    while done < to.len() {
        let start: *mut c_void = to[done..].as_mut_ptr().cast();
        // SAFETY: that much room is left.
        let got = unsafe { libc::pread(fd, start, to.len() - done, offset as i64 + done as i64) };
        match usize::try_from(got) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(_) if errno() == Errno::EINTR => {}
            Err(_) => return Err(errno()),
        }
    }
    to[done..].fill(0);
    Ok(done as u64)
}

fn write_fully(fd: c_int, from: &[u8], offset: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < from.len() {
        let start: *const c_void = from[done..].as_ptr().cast();
        // SAFETY: that many bytes are left.
        let put =
            unsafe { libc::pwrite(fd, start, from.len() - done, offset as i64 + done as i64) };
        match usize::try_from(put) {
            Ok(0) => return Err(Errno::EIO),
            Ok(put) => done += put,
            Err(_) if errno() == Errno::EINTR => {}
            Err(_) => return Err(errno()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(start: usize, len: usize) -> iovec {
        iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: len }
    }

    #[test]
    fn memory_that_overlaps_is_found_in_any_order() {
        assert_eq!(check_apart(&[piece(10, 5), piece(15, 5)]), Ok(()));
        assert_eq!(check_apart(&[piece(15, 5), piece(10, 5)]), Ok(()));
        assert_eq!(check_apart(&[piece(15, 5), piece(10, 6)]), Err(Errno::EINVAL));
        assert_eq!(check_apart(&[piece(10, 5), piece(12, 0), piece(10, 1)]), Err(Errno::EINVAL));
        assert_eq!(check_apart(&[piece(10, 5), piece(12, 0)]), Ok(()));
    }

    #[test]
    fn regions_that_cannot_be_are_refused() {
        let of = |xtv_off, xtv_len| region(&Xtvec { xtv_off, xtv_len }).err();
        assert_eq!(of(0, 0), None);
        assert_eq!(of(i64::MAX, 0), None);
        assert_eq!(of(-1, 1), Some(Errno::EINVAL));
        assert_eq!(of(1, usize::MAX), Some(Errno::EINVAL));
        assert_eq!(of(i64::MAX, 1), Some(Errno::EFBIG));
    }

    #[test]
    fn memory_and_file_are_cut_where_either_ends() {
        let regions = [Region { offset: 100, len: 3 }, Region { offset: 7, len: 5 }];
        let parts: Vec<_> = joined([2, 0, 6].into_iter(), &regions)
            .iter()
            .map(|part| (part.piece, part.at, part.offset, part.len))
            .collect();
        assert_eq!(parts, [(0, 0, 100, 2), (2, 0, 102, 1), (2, 1, 7, 5)]);
    }
}
