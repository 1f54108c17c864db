//! The inode: everything known of one object but its names and extended attributes.

use pvfs_layout::Scheme;
use pvfs_wire::attr::{Attr, Extras, FileKind, SizeState, Striping, Time};
use pvfs_wire::codec::{Bytes, Reader, Wire};
use pvfs_wire::{DecodeError, Errno, Handle};

use super::{Record, RegularFile};
use crate::acl::{AccessList, Lists};

/// One object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Inode {
    /// Permission bits with setuid, setgid and sticky: 0o7777.
    pub mode: u32,
    /// Names it has; of a directory 2 and one for each subdirectory.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of the data.
    pub mtime: Time,
    /// Last change of data or attributes.
    pub ctime: Time,
    /// Creation.
    pub btime: Time,
    /// Grows with every change.
    pub change: u64,
    /// How many extended attributes are stored for it, so that most objects need no search for them.
    pub xattrs: u16,
    /// Who may do more, or less, than the mode says.
    pub lists: Lists,
    /// What only its kind has.
    pub body: Body,
}

/// What only one kind of object has.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Body {
    /// Regular file.
    Regular(RegularFile),
    /// Directory.
    Directory(Directory),
    /// Symbolic link: where it points.
    Symlink(Vec<u8>),
    /// Device, pipe or socket.
    Special {
        /// Which of them.
        kind: FileKind,
        /// Device number.
        rdev: u64,
    },
}

/// What only a directory has.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Directory {
    /// The directory it is in; the root is in itself.
    pub parent: u64,
    /// Names in it.
    pub entries: u64,
    /// Whether names of equal hash were ever in it, so that gaps may have to be swept up.
    pub collided: bool,
    /// Defaults for what is created in it.
    pub striping: Striping,
}

impl Inode {
    /// What it is.
    pub fn kind(&self) -> FileKind {
        match &self.body {
            Body::Regular(_) => FileKind::Regular,
            Body::Directory(_) => FileKind::Directory,
            Body::Symlink(_) => FileKind::Symlink,
            Body::Special { kind, .. } => *kind,
        }
    }

    /// Whether it is a directory.
    pub fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    /// The regular file it is, if it is one.
    pub fn as_file(&self) -> Option<&RegularFile> {
        match &self.body {
            Body::Regular(file) => Some(file),
            _ => None,
        }
    }

    /// The regular file it is, if it is one.
    pub fn as_file_mut(&mut self) -> Option<&mut RegularFile> {
        match &mut self.body {
            Body::Regular(file) => Some(file),
            _ => None,
        }
    }

