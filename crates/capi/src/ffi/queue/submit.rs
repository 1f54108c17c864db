//! What is put into a queue. What can be seen to be wrong with it is told at once, and then nothing was submitted.

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{iovec, off_t, size_t, stat64};
use pvfs_posix::c::answer::fail;
use pvfs_posix::c::data::positive;
use pvfs_posix::c::memory::text;
use pvfs_posix::{Queue, Reach, Stop, Ticket, Told};
use pvfs_wire::Errno;
use rustix::fs::OFlags;

use super::{Kind, Named, Submitted, find, inside, returned};
use crate::export;
use crate::ffi::arguments::{bytes, check_pointer, room};
use crate::ffi::native::attributes::pvfs_stat;
use crate::ffi::native::open::{O_META, O_PART, pvfs_open};
use crate::ffi::readx::{
    Xtvec, check_apart, checked, read_regions, room as room_of, write_regions,
};
use crate::ffi::route::{inner, is_ours};

type Submit = dyn FnOnce(&mut Queue) -> Reach<Ticket>;

/// How an operation comes into a queue.
enum Submission {
    Ours(Box<Submit>),
    /// It was of an ordinary file, and is done.
    Done(Reach<Told>),
}

export! {
    /// pread(2), on the way.
    fn pvfs_submit_read(name: Named, fd: c_int, to: *mut c_void, count: size_t, offset: off_t, data: *mut c_void) -> u64 {
        let submission = || {
            if !is_ours(fd) {
                return done_unless(&WRONG, libc::pread(fd, to, count, offset) as i64);
            }
            let (at, room) = (positive(offset)?, room(to, count)?);
            Ok(Submission::Ours(Box::new(move |queue| queue.read(fd, at, room))))
        };
        submitted(name, data, || Ok((Kind::Plain, submission()?)))
    }
    /// pwrite(2), on the way.
    fn pvfs_submit_write(name: Named, fd: c_int, from: *const c_void, count: size_t, offset: off_t, data: *mut c_void) -> u64 {
        let submission = || {
            if !is_ours(fd) {
                return done_unless(&WRONG, libc::pwrite(fd, from, count, offset) as i64);
            }
            let (at, bytes) = (positive(offset)?, bytes(from, count)?);
            Ok(Submission::Ours(Box::new(move |queue| queue.write(fd, at, bytes))))
        };
        submitted(name, data, || Ok((Kind::Plain, submission()?)))
    }
    /// readx, on the way.
    fn pvfs_submit_readx(name: Named, fd: c_int, iov: *const iovec, iov_count: size_t, xtv: *const Xtvec, xtv_count: size_t, data: *mut c_void) -> u64 {
        let submission = || {
            let (pieces, regions) = checked(fd, (iov, iov_count), (xtv, xtv_count))?;
            check_apart(pieces)?;
            let room = |piece: &iovec| room_of(piece);
            let mut memory: Vec<&'static mut [u8]> = pieces.iter().map(room).collect();
            if is_ours(fd) {
                return Ok(Submission::Ours(Box::new(move |queue| queue.readx(fd, memory, regions))));
            }
            let read = read_regions(fd, &mut memory, &regions);
            Ok(Submission::Done(read.map(Told::Bytes).map_err(Stop::from)))
        };
        submitted(name, data, || Ok((Kind::Plain, submission()?)))
    }
    /// writex, on the way.
    fn pvfs_submit_writex(name: Named, fd: c_int, iov: *const iovec, iov_count: size_t, xtv: *const Xtvec, xtv_count: size_t, data: *mut c_void) -> u64 {
        let submission = || {
            let (pieces, regions) = checked(fd, (iov, iov_count), (xtv, xtv_count))?;
            let memory: Vec<&'static [u8]> = pieces.iter().map(|piece| &*room_of(piece)).collect();
            if is_ours(fd) {
                return Ok(Submission::Ours(Box::new(move |queue| queue.writex(fd, memory, regions))));
            }
            let written = write_regions(fd, &memory, &regions);
            Ok(Submission::Done(written.map(Told::Bytes).map_err(Stop::from)))
        };
        submitted(name, data, || Ok((Kind::Plain, submission()?)))
    }
    /// fsync(2), on the way.
    fn pvfs_submit_fsync(name: Named, fd: c_int, data: *mut c_void) -> u64 {
        let submission = || {
            if !is_ours(fd) {
                return done_unless(&[Errno::EBADF], libc::fsync(fd).into());
            }
            Ok(Submission::Ours(Box::new(move |queue| queue.sync(fd))))
        };
        submitted(name, data, || Ok((Kind::Plain, submission()?)))
    }
    /// open(2), on the way.
    fn pvfs_submit_open(name: Named, path: *const c_char, flags: c_int, mode: c_uint, data: *mut c_void) -> u64 {
        let nothing = std::ptr::null_mut();
        if path.is_null() {
            // Flags may be wrong, too: the blocking call knows what is told first.
            return returned(pvfs_open(path, flags, mode, nothing, nothing).into()).map_or_else(fail, |_| 0);
        }
        if flags & (O_META | O_PART) != 0 {
            return fail(Errno::EINVAL);
        }
        submitted(name, data, || {
            let submission = match inner(path) {
                Some(path) => Submission::Ours(Box::new(move |queue| {
                    queue.open(&path, OFlags::from_bits_retain(flags as u32), mode)
                })),
                None => done(pvfs_open(path, flags, mode, nothing, nothing).into()),
            };
            Ok((Kind::Open(terminated(text(path)), flags, mode), submission))
        })
    }
    /// stat(2), on the way.
    fn pvfs_submit_stat(name: Named, path: *const c_char, to: *mut stat64, data: *mut c_void) -> u64 {
        if path.is_null() {
            return fail(Errno::EFAULT);
        }
        submitted(name, data, || {
            let submission = match inner(path) {
                Some(path) => {
                    check_pointer(to)?;
                    Submission::Ours(Box::new(move |queue| queue.stat(&path)))
                }
                None => done(pvfs_stat(path, to).into()),
            };
            Ok((Kind::Stat(terminated(text(path)), to), submission))
        })
    }
}

