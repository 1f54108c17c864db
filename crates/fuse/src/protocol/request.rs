//! Requests: a header, the operation's record, and names or data behind it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pvfs_wire::attr::Time;
use pvfs_wire::codec::{Reader, Wire};
use pvfs_wire::error::DecodeError;
use pvfs_wire::ops::SetTime;
use pvfs_wire::record;

use super::FileHandle;
use super::init::Offer;

/// Who asks, and about which node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asked {
    /// What the answer is sent to; unique among the requests under way.
    pub unique: u64,
    /// The node it is about.
    pub node: u64,
    /// The user.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// Their thread; 0 if it cannot be told.
    pub pid: u32,
}

/// What is asked. Names are as programs gave them, without a slash or zero byte.
#[derive(Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs)]
pub enum Request<'a> {
    /// The first.
    Init(Offer),
    Lookup {
        name: &'a OsStr,
    },
    /// The kernel forgets so many of the times it was told of the node. Not answered.
    Forget {
        lookups: u64,
    },
    /// The like for many nodes: (node, times). Not answered.
    BatchForget(Vec<(u64, u64)>),
    Getattr {
        number: Option<FileHandle>,
    },
    Statx {
        number: Option<FileHandle>,
    },
    Setattr(Setattr),
    Readlink,
    Symlink {
        name: &'a OsStr,
        target: &'a OsStr,
    },
    Mknod {
        name: &'a OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
    },
    Mkdir {
        name: &'a OsStr,
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a OsStr,
    },
    Rmdir {
        name: &'a OsStr,
    },
    Rename {
        name: &'a OsStr,
        new_dir: u64,
        new_name: &'a OsStr,
        flags: u32,
    },
    /// The node asked about is the directory.
    Link {
        node: u64,
        name: &'a OsStr,
    },
    Open {
        flags: u32,
    },
    Create {
        name: &'a OsStr,
        flags: u32,
        mode: u32,
        umask: u32,
    },
    /// A file of the directory without a name.
    Tmpfile {
        flags: u32,
        mode: u32,
        umask: u32,
    },
    Read(ReadIn),
    Write {
        to: WriteIn,
        data: &'a [u8],
    },
    Statfs,
    Release {
        number: FileHandle,
        flock_owner: Option<u64>,
    },
    Fsync {
        number: FileHandle,
    },
    Setxattr {
        name: &'a OsStr,
        value: &'a [u8],
        flags: u32,
    },
    Getxattr {
        name: &'a OsStr,
        room: u32,
    },
    Listxattr {
        room: u32,
    },
    Removexattr {
        name: &'a OsStr,
    },
    Flush {
        number: FileHandle,
        owner: u64,
    },
    Opendir,
    Readdir(ReadIn),
    Readdirplus(ReadIn),
    Releasedir {
        number: FileHandle,
    },
    Fsyncdir,
    Getlk(LockIn),
    Setlk {
        lock: LockIn,
        wait: bool,
    },
    Access {
        wanted: u32,
    },
    Ioctl,
    Fallocate {
        number: FileHandle,
        offset: u64,
        bytes: u64,
        mode: u32,
    },
    Lseek {
        number: FileHandle,
        offset: i64,
        whence: u32,
    },
    CopyFileRange(CopyIn),
    /// The mount ends.
    Destroy,
    /// What we do not know.
    Unknown {
        opcode: u32,
    },
}

/// What setattr is to change; what is absent stays.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[allow(missing_docs)]
pub struct Setattr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
    /// The open file that is resized.
    pub number: Option<FileHandle>,
}

record! {
    /// `struct fuse_in_header`
    #[allow(missing_docs)]
    pub struct InHeader {
        pub bytes: u32,
        pub opcode: u32,
        pub unique: u64,
        pub node: u64,
        pub uid: u32,
        pub gid: u32,
        pub pid: u32,
        pub extensions: u32,
    }
}

record! {
    /// `struct fuse_read_in`, of files and of directories.
    #[allow(missing_docs)]
    pub struct ReadIn {
        pub number: FileHandle,
        pub offset: u64,
        pub bytes: u32,
        pub read_flags: u32,
        pub owner: u64,
        /// As open(2) was given, or changed by fcntl(2).
        pub flags: u32,
        pub padding: u32,
    }
}

