//! Attributes of an object and where its data lie.

use pvfs_layout::{Dist, Distribution, IodList, Regions};

use crate::codec::{Reader, Wire};
use crate::error::DecodeError;
use crate::handle::Handle;
use crate::{bits, choice, record};

choice! {
    /// What an object is.
    pub enum FileKind {
        /// Regular file, striped over iods.
        Regular = 1,
        /// Directory.
        Directory = 2,
        /// Symbolic link.
        Symlink = 3,
        /// Named pipe.
        Fifo = 4,
        /// Character device.
        CharDevice = 5,
        /// Block device.
        BlockDevice = 6,
        /// Socket.
        Socket = 7,
    }
}

record! {
    /// A point in time, since the epoch.
    #[derive(Copy, Default, Ord, PartialOrd, Hash)]
    pub struct Time {
        /// Seconds; negative before 1970.
        pub seconds: i64,
        /// Nanoseconds within the second, 0..1_000_000_000.
        pub nanos: u32,
    }
}

impl Time {
    /// As nanoseconds since the epoch, saturating.
    pub fn as_nanos(self) -> i64 {
        self.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(self.nanos))
    }

    /// From nanoseconds since the epoch.
    pub fn from_nanos(nanos: i64) -> Self {
        Self {
            seconds: nanos.div_euclid(1_000_000_000),
            nanos: nanos.rem_euclid(1_000_000_000) as u32,
        }
    }
}

choice! {
    /// Who knows the size of a regular file.
    pub enum SizeState {
        /// The manager: nobody has it open for writing, `size` and `mtime` are exact.
        Settled = 0,
        /// The iods: `size` is the last one settled; ask them for local sizes.
        Unsettled = 1,
        /// The iods, and nobody writes it any more: its last writer died. Whoever asks them may tell
        /// the manager, with [`crate::ops::Settle`].
        Abandoned = 2,
        /// Whoever has the only open for writing, and adds what was written through it: `size` is what it was when that
        /// began. Else the iods.
        Alone = 3,
    }
}

record! {
    /// Everything `stat` tells and a little more.
    #[derive(Copy)]
    pub struct Attr {
        /// The object.
        pub handle: Handle,
        /// What it is.
        pub kind: FileKind,
        /// Permission bits with setuid, setgid and sticky: 0o7777.
        pub mode: u32,
        /// Names it has.
        pub nlink: u32,
        /// Owner.
        pub uid: u32,
        /// Group.
        pub gid: u32,
        /// Device number of a special file, as `makedev` packs it.
        pub rdev: u64,
        /// Bytes: of a file's data, a symlink's target, or a directory's entries (a nominal figure).
        pub size: u64,
        /// Whether `size` and `mtime` of a regular file are exact.
        pub size_state: SizeState,
        /// Bytes of disk that a regular file takes, where its size does not tell them: it has holes, or space set aside
        /// beyond its end ([`Placement::disk_figure`]).
        pub disk_bytes: Option<u64>,
        /// Last access, kept lazily.
        pub atime: Time,
        /// Last change of the data.
        pub mtime: Time,
        /// Last change of data or attributes.
        pub ctime: Time,
        /// Creation.
        pub btime: Time,
        /// Grows with every change the manager sees.
        pub change: u64,
        /// What there is besides.
        pub extras: Extras,
    }
}

impl Attr {
    /// What it takes on disks, in the 512 bytes that `st_blocks` counts.
    pub fn blocks(&self) -> u64 {
        self.disk_bytes.unwrap_or(self.size).div_ceil(512)
    }
}

bits! {
    /// What an object has that attributes do not tell, so that nobody asks in vain.
    pub struct Extras {
        /// Extended attributes.
        XATTRS = 1,
        /// A list of who may use it, besides the mode.
        ACCESS_LIST = 2,
        /// A list for what is created in it.
        DEFAULT_LIST = 4,
    }
}

