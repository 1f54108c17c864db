//! The kernel's requests, one method each: do it, reply. What they mean is under [`crate::ops`].

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pvfs_client::{Result, Seek};
use pvfs_net::shared_buffers::SharedBuffers;
use pvfs_wire::Errno;
use pvfs_wire::attr::Attr;
use pvfs_wire::ops::{Asked as Wished, LockFamily};
use rustix::fs::OFlags;

use crate::attributes::{file_attr, generation, kernel_errno, nobody};
use crate::identity::Requester;
use crate::kernel::{agree, can_map_past_pages, open_flags, with_access_lists};
use crate::locks;
use crate::mounted::Mounted;
use crate::ops::{Changes, Opened, Position, Transfer, WantedLock};
use crate::protocol::answer::{AttrOut, CountOut, EntryOut, LockOut, OpenOut, StatfsOut, StatxOut};
use crate::protocol::init::{Agreement, Offer};
use crate::protocol::listing::Listing;
use crate::protocol::request::{CopyIn, LockIn, ReadIn, Setattr, WriteIn};
use crate::protocol::{Asked, FileHandle, Request};
use crate::queue::{Filesystem, Memory, Reply, own_buffers};

/// A mount, as the kernel's requests reach it.
pub struct KernelFilesystem(pub Arc<Mounted>);

impl Filesystem for KernelFilesystem {
    fn agree(&self, offer: &Offer) -> Agreement {
        self.0.maps_past_pages.store(can_map_past_pages(offer), Ordering::Relaxed);
        if self.0.kernel_checks { with_access_lists(agree()) } else { agree() }
    }

    fn serve(&self, asked: Asked, request: Request<'_>, reply: Reply) {
        use Request as R;
        let node = asked.node;
        match request {
            R::Lookup { name } => self.lookup(asked, name, reply),
            R::Forget { lookups } => self.0.nodes.forget(node, lookups),
            R::BatchForget(nodes) => {
                nodes.into_iter().for_each(|(node, lookups)| self.0.nodes.forget(node, lookups));
            }
            R::Getattr { number } => self.getattr(asked, number, reply, tell_attr),
            R::Statx { number } => self.getattr(asked, number, reply, tell_statx),
            R::Setattr(wanted) => self.setattr(asked, wanted, reply),
            R::Readlink => self.readlink(asked, reply),
            R::Symlink { name, target } => self.symlink(asked, name, Path::new(target), reply),
            R::Mknod { name, mode, umask, rdev } => {
                self.mknod(asked, name, Wished { bits: mode, umask }, rdev, reply);
            }
            R::Mkdir { name, mode, umask } => {
                self.mkdir(asked, name, Wished { bits: mode, umask }, reply);
            }
            R::Unlink { name } => self.unlink(asked, name, reply),
            R::Rmdir { name } => self.rmdir(asked, name, reply),
            R::Rename { name, new_dir, new_name, flags } => {
                self.rename(asked, name, (new_dir, new_name), flags, reply);
            }
            R::Link { node: linked, name } => self.link(asked, linked, name, reply),
            R::Access { wanted } => {
                empty(reply, self.0.access(self.requester(asked), node, wanted));
            }
            R::Statfs => self.statfs(asked, reply),
            request => self.serve_open(asked, request, reply),
        }
    }

    /// What the kernel hands us to be written lies where iods of this node see it.
    fn buffers(&self, count: usize, bytes: usize) -> Vec<Memory> {
        match SharedBuffers::create(self.0.filesystem.runtime(), count, bytes) {
            Ok((all, buffers)) => {
                self.0.filesystem.share(all);
                buffers.into_iter().map(|buffer| Box::new(buffer) as Memory).collect()
            }
            Err(error) => {
                tracing::warn!("writes to iods of this node are copied once more: {error}");
                own_buffers(count, bytes)
            }
        }
    }

    fn end(&self) {
        self.0.close_all();
    }
}

