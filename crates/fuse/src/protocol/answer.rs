//! Answers: a header with an error number or none, and the operation's record.

use std::time::Duration;

use pvfs_wire::attr::Time;
use pvfs_wire::codec::Wire;
use pvfs_wire::record;
use pvfs_wire::{Errno, bits};

use super::FileHandle;

record! {
    /// `struct fuse_attr`
    #[derive(Copy)]
    #[allow(missing_docs)]
    pub struct Attributes {
        pub node: u64,
        pub size: u64,
        /// Of 512 bytes.
        pub blocks: u64,
        pub atime_seconds: i64,
        pub mtime_seconds: i64,
        pub ctime_seconds: i64,
        pub atime_nanos: u32,
        pub mtime_nanos: u32,
        pub ctime_nanos: u32,
        /// Kind and permissions.
        pub mode: u32,
        pub nlink: u32,
        pub uid: u32,
        pub gid: u32,
        pub rdev: u32,
        pub block_bytes: u32,
        pub flags: u32,
    }
}

record! {
    /// `struct fuse_entry_out`: what a name means, and how long that and the attributes hold.
    #[allow(missing_docs)]
    pub struct EntryOut {
        /// 0 for nothing.
        pub node: u64,
        pub generation: u64,
        pub name_holds_seconds: u64,
        pub attr_holds_seconds: u64,
        pub name_holds_nanos: u32,
        pub attr_holds_nanos: u32,
        pub attr: Attributes,
    }
}

record! {
    /// `struct fuse_attr_out`
    #[allow(missing_docs)]
    pub struct AttrOut {
        pub holds_seconds: u64,
        pub holds_nanos: u32,
        pub padding: u32,
        pub attr: Attributes,
    }
}

bits! {
    /// What the kernel is to do with what it keeps of an open file or directory.
    pub struct Kept {
        /// Its pages are gone past.
        DIRECT_IO = 1 << 0,
        /// Its pages hold what the file holds.
        KEEP_CACHE = 1 << 1,
        /// The listing may be kept.
        CACHE_DIR = 1 << 3,
        /// Several direct writes at a time.
        PARALLEL_DIRECT_WRITES = 1 << 6,
    }
}

record! {
    /// `struct fuse_open_out`
    #[allow(missing_docs)]
    pub struct OpenOut {
        pub number: FileHandle,
        pub kept: Kept,
        pub backing: u32,
    }
}

record! {
    /// `struct fuse_write_out`, and `struct fuse_getxattr_out`, which is laid out alike.
    #[allow(missing_docs)]
    pub struct CountOut {
        pub bytes: u32,
        pub padding: u32,
    }
}

record! {
    /// `struct fuse_kstatfs`
    #[allow(missing_docs)]
    pub struct StatfsOut {
        /// Of `fragment_bytes`.
        pub blocks: u64,
        pub blocks_free: u64,
        pub blocks_available: u64,
        pub files: u64,
        pub files_free: u64,
        pub block_bytes: u32,
        pub name_bytes_max: u32,
        pub fragment_bytes: u32,
        pub padding: u32,
        pub spare: [u32; 6],
    }
}

record! {
    /// `struct fuse_lk_out`
    #[allow(missing_docs)]
    pub struct LockOut {
        pub start: u64,
        pub last: u64,
        pub kind: i32,
        pub pid: u32,
    }
}

record! {
    /// `struct fuse_sx_time`
    #[allow(missing_docs)]
    pub struct StatxTime {
        pub seconds: i64,
        pub nanos: u32,
        pub reserved: u32,
    }
}

record! {
    /// `struct fuse_statx_out`, with the `struct fuse_statx` that it ends with.
    #[allow(missing_docs)]
    pub struct StatxOut {
        pub holds_seconds: u64,
        pub holds_nanos: u32,
        pub flags: u32,
        pub spare: [u64; 2],
        /// Which of the fields are told, as statx(2) counts them.
        pub told: u32,
        pub block_bytes: u32,
        pub attributes: u64,
        pub nlink: u32,
        pub uid: u32,
        pub gid: u32,
        pub mode: u16,
        pub spare0: u16,
        pub node: u64,
        pub size: u64,
        pub blocks: u64,
        pub attributes_known: u64,
        pub atime: StatxTime,
        pub btime: StatxTime,
        pub ctime: StatxTime,
        pub mtime: StatxTime,
        pub rdev_major: u32,
        pub rdev_minor: u32,
        pub dev_major: u32,
        pub dev_minor: u32,
        pub spare2: [u64; 14],
    }
}

impl EntryOut {
    /// An object, how long its name means it and how long its attributes are these.
    pub fn new(
        attr: Attributes,
        generation: u64,
        name_holds: Duration,
        attr_holds: Duration,
    ) -> Self {
        Self {
            node: attr.node,
            generation,
            name_holds_seconds: name_holds.as_secs(),
            attr_holds_seconds: attr_holds.as_secs(),
            name_holds_nanos: name_holds.subsec_nanos(),
            attr_holds_nanos: attr_holds.subsec_nanos(),
            attr,
        }
    }
}