record! {
    /// How a regular file is dealt, and to whom.
    pub struct Placement {
        /// The arithmetic.
        pub dist: Dist,
        /// The iods, in slot order.
        pub iods: IodList,
    }
}

impl Placement {
    /// The size of the file whose objects have these local sizes, in slot order. A local size that
    /// no file can have (a damaged or hostile iod) counts as the largest file.
    pub fn file_size(&self, local_sizes: &[u64]) -> u64 {
        self.dist.file_size(local_sizes).unwrap_or(pvfs_layout::FILE_SIZE_MAX)
    }

    /// What there is to tell of the disk that a file of this size takes: nothing, when it is what a file without
    /// holes takes. Their sizes tell it of those, so that most files need no figure.
    pub fn disk_figure(&self, size: u64, disk_bytes: u64) -> Option<u64> {
        let rounding = u64::from(self.iods.len()) * OBJECT_ROUNDING_BYTES_MAX;
        let dense = size..=size.saturating_add(rounding);
        (!dense.contains(&disk_bytes)).then_some(disk_bytes)
    }
}

record! {
    /// What the creator of a file wishes for; what is absent comes from the directory, then from the
    /// file system. As in PVFS 1, `base` and `pcount` count iods of the cluster's ordered list.
    #[derive(Default)]
    pub struct Striping {
        /// First iod.
        pub base: Option<u32>,
        /// How many iods.
        pub pcount: Option<u32>,
        /// Strip size in bytes.
        pub ssize: Option<u64>,
        /// Distribution in its textual form, when not simple_stripe.
        pub dist: Option<String>,
    }
}

impl Striping {
    /// Nothing wished for.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

record! {
    /// A name in a directory.
    pub struct Entry {
        /// The name.
        pub name: crate::codec::Bytes,
        /// Where to go on after this entry.
        pub cookie: u64,
        /// The object it names.
        pub handle: Handle,
        /// What that is.
        pub kind: FileKind,
        /// Its attributes, when asked for.
        pub attr: Option<Attr>,
        /// Where its data lie, when its size has to be asked from iods.
        pub placement: Option<Placement>,
    }
}

/// Lets a value of `pvfs_layout`, which has its own stable bytes, travel as a field.
macro_rules! layout_value {
    ($kind:ty, $($cap:expr)?) => {
        impl Wire for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                self.encode(out);
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let decoded = <$kind>::decode(from.rest() $(, $cap)?);
                let (value, rest) = decoded.map_err(|_| DecodeError::Value)?;
                from.set_rest(rest);
                Ok(value)
            }
        }
    };
}
layout_value!(Dist,);
layout_value!(IodList, IODS_MAX);
layout_value!(Regions, REGIONS_MAX);

/// How much more than its local size an object without holes takes: its last block, and one that says where its
/// blocks are.
const OBJECT_ROUNDING_BYTES_MAX: u64 = 8 << 10;

/// Iods one file may be dealt to.
pub const IODS_MAX: u32 = 1 << 16;

/// Regions one request may list; a longer list is sent as several requests.
pub const REGIONS_MAX: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_layout::IodId;

    #[test]
    fn a_file_without_holes_needs_no_figure() {
        let placement = Placement {
            dist: Dist::simple_stripe(65536, 4).unwrap(),
            iods: IodList::new((0..4).map(IodId)).unwrap(),
        };
        let told = |size, disk_bytes| placement.disk_figure(size, disk_bytes);
        assert_eq!([told(0, 0), told(1, 4096), told(100_000, 114_688)], [None; 3]);
        assert_eq!(told(1 << 20, (1 << 20) - 4096), Some((1 << 20) - 4096), "a hole");
        assert_eq!(told(10, 1 << 20), Some(1 << 20), "set aside beyond the end");
        assert_eq!(told(10, 0), Some(0));
        assert_eq!(told(u64::MAX, u64::MAX), None, "what nobody can have is no reason to fail");
    }
}