    /// The directory it is, if it is one.
    pub fn as_directory(&self) -> Option<&Directory> {
        match &self.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    /// The directory it is, if it is one.
    pub fn as_directory_mut(&mut self) -> Option<&mut Directory> {
        match &mut self.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    /// Notes a change of attributes.
    pub fn touch(&mut self, now: Time) {
        self.ctime = now;
        self.change = self.change.wrapping_add(1);
    }

    /// Notes a change of data: of a directory, its names.
    pub fn touch_data(&mut self, now: Time) {
        self.mtime = now;
        self.touch(now);
    }

    /// One name more, or one subdirectory.
    pub fn gain_link(&mut self) -> Result<(), Errno> {
        self.nlink = self.nlink.checked_add(1).ok_or(Errno::EMLINK)?;
        Ok(())
    }

    /// One name less, or one subdirectory.
    pub fn lose_link(&mut self) {
        self.nlink = self.nlink.saturating_sub(1);
    }

    /// What `stat` tells.
    pub fn attr(&self, handle: Handle) -> Attr {
        let (size, size_state) = self.size();
        Attr {
            handle,
            kind: self.kind(),
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: if let Body::Special { rdev, .. } = self.body { rdev } else { 0 },
            size,
            size_state,
            disk_bytes: self.as_file().and_then(|file| file.disk_bytes),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
            change: self.change,
            extras: self.extras(),
        }
    }

    /// What there is to be asked for besides the attributes.
    fn extras(&self) -> Extras {
        Extras::NONE
            .with_if(self.xattrs > 0, Extras::XATTRS)
            .with_if(self.lists.access.is_some(), Extras::ACCESS_LIST)
            .with_if(self.lists.default.is_some(), Extras::DEFAULT_LIST)
    }

    /// Sets the permission bits; with a list, its mask goes with the group's.
    pub fn set_mode(&mut self, mode: u32) {
        self.mode = mode;
        if let Some(list) = &mut self.lists.access {
            list.follow_mode(mode);
        }
    }

    fn size(&self) -> (u64, SizeState) {
        match &self.body {
            Body::Regular(file) => (file.size, file.size_state()),
            Body::Directory(directory) => (directory.entries, SizeState::Settled),
            Body::Symlink(path) => (path.len() as u64, SizeState::Settled),
            Body::Special { .. } => (0, SizeState::Settled),
        }
    }
}

impl Directory {
    /// An empty directory in `parent`.
    pub fn new(parent: u64, striping: Striping) -> Self {
        Self { parent, entries: 0, collided: false, striping }
    }

    /// The distribution chosen for this directory, when one is.
    pub fn scheme(&self) -> Option<Scheme> {
        self.striping.dist.as_deref()?.parse().ok()
    }
}

impl Record for Inode {
    fn put(&self, out: &mut Vec<u8>) {
        self.kind().put(out);
        let access = if self.lists.access.is_some() { HAS_ACCESS_LIST } else { 0 };
        let default = if self.lists.default.is_some() { HAS_DEFAULT_LIST } else { 0 };
        (self.mode as u16 | access | default).put(out);
        for number in [self.nlink, self.uid, self.gid] {
            number.put(out);
        }
        for time in [self.atime, self.mtime, self.ctime, self.btime] {
            time.put(out);
        }
        self.change.put(out);
        self.xattrs.put(out);
        for list in [&self.lists.access, &self.lists.default].into_iter().flatten() {
            list.put(out);
        }
        self.body.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = FileKind::get(from)?;
        let mode = u16::get(from)?;
        let list = |flag: u16, from: &mut Reader<'_>| match mode & flag {
            0 => Ok(None),
            _ => AccessList::get(from).map(Box::new).map(Some),
        };
        Ok(Self {
            mode: u32::from(mode & !(HAS_ACCESS_LIST | HAS_DEFAULT_LIST)),
            nlink: Wire::get(from)?,
            uid: Wire::get(from)?,
            gid: Wire::get(from)?,
            atime: Wire::get(from)?,
            mtime: Wire::get(from)?,
            ctime: Wire::get(from)?,
            btime: Wire::get(from)?,
            change: Wire::get(from)?,
            xattrs: Wire::get(from)?,
            lists: Lists {
                access: list(HAS_ACCESS_LIST, from)?,
                default: list(HAS_DEFAULT_LIST, from)?,
            },
            body: Body::get(kind, from)?,
        })
    }
}

impl Body {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Regular(file) => file.put(out),
            Self::Directory(directory) => directory.put(out),
            Self::Symlink(path) => {
                (path.len() as u32).put(out);
                out.extend_from_slice(path);
            }
            Self::Special { rdev, .. } => rdev.put(out),
        }
    }

    fn get(kind: FileKind, from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match kind {
            FileKind::Regular => Self::Regular(RegularFile::get(from)?),
            FileKind::Directory => Self::Directory(Directory::get(from)?),
            FileKind::Symlink => Self::Symlink(Bytes::get(from)?.0),
            kind => Self::Special { kind, rdev: Wire::get(from)? },
        })
    }
}

impl Directory {
    fn put(&self, out: &mut Vec<u8>) {
        self.parent.put(out);
        self.entries.put(out);
        self.collided.put(out);
        (!self.striping.is_default()).put(out);
        if !self.striping.is_default() {
            self.striping.put(out);
        }
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            parent: Wire::get(from)?,
            entries: Wire::get(from)?,
            collided: Wire::get(from)?,
            striping: Option::get(from)?.unwrap_or_default(),
        })
    }
}