record! {
    /// `struct fuse_write_in`
    #[allow(missing_docs)]
    pub struct WriteIn {
        pub number: FileHandle,
        pub offset: u64,
        pub bytes: u32,
        pub write_flags: u32,
        pub owner: u64,
        /// As open(2) was given, or changed by fcntl(2).
        pub flags: u32,
        pub padding: u32,
    }
}

record! {
    /// `struct fuse_lk_in`
    #[allow(missing_docs)]
    pub struct LockIn {
        pub number: FileHandle,
        pub owner: u64,
        /// First byte.
        pub start: u64,
        /// Last byte.
        pub last: u64,
        /// Read, write or unlock, as fcntl(2) numbers them.
        pub kind: i32,
        pub pid: u32,
        pub flags: u32,
        pub padding: u32,
    }
}

record! {
    /// `struct fuse_copy_file_range_in`
    #[allow(missing_docs)]
    pub struct CopyIn {
        pub from: FileHandle,
        pub from_offset: u64,
        pub to_node: u64,
        pub to: FileHandle,
        pub to_offset: u64,
        pub bytes: u64,
        pub flags: u64,
    }
}

record! {
    /// `struct fuse_setattr_in`
    #[allow(missing_docs)]
    pub struct SetattrIn {
        pub valid: u32,
        pub padding: u32,
        pub number: FileHandle,
        pub size: u64,
        pub lock_owner: u64,
        pub seconds: [i64; 3],
        pub nanos: [u32; 3],
        pub mode: u32,
        pub unused4: u32,
        pub uid: u32,
        pub gid: u32,
        pub unused5: u32,
    }
}

impl Wire for FileHandle {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        u64::get(from).map(Self)
    }
}

impl WriteIn {
    /// The data are pages that a program changed in memory.
    pub fn is_of_pages(&self) -> bool {
        self.write_flags & WRITE_CACHE != 0
    }

    /// The file may not stay setuid.
    pub fn kills_privileges(&self) -> bool {
        self.write_flags & WRITE_KILL_SUIDGID != 0
    }
}

impl LockIn {
    /// Whether it is by flock(2). A whole-file lock of fcntl(2) differs in nothing else, and must not be taken for one:
    /// programs that take both (mail delivery does) would deadlock with themselves.
    pub fn is_flock(&self) -> bool {
        self.flags & LK_FLOCK != 0
    }
}

impl SetattrIn {
    fn meaning(&self) -> Setattr {
        let has = |bit: u32| self.valid & bit != 0;
        let time = |which: usize, given: u32, now: u32| {
            let at = Time { seconds: self.seconds[which], nanos: self.nanos[which] };
            has(given).then_some(if has(now) { SetTime::Now } else { SetTime::At(at) })
        };
        Setattr {
            mode: has(FATTR_MODE).then_some(self.mode),
            uid: has(FATTR_UID).then_some(self.uid),
            gid: has(FATTR_GID).then_some(self.gid),
            size: has(FATTR_SIZE).then_some(self.size),
            atime: time(0, FATTR_ATIME, FATTR_ATIME_NOW),
            mtime: time(1, FATTR_MTIME, FATTR_MTIME_NOW),
            number: has(FATTR_FH).then_some(self.number),
        }
    }
}

/// A request from what one read(2) of the device gave.
pub fn parse(bytes: &[u8]) -> Result<(Asked, Request<'_>), DecodeError> {
    let mut body = Body(Reader::new(bytes));
    let InHeader { bytes: length, opcode, unique, node, uid, gid, pid, .. } = body.get()?;
    if length as usize != bytes.len() {
        return Err(DecodeError::Short);
    }
    let asked = Asked { unique, node, uid, gid, pid };
    Ok((asked, body.request(opcode)?))
}

/// What follows the header.
struct Body<'a>(Reader<'a>);

impl<'a> Body<'a> {
    fn get<T: Wire>(&mut self) -> Result<T, DecodeError> {
        T::get(&mut self.0)
    }

