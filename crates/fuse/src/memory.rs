//! A file system in this process's memory: the limit that a mount is measured against.
//!
//! It agrees the same things with the kernel and decides the same way about the page cache, so that what a
//! PVFS mount is slower by is what PVFS does, and not what FUSE costs.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::OFlags;

use crate::kernel::{agree, flags_of, open_flags, through};
use crate::options::{Cache, Direct, MountOptions};
use crate::pages::{Caching, Through};
use crate::session::{MountError, Session, mount_point, serve};
use crate::table::KIND_MEMORY;

/// A file system that forgets everything when it is unmounted. Files, directories and symlinks only.
pub struct MemoryFs {
    options: MountOptions,
    nodes: RwLock<HashMap<u64, Arc<Node>>>,
    next: AtomicU64,
}

struct Node {
    attr: RwLock<FileAttr>,
    content: RwLock<Content>,
}

enum Content {
    File(Vec<u8>),
    Directory(Names),
    Symlink(Vec<u8>),
}

/// The names of a directory: by name, and by the offset at which they are listed.
#[derive(Default)]
struct Names {
    by_name: HashMap<OsString, (u64, u64)>,
    by_offset: BTreeMap<u64, (OsString, u64)>,
    next_offset: u64,
}

/// Mounts an empty in-memory file system.
pub fn mount_memory(directory: &Path, options: MountOptions) -> Result<Session, MountError> {
    let directory = mount_point(directory)?;
    let checks = options.cache != Cache::None;
    serve(MemoryFs::new(options.clone()), directory, KIND_MEMORY, &options, checks, |_| Ok(()))
}

impl MemoryFs {
    /// An empty file system.
    pub fn new(options: MountOptions) -> Self {
        let root =
            Node::new(1, FileType::Directory, 0o777, (0, 0), Content::Directory(Names::default()));
        let nodes = RwLock::new(HashMap::from([(1, Arc::new(root))]));
        Self { options, nodes, next: AtomicU64::new(2) }
    }

