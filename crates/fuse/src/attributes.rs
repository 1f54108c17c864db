//! Attributes, times and error numbers, as the kernel wants them.

use pvfs_client::Error;
use pvfs_net::call::CallError;
use pvfs_wire::attr::{Attr, Extras, FileKind, SizeState, Time};
use pvfs_wire::{Errno, Handle};

use crate::protocol::Attributes;

/// What stat(2) is to show.
pub fn file_attr(attr: &Attr) -> Attributes {
    Attributes {
        node: attr.handle.object,
        size: attr.size,
        blocks: attr.blocks(),
        atime_seconds: attr.atime.seconds,
        mtime_seconds: attr.mtime.seconds,
        ctime_seconds: attr.ctime.seconds,
        atime_nanos: attr.atime.nanos,
        mtime_nanos: attr.mtime.nanos,
        ctime_nanos: attr.ctime.nanos,
        mode: kind_bits(attr.kind) | attr.mode & 0o7777,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        // The low 32 bits of makedev's packing are the kernel's own.
        rdev: attr.rdev as u32,
        block_bytes: BLOCK_BYTES,
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
        disk_bytes: None,
        atime: never,
        mtime: never,
        ctime: never,
        btime: never,
        change: 0,
        extras: Extras::NONE,
    }
}

/// An object's generation, so that a number means one object for ever.
pub fn generation(handle: Handle) -> u64 {
    u64::from(handle.generation)
}

/// What an object is, as bits of a mode.
pub fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Fifo => 0o010_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::Directory => 0o040_000,
        FileKind::BlockDevice => 0o060_000,
        FileKind::Regular => 0o100_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Socket => 0o140_000,
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

/// The error number a program is given. Numbers that only mean something between daemons are EIO or EACCES.
pub fn kernel_errno(error: &Error) -> Errno {
    match error.errno() {
        Errno::ETIMEDOUT | Errno::EPROTO | Errno::ENOKEY | Errno::EHOSTDOWN => Errno::EIO,
        Errno::ENOTCONN | Errno::ECONNRESET | Errno::ECONNABORTED | Errno::ECONNREFUSED => {
            Errno::EIO
        }
        Errno::EKEYEXPIRED | Errno::EKEYREJECTED | Errno::EKEYREVOKED => Errno::EACCES,
        // The kernel takes no others, and would leave whoever asked waiting.
        errno if !(1..512).contains(&errno.0) => Errno::EIO,
        errno => errno,
    }
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
    fn programs_are_given_numbers_they_know() {
        let number = |errno: Errno| kernel_errno(&errno.into());
        assert_eq!(number(Errno::ETIMEDOUT), Errno::EIO);
        assert_eq!(number(Errno::EKEYREJECTED), Errno::EACCES);
        assert_eq!(number(Errno::ENOTEMPTY), Errno::ENOTEMPTY);
        assert_eq!(number(Errno::ENOSPC), Errno::ENOSPC);
        assert_eq!(number(Errno(512)), Errno::EIO);
        assert_eq!(number(Errno(0)), Errno::EIO);
    }

    #[test]
    fn blocks_are_what_disks_hold_or_what_the_size_makes_one_expect() {
        let blocks = |size, disk_bytes| {
            let attr = nominal(Handle::default(), FileKind::Regular);
            file_attr(&Attr { size, disk_bytes, ..attr }).blocks
        };
        assert_eq!([blocks(0, None), blocks(1, None), blocks(513, None)], [0, 1, 2]);
        assert_eq!([blocks(1 << 30, Some(0)), blocks(1 << 30, Some(4096))], [0, 8]);
        assert_eq!(blocks(u64::MAX, None), 1 << 55);
        assert_eq!(blocks(5, Some(u64::MAX)), 1 << 55);
    }

    #[test]
    fn a_kind_is_told_as_mknod_would_be() {
        use FileKind::{BlockDevice, CharDevice, Fifo, Regular, Socket};
        for kind in [Regular, Fifo, CharDevice, BlockDevice, Socket] {
            assert_eq!(kind_of_mode(kind_bits(kind)), Ok(kind));
        }
    }

    #[test]
    fn mknod_makes_what_the_mode_says() {
        assert_eq!(kind_of_mode(0o100_644), Ok(FileKind::Regular));
        assert_eq!(kind_of_mode(0o644), Ok(FileKind::Regular));
        assert_eq!(kind_of_mode(0o010_644), Ok(FileKind::Fifo));
        assert_eq!(kind_of_mode(0o040_755), Err(Errno::EINVAL));
    }
}