    /// A name, up to its zero byte.
    fn name(&mut self) -> Result<&'a OsStr, DecodeError> {
        let rest = self.0.rest();
        let end = rest.iter().position(|byte| *byte == 0).ok_or(DecodeError::Short)?;
        let name = self.0.take(end + 1)?;
        Ok(OsStr::from_bytes(&name[..end]))
    }

    fn request(&mut self, code: u32) -> Result<Request<'a>, DecodeError> {
        Ok(match code {
            opcode::LOOKUP => Request::Lookup { name: self.name()? },
            opcode::FORGET => Request::Forget { lookups: self.get()? },
            opcode::BATCH_FORGET => self.batch_forget()?,
            opcode::GETATTR => Request::Getattr { number: self.number_if_given()? },
            opcode::STATX => Request::Statx { number: self.number_if_given()? },
            opcode::SETATTR => Request::Setattr(self.get::<SetattrIn>()?.meaning()),
            opcode::READLINK => Request::Readlink,
            opcode::SYMLINK => Request::Symlink { name: self.name()?, target: self.name()? },
            opcode::MKNOD => {
                let [mode, rdev, umask, _] = self.get::<[u32; 4]>()?;
                Request::Mknod { name: self.name()?, mode, umask, rdev }
            }
            opcode::MKDIR => {
                let [mode, umask] = self.get::<[u32; 2]>()?;
                Request::Mkdir { name: self.name()?, mode, umask }
            }
            opcode::UNLINK => Request::Unlink { name: self.name()? },
            opcode::RMDIR => Request::Rmdir { name: self.name()? },
            opcode::RENAME => self.rename(false)?,
            opcode::RENAME2 => self.rename(true)?,
            opcode::LINK => Request::Link { node: self.get()?, name: self.name()? },
            opcode::OPEN => Request::Open { flags: self.get()? },
            opcode::CREATE => {
                let [flags, mode, umask, _] = self.get::<[u32; 4]>()?;
                Request::Create { name: self.name()?, flags, mode, umask }
            }
            opcode::TMPFILE => {
                let [flags, mode, umask, _] = self.get::<[u32; 4]>()?;
                Request::Tmpfile { flags, mode, umask }
            }
            opcode::READ => Request::Read(self.get()?),
            opcode::WRITE => {
                let to: WriteIn = self.get()?;
                let data = self.0.take(to.bytes as usize)?;
                Request::Write { to, data }
            }
            _ => return self.more(code),
        })
    }

    fn more(&mut self, code: u32) -> Result<Request<'a>, DecodeError> {
        Ok(match code {
            opcode::STATFS => Request::Statfs,
            opcode::RELEASE => {
                let (number, [_, flags]) = self.get::<(FileHandle, [u32; 2])>()?;
                let owner = self.get()?;
                let flock_owner = (flags & RELEASE_FLOCK_UNLOCK != 0).then_some(owner);
                Request::Release { number, flock_owner }
            }
            opcode::FSYNC => Request::Fsync { number: self.get()? },
            opcode::SETXATTR => {
                let [bytes, flags] = self.get::<[u32; 2]>()?;
                let name = self.name()?;
                Request::Setxattr { name, value: self.0.take(bytes as usize)?, flags }
            }
            opcode::GETXATTR => {
                let [room, _] = self.get::<[u32; 2]>()?;
                Request::Getxattr { name: self.name()?, room }
            }
            opcode::LISTXATTR => Request::Listxattr { room: self.get()? },
            opcode::REMOVEXATTR => Request::Removexattr { name: self.name()? },
            opcode::FLUSH => {
                let (number, [_, owner]) = self.get::<(FileHandle, [u64; 2])>()?;
                Request::Flush { number, owner }
            }
            opcode::OPENDIR => Request::Opendir,
            opcode::READDIR => Request::Readdir(self.get()?),
            opcode::READDIRPLUS => Request::Readdirplus(self.get()?),
            opcode::RELEASEDIR => Request::Releasedir { number: self.get()? },
            opcode::FSYNCDIR => Request::Fsyncdir,
            opcode::GETLK => Request::Getlk(self.get()?),
            opcode::SETLK => Request::Setlk { lock: self.get()?, wait: false },
            opcode::SETLKW => Request::Setlk { lock: self.get()?, wait: true },
            opcode::ACCESS => Request::Access { wanted: self.get()? },
            opcode::IOCTL => Request::Ioctl,
            opcode::FALLOCATE => {
                let (number, [offset, bytes]) = self.get::<(FileHandle, [u64; 2])>()?;
                Request::Fallocate { number, offset, bytes, mode: self.get()? }
            }
            opcode::LSEEK => {
                let (number, offset) = self.get()?;
                Request::Lseek { number, offset, whence: self.get()? }
            }
            opcode::COPY_FILE_RANGE => Request::CopyFileRange(self.get()?),
            opcode::INIT => Request::Init(Offer::parse(self.0.rest())?),
            opcode::DESTROY => Request::Destroy,
            opcode => Request::Unknown { opcode },
        })
    }

    fn batch_forget(&mut self) -> Result<Request<'a>, DecodeError> {
        let [count, _] = self.get::<[u32; 2]>()?;
        // No more than there are bytes for.
        let forgotten = (0..count).map(|_| self.get()).collect::<Result<_, _>>()?;
        Ok(Request::BatchForget(forgotten))
    }

    fn number_if_given(&mut self) -> Result<Option<FileHandle>, DecodeError> {
        let ([flags, _], number) = self.get::<([u32; 2], FileHandle)>()?;
        Ok((flags & GETATTR_FH != 0).then_some(number))
    }

    fn rename(&mut self, has_flags: bool) -> Result<Request<'a>, DecodeError> {
        let new_dir = self.get()?;
        let [flags, _] = if has_flags { self.get()? } else { [0; 2] };
        Ok(Request::Rename { name: self.name()?, new_dir, new_name: self.name()?, flags })
    }
}

