//! The kernel's requests, one method each: unpack, do, reply. What they mean is under [`crate::ops`].

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, Generation,
    INodeNo, IoctlFlags, KernelConfig, LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use pvfs_client::{Result, Seek};
use pvfs_wire::attr::Attr;
use pvfs_wire::ops::{Asked, LockFamily};
use rustix::fs::OFlags;

use crate::attributes::{file_attr, generation, kernel_errno, nobody};
use crate::flock;
use crate::identity::Requester;
use crate::kernel::{agree, agree_on_access_lists, can_map_past_pages, open_flags};
use crate::locks;
use crate::mounted::Mounted;
use crate::ops::{Changes, Opened, Position, Transfer, WantedLock};

/// A mount, as fuser calls it.
pub struct KernelFilesystem(pub Arc<Mounted>);

impl Filesystem for KernelFilesystem {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        agree(config)?;
        self.0.maps_past_pages.store(can_map_past_pages(config), Ordering::Relaxed);
        if self.0.kernel_checks {
            agree_on_access_lists(config);
        }
        Ok(())
    }

    fn destroy(&mut self) {
        self.0.close_all();
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.0.lookup(self.requester(request), parent.0, name);
        self.entry(reply, (parent, name), self.log("lookup", parent, found));
    }

    fn forget(&self, _request: &Request, node: INodeNo, lookups: u64) {
        self.0.nodes.forget(node.0, lookups);
    }

    fn getattr(
        &self,
        request: &Request,
        node: INodeNo,
        number: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let requester = requester(request);
        if number.is_none() {
            let attr = self.0.getattr(requester, node.0);
            return self.attr(reply, self.log("getattr", node, attr));
        }
        self.0.with_data(move |mounted| {
            tell_attr(mounted, reply, mounted.getattr_exactly(requester, node.0));
        });
    }

    fn setattr(
        &self,
        request: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        number: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (requester, timeout) = (self.requester(request), self.0.options.cache.timeout());
        let changes = Changes { mode, uid, gid, atime, mtime };
        let Some(size) = size else {
            let changed = self.0.setattr(requester, node.0, changes);
            return self.attr(reply, self.log("setattr", node, changed));
        };
        self.0.with_data(move |mounted| {
            let resized = mounted.resize(requester, node.0, number, size).and_then(|attr| {
                let more = !changes.is_empty();
                if more { mounted.setattr(requester, node.0, changes) } else { Ok(attr) }
            });
            match resized {
                Ok(attr) => reply.attr(&timeout, &file_attr(&attr)),
                Err(error) => reply.error(kernel_errno(&error)),
            }
        });
    }

    fn readlink(&self, request: &Request, node: INodeNo, reply: ReplyData) {
        match self.log("readlink", node, self.0.readlink(self.requester(request), node.0)) {
            Ok(path) => reply.data(&path),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let made = self.0.mknod(
            self.requester(request),
            parent.0,
            name,
            Asked { bits: mode, umask },
            rdev,
        );
        self.entry(reply, (parent, name), self.named("mknod", &[(parent, name)], made).map(Some));
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made =
            self.0.mkdir(self.requester(request), parent.0, name, Asked { bits: mode, umask });
        self.entry(reply, (parent, name), self.named("mkdir", &[(parent, name)], made).map(Some));
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(
            reply,
            self.named(
                "unlink",
                &[(parent, name)],
                self.0.unlink(self.requester(request), parent.0, name),
            ),
        );
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(
            reply,
            self.named(
                "rmdir",
                &[(parent, name)],
                self.0.rmdir(self.requester(request), parent.0, name),
            ),
        );
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let made = self.0.symlink(self.requester(request), parent.0, name, target);
        self.entry(reply, (parent, name), self.named("symlink", &[(parent, name)], made).map(Some));
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (old, new) = ((parent.0, name), (new_parent.0, new_name));
        let moved = self.0.rename(self.requester(request), old, new, flags.bits());
        empty(reply, self.named("rename", &[(parent, name), (new_parent, new_name)], moved));
    }

    fn link(
        &self,
        request: &Request,
        node: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let made = self.0.link(self.requester(request), node.0, parent.0, name);
        self.entry(reply, (parent, name), self.named("link", &[(parent, name)], made).map(Some));
    }

    fn open(&self, request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let (requester, flags) = (self.requester(request), open_flags(flags.0));
        let open = move |mounted: &Arc<Mounted>| match mounted.open(requester, node.0, flags) {
            Ok(opened) => reply.opened(opened.number, opened.caching),
            Err(error) => reply.error(kernel_errno(&error)),
        };
        self.maybe_with_data(flags, open);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (requester, flags) = (self.requester(request), open_flags(flags));
        let (name, timeout) = (name.to_owned(), self.0.options.cache.timeout());
        let create = move |mounted: &Arc<Mounted>| match mounted.create(
            requester,
            parent.0,
            &name,
            Asked { bits: mode, umask },
            flags,
        ) {
            Ok(Opened { attr, number, caching }) => {
                let generation = generation(attr.handle);
                reply.created(&timeout, &file_attr(&attr), generation, number, caching);
            }
            Err(error) => reply.error(kernel_errno(&error)),
        };
        self.maybe_with_data(flags, create);
    }

    fn read(
        &self,
        request: &Request,
        _node: INodeNo,
        number: FileHandle,
        offset: u64,
        bytes: u32,
        _flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let requester = self.requester(request);
        let transfer = Transfer {
            requester,
            number,
            offset,
            sync: false,
            mapped: false,
            kill_privileges: false,
        };
        self.0.with_data(move |mounted| match mounted.read(transfer, bytes) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(kernel_errno(&error)),
        });
    }

    fn write(
        &self,
        request: &Request,
        _node: INodeNo,
        number: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let sync = open_flags(flags.0).intersects(OFlags::DSYNC | OFlags::SYNC);
        let kill_privileges = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let mapped = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let requester = self.requester(request);
        let transfer = Transfer { requester, number, offset, sync, mapped, kill_privileges };
        // The data lie in the reading thread's buffer: they are copied only if another thread takes over.
        if let Some(_inline) = self.0.data.inline() {
            return written(reply, data.len(), self.0.write(transfer, data));
        }
        let mut copy = self.0.buffers.take(data.len());
        copy.copy_from_slice(data);
        let mounted = self.0.clone();
        self.0.data.spawn(move || written(reply, copy.len(), mounted.write(transfer, &copy)));
    }

    fn flush(
        &self,
        request: &Request,
        node: INodeNo,
        number: FileHandle,
        owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.0.flush(self.requester(request), node.0, number, owner.0));
    }

    fn release(
        &self,
        _request: &Request,
        _node: INodeNo,
        number: FileHandle,
        _flags: OpenFlags,
        flock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.0.release(number, flock_owner.map(|owner| owner.0));
        reply.ok();
    }

    fn fsync(
        &self,
        request: &Request,
        _node: INodeNo,
        number: FileHandle,
        _datasync: bool,
        reply: ReplyEmpty,
    ) {
        let requester = self.requester(request);
        self.0.with_data(move |mounted| empty(reply, mounted.fsync(requester, number)));
    }

    fn opendir(&self, request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.0.opendir(self.requester(request), node.0) {
            Ok((number, flags)) => reply.opened(number, flags),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn readdir(
        &self,
        request: &Request,
        node: INodeNo,
        number: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.0.readdir(self.requester(request), number, offset, &mut reply);
        match self.log("readdir", node, listed) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn readdirplus(
        &self,
        request: &Request,
        node: INodeNo,
        number: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.0.readdirplus(self.requester(request), number, offset, &mut reply);
        match self.log("readdirplus", node, listed) {
            Ok(_telling) => reply.ok(),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        node: INodeNo,
        number: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.0.releasedir(node.0, number);
        reply.ok();
    }

    fn fsyncdir(&self, request: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let requester = self.requester(request);
        self.0.with_data(move |mounted| empty(reply, mounted.fsync_names(requester)));
    }

    fn statfs(&self, request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        let requester = self.requester(request);
        self.0.with_data(move |mounted| match mounted.statfs(requester) {
            Ok((space, names)) => reply.statfs(
                space.total_bytes / FRAGMENT_BYTES,
                space.free_bytes / FRAGMENT_BYTES,
                space.available_bytes / FRAGMENT_BYTES,
                names.files.saturating_add(names.files_free),
                names.files_free,
                1 << 20,
                pvfs_wire::NAME_BYTES_MAX as u32,
                FRAGMENT_BYTES as u32,
            ),
            Err(error) => reply.error(kernel_errno(&error)),
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.0.setxattr(self.requester(request), node.0, name, value, flags));
    }

    fn getxattr(
        &self,
        request: &Request,
        node: INodeNo,
        name: &OsStr,
        room: u32,
        reply: ReplyXattr,
    ) {
        let requester = requester(request);
        let extras = self.0.recent.take(requester.pid, node.0).map(|told| told.extras);
        xattr(reply, room, self.0.getxattr(requester, node.0, name, extras));
    }

    fn listxattr(&self, request: &Request, node: INodeNo, room: u32, reply: ReplyXattr) {
        xattr(reply, room, self.0.listxattr(self.requester(request), node.0));
    }

    fn removexattr(&self, request: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.0.removexattr(self.requester(request), node.0, name));
    }

    fn access(&self, request: &Request, node: INodeNo, wanted: AccessFlags, reply: ReplyEmpty) {
        empty(reply, self.0.access(self.requester(request), node.0, wanted.bits()));
    }

    fn getlk(
        &self,
        request: &Request,
        _node: INodeNo,
        number: FileHandle,
        owner: LockOwner,
        start: u64,
        last: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        let family = LockFamily::Range;
        let wanted = WantedLock { number, family, owner: owner.0, pid, kind, start, last };
        match self.0.getlk(self.requester(request), wanted) {
            Ok(Some(held)) => {
                let last = locks::kernel_end(held.end);
                reply.locked(held.start, last, locks::number(held.kind), held.pid);
            }
            Ok(None) => reply.locked(start, last, UNLOCKED, 0),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn setlk(
        &self,
        request: &Request,
        _node: INodeNo,
        number: FileHandle,
        owner: LockOwner,
        start: u64,
        last: u64,
        kind: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let family = flock::family(request);
        let wanted = WantedLock { number, family, owner: owner.0, pid, kind, start, last };
        self.0.setlk(self.requester(request), wanted, sleep, reply);
    }

    fn ioctl(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(Errno::ENOTTY);
    }

    /// Files are always ready, which is what the kernel answers once it has been told that we do not.
    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        request: &Request,
        _node: INodeNo,
        number: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let requester = self.requester(request);
        let at = Position { number, offset };
        self.0.with_data(move |mounted| {
            empty(reply, mounted.fallocate(requester, at, bytes, mode));
        });
    }

    fn lseek(
        &self,
        request: &Request,
        _node: INodeNo,
        number: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        // No byte is before the first.
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let requester = self.requester(request);
        let at = Position { number, offset };
        self.0.with_data(move |mounted| match mounted.seek(requester, at, what) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(error) => reply.error(kernel_errno(&error)),
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _from: INodeNo,
        from_number: FileHandle,
        from_offset: u64,
        _to: INodeNo,
        to_number: FileHandle,
        to_offset: u64,
        bytes: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let requester = self.requester(request);
        let from = Position { number: from_number, offset: from_offset };
        let to = Position { number: to_number, offset: to_offset };
        // The answer has 32 bits for how many.
        let bytes = bytes.min(1 << 31);
        self.0.with_data(move |mounted| match mounted.copy_range(requester, from, to, bytes) {
            Ok(copied) => reply.written(copied as u32),
            Err(error) => reply.error(kernel_errno(&error)),
        });
    }
}

impl KernelFilesystem {
    /// Who asks. Whatever their thread was told last belongs to an earlier system call.
    fn requester(&self, request: &Request) -> Requester {
        self.0.recent.forget(request.pid());
        requester(request)
    }

    /// Tells what a name means, and for how long that holds.
    fn entry(
        &self,
        reply: ReplyEntry,
        (parent, name): (INodeNo, &OsStr),
        found: Result<Option<Attr>>,
    ) {
        let mounted = &self.0;
        let _telling = mounted.coherence.telling();
        match found {
            Ok(Some(attr)) => {
                let object = Some(attr.handle.object);
                let name_ttl = mounted.name_ttl(parent.0, name.as_bytes(), object);
                let attr_ttl = mounted.believed_ttl(&attr);
                let generation = generation(attr.handle);
                reply.entry_with_ttls(&attr_ttl, &name_ttl, &file_attr(&attr), generation);
            }
            Ok(None) => match mounted.name_ttl(parent.0, name.as_bytes(), None) {
                Duration::ZERO => reply.error(Errno::ENOENT),
                ttl => reply.entry(&ttl, &file_attr(&nobody()), Generation(0)),
            },
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn attr(&self, reply: ReplyAttr, attr: Result<Attr>) {
        tell_attr(&self.0, reply, attr);
    }

    /// Opening waits for the manager only, unless there are data to be cut.
    fn maybe_with_data(&self, flags: OFlags, open: impl FnOnce(&Arc<Mounted>) + Send + 'static) {
        if flags.contains(OFlags::TRUNC) { self.0.with_data(open) } else { open(&self.0) }
    }

    /// The like of [`Self::log`], for a change of names: when it is not known whether it has happened, what the
    /// kernel believes of them is not certain either.
    fn named<T>(&self, what: &str, names: &[(INodeNo, &OsStr)], outcome: Result<T>) -> Result<T> {
        if outcome.as_ref().is_err_and(is_uncertain) {
            let names: Vec<(u64, &[u8])> =
                names.iter().map(|(dir, name)| (dir.0, name.as_bytes())).collect();
            self.0.doubt(&names);
        }
        self.log(what, names[0].0, outcome)
    }

    /// Says what failed and why, which the error number alone does not tell.
    fn log<T>(&self, what: &str, node: INodeNo, outcome: Result<T>) -> Result<T> {
        match &outcome {
            Err(error) if crate::attributes::is_silence(error) => {
                tracing::warn!("{what} {node}: {error}");
            }
            Err(error) if self.0.options.debug => tracing::info!("{what} {node}: {error}"),
            Ok(_) if self.0.options.debug => tracing::info!("{what} {node}"),
            _ => {}
        }
        outcome
    }
}

/// Whether a change may have happened although it failed.
fn is_uncertain(error: &pvfs_client::Error) -> bool {
    crate::attributes::is_silence(error) || error.errno() == pvfs_wire::Errno::EINTR
}

fn tell_attr(mounted: &Mounted, reply: ReplyAttr, attr: Result<Attr>) {
    let _telling = mounted.coherence.telling();
    match attr {
        Ok(attr) => reply.attr(&mounted.believed_ttl(&attr), &file_attr(&attr)),
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

fn requester(request: &Request) -> Requester {
    Requester { uid: request.uid(), gid: request.gid(), pid: request.pid() }
}

fn empty(reply: ReplyEmpty, outcome: Result<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

fn written(reply: ReplyWrite, bytes: usize, outcome: Result<()>) {
    match outcome {
        Ok(()) => reply.written(bytes as u32),
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

/// Asked with no room, the length is the answer.
fn xattr(reply: ReplyXattr, room: u32, outcome: Result<Vec<u8>>) {
    match outcome {
        Ok(value) if room == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() <= room as usize => reply.data(&value),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

/// What space is counted in.
const FRAGMENT_BYTES: u64 = 4096;

/// `F_UNLCK`
const UNLOCKED: i32 = 2;

const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;
