//! A file system in this process's memory: the limit that a mount is measured against.
//!
//! It agrees the same things with the kernel and decides the same way about the page cache, so that what a
//! PVFS mount is slower by is what PVFS does, and not what FUSE costs.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pvfs_wire::Errno;
use pvfs_wire::attr::Time;
use pvfs_wire::ops::SetTime;
use rustix::fs::OFlags;

use crate::kernel::{agree, kept, open_flags, through};
use crate::options::{Cache, Direct, MountOptions};
use crate::pages::{Caching, Through};
use crate::protocol::answer::{AttrOut, CountOut, EntryOut, OpenOut, StatfsOut};
use crate::protocol::init::{Agreement, Offer};
use crate::protocol::listing::{Listing, Name};
use crate::protocol::request::{ReadIn, Setattr, WriteIn};
use crate::protocol::{Asked, Attributes, FileHandle, Kept, Request};
use crate::queue::{Filesystem, Reply};
use crate::session::{MountError, Session, mount_point, serve};
use crate::table::KIND_MEMORY;

/// A file system that forgets everything when it is unmounted. Files, directories and symlinks only.
pub struct MemoryFs {
    options: MountOptions,
    nodes: RwLock<HashMap<u64, Arc<Node>>>,
    next: AtomicU64,
}

