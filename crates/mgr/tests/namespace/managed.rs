//! The name space as a [`Side`], with iods that are a table of sizes.

use std::collections::BTreeMap;

use crate::act::{Act, How, Moment, USERS};
use crate::model::errno::{EBADF, EINVAL};
use crate::side::{Shown, Side};
use crate::world::{World, nothing, root};
use pvfs_mgr::execute::Execute;
use pvfs_mgr::permission::Credentials;
use pvfs_wire::Handle;
use pvfs_wire::attr::{Attr, Entry, FileKind, SizeState, Striping, Time};
use pvfs_wire::ops::*;

/// A world, and what its iods and clients know.
pub struct Managed {
    pub world: World,
    /// Sizes by the iods.
    sizes: BTreeMap<Handle, u64>,
    slots: BTreeMap<(usize, u32), Slot>,
    next_open: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    handle: Handle,
    open: u64,
    how: How,
    wrote: Option<Wrote>,
}

type Result<T> = std::result::Result<T, u32>;

impl Managed {
    pub fn new(world: World) -> Self {
        Self { world, sizes: BTreeMap::new(), slots: BTreeMap::new(), next_open: 0 }
    }

    /// Each user is a client of its own.
    fn run<O: Execute>(&mut self, user: usize, operation: O) -> Result<O::Reply> {
        let result = self.world.run_for(user as u64, &who(user), operation);
        self.world.check();
        result.map_err(|errno| errno.0)
    }

    fn stat(&mut self, target: Target) -> Attr {
        self.run(0, Stat { target, follow: false, placement: false }).unwrap().attr
    }

    /// The reply of an operation shows what `stat` shows.
    fn confirm(&mut self, attr: Attr) -> Result<String> {
        assert_eq!(self.stat(Target::object(attr.handle)), attr);
        Ok(String::new())
    }

    fn size_of(&self, handle: Handle) -> u64 {
        self.sizes.get(&handle).copied().unwrap_or(0)
    }

    fn cut(&mut self, user: usize, handle: Handle, ticket: u64, size: u64) -> Result<()> {
        self.sizes.insert(handle, size);
        let ended = Truncated { handle, ticket, size: Some(size), disk_bytes: Some(size) };
        let attr = self.run(user, ended)?.attr;
        assert!(attr.size_state != SizeState::Settled || attr.size == size);
        // Reported twice is reported once.
        let again = Truncated { handle, ticket, size: None, disk_bytes: None };
        self.run(user, again).map(|_| ())
    }

    fn open(&mut self, user: usize, path: &str, how: How, mode: u32, slot: u32) -> Result<()> {
        let _ = self.close(user, slot);
        self.next_open += 1;
        let open = self.next_open;
        let (target, striping) = (self.world.at(path), Striping::default());
        let opened = self.run(user, Open { target, flags: flags(how), mode, striping, open })?;
        if opened.attr.kind != FileKind::Regular {
            return Ok(());
        }
        let handle = opened.attr.handle;
        if opened.attr.size_state == SizeState::Settled {
            let size = if how.truncate { 0 } else { self.size_of(handle) };
            assert!(opened.truncation.is_some() || opened.attr.size == size);
        }
        self.slots.insert((user, slot), Slot { handle, open, how, wrote: None });
        match opened.truncation {
            Some(ticket) => self.cut(user, handle, ticket, 0),
            None => Ok(()),
        }
    }

    fn close(&mut self, user: usize, slot: u32) -> Result<String> {
        let closed = self.slots.remove(&(user, slot)).ok_or(EBADF)?;
        let opens = vec![ClosedOpen { open: closed.open, wrote: closed.wrote }];
        self.run(user, Close { opens: opens.clone() })?;
        self.run(user, Close { opens })?;
        self.settle(closed.handle);
        Ok(String::new())
    }

    /// Does for a file without writers what a client does that asked the iods, and finds it exact.
    fn settle(&mut self, handle: Handle) {
        let target = Target::object(handle);
        let stat = Stat { target, follow: false, placement: false };
        let Ok(stated) = self.run(0, stat) else { return };
        let written = self.slots.values().any(|slot| slot.handle == handle && slot.how.write);
        let (size, mtime) = (self.size_of(handle), stated.attr.mtime);
        if stated.attr.size_state == SizeState::Settled {
            assert!(!written, "settled while somebody writes");
            assert_eq!(stated.attr.size, size, "settled at a wrong size");
            return;
        }
        let change = stated.attr.change;
        let settle = Settle { handle, change, size, disk_bytes: size, mtime };
        let settled = self.run(0, settle).unwrap().attr.size_state == SizeState::Settled;
        assert_eq!(settled, !written);
    }

    fn slot(&mut self, user: usize, slot: u32) -> Result<&mut Slot> {
        self.slots.get_mut(&(user, slot)).ok_or(EBADF)
    }