/// Bits of the mode's field that no mode has.
const HAS_ACCESS_LIST: u16 = 0x8000;
const HAS_DEFAULT_LIST: u16 = 0x4000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Truncation, VERSION, Writing};
    use pvfs_layout::{Dist, IodId, IodList};
    use pvfs_wire::attr::Placement;

    fn regular() -> Inode {
        let placement = Placement {
            dist: Dist::simple_stripe(65536, 4).unwrap(),
            iods: IodList::new((0..4).map(IodId)).unwrap(),
        };
        let time = |seconds| Time { seconds, nanos: 5 };
        Inode {
            mode: 0o4755,
            nlink: 1,
            uid: 1000,
            gid: 100,
            atime: time(1),
            mtime: time(2),
            ctime: time(3),
            btime: time(4),
            change: 9,
            xattrs: 2,
            lists: Lists::default(),
            body: Body::Regular(RegularFile::new(placement)),
        }
    }

    fn samples() -> Vec<Inode> {
        let mut written = regular();
        let file = written.as_file_mut().unwrap();
        file.linkable = true;
        file.disk_bytes = Some(4096);
        file.writing = Writing { opens: 3, writers: 2, end: 77, ..Writing::default() };
        file.writing.truncation = Some(Truncation {
            ticket: 5,
            client: 6,
            open: Some(7),
            size: 8,
            began: Time::default(),
            disturbed: true,
        });
        let striping = Striping { ssize: Some(4096), ..Striping::default() };
        let bodies = [
            Body::Directory(Directory::new(1, Striping::default())),
            Body::Directory(Directory::new(1, striping)),
            Body::Symlink(b"../to".to_vec()),
            Body::Special { kind: FileKind::CharDevice, rdev: 0x501 },
        ];
        let others = bodies.into_iter().map(|body| Inode { body, ..regular() });
        // Owner, a named user, group, mask, others.
        let value = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x07\0\x05\0\0\0\
            \x04\0\x04\0\xff\xff\xff\xff\x10\0\x05\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
        let list = AccessList::parse(value).unwrap().map(Box::new);
        let lists = Lists { access: list.clone(), default: list };
        let listed = Inode { lists: Lists { default: None, ..lists.clone() }, ..regular() };
        let body = Body::Directory(Directory::new(1, Striping::default()));
        let listed_directory = Inode { lists, body, ..regular() };
        others.chain([regular(), written, listed, listed_directory]).collect()
    }

    #[test]
    fn the_bytes_of_a_regular_file_are_as_documented() {
        let mut expected = vec![VERSION, 1, 0xed, 0x09];
        for number in [1u32, 1000, 100] {
            expected.extend(number.to_le_bytes());
        }
        for seconds in 1..=4i64 {
            expected.extend(seconds.to_le_bytes());
            expected.extend(5u32.to_le_bytes());
        }
        expected.extend(9u64.to_le_bytes());
        expected.extend([2, 0]);
        expected.extend([0]); // Flags.
        expected.extend([0; 8]); // Size.
        expected.extend([0; 4]); // Layout epoch.
        expected.extend([1, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]); // Four slots of 64 KiB.
        expected.extend([1, 0, 0, 0, 0, 0, 4, 0, 0, 0]); // Iods 0 to 3.
        assert_eq!(regular().encode(), expected);
        assert_eq!(expected.len(), 110);
    }

    #[test]
    fn every_kind_comes_back_and_every_cut_is_refused() {
        for inode in samples() {
            let bytes = inode.encode();
            assert_eq!(Inode::decode(&bytes).as_ref(), Ok(&inode));
            for length in 0..bytes.len() {
                assert!(Inode::decode(&bytes[..length]).is_err(), "{length} of {inode:?}");
            }
        }
    }

    /// Every byte of every sample set to every value: decoded or refused, never a panic.
    #[test]
    fn no_bytes_can_make_decoding_panic() {
        for inode in samples() {
            let bytes = inode.encode();
            for at in 0..bytes.len() {
                for value in 0..=u8::MAX {
                    let mut changed = bytes.clone();
                    changed[at] = value;
                    let _ = Inode::decode(&changed);
                }
            }
        }
    }
}