    fn node(&self, number: INodeNo) -> Result<Arc<Node>, Errno> {
        read(&self.nodes).get(&number.0).cloned().ok_or(Errno::ESTALE)
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<Arc<Node>, Errno> {
        let parent = self.node(parent)?;
        let number = parent.names(|names| names.by_name.get(name).map(|found| found.1))?;
        self.node(INodeNo(number.ok_or(Errno::ENOENT)?))
    }

    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        kind: FileType,
        mode: u32,
        content: Content,
    ) -> Result<FileAttr, Errno> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let owner = (request.uid(), request.gid());
        let node = Arc::new(Node::new(number, kind, mode as u16 & 0o7777, owner, content));
        let attr = node.attr();
        // Before the name, so that whoever finds the name finds the node.
        write(&self.nodes).insert(number, node);
        self.node(parent)?.names_mut(|names| names.add(name, number))??;
        Ok(attr)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, directory: bool) -> Result<(), Errno> {
        let node = self.find(parent, name)?;
        let empty = node.names(|names| names.by_name.is_empty());
        match (directory, empty) {
            (true, Ok(false)) => return Err(Errno::ENOTEMPTY),
            (true, Err(_)) => return Err(Errno::ENOTDIR),
            (false, Ok(_)) => return Err(Errno::EISDIR),
            _ => {}
        }
        self.node(parent)?.names_mut(|names| names.remove(name))?;
        write(&node.attr).nlink = 0;
        Ok(())
    }

    fn rename(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        if !flags.is_empty() {
            return Err(Errno::EINVAL);
        }
        let moved = self.find(from.0, from.1)?.attr().ino.0;
        self.node(from.0)?.names_mut(|names| names.remove(from.1))?;
        self.node(to.0)?.names_mut(|names| {
            names.remove(to.1);
            names.add(to.1, moved)
        })?
    }

    fn resize(&self, number: INodeNo, size: u64) -> Result<(), Errno> {
        let node = self.node(number)?;
        let mut content = write(&node.content);
        let Content::File(data) = &mut *content else { return Err(Errno::EISDIR) };
        data.resize(size as usize, 0);
        resized(&mut write(&node.attr), size);
        Ok(())
    }

    fn write_at(
        &self,
        number: INodeNo,
        offset: u64,
        bytes: &[u8],
        append: bool,
    ) -> Result<(), Errno> {
        let node = self.node(number)?;
        let mut content = write(&node.content);
        let Content::File(data) = &mut *content else { return Err(Errno::EISDIR) };
        let start = if append { data.len() } else { offset as usize };
        let end = start + bytes.len();
        if start > data.len() {
            data.resize(start, 0);
        }
        let overwritten = data.len().min(end) - start;
        data[start..start + overwritten].copy_from_slice(&bytes[..overwritten]);
        data.extend_from_slice(&bytes[overwritten..]);
        let size = data.len() as u64;
        resized(&mut write(&node.attr), size);
        Ok(())
    }

    fn timeout(&self) -> Duration {
        self.options.cache.timeout()
    }

    fn entry(&self, reply: ReplyEntry, found: Result<FileAttr, Errno>) {
        match found {
            Ok(attr) => reply.entry(&self.timeout(), &attr, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn attr(&self, reply: ReplyAttr, found: Result<FileAttr, Errno>) {
        match found {
            Ok(attr) => reply.attr(&self.timeout(), &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn list(
        &self,
        directory: INodeNo,
        offset: u64,
        mut add: impl FnMut(u64, &OsStr, &FileAttr) -> bool,
    ) -> Result<(), Errno> {
        let directory = self.node(directory)?;
        directory.names(|names| {
            for (offset, (name, number)) in names.by_offset.range(offset + 1..) {
                let Ok(node) = self.node(INodeNo(*number)) else { continue };
                if add(*offset, name, &node.attr()) {
                    break;
                }
            }
        })
    }
}

impl Node {
    fn new(number: u64, kind: FileType, perm: u16, owner: (u32, u32), content: Content) -> Self {
        let now = SystemTime::now();
        let attr = FileAttr {
            ino: INodeNo(number),
            size: 0,
            blocks: 0,
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind,
            perm,
            nlink: 1,
            uid: owner.0,
            gid: owner.1,
            rdev: 0,
            blksize: 1 << 20,
            flags: 0,
        };
        Self { attr: RwLock::new(attr), content: RwLock::new(content) }
    }

    fn attr(&self) -> FileAttr {
        *read(&self.attr)
    }

    fn names<T>(&self, look: impl FnOnce(&Names) -> T) -> Result<T, Errno> {
        match &*read(&self.content) {
            Content::Directory(names) => Ok(look(names)),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn names_mut<T>(&self, change: impl FnOnce(&mut Names) -> T) -> Result<T, Errno> {
        match &mut *write(&self.content) {
            Content::Directory(names) => Ok(change(names)),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

impl Names {
    fn add(&mut self, name: &OsStr, number: u64) -> Result<(), Errno> {
        if self.by_name.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.next_offset += 1;
        self.by_name.insert(name.into(), (self.next_offset, number));
        self.by_offset.insert(self.next_offset, (name.into(), number));
        Ok(())
    }

    fn remove(&mut self, name: &OsStr) {
        if let Some((offset, _)) = self.by_name.remove(name) {
            self.by_offset.remove(&offset);
        }
    }
}

/// What a change of data does to the attributes.
fn resized(attr: &mut FileAttr, size: u64) {
    attr.size = size;
    attr.blocks = size.div_ceil(512);
    attr.mtime = SystemTime::now();
    attr.ctime = attr.mtime;
}

impl Filesystem for MemoryFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        agree(config)
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, self.find(parent, name).map(|node| node.attr()));
    }

    fn forget(&self, _: &Request, number: INodeNo, _lookups: u64) {
        // The kernel looks names up again after it has forgotten some; only what has no name is dropped.
        let gone = self.node(number).is_ok_and(|node| node.attr().nlink == 0);
        if gone {
            write(&self.nodes).remove(&number.0);
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(reply, self.node(number).map(|node| node.attr()));
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let at = |time| match time {
            TimeOrNow::Now => SystemTime::now(),
            TimeOrNow::SpecificTime(time) => time,
        };
        let changed = size.map_or(Ok(()), |size| self.resize(number, size));
        let changed = changed.and_then(|()| self.node(number)).map(|node| {
            let mut attr = write(&node.attr);
            attr.perm = mode.map_or(attr.perm, |mode| mode as u16 & 0o7777);
            attr.uid = uid.unwrap_or(attr.uid);
            attr.gid = gid.unwrap_or(attr.gid);
            attr.atime = atime.map_or(attr.atime, at);
            attr.mtime = mtime.map_or(attr.mtime, at);
            *attr
        });
        self.attr(reply, changed);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.node(number) {
            Ok(node) => match &*read(&node.content) {
                Content::Symlink(path) => reply.data(path),
                _ => reply.error(Errno::EINVAL),
            },
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let content = Content::Directory(Names::default());
        self.entry(reply, self.make(request, parent, name, FileType::Directory, mode, content));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let content = Content::Symlink(target.as_os_str().as_encoded_bytes().to_vec());
        self.entry(reply, self.make(request, parent, name, FileType::Symlink, 0o777, content));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent, name, false));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.remove(parent, name, true));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.rename((parent, name), (new_parent, new_name), flags));
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = open_flags(flags.0);
        if flags.contains(OFlags::TRUNC)
            && let Err(errno) = self.resize(number, 0)
        {
            return reply.error(errno);
        }
        reply.opened(FileHandle(0), kept(self.options.direct, flags));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let content = Content::File(Vec::new());
        match self.make(request, parent, name, FileType::RegularFile, mode, content) {
            Ok(attr) => {
                let caching = kept(self.options.direct, open_flags(flags));
                reply.created(&self.timeout(), &attr, Generation(0), FileHandle(0), caching);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Ok(node) = self.node(number) else { return reply.error(Errno::ESTALE) };
        let content = read(&node.content);
        let Content::File(data) = &*content else { return reply.error(Errno::EISDIR) };
        let start = data.len().min(offset as usize);
        let end = data.len().min(start + bytes as usize);
        reply.data(&data[start..end]);
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let append = open_flags(flags.0).contains(OFlags::APPEND);
        match self.write_at(number, offset, data, append) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let add =
            |offset, name: &OsStr, attr: &FileAttr| reply.add(attr.ino, offset, attr.kind, name);
        match self.list(number, offset, add) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let timeout = self.timeout();
        let add = |offset, name: &OsStr, attr: &FileAttr| {
            reply.add(attr.ino, offset, name, &timeout, attr, Generation(0))
        };
        match self.list(number, offset, add) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = 1 << 28;
        reply.statfs(blocks, blocks, blocks, 1 << 20, 1 << 20, 1 << 20, 255, 4096);
    }

    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::EOPNOTSUPP);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        reply.error(Errno::ENOSYS);
    }
}

/// Nobody else can change a file: the kernel's pages are always good.
fn kept(policy: Direct, flags: OFlags) -> FopenFlags {
    match through(policy, flags) {
        Through::Not => flags_of(Caching::Bypass),
        Through::Reading | Through::Writing => flags_of(Caching::Keep),
    }
}

fn empty(reply: ReplyEmpty, outcome: Result<(), Errno>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().expect(NO_PANIC)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().expect(NO_PANIC)
}

const NO_PANIC: &str = "no code panics while it holds a lock";