    fn write(&mut self, user: usize, slot: u32, end: u64) -> Result<String> {
        let mtime = self.world.now;
        let written = self.slot(user, slot)?;
        if !written.how.write {
            return Err(EBADF);
        }
        if written.how.append {
            return self.append(user, slot);
        }
        let before = written.wrote.map_or(0, |wrote| wrote.end);
        written.wrote =
            Some(Wrote { end: end.max(before), mtime, uncertain: false, disk_bytes: None });
        let handle = written.handle;
        let size = self.size_of(handle).max(end);
        self.sizes.insert(handle, size);
        Ok(String::new())
    }

    fn append(&mut self, user: usize, slot: u32) -> Result<String> {
        let Slot { handle, open, how, .. } = *self.slot(user, slot)?;
        if !how.write || !how.append {
            return Err(EBADF);
        }
        let size = self.size_of(handle);
        let mut offset = self.run(user, Append { open, bytes: 1, end: None })?.offset;
        if offset.is_none() {
            offset = self.run(user, Append { open, bytes: 1, end: Some(size) })?.offset;
        }
        assert_eq!(offset, Some(size), "the append goes to the end");
        self.sizes.insert(handle, size + 1);
        let mtime = self.world.now;
        let wrote = &mut self.slot(user, slot)?.wrote;
        let before = wrote.map_or(0, |wrote| wrote.end);
        *wrote =
            Some(Wrote { end: before.max(size + 1), mtime, uncertain: false, disk_bytes: None });
        Ok(String::new())
    }

    fn truncate(
        &mut self,
        user: usize,
        target: Target,
        size: u64,
        open: Option<u64>,
    ) -> Result<String> {
        let begun = self.run(user, Truncate { target, follow: true, size, open })?;
        let handle = begun.attr.handle;
        self.cut(user, handle, begun.ticket, size)?;
        self.settle(handle);
        Ok(String::new())
    }

    fn set(&mut self, user: usize, change: SetAttr) -> Result<String> {
        let attr = self.run(user, change)?.attr;
        self.confirm(attr)
    }

    fn list(&mut self, user: usize, dir: Handle) -> Result<Vec<Entry>> {
        let (mut entries, mut cookie) = (Vec::new(), 0);
        loop {
            let readdir = Readdir { dir, cookie, entries_max: 2, attributes: true };
            let listing = self.run(user, readdir)?;
            cookie = listing.entries.last().map_or(0, |entry| entry.cookie);
            entries.extend(listing.entries);
            if listing.end {
                return Ok(entries);
            }
        }
    }

    fn show(&mut self, attr: &Attr) -> Shown {
        let target = Target::object(attr.handle);
        let target = match attr.kind {
            FileKind::Symlink => self.run(0, Readlink { target }).unwrap().path.0,
            _ => Vec::new(),
        };
        let kind = match attr.kind {
            FileKind::Regular => 'f',
            FileKind::Directory => 'd',
            FileKind::Symlink => 'l',
            _ => 'p',
        };
        let size = match (attr.kind, attr.size_state) {
            (FileKind::Directory, _) => 0,
            (_, SizeState::Settled) => attr.size,
            (_, _) => self.size_of(attr.handle),
        };
        let written = self.slots.values().any(|slot| slot.handle == attr.handle && slot.how.write);
        Shown {
            kind,
            mode: attr.mode,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            size,
            target: String::from_utf8(target).unwrap(),
            object: attr.handle.object,
            times: [attr.mtime.seconds, attr.ctime.seconds],
            written,
        }
    }

    fn gather(&mut self, dir: Handle, above: &str, into: &mut BTreeMap<String, Shown>) {
        for entry in self.list(0, dir).unwrap() {
            let path = format!("{above}/{}", String::from_utf8(entry.name.0).unwrap());
            let attr = entry.attr.unwrap();
            into.insert(path.clone(), self.show(&attr));
            if attr.kind == FileKind::Directory {
                self.gather(attr.handle, &path, into);
            }
        }
    }
}

