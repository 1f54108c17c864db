//! Attributes, times and error numbers, as the kernel wants them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, Generation, INodeNo, TimeOrNow};
use pvfs_client::Error;
use pvfs_net::call::CallError;
use pvfs_wire::attr::{Attr, Extras, FileKind, SizeState, Time};
use pvfs_wire::ops::SetTime;
use pvfs_wire::{Errno, Handle};

/// What stat(2) is to show.
pub fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.handle.object),
        size: attr.size,
        blocks: attr.size.div_ceil(512),
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: system_time(attr.btime),
        kind: file_type(attr.kind),
        perm: (attr.mode & 0o7777) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        // The low 32 bits of makedev's packing are the kernel's own.
        rdev: attr.rdev as u32,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// No object: how the kernel is told that a name is none, or that nothing is said of what it means.
pub fn nobody() -> Attr {
    nominal(Handle::default(), FileKind::Regular)
}

/// What is known of an object whose attributes are not to be had: its name must still be listed.
pub fn nominal(handle: Handle, kind: FileKind) -> Attr {
    let never = Time::default();
    Attr {
        handle,
        kind,
        mode: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        size_state: SizeState::Unsettled,
        atime: never,
        mtime: never,
        ctime: never,
        btime: never,
        change: 0,
        extras: Extras::NONE,
    }
}

/// An object's generation, so that a number means one object for ever.
pub fn generation(handle: Handle) -> Generation {
    Generation(u64::from(handle.generation))
}

/// What an object is.
pub fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::Socket => FileType::Socket,
    }
}

/// What the type bits of mknod's mode mean; nothing but these can be made.
pub fn kind_of_mode(mode: u32) -> Result<FileKind, Errno> {
    match mode & 0o170_000 {
        0 | 0o100_000 => Ok(FileKind::Regular),
        0o010_000 => Ok(FileKind::Fifo),
        0o020_000 => Ok(FileKind::CharDevice),
        0o060_000 => Ok(FileKind::BlockDevice),
        0o140_000 => Ok(FileKind::Socket),
        _ => Err(Errno::EINVAL),
    }
}

/// A time to set.
pub fn set_time(time: TimeOrNow) -> SetTime {
    match time {
        TimeOrNow::Now => SetTime::Now,
        TimeOrNow::SpecificTime(time) => SetTime::At(wire_time(time)),
    }
}

fn system_time(time: Time) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    let nanos = Duration::from_nanos(u64::from(time.nanos.min(999_999_999)));
    second.and_then(|second| second.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
}

fn wire_time(time: SystemTime) -> Time {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => Time {
            seconds: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
            nanos: after.subsec_nanos(),
        },
        Err(before) => {
            // The kernel counts seconds down and nanoseconds up: 0.3 s before the epoch is (-1, 700_000_000).
            // fuser takes both off the epoch, so what it gives us is no such time, but has the kernel's numbers.
            let before = before.duration();
            let seconds = -i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
            Time { seconds, nanos: before.subsec_nanos() }
        }
    }
}

/// The error number a program is given. Numbers that only mean something between daemons are EIO or EACCES.
pub fn kernel_errno(error: &Error) -> fuser::Errno {
    let errno = match error.errno() {
        Errno::ETIMEDOUT | Errno::EPROTO | Errno::ENOKEY | Errno::EHOSTDOWN => Errno::EIO,
        Errno::ENOTCONN | Errno::ECONNRESET | Errno::ECONNABORTED | Errno::ECONNREFUSED => {
            Errno::EIO
        }
        Errno::EKEYEXPIRED | Errno::EKEYREJECTED | Errno::EKEYREVOKED => Errno::EACCES,
        errno => errno,
    };
    fuser::Errno::from_i32(i32::try_from(errno.0).unwrap_or(5))
}

/// Whether a daemon did not answer, as opposed to having refused.
pub fn is_silence(error: &Error) -> bool {
    matches!(error, Error::Call(CallError::Timeout { .. } | CallError::Unreachable { .. }))
}

/// The daemon that did not answer.
pub fn silent_server(error: &Error) -> Option<&str> {
    match error {
        Error::Call(CallError::Timeout { server, .. } | CallError::Unreachable { server, .. }) => {
            Some(server)
        }
        _ => None,
    }
}

/// What programs read and write at once: enough to reach several iods.
const BLOCK_BYTES: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_way_to_the_kernel_and_back() {
        for (seconds, nanos) in [(0, 0), (1, 999_999_999), (-1, 0), (1 << 40, 5), (-(1 << 40), 0)] {
            let time = Time { seconds, nanos };
            assert_eq!(wire_time(system_time(time)), time);
        }
    }

    /// As fuser 0.18 reads a time before 1970 out of a request.
    #[test]
    fn a_time_before_1970_keeps_the_numbers_the_kernel_gave_it() {
        for (seconds, nanos) in [(-1i64, 700_000_000), (-5, 1), (-(1 << 40), 7)] {
            let given = UNIX_EPOCH - Duration::new(seconds.unsigned_abs(), nanos);
            assert_eq!(wire_time(given), Time { seconds, nanos });
        }
    }

    #[test]
    fn an_impossible_time_is_no_panic() {
        for seconds in [i64::MIN, i64::MAX] {
            system_time(Time { seconds, nanos: u32::MAX });
        }
    }

    #[test]
    fn programs_are_given_numbers_they_know() {
        let number = |errno: Errno| kernel_errno(&errno.into());
        assert_eq!(number(Errno::ETIMEDOUT), fuser::Errno::EIO);
        assert_eq!(number(Errno::EKEYREJECTED), fuser::Errno::EACCES);
        assert_eq!(number(Errno::ENOTEMPTY), fuser::Errno::ENOTEMPTY);
        assert_eq!(number(Errno::ENOSPC), fuser::Errno::ENOSPC);
    }

    #[test]
    fn mknod_makes_what_the_mode_says() {
        assert_eq!(kind_of_mode(0o100_644), Ok(FileKind::Regular));
        assert_eq!(kind_of_mode(0o644), Ok(FileKind::Regular));
        assert_eq!(kind_of_mode(0o010_644), Ok(FileKind::Fifo));
        assert_eq!(kind_of_mode(0o040_755), Err(Errno::EINVAL));
    }
}