/// Whole objects and names.
impl KernelFilesystem {
    /// What is done with open files and directories, with locks and extended attributes.
    fn serve_open(&self, asked: Asked, request: Request<'_>, reply: Reply) {
        use Request as R;
        let node = asked.node;
        match request {
            R::Open { flags } => self.open(asked, flags, reply),
            R::Create { name, flags, mode, umask } => {
                self.create(asked, name, Wished { bits: mode, umask }, flags, reply);
            }
            R::Tmpfile { flags, mode, umask } => {
                self.tmpfile(asked, Wished { bits: mode, umask }, flags, reply);
            }
            R::Read(from) => self.read(asked, &from, reply),
            R::Write { to, data } => self.write(asked, &to, data, reply),
            R::Flush { number, owner } => {
                empty(reply, self.0.flush(self.requester(asked), node, number, owner));
            }
            R::Release { number, flock_owner } => {
                reply.ok();
                self.0.release(number, flock_owner);
            }
            R::Fsync { number } => {
                let requester = self.requester(asked);
                self.0.with_data(move |mounted| empty(reply, mounted.fsync(requester, number)));
            }
            R::Opendir => self.opendir(asked, reply),
            R::Readdir(from) => self.readdir(asked, &from, reply),
            R::Readdirplus(from) => self.readdirplus(asked, &from, reply),
            R::Releasedir { number } => {
                self.0.releasedir(node, number);
                reply.ok();
            }
            R::Fsyncdir => {
                let requester = self.requester(asked);
                self.0.with_data(move |mounted| empty(reply, mounted.fsync_names(requester)));
            }
            R::Getlk(lock) => self.getlk(asked, &lock, reply),
            R::Setlk { lock, wait } => {
                self.0.setlk(self.requester(asked), wanted_lock(&lock), wait, reply);
            }
            R::Setxattr { name, value, flags } => {
                empty(reply, self.0.setxattr(self.requester(asked), node, name, value, flags));
            }
            R::Getxattr { name, room } => self.getxattr(asked, name, room, reply),
            R::Listxattr { room } => {
                xattr(reply, room, self.0.listxattr(self.requester(asked), node));
            }
            R::Removexattr { name } => {
                empty(reply, self.0.removexattr(self.requester(asked), node, name));
            }
            R::Fallocate { number, offset, bytes, mode } => {
                let (requester, at) = (self.requester(asked), Position { number, offset });
                self.0.with_data(move |mounted| {
                    empty(reply, mounted.fallocate(requester, at, bytes, mode));
                });
            }
            R::Lseek { number, offset, whence } => {
                self.lseek(asked, (number, offset), whence, reply);
            }
            R::CopyFileRange(copy) => self.copy_range(asked, &copy, reply),
            R::Ioctl => reply.error(Errno::ENOTTY),
            // What is not implemented here the kernel does without, or refuses: files are always ready to be polled.
            _ => reply.error(Errno::ENOSYS),
        }
    }

    fn lookup(&self, asked: Asked, name: &OsStr, reply: Reply) {
        let found = self.0.lookup_to_open(self.requester(asked), asked.node, name);
        let found = self.log("lookup", asked.node, found);
        self.entry(reply, (asked.node, name), found, Mounted::believed_ttl);
    }

    fn getattr(&self, asked: Asked, number: Option<FileHandle>, reply: Reply, tell: Tell) {
        let requester = requester(asked);
        if number.is_none() {
            let attr = self.0.getattr(requester, asked.node);
            return tell(&self.0, reply, self.log("getattr", asked.node, attr));
        }
        self.0.with_data(move |mounted| {
            tell(mounted, reply, mounted.getattr_exactly(requester, asked.node));
        });
    }

    fn setattr(&self, asked: Asked, wanted: Setattr, reply: Reply) {
        let requester = self.requester(asked);
        let Setattr { mode, uid, gid, size, atime, mtime, number } = wanted;
        let (node, changes) = (asked.node, Changes { mode, uid, gid, atime, mtime });
        let Some(size) = size else {
            let changed = self.0.setattr(requester, node, changes);
            return tell_changed(&self.0, reply, self.log("setattr", node, changed));
        };
        self.0.with_data(move |mounted| {
            let resized = mounted.resize(requester, node, number, size).and_then(|attr| {
                let more = !changes.is_empty();
                if more { mounted.setattr(requester, node, changes) } else { Ok(attr) }
            });
            tell_changed(mounted, reply, resized);
        });
    }