impl Side for Managed {
    fn name(&self) -> &'static str {
        "the name space"
    }

    fn clear(&mut self) {
        *self = Self::new(World::new(1));
    }

    fn open_slots(&self) -> Vec<(usize, u32)> {
        self.slots.keys().copied().collect()
    }

    fn act(&mut self, user: usize, act: &Act) -> Result<String> {
        let nothing_told = |_: Unlinked| String::new();
        let at = |path: &str| Target::below(Handle::root(7, 9), path);
        match act {
            Act::Mkdir { path, mode } => {
                let attr = self.run(user, Mkdir { target: at(path), mode: *mode })?.attr;
                self.confirm(attr)
            }
            Act::File { path, mode } => {
                let (target, kind) = (at(path), FileKind::Regular);
                let attr = self.run(user, Mknod { target, kind, mode: *mode, rdev: 0 })?.attr;
                self.confirm(attr)
            }
            Act::Fifo { path, mode } => {
                let (target, kind) = (at(path), FileKind::Fifo);
                let attr = self.run(user, Mknod { target, kind, mode: *mode, rdev: 0 })?.attr;
                self.confirm(attr)
            }
            Act::Symlink { to, path } => {
                let (target, path) = (at(path), to.into());
                let attr = self.run(user, Symlink { target, path })?.attr;
                self.confirm(attr)
            }
            Act::Link { old, new, follow } => {
                let (existing, new) = (at(old), at(new));
                let attr = self.run(user, Link { existing, follow: *follow, new })?.attr;
                self.confirm(attr)
            }
            Act::LinkOpen { slot, new } => {
                let existing = Target::object(self.slot(user, *slot)?.handle);
                let attr = self.run(user, Link { existing, follow: false, new: at(new) })?.attr;
                self.confirm(attr)
            }
            Act::Unlink { path } => self.run(user, Unlink { target: at(path) }).map(nothing_told),
            Act::Rmdir { path } => self.run(user, Rmdir { target: at(path) }).map(nothing_told),
            Act::Rename { old, new, flags } => {
                let flags = RenameFlags::from_bits(*flags).unwrap();
                let attr = self.run(user, Rename { from: at(old), to: at(new), flags })?.attr;
                self.confirm(attr)
            }
            Act::Chmod { path, mode } => {
                self.set(user, SetAttr { mode: Some(*mode), ..nothing(at(path)) })
            }
            Act::Chown { path, uid, gid, follow } => {
                let (uid, gid, follow) = (*uid, *gid, *follow);
                self.set(user, SetAttr { uid, gid, follow, ..nothing(at(path)) })
            }
            Act::Times { atime: Moment::Omit, mtime: Moment::Omit, .. } => Ok(String::new()),
            Act::Times { path, atime, mtime } => {
                let (atime, mtime) = (moment(*atime), moment(*mtime));
                self.set(user, SetAttr { atime, mtime, ..nothing(at(path)) })
            }
            Act::Stat { path, follow } => {
                let stat = Stat { target: at(path), follow: *follow, placement: false };
                let kind = self.run(user, stat)?.attr.kind;
                Ok(if kind == FileKind::Directory { "directory" } else { "other" }.to_owned())
            }
            Act::Readlink { path } => {
                let path = self.run(user, Readlink { target: at(path) })?.path;
                Ok(String::from_utf8(path.0).unwrap())
            }
            Act::Access { path, bits } => {
                let wanted = AccessBits::from_bits(*bits).unwrap();
                let check = CheckAccess { target: at(path), follow: true, wanted };
                self.run(user, check).map(|_| String::new())
            }
            Act::List { path } => {
                let (target, striping) = (at(path), Striping::default());
                let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
                let open = Open { target, flags, mode: 0, striping, open: u64::MAX };
                let dir = self.run(user, open)?.attr.handle;
                let entries = self.list(user, dir)?;
                let mut names: Vec<String> =
                    entries.into_iter().map(|e| String::from_utf8(e.name.0).unwrap()).collect();
                names.sort();
                Ok(names.join(" "))
            }
            Act::Truncate { path, size } => self.truncate(user, at(path), *size, None),
            Act::Open { path, how, mode, slot } => {
                self.open(user, path, *how, *mode, *slot).map(|()| String::new())
            }
            Act::Close { slot } => self.close(user, *slot),
            Act::Write { slot, end } => self.write(user, *slot, *end),
            Act::Append { slot } => self.append(user, *slot),
            Act::Ftruncate { slot, size } => {
                let Slot { handle, open, how, .. } = *self.slot(user, *slot)?;
                if !how.write {
                    return Err(EINVAL);
                }
                self.truncate(user, Target::object(handle), *size, Some(open))
            }
        }
    }

    fn tree(&mut self) -> BTreeMap<String, Shown> {
        let target = Target::object(self.world.root());
        let attr = self.stat(target);
        let mut tree = BTreeMap::from([(String::new(), self.show(&attr))]);
        self.gather(attr.handle, "", &mut tree);
        tree
    }
}

/// The credentials of one of the users.
pub fn who(user: usize) -> Credentials {
    let (uid, gid, gids) = USERS[user];
    Credentials { uid, gid, gids: gids.to_vec(), ..root() }
}

fn moment(moment: Moment) -> Option<SetTime> {
    match moment {
        Moment::Omit => None,
        Moment::Now => Some(SetTime::Now),
        Moment::At(seconds) => Some(SetTime::At(Time { seconds, nanos: 0 })),
    }
}

fn flags(how: How) -> OpenFlags {
    OpenFlags::NONE
        .with_if(how.read, OpenFlags::READ)
        .with_if(how.write, OpenFlags::WRITE)
        .with_if(how.create, OpenFlags::CREATE)
        .with_if(how.exclusive, OpenFlags::EXCLUSIVE)
        .with_if(how.truncate, OpenFlags::TRUNCATE)
        .with_if(how.append, OpenFlags::APPEND)
        .with_if(how.nofollow, OpenFlags::NOFOLLOW)
        .with_if(how.directory, OpenFlags::DIRECTORY)
        .with_if(how.nameless, OpenFlags::NAMELESS)
}
