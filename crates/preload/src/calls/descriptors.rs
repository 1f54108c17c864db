//! Closing and duplicating descriptors.
//!
//! A child made by vfork runs in its parent's memory: there, only the kernel hears of it (`is_borrowed`).

#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};

use pvfs_posix::Stop;
use pvfs_posix::numbers::{KEPT, NUMBERS_END, OURS};
use pvfs_wire::Errno;

use super::open::followed;
use crate::interpose;
use pvfs_posix::c::answer::{Answer, fail};
use pvfs_posix::c::route::{finish, is_kept};
use pvfs_posix::c::state::{is_borrowed, with};

interpose! {
    /// close(2)
    fn close(fd: c_int) -> c_int as real {
        if is_kept(fd) {
            return fail(Errno::EBADF);
        }
        if !OURS.has(fd) || is_borrowed() {
            return real(fd);
        }
        let released = release(fd);
        let closed = real(fd);
        followed(fd);
        if closed == 0 { finish(released, |_| 0) } else { closed }
    }
    /// dup(2)
    fn dup(fd: c_int) -> c_int as real {
        duplicated(fd, real(fd))
    }
    /// dup2(2)
    fn dup2(from: c_int, to: c_int) -> c_int as real {
        onto(from, to, || real(from, to))
    }
    /// dup3(2)
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int as real {
        if from == to {
            return real(from, to, flags);
        }
        onto(from, to, || real(from, to, flags))
    }
    /// close_range(2)
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int as real {
        if is_borrowed() {
            return real(first, last, flags);
        }
        let (low, high) = (number(first), number(last));
        let keeps = flags as c_uint & libc::CLOSE_RANGE_CLOEXEC != 0;
        if !keeps {
            OURS.between(low, high).into_iter().for_each(|fd| drop(release(fd)));
        }
        let mut next = first;
        for kept in KEPT.between(low, high) {
            let kept = kept.unsigned_abs();
            if kept > next && real(next, kept - 1, flags) != 0 {
                return -1;
            }
            next = kept + 1;
        }
        let closed = if next <= last { real(next, last, flags) } else { 0 };
        super::stdio::follow_descriptors();
        closed
    }
    /// closefrom(3)
    fn closefrom(first: c_int) -> () as real {
        close_range(first.max(0).unsigned_abs(), c_uint::MAX, 0);
    }
}

/// Before a number is closed or means something else.
fn release(fd: c_int) -> pvfs_posix::Reach<c_int> {
    match with(|process| process.release(fd)) {
        Err(Stop::NotOurs) | Ok(()) => Ok(0),
        Err(stop) => Err(stop),
    }
}

/// The kernel has made `to` a duplicate of `from`.
pub fn duplicated(from: c_int, to: c_int) -> c_int {
    if to < 0 || !OURS.has(from) || is_borrowed() {
        return to;
    }
    // A number that is not ours after all needs nothing.
    let _ = with(|process| process.duplicated(from, to));
    followed(to)
}

fn onto(from: c_int, to: c_int, real: impl FnOnce() -> c_int) -> c_int {
    if is_kept(to) {
        return fail(Errno::EBUSY);
    }
    if !(OURS.has(from) || OURS.has(to)) || is_borrowed() || from == to {
        return real();
    }
    let is_open = pvfs_posix::shared::identity(from).is_some();
    if OURS.has(to) && is_open {
        super::stdio::flush(to);
        let _ = release(to);
    }
    let done = real();
    if done.is_failed() {
        return done;
    }
    duplicated(from, to);
    followed(done)
}

fn number(fd: c_uint) -> c_int {
    c_int::try_from(fd).unwrap_or(NUMBERS_END)
}