struct Node {
    attr: RwLock<Attributes>,
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
        let root = Node::new(1, DIRECTORY | 0o777, (0, 0), Content::Directory(Names::default()));
        let nodes = RwLock::new(HashMap::from([(1, Arc::new(root))]));
        Self { options, nodes, next: AtomicU64::new(2) }
    }

    fn node(&self, number: u64) -> Result<Arc<Node>, Errno> {
        read(&self.nodes).get(&number).cloned().ok_or(Errno::ESTALE)
    }

    fn find(&self, parent: u64, name: &OsStr) -> Result<Arc<Node>, Errno> {
        let parent = self.node(parent)?;
        let number = parent.names(|names| names.by_name.get(name).map(|found| found.1))?;
        self.node(number.ok_or(Errno::ENOENT)?)
    }

    fn make(
        &self,
        asked: Asked,
        name: &OsStr,
        mode: u32,
        content: Content,
    ) -> Result<Attributes, Errno> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let node = Arc::new(Node::new(number, mode, (asked.uid, asked.gid), content));
        let attr = node.attr();
        // Before the name, so that whoever finds the name finds the node.
        write(&self.nodes).insert(number, node);
        self.node(asked.node)?.names_mut(|names| names.add(name, number))??;
        Ok(attr)
    }

    fn remove(&self, parent: u64, name: &OsStr, directory: bool) -> Result<(), Errno> {
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

    fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> Result<(), Errno> {
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let moved = self.find(from.0, from.1)?.attr().node;
        self.node(from.0)?.names_mut(|names| names.remove(from.1))?;
        self.node(to.0)?.names_mut(|names| {
            names.remove(to.1);
            names.add(to.1, moved)
        })?
    }

    fn resize(&self, number: u64, size: u64) -> Result<(), Errno> {
        let node = self.node(number)?;
        let mut content = write(&node.content);
        let Content::File(data) = &mut *content else { return Err(Errno::EISDIR) };
        data.resize(size as usize, 0);
        resized(&mut write(&node.attr), size);
        Ok(())
    }

    fn write_at(&self, number: u64, offset: u64, bytes: &[u8], append: bool) -> Result<(), Errno> {
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

    fn entry(&self, reply: Reply, found: Result<Attributes, Errno>) {
        match found {
            Ok(attr) => reply.record(&self.entry_of(attr)),
            Err(errno) => reply.error(errno),
        }
    }

    fn entry_of(&self, attr: Attributes) -> EntryOut {
        EntryOut::new(attr, 0, self.timeout(), self.timeout())
    }

    fn attr(&self, reply: Reply, found: Result<Attributes, Errno>) {
        match found {
            Ok(attr) => reply.record(&AttrOut::new(attr, self.timeout())),
            Err(errno) => reply.error(errno),
        }
    }

    fn list(
        &self,
        directory: u64,
        offset: u64,
        mut add: impl FnMut(Name<'_>, &Attributes) -> bool,
    ) -> Result<(), Errno> {
        let directory = self.node(directory)?;
        directory.names(|names| {
            for (offset, (name, number)) in names.by_offset.range(offset + 1..) {
                let Ok(node) = self.node(*number) else { continue };
                let (offset, attr, name) = (*offset, node.attr(), name.as_bytes());
                if add(Name { object: *number, offset, kind: attr.mode, name }, &attr) {
                    break;
                }
            }
        })
    }
}

impl Node {
    fn new(number: u64, mode: u32, owner: (u32, u32), content: Content) -> Self {
        let mut attr = Attributes {
            node: number,
            size: 0,
            blocks: 0,
            atime_seconds: 0,
            mtime_seconds: 0,
            ctime_seconds: 0,
            atime_nanos: 0,
            mtime_nanos: 0,
            ctime_nanos: 0,
            mode,
            nlink: 1,
            uid: owner.0,
            gid: owner.1,
            rdev: 0,
            block_bytes: 1 << 20,
            flags: 0,
        };
        set_atime(&mut attr, SetTime::Now);
        resized(&mut attr, 0);
        Self { attr: RwLock::new(attr), content: RwLock::new(content) }
    }

    fn attr(&self) -> Attributes {
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
fn resized(attr: &mut Attributes, size: u64) {
    attr.size = size;
    attr.blocks = size.div_ceil(512);
    set_mtime(attr, SetTime::Now);
    (attr.ctime_seconds, attr.ctime_nanos) = (attr.mtime_seconds, attr.mtime_nanos);
}

fn set_atime(attr: &mut Attributes, time: SetTime) {
    let Time { seconds, nanos } = the(time);
    (attr.atime_seconds, attr.atime_nanos) = (seconds, nanos);
}

fn set_mtime(attr: &mut Attributes, time: SetTime) {
    let Time { seconds, nanos } = the(time);
    (attr.mtime_seconds, attr.mtime_nanos) = (seconds, nanos);
}

fn the(time: SetTime) -> Time {
    let SetTime::At(time) = time else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        return Time { seconds: now.as_secs() as i64, nanos: now.subsec_nanos() };
    };
    time
}

impl Filesystem for MemoryFs {
    fn agree(&self, _: &Offer) -> Agreement {
        agree()
    }

    fn serve(&self, asked: Asked, request: Request<'_>, reply: Reply) {
        use Request as R;
        let node = asked.node;
        match request {
            R::Lookup { name } => self.entry(reply, self.find(node, name).map(|node| node.attr())),
            R::Forget { .. } => self.forget(node),
            R::BatchForget(nodes) => nodes.iter().for_each(|(node, _)| self.forget(*node)),
            R::Getattr { .. } => self.attr(reply, self.node(node).map(|node| node.attr())),
            R::Setattr(wanted) => self.attr(reply, self.setattr(node, &wanted)),
            R::Readlink => self.readlink(node, reply),
            R::Mkdir { name, mode, .. } => {
                let content = Content::Directory(Names::default());
                self.entry(reply, self.make(asked, name, DIRECTORY | mode & 0o7777, content));
            }
            R::Symlink { name, target } => {
                let content = Content::Symlink(target.as_bytes().to_vec());
                self.entry(reply, self.make(asked, name, SYMLINK | 0o777, content));
            }
            R::Unlink { name } => empty(reply, self.remove(node, name, false)),
            R::Rmdir { name } => empty(reply, self.remove(node, name, true)),
            R::Rename { name, new_dir, new_name, flags } => {
                empty(reply, self.rename((node, name), (new_dir, new_name), flags));
            }
            R::Open { flags } => self.open(node, open_flags(flags), reply),
            R::Create { name, flags, mode, .. } => {
                match self.make(asked, name, FILE | mode & 0o7777, Content::File(Vec::new())) {
                    Ok(attr) => {
                        let open = opened(self.options.direct, open_flags(flags));
                        reply.record(&(self.entry_of(attr), open));
                    }
                    Err(errno) => reply.error(errno),
                }
            }
            R::Read(from) => self.read(node, &from, reply),
            R::Write { to, data } => self.write(node, &to, data, reply),
            R::Opendir => reply.record(&OpenOut::new(FileHandle(0), Kept::NONE)),
            R::Readdir(from) => {
                let mut lines = Listing::new(from.bytes);
                let listed = self.list(node, from.offset, |name, _| lines.add(name));
                listing(reply, listed, &lines);
            }
            R::Readdirplus(from) => {
                let mut lines = Listing::new(from.bytes);
                let listed = self.list(node, from.offset, |name, attr| {
                    lines.add_plus(&self.entry_of(*attr), name)
                });
                listing(reply, listed, &lines);
            }
            R::Statfs => reply.record(&SPACE),
            R::Access { .. } | R::Flush { .. } | R::Fsync { .. } => reply.ok(),
            R::Release { .. } | R::Releasedir { .. } => reply.ok(),
            R::Getxattr { .. } => reply.error(Errno::EOPNOTSUPP),
            _ => reply.error(Errno::ENOSYS),
        }
    }
}

impl MemoryFs {
    /// The kernel looks names up again after it has forgotten some; only what has no name is dropped.
    fn forget(&self, number: u64) {
        let gone = self.node(number).is_ok_and(|node| node.attr().nlink == 0);
        if gone {
            write(&self.nodes).remove(&number);
        }
    }

    fn setattr(&self, number: u64, wanted: &Setattr) -> Result<Attributes, Errno> {
        if let Some(size) = wanted.size {
            self.resize(number, size)?;
        }
        let node = self.node(number)?;
        let mut attr = write(&node.attr);
        attr.mode = wanted.mode.map_or(attr.mode, |mode| attr.mode & !0o7777 | mode & 0o7777);
        attr.uid = wanted.uid.unwrap_or(attr.uid);
        attr.gid = wanted.gid.unwrap_or(attr.gid);
        wanted.atime.into_iter().for_each(|time| set_atime(&mut attr, time));
        wanted.mtime.into_iter().for_each(|time| set_mtime(&mut attr, time));
        Ok(*attr)
    }

    fn readlink(&self, number: u64, reply: Reply) {
        match self.node(number) {
            Ok(node) => match &*read(&node.content) {
                Content::Symlink(path) => reply.data(path),
                _ => reply.error(Errno::EINVAL),
            },
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, number: u64, flags: OFlags, reply: Reply) {
        let cut = if flags.contains(OFlags::TRUNC) { self.resize(number, 0) } else { Ok(()) };
        match cut {
            Ok(()) => reply.record(&opened(self.options.direct, flags)),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(&self, number: u64, from: &ReadIn, reply: Reply) {
        let Ok(node) = self.node(number) else { return reply.error(Errno::ESTALE) };
        let content = read(&node.content);
        let Content::File(data) = &*content else { return reply.error(Errno::EISDIR) };
        let start = data.len().min(from.offset as usize);
        let end = data.len().min(start + from.bytes as usize);
        reply.data(&data[start..end]);
    }

    fn write(&self, number: u64, to: &WriteIn, data: &[u8], reply: Reply) {
        let append = open_flags(to.flags).contains(OFlags::APPEND);
        match self.write_at(number, to.offset, data, append) {
            Ok(()) => reply.record(&CountOut::new(to.bytes)),
            Err(errno) => reply.error(errno),
        }
    }
}

/// Nobody else can change a file: the kernel's pages are always good.
fn opened(policy: Direct, flags: OFlags) -> OpenOut {
    let caching = match through(policy, flags) {
        Through::Not => Caching::Bypass,
        Through::Reading | Through::Writing => Caching::Keep,
    };
    OpenOut::new(FileHandle(0), kept(caching))
}

fn listing(reply: Reply, listed: Result<(), Errno>, lines: &Listing) {
    match listed {
        Ok(()) => reply.data(lines.bytes()),
        Err(errno) => reply.error(errno),
    }
}

fn empty(reply: Reply, outcome: Result<(), Errno>) {
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

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const SYMLINK: u32 = 0o120_000;

/// As good as endless.
const SPACE: StatfsOut = StatfsOut {
    blocks: 1 << 28,
    blocks_free: 1 << 28,
    blocks_available: 1 << 28,
    files: 1 << 20,
    files_free: 1 << 20,
    block_bytes: 1 << 20,
    name_bytes_max: 255,
    fragment_bytes: 4096,
    padding: 0,
    spare: [0; 6],
};

const NO_PANIC: &str = "no code panics while it holds a lock";