/// Puts it into the queue, once it is clear that there is one; its ticket, or 0.
fn submitted(
    name: Named,
    data: *mut c_void,
    prepare: impl FnOnce() -> Result<(Kind, Submission), Errno>,
) -> u64 {
    let prepared = find(name).and_then(|_| prepare());
    let (kind, submission) = match prepared {
        Ok(prepared) => prepared,
        Err(errno) => return fail(errno),
    };
    // Where a path leads out at once, that is found when its event is taken.
    let by_path = !matches!(kind, Kind::Plain);
    let ticket = inside(name, |inner| {
        let queue = inner.queue()?;
        let ticket = match submission {
            Submission::Done(outcome) => queue.ended(outcome),
            Submission::Ours(submit) => match submit(queue) {
                Err(stop @ (Stop::Outside(_) | Stop::NotOurs)) if by_path => queue.ended(Err(stop)),
                submitted => submitted?,
            },
        };
        inner.submitted.insert(ticket.0, Submitted { data, kind });
        Ok(ticket.0)
    });
    ticket.unwrap_or_else(|stop| fail(stop.errno()))
}

/// The outcome of a call on an ordinary file.
fn done(result: i64) -> Submission {
    Submission::Done(returned(result).map(Told::Foreign).map_err(Stop::from))
}

/// The like. What is wrong with the call itself is told at once, as it is of files of ours.
fn done_unless(refusals: &[Errno], result: i64) -> Result<Submission, Errno> {
    match returned(result) {
        Err(errno) if refusals.contains(&errno) => Err(errno),
        _ => Ok(done(result)),
    }
}

fn terminated(path: &[u8]) -> Vec<u8> {
    [path, b"\0"].concat()
}

/// What is told of arguments that no file would take.
const WRONG: [Errno; 3] = [Errno::EBADF, Errno::EFAULT, Errno::EINVAL];
