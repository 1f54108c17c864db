//! What fcntl(2) and flock(2) do with a file.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use libc::off_t;
use pvfs_wire::Errno;
use pvfs_wire::ops::LockKind;
use rustix::fs::OFlags;

use crate::{Family, From, Process, Reach, Wanted};

/// fcntl(2) but for duplicating; `real` is for what concerns the descriptor alone.
///
/// # Safety
///
/// `argument` is what the command demands.
pub unsafe fn control(
    process: &Process,
    fd: c_int,
    command: c_int,
    argument: *mut c_void,
    real: impl Fn() -> c_int,
) -> Reach<c_int> {
    let lock = argument.cast::<libc::flock>();
    match command {
        libc::F_GETFD | libc::F_SETFD | libc::F_GETOWN | libc::F_SETOWN => Ok(real()),
        libc::F_GETFL => Ok(process.description(fd)?.flags().bits() as c_int),
        libc::F_SETFL => {
            let flags = OFlags::from_bits_retain(argument.addr() as u32);
            process.set_flags(fd, flags).map(|()| 0)
        }
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
            let wait = matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW);
            // SAFETY: the caller's promise.
            let wanted = wanted(process, fd, family(command), unsafe { &*lock }, wait)?;
            process.lock(fd, wanted).map(|()| 0)
        }
        libc::F_GETLK | libc::F_OFD_GETLK => {
            // SAFETY: the caller's promise.
            let asked = unsafe { &mut *lock };
            let wanted = wanted(process, fd, family(command), asked, false)?;
            asked.l_type = libc::F_UNLCK as i16;
            if let Some(held) = process.test_lock(fd, wanted)? {
                let write = held.kind == LockKind::Write;
                asked.l_type = if write { libc::F_WRLCK } else { libc::F_RDLCK } as i16;
                asked.l_whence = libc::SEEK_SET as i16;
                asked.l_start = held.start as off_t;
                let endless = held.end == u64::MAX;
                asked.l_len = if endless { 0 } else { (held.end - held.start) as off_t };
                asked.l_pid = if command == libc::F_GETLK { held.pid as c_int } else { -1 };
            }
            Ok(0)
        }
        _ => Err(Errno::EINVAL.into()),
    }
}

/// The lock that flock(2) asks for.
pub fn whole_file(operation: c_int) -> Result<Wanted, Errno> {
    let kind = match operation & !libc::LOCK_NB {
        libc::LOCK_SH => LockKind::Read,
        libc::LOCK_EX => LockKind::Write,
        libc::LOCK_UN => LockKind::Unlock,
        _ => return Err(Errno::EINVAL),
    };
    let wait = operation & libc::LOCK_NB == 0;
    Ok(Wanted { family: Family::Whole, kind, start: 0, end: u64::MAX, wait })
}

fn family(command: c_int) -> Family {
    match command {
        libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK => Family::Open,
        _ => Family::Process,
    }
}

fn wanted(
    process: &Process,
    fd: c_int,
    family: Family,
    lock: &libc::flock,
    wait: bool,
) -> Reach<Wanted> {
    let kind = match c_int::from(lock.l_type) {
        libc::F_RDLCK => LockKind::Read,
        libc::F_WRLCK => LockKind::Write,
        libc::F_UNLCK => LockKind::Unlock,
        _ => return Err(Errno::EINVAL.into()),
    };
    let base = match c_int::from(lock.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => process.seek(fd, From::Here, 0)? as off_t,
        libc::SEEK_END => process.stat_open(fd)?.size as off_t,
        _ => return Err(Errno::EINVAL.into()),
    };
    let start = base.checked_add(lock.l_start).ok_or(Errno::EOVERFLOW)?;
    let (start, end) = range(start, lock.l_len)?;
    Ok(Wanted { family, kind, start, end, wait })
}

/// The bytes from `start`, or before it when the length is negative; 0 is all that may come.
pub fn range(start: off_t, length: off_t) -> Result<(u64, u64), Errno> {
    let other = start.checked_add(length).ok_or(Errno::EOVERFLOW)?;
    let first = start.min(other);
    let first = u64::try_from(first).map_err(|_| Errno::EINVAL)?;
    let end = if length == 0 { u64::MAX } else { start.max(other) as u64 };
    Ok((first, end))
}