    fn readlink(&self, asked: Asked, reply: Reply) {
        let read = self.0.readlink(self.requester(asked), asked.node);
        match self.log("readlink", asked.node, read) {
            Ok(path) => reply.data(&path),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn mknod(&self, asked: Asked, name: &OsStr, wished: Wished, rdev: u32, reply: Reply) {
        let made = self.0.mknod(self.requester(asked), asked.node, name, wished, rdev);
        self.made("mknod", (asked.node, name), made, reply);
    }

    fn mkdir(&self, asked: Asked, name: &OsStr, wished: Wished, reply: Reply) {
        let made = self.0.mkdir(self.requester(asked), asked.node, name, wished);
        self.made("mkdir", (asked.node, name), made, reply);
    }

    fn symlink(&self, asked: Asked, name: &OsStr, target: &Path, reply: Reply) {
        let made = self.0.symlink(self.requester(asked), asked.node, name, target);
        self.made("symlink", (asked.node, name), made, reply);
    }

    fn link(&self, asked: Asked, linked: u64, name: &OsStr, reply: Reply) {
        let made = self.0.link(self.requester(asked), linked, asked.node, name);
        let made = self.named("link", &[(asked.node, name)], made).map(Some);
        self.entry(reply, (asked.node, name), made, |mounted, _| mounted.unasked());
    }

    fn unlink(&self, asked: Asked, name: &OsStr, reply: Reply) {
        let gone = self.0.unlink(self.requester(asked), asked.node, name);
        empty(reply, self.named("unlink", &[(asked.node, name)], gone));
    }

    fn rmdir(&self, asked: Asked, name: &OsStr, reply: Reply) {
        let gone = self.0.rmdir(self.requester(asked), asked.node, name);
        empty(reply, self.named("rmdir", &[(asked.node, name)], gone));
    }

    fn rename(&self, asked: Asked, name: &OsStr, new: (u64, &OsStr), flags: u32, reply: Reply) {
        let old = (asked.node, name);
        let moved = self.0.rename(self.requester(asked), old, new, flags);
        empty(reply, self.named("rename", &[old, new], moved));
    }

    fn statfs(&self, asked: Asked, reply: Reply) {
        let requester = self.requester(asked);
        self.0.with_data(move |mounted| match mounted.statfs(requester) {
            Ok((space, names)) => reply.record(&StatfsOut {
                blocks: space.total_bytes / FRAGMENT_BYTES,
                blocks_free: space.free_bytes / FRAGMENT_BYTES,
                blocks_available: space.available_bytes / FRAGMENT_BYTES,
                files: names.files.saturating_add(names.files_free),
                files_free: names.files_free,
                block_bytes: 1 << 20,
                name_bytes_max: pvfs_wire::NAME_BYTES_MAX as u32,
                fragment_bytes: FRAGMENT_BYTES as u32,
                padding: 0,
                spare: [0; 6],
            }),
            Err(error) => reply.error(kernel_errno(&error)),
        });
    }
}

/// Open files and directories.
impl KernelFilesystem {
    fn open(&self, asked: Asked, flags: u32, reply: Reply) {
        let (requester, flags) = (self.requester(asked), open_flags(flags));
        let open = move |mounted: &Arc<Mounted>| match mounted.open(requester, asked.node, flags) {
            Ok(opened) => reply.record(&OpenOut::new(opened.number, opened.kept)),
            Err(error) => reply.error(kernel_errno(&error)),
        };
        self.maybe_with_data(flags, open);
    }

    fn create(&self, asked: Asked, name: &OsStr, wished: Wished, flags: u32, reply: Reply) {
        let (requester, flags) = (self.requester(asked), open_flags(flags));
        let name = name.to_owned();
        self.maybe_with_data(flags, move |mounted: &Arc<Mounted>| {
            let opened = mounted.create(requester, asked.node, &name, wished, flags);
            tell_created(mounted, reply, (asked.node, Some(&name)), opened);
        });
    }

    fn tmpfile(&self, asked: Asked, wished: Wished, flags: u32, reply: Reply) {
        let (requester, flags) = (self.requester(asked), open_flags(flags));
        let opened = self.0.create_nameless(requester, asked.node, wished, flags);
        let opened = self.log("tmpfile", asked.node, opened);
        tell_created(&self.0, reply, (asked.node, None), opened);
    }

    fn read(&self, asked: Asked, from: &ReadIn, reply: Reply) {
        let (requester, bytes) = (self.requester(asked), from.bytes);
        let transfer = Transfer {
            requester,
            number: from.number,
            offset: from.offset,
            sync: false,
            mapped: false,
            kill_privileges: false,
        };
        self.0.with_data(move |mounted| match mounted.read(transfer, bytes) {
            Ok(data) => reply.data(&data),
            Err(error) => reply.error(kernel_errno(&error)),
        });
    }

    fn write(&self, asked: Asked, to: &WriteIn, data: &[u8], reply: Reply) {
        let transfer = Transfer {
            requester: self.requester(asked),
            number: to.number,
            offset: to.offset,
            sync: open_flags(to.flags).intersects(OFlags::DSYNC | OFlags::SYNC),
            mapped: to.is_of_pages(),
            kill_privileges: to.kills_privileges(),
        };
        // The data lie in the reading thread's buffer: they are copied only if another thread takes over.
        if let Some(_inline) = self.0.data.inline() {
            return written(reply, data.len(), self.0.write(transfer, data));
        }
        let mut copy = self.0.buffers.take(data.len());
        copy.copy_from_slice(data);
        let mounted = self.0.clone();
        self.0.data.spawn(move || written(reply, copy.len(), mounted.write(transfer, &copy)));
    }

    fn opendir(&self, asked: Asked, reply: Reply) {
        match self.0.opendir(self.requester(asked), asked.node) {
            Ok((number, kept)) => reply.record(&OpenOut::new(number, kept)),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn readdir(&self, asked: Asked, from: &ReadIn, reply: Reply) {
        let mut lines = Listing::new(from.bytes);
        let requester = self.requester(asked);
        let listed = self.0.readdir(requester, from.number, from.offset, &mut lines);
        match self.log("readdir", asked.node, listed) {
            Ok(()) => reply.data(lines.bytes()),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn readdirplus(&self, asked: Asked, from: &ReadIn, reply: Reply) {
        let mut lines = Listing::new(from.bytes);
        let requester = self.requester(asked);
        let listed = self.0.readdirplus(requester, from.number, from.offset, &mut lines);
        match self.log("readdirplus", asked.node, listed) {
            Ok(_telling) => reply.data(lines.bytes()),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn getxattr(&self, asked: Asked, name: &OsStr, room: u32, reply: Reply) {
        let (requester, node) = (requester(asked), asked.node);
        let extras = self.0.recent.take(requester.pid, node).map(|told| told.extras);
        xattr(reply, room, self.0.getxattr(requester, node, name, extras));
    }

    fn getlk(&self, asked: Asked, lock: &LockIn, reply: Reply) {
        let (start, last) = (lock.start, lock.last);
        match self.0.getlk(self.requester(asked), wanted_lock(lock)) {
            Ok(Some(held)) => {
                let (last, kind) = (locks::kernel_end(held.end), locks::number(held.kind));
                reply.record(&LockOut { start: held.start, last, kind, pid: held.pid });
            }
            Ok(None) => reply.record(&LockOut { start, last, kind: UNLOCKED, pid: 0 }),
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    fn lseek(&self, asked: Asked, (number, offset): (FileHandle, i64), whence: u32, reply: Reply) {
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        // No byte is before the first.
        let Ok(offset) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let requester = self.requester(asked);
        let at = Position { number, offset };
        self.0.with_data(move |mounted| match mounted.seek(requester, at, what) {
            Ok(found) => reply.record(&i64::try_from(found).unwrap_or(i64::MAX)),
            Err(error) => reply.error(kernel_errno(&error)),
        });
    }

    fn copy_range(&self, asked: Asked, copy: &CopyIn, reply: Reply) {
        let requester = self.requester(asked);
        let from = Position { number: copy.from, offset: copy.from_offset };
        let to = Position { number: copy.to, offset: copy.to_offset };
        // The answer has 32 bits for how many.
        let bytes = copy.bytes.min(1 << 31);
        self.0.with_data(move |mounted| match mounted.copy_range(requester, from, to, bytes) {
            Ok(copied) => reply.record(&CountOut::new(copied as u32)),
            Err(error) => reply.error(kernel_errno(&error)),
        });
    }
}

impl KernelFilesystem {
    /// Who asks. Whatever their thread was told last belongs to an earlier system call.
    fn requester(&self, asked: Asked) -> Requester {
        self.0.recent.forget(asked.pid);
        requester(asked)
    }

    /// Tells what a name means, and for how long that holds.
    fn entry(
        &self,
        reply: Reply,
        (parent, name): (u64, &OsStr),
        found: Result<Option<Attr>>,
        attr_ttl: fn(&Mounted, &Attr) -> Duration,
    ) {
        let mounted = &self.0;
        let _telling = mounted.coherence.telling();
        match found {
            Ok(Some(attr)) => {
                let object = Some(attr.handle.object);
                let name_ttl = mounted.name_ttl(parent, name.as_bytes(), object);
                let attr_ttl = attr_ttl(mounted, &attr);
                let generation = generation(attr.handle);
                reply.record(&EntryOut::new(file_attr(&attr), generation, name_ttl, attr_ttl));
            }
            Ok(None) => match mounted.name_ttl(parent, name.as_bytes(), None) {
                Duration::ZERO => reply.error(Errno::ENOENT),
                ttl => reply.record(&EntryOut::new(file_attr(&nobody()), 0, ttl, ttl)),
            },
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    /// Tells of an object that was made.
    fn made(&self, what: &str, name: (u64, &OsStr), made: Result<Attr>, reply: Reply) {
        let made = self.named(what, &[name], made).map(Some);
        self.entry(reply, name, made, Mounted::believed_ttl);
    }

    /// Opening waits for the manager only, unless there are data to be cut.
    fn maybe_with_data(&self, flags: OFlags, open: impl FnOnce(&Arc<Mounted>) + Send + 'static) {
        if flags.contains(OFlags::TRUNC) { self.0.with_data(open) } else { open(&self.0) }
    }

    /// The like of [`Self::log`], for a change of names: when it is not known whether it has happened, what the
    /// kernel believes of them is not certain either.
    fn named<T>(&self, what: &str, names: &[(u64, &OsStr)], outcome: Result<T>) -> Result<T> {
        if outcome.as_ref().is_err_and(is_uncertain) {
            let names: Vec<(u64, &[u8])> =
                names.iter().map(|(dir, name)| (*dir, name.as_bytes())).collect();
            self.0.doubt(&names);
        }
        self.log(what, names[0].0, outcome)
    }

    /// Says what failed and why, which the error number alone does not tell.
    fn log<T>(&self, what: &str, node: u64, outcome: Result<T>) -> Result<T> {
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

/// How attributes are told.
type Tell = fn(&Mounted, Reply, Result<Attr>);

fn tell_attr(mounted: &Mounted, reply: Reply, attr: Result<Attr>) {
    let _telling = mounted.coherence.telling();
    match attr {
        Ok(attr) => reply.record(&AttrOut::new(file_attr(&attr), mounted.believed_ttl(&attr))),
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

/// The like with the time of birth, which is all that the kernel asks it for.
fn tell_statx(mounted: &Mounted, reply: Reply, attr: Result<Attr>) {
    let _telling = mounted.coherence.telling();
    match attr {
        Ok(attr) => {
            let ttl = mounted.believed_ttl(&attr);
            reply.record(&StatxOut::new(&file_attr(&attr), attr.btime, ttl));
        }
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

fn tell_created(
    mounted: &Mounted,
    reply: Reply,
    (parent, name): (u64, Option<&OsStr>),
    opened: Result<Opened>,
) {
    let _telling = mounted.coherence.telling();
    match opened {
        Ok(Opened { attr, created, number, kept }) => {
            let (generation, object) = (generation(attr.handle), Some(attr.handle.object));
            let named = |name: &OsStr| mounted.name_ttl(parent, name.as_bytes(), object);
            let attr_ttl = if created { mounted.believed_ttl(&attr) } else { mounted.unasked() };
            let name_ttl = name.map_or(mounted.unasked(), named);
            let entry = EntryOut::new(file_attr(&attr), generation, name_ttl, attr_ttl);
            reply.record(&(entry, OpenOut::new(number, kept)));
        }
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

/// Tells of a change of something that the kernel knew before. It takes such an answer for newer than a notice that has
/// overtaken it, so it is to ask once more, which the cache answers.
fn tell_changed(mounted: &Mounted, reply: Reply, attr: Result<Attr>) {
    match attr {
        Ok(attr) => reply.record(&AttrOut::new(file_attr(&attr), mounted.unasked())),
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

fn requester(asked: Asked) -> Requester {
    Requester { uid: asked.uid, gid: asked.gid, pid: asked.pid }
}

fn wanted_lock(lock: &LockIn) -> WantedLock {
    let family = if lock.is_flock() { LockFamily::Flock } else { LockFamily::Range };
    let LockIn { number, owner, pid, kind, start, last, .. } = *lock;
    WantedLock { number, family, owner, pid, kind, start, last }
}

fn empty(reply: Reply, outcome: Result<()>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

fn written(reply: Reply, bytes: usize, outcome: Result<()>) {
    match outcome {
        Ok(()) => reply.record(&CountOut::new(bytes as u32)),
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

/// Asked with no room, the length is the answer.
fn xattr(reply: Reply, room: u32, outcome: Result<Vec<u8>>) {
    match outcome {
        Ok(value) if room == 0 => reply.record(&CountOut::new(value.len() as u32)),
        Ok(value) if value.len() <= room as usize => reply.data(&value),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(error) => reply.error(kernel_errno(&error)),
    }
}

/// What space is counted in.
const FRAGMENT_BYTES: u64 = 4096;

/// `F_UNLCK`
const UNLOCKED: i32 = 2;

const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