#[allow(missing_docs)]
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const ACCESS: u32 = 34;
    pub const CREATE: u32 = 35;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
}

/// `sizeof(struct fuse_in_header)`
pub const HEADER_BYTES: usize = 40;

/// What precedes the data of a write: the header and `struct fuse_write_in`.
pub const BEFORE_DATA_BYTES: usize = HEADER_BYTES + 40;

const FATTR_MODE: u32 = 1 << 0;
const FATTR_UID: u32 = 1 << 1;
const FATTR_GID: u32 = 1 << 2;
const FATTR_SIZE: u32 = 1 << 3;
const FATTR_ATIME: u32 = 1 << 4;
const FATTR_MTIME: u32 = 1 << 5;
const FATTR_FH: u32 = 1 << 6;
const FATTR_ATIME_NOW: u32 = 1 << 7;
const FATTR_MTIME_NOW: u32 = 1 << 8;
const GETATTR_FH: u32 = 1 << 0;
const WRITE_CACHE: u32 = 1 << 0;
const WRITE_KILL_SUIDGID: u32 = 1 << 2;
const RELEASE_FLOCK_UNLOCK: u32 = 1 << 1;
const LK_FLOCK: u32 = 1 << 0;

#[cfg(test)]
mod tests {
    use super::*;

    /// A request as the kernel sends it.
    fn sent(code: u32, body: &[u8]) -> Vec<u8> {
        let bytes = (HEADER_BYTES + body.len()) as u32;
        let header = InHeader {
            bytes,
            opcode: code,
            unique: 2,
            node: 77,
            uid: 1000,
            gid: 100,
            pid: 4242,
            extensions: 0,
        };
        [header.to_bytes(), body.to_vec()].concat()
    }

    fn parsed(code: u32, body: &[u8]) -> Request<'static> {
        let bytes: &'static [u8] = sent(code, body).leak();
        let (asked, request) = parse(bytes).unwrap();
        let expected = Asked { unique: 2, node: 77, uid: 1000, gid: 100, pid: 4242 };
        assert_eq!(asked, expected);
        request
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn names_end_at_their_zero_bytes() {
        let lookup = parsed(opcode::LOOKUP, b"a name\0");
        assert_eq!(lookup, Request::Lookup { name: name("a name") });
        let symlink = parsed(opcode::SYMLINK, b"link\0../target\0");
        assert_eq!(symlink, Request::Symlink { name: name("link"), target: name("../target") });
        let body = [&words(&[9, 1])[..], b"old\0new\0"].concat();
        let expected =
            Request::Rename { name: name("old"), new_dir: 9, new_name: name("new"), flags: 1 };
        assert_eq!(parsed(opcode::RENAME2, &body), expected);
    }

