//! Attributes as C's `struct stat` has them.

#![allow(unsafe_code)]

use libc::mode_t;
use pvfs_wire::attr::{Attr, FileKind};

/// The type bits of a mode.
pub fn type_bits(kind: FileKind) -> mode_t {
    match kind {
        FileKind::Regular => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::CharDevice => libc::S_IFCHR,
        FileKind::BlockDevice => libc::S_IFBLK,
        FileKind::Socket => libc::S_IFSOCK,
    }
}

/// A device number of no device, the same for all objects of a file system.
pub fn device(fsid: u32) -> libc::dev_t {
    libc::makedev(DEVICE_MAJOR, fsid)
}

/// The attributes as programs see them.
pub fn stat_of(attr: &Attr) -> libc::stat64 {
    // SAFETY: a stat is numbers, for which zeros are valid.
    let mut stat: libc::stat64 = unsafe { std::mem::zeroed() };
    stat.st_dev = device(attr.handle.fsid);
    stat.st_ino = attr.handle.object;
    stat.st_mode = type_bits(attr.kind) | (attr.mode & 0o7777);
    stat.st_nlink = attr.nlink as libc::nlink_t;
    stat.st_uid = attr.uid;
    stat.st_gid = attr.gid;
    stat.st_rdev = attr.rdev;
    stat.st_size = attr.size as i64;
    stat.st_blksize = BLOCK_BYTES as libc::blksize_t;
    stat.st_blocks = attr.blocks() as i64;
    (stat.st_atime, stat.st_atime_nsec) = (attr.atime.seconds, i64::from(attr.atime.nanos));
    (stat.st_mtime, stat.st_mtime_nsec) = (attr.mtime.seconds, i64::from(attr.mtime.nanos));
    (stat.st_ctime, stat.st_ctime_nsec) = (attr.ctime.seconds, i64::from(attr.ctime.nanos));
    stat
}

/// What programs read and write at once: enough to reach several iods.
pub const BLOCK_BYTES: u32 = 1 << 20;

/// The largest that the kernel knows; it gives it to nobody.
pub const DEVICE_MAJOR: u32 = 0xfff;