impl AttrOut {
    /// Attributes, and how long they hold.
    pub fn new(attr: Attributes, holds: Duration) -> Self {
        let (holds_seconds, holds_nanos) = (holds.as_secs(), holds.subsec_nanos());
        Self { holds_seconds, holds_nanos, padding: 0, attr }
    }
}

impl StatxOut {
    /// Attributes with the time of birth.
    pub fn new(attr: &Attributes, born: Time, holds: Duration) -> Self {
        let time = |seconds, nanos| StatxTime { seconds, nanos, reserved: 0 };
        Self {
            holds_seconds: holds.as_secs(),
            holds_nanos: holds.subsec_nanos(),
            flags: 0,
            spare: [0; 2],
            told: STATX_BASIC_STATS | STATX_BTIME,
            block_bytes: attr.block_bytes,
            attributes: 0,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            mode: attr.mode as u16,
            spare0: 0,
            node: attr.node,
            size: attr.size,
            blocks: attr.blocks,
            attributes_known: 0,
            atime: time(attr.atime_seconds, attr.atime_nanos),
            btime: time(born.seconds, born.nanos),
            ctime: time(attr.ctime_seconds, attr.ctime_nanos),
            mtime: time(attr.mtime_seconds, attr.mtime_nanos),
            // The packing of makedev(3), of which the kernel has 32 bits.
            rdev_major: attr.rdev >> 8 & 0xfff,
            rdev_minor: attr.rdev & 0xff | attr.rdev >> 12 & 0xf_ff00,
            dev_major: 0,
            dev_minor: 0,
            spare2: [0; 14],
        }
    }
}

impl OpenOut {
    /// An open file or directory.
    pub fn new(number: FileHandle, kept: Kept) -> Self {
        Self { number, kept, backing: 0 }
    }
}

impl CountOut {
    /// So many bytes.
    pub fn new(bytes: u32) -> Self {
        Self { bytes, padding: 0 }
    }
}

/// What precedes what is sent: its length with this, whose answer it is, and 0 or the number of an error. What nobody asked for
/// is nobody's (0), and the number says what it is.
pub fn header(unique: u64, number: i32, body_bytes: usize) -> Vec<u8> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    ((HEADER_BYTES + body_bytes) as u32).put(&mut header);
    number.put(&mut header);
    unique.put(&mut header);
    header
}

/// How an error is told.
pub fn error_number(errno: Errno) -> i32 {
    -(errno.0 as i32)
}

/// `sizeof(struct fuse_out_header)`
const HEADER_BYTES: usize = 16;

const STATX_BASIC_STATS: u32 = 0x7ff;
const STATX_BTIME: u32 = 0x800;

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Attributes {
        Attributes {
            node: 9,
            size: 5,
            blocks: 1,
            atime_seconds: -1,
            mtime_seconds: 2,
            ctime_seconds: 3,
            atime_nanos: 10,
            mtime_nanos: 20,
            ctime_nanos: 30,
            mode: 0o100_644,
            nlink: 1,
            uid: 4,
            gid: 5,
            rdev: 0x1234_5678,
            block_bytes: 4096,
            flags: 0,
        }
    }

    /// The kernel refuses answers of any other length.
    #[test]
    fn records_have_the_sizes_that_the_kernel_expects() {
        let second = Duration::from_secs(1);
        assert_eq!(attributes().to_bytes().len(), 88);
        assert_eq!(EntryOut::new(attributes(), 1, second, second).to_bytes().len(), 128);
        assert_eq!(AttrOut::new(attributes(), second).to_bytes().len(), 104);
        assert_eq!(OpenOut::new(FileHandle(1), Kept::NONE).to_bytes().len(), 16);
        let born = Time { seconds: 7, nanos: 8 };
        assert_eq!(StatxOut::new(&attributes(), born, second).to_bytes().len(), 288);
        assert_eq!(LockOut { start: 0, last: 1, kind: 2, pid: 3 }.to_bytes().len(), 24);
    }

    #[test]
    fn a_device_number_is_taken_apart() {
        let born = Time { seconds: 7, nanos: 8 };
        let out = StatxOut::new(&attributes(), born, Duration::ZERO);
        assert_eq!((out.rdev_major, out.rdev_minor), (0x456, 0x1_2378));
        assert_eq!((out.btime.seconds, out.btime.nanos), (7, 8));
    }

    #[test]
    fn an_error_is_told_as_a_negative_number() {
        let bytes = header(7, error_number(Errno::ENOENT), 0);
        assert_eq!(bytes, [16, 0, 0, 0, 254, 255, 255, 255, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(header(7, 0, 4)[..8], [20, 0, 0, 0, 0, 0, 0, 0]);
    }
}