    #[test]
    fn what_is_not_given_is_not_changed() {
        let mut body = vec![0u8; 88];
        assert_eq!(parsed(opcode::SETATTR, &body), Request::Setattr(Setattr::default()));
        let valid = FATTR_MODE | FATTR_SIZE | FATTR_MTIME | FATTR_ATIME | FATTR_ATIME_NOW;
        body[..4].copy_from_slice(&valid.to_le_bytes());
        body[16..24].copy_from_slice(&4096u64.to_le_bytes());
        // 0.3 s before 1970, as the kernel counts: seconds down, nanoseconds up.
        body[40..48].copy_from_slice(&(-1i64).to_le_bytes());
        body[60..64].copy_from_slice(&700_000_000u32.to_le_bytes());
        body[68..72].copy_from_slice(&0o600u32.to_le_bytes());
        let expected = Setattr {
            mode: Some(0o600),
            size: Some(4096),
            atime: Some(SetTime::Now),
            mtime: Some(SetTime::At(Time { seconds: -1, nanos: 700_000_000 })),
            ..Setattr::default()
        };
        assert_eq!(parsed(opcode::SETATTR, &body), Request::Setattr(expected));
    }

    #[test]
    fn data_are_what_follows_the_record() {
        let mut body = words(&[5, 4096, 3, 0, 0]);
        body[20] = WRITE_CACHE as u8;
        body.extend(b"abc");
        let Request::Write { to, data } = parsed(opcode::WRITE, &body) else { panic!() };
        assert_eq!((to.number, to.offset, to.bytes, data), (FileHandle(5), 4096, 3, &b"abc"[..]));
        assert!(to.is_of_pages() && !to.kills_privileges());
        assert_eq!(sent(opcode::WRITE, &body).len() - 3, BEFORE_DATA_BYTES);
    }

    #[test]
    fn the_two_families_of_locks_are_told_apart() {
        let mut body = words(&[5, 42, 0, i64::MAX as u64, 1, 0]);
        let Request::Setlk { lock, wait: true } = parsed(opcode::SETLKW, &body) else { panic!() };
        assert!(!lock.is_flock());
        assert_eq!((lock.owner, lock.start, lock.last, lock.kind), (42, 0, i64::MAX as u64, 1));
        body[40] = LK_FLOCK as u8;
        let Request::Setlk { lock, wait: false } = parsed(opcode::SETLK, &body) else { panic!() };
        assert!(lock.is_flock());
    }

    #[test]
    fn the_owner_of_a_flock_is_given_only_when_it_is_to_go() {
        let release = |flags: u64| parsed(opcode::RELEASE, &words(&[5, flags << 32, 42]));
        let number = FileHandle(5);
        assert_eq!(release(0), Request::Release { number, flock_owner: None });
        assert_eq!(release(2), Request::Release { number, flock_owner: Some(42) });
    }

    #[test]
    fn a_newer_kernel_may_ask_what_we_do_not_know() {
        assert_eq!(parsed(9999, b"whatever"), Request::Unknown { opcode: 9999 });
    }

    /// The kernel is trusted, and yet nothing it could send may end a mount.
    #[test]
    fn what_ends_too_early_is_refused() {
        for code in 0..64 {
            for bytes in 0..96 {
                let whole = sent(code, &vec![0xff; bytes]);
                let _ = parse(&whole);
                assert_eq!(parse(&whole[..whole.len() - 1]), Err(DecodeError::Short));
            }
        }
        assert_eq!(parse(&sent(opcode::LOOKUP, b"no end")), Err(DecodeError::Short));
        let many = [u64::from(u32::MAX), 1, 1];
        assert_eq!(parse(&sent(opcode::BATCH_FORGET, &words(&many))), Err(DecodeError::Short));
        let far = words(&[5, 0, 1 << 20, 0, 0]);
        assert_eq!(parse(&sent(opcode::WRITE, &far)), Err(DecodeError::Short));
    }
}
