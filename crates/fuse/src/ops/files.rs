//! Opening and closing regular files.

use std::ffi::OsStr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pvfs_client::cache::Mark;
use pvfs_client::{Error, OpenFile, Result, User};
use pvfs_net::blocking::Blocking;
use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, FileKind, Striping};
use pvfs_wire::ops::{Asked, Lock, LockFamily, LockKind, OpenFlags, Target};
use rustix::fs::OFlags;

use crate::handles::OpenEntry;
use crate::identity::Requester;
use crate::kernel::{kept, through};
use crate::mounted::{Mounted, wait};
use crate::options::Cache;
use crate::pages::{Caching, Opening, Through, Version};
use crate::protocol::{FileHandle, Kept};

/// An open file, as the kernel is told of it.
pub struct Opened {
    /// Attributes at the time.
    pub attr: Attr,
    /// Whether this open created it.
    pub created: bool,
    /// What the kernel calls the open file.
    pub number: FileHandle,
    /// How the page cache is used.
    pub kept: Kept,
}

/// An open of our own, for a program that is about to open the file.
pub struct Pin {
    file: OpenFile,
    user: User<Blocking>,
}

impl Mounted {
    /// open(2) of an object the kernel has looked up.
    pub fn open(
        self: &Arc<Self>,
        requester: Requester,
        node: u64,
        flags: OFlags,
    ) -> Result<Opened> {
        let opened = self.open_target(requester, self.object(node)?, flags, NOTHING_NEW);
        match &opened {
            Err(error) if error.errno() == Errno::ESTALE => {
                self.unpin(self.replaced.missed(requester.pid, flags));
            }
            _ => self.unpin(self.replaced.opened(requester.pid)),
        }
        opened
    }

    /// The object of a name. For who has just missed one by its being replaced, the object stays until it is open.
    pub fn lookup_to_open(
        self: &Arc<Self>,
        requester: Requester,
        parent: u64,
        name: &OsStr,
    ) -> Result<Option<Attr>> {
        let mut found = self.lookup(requester, parent, name)?;
        let Some(flags) = self.replaced.tries_again(requester.pid) else { return Ok(found) };
        for _ in 0..PIN_TRIES {
            let Some(attr) = found.filter(|attr| attr.kind == FileKind::Regular) else { break };
            match self.pin(requester, &attr, flags) {
                Err(error) if error.errno() == Errno::ESTALE => {
                    self.nodes.forget(attr.handle.object, 1);
                    found = self.lookup(requester, parent, name)?;
                }
                // What else may be wrong the program hears when it opens the file.
                _ => break,
            }
        }
        Ok(found)
    }

    fn pin(self: &Arc<Self>, requester: Requester, attr: &Attr, flags: OFlags) -> Result<()> {
        // Whatever else the open will do, it may at least do this.
        let access = wire_flags(flags & (OFlags::ACCMODE | FOR_EXECUTION));
        let target = &Target::object(attr.handle);
        let (opening, user) = self.act(requester, |user| async move {
            let opening = user.open_known(target.clone(), access, 0, Striping::default()).await?;
            Ok((opening, user))
        })?;
        if let Some(file) = opening.file {
            self.unpin(self.replaced.pin(requester.pid, Pin { file, user }));
        }
        Ok(())
    }

    fn unpin(self: &Arc<Self>, pins: impl IntoIterator<Item = Pin>) {
        for Pin { file, user } in pins {
            // The lease takes what cannot be given up now.
            self.closing.spawn(move || drop(wait(0, user.close(file))));
        }
    }

    /// Nobody came for them.
    pub fn give_up_pins(self: &Arc<Self>) {
        self.unpin(self.replaced.expired());
    }

    /// open(2) with O_CREAT of a name that was not there, or is not any more.
    pub fn create(
        self: &Arc<Self>,
        requester: Requester,
        parent: u64,
        name: &OsStr,
        asked: Asked,
        flags: OFlags,
    ) -> Result<Opened> {
        let target = self.below(parent, name)?;
        self.make(requester, target, asked, flags | OFlags::CREATE)
    }

    /// open(2) with O_TMPFILE: a file of this directory without a name.
    pub fn create_nameless(
        self: &Arc<Self>,
        requester: Requester,
        dir: u64,
        asked: Asked,
        flags: OFlags,
    ) -> Result<Opened> {
        self.make(requester, self.object(dir)?, asked, flags | OFlags::TMPFILE)
    }

    fn make(
        self: &Arc<Self>,
        requester: Requester,
        target: Target,
        asked: Asked,
        flags: OFlags,
    ) -> Result<Opened> {
        let opened = self.open_target(requester, target, flags, asked)?;
        self.nodes.looked_up(&opened.attr);
        // A file that was there after all may be one that others are writing.
        let placement = self.files.get(opened.number)?.file.placement.clone();
        match self.completed(requester, (opened.attr, Some(placement))) {
            Ok(shown) => Ok(Opened { attr: shown.attr(), ..opened }),
            Err(error) => {
                self.nodes.forget(opened.attr.handle.object, 1);
                self.release(opened.number, None);
                Err(error)
            }
        }
    }

    fn open_target(
        &self,
        requester: Requester,
        target: Target,
        flags: OFlags,
        asked: Asked,
    ) -> Result<Opened> {
        let (target, wire) = (&target, wire_flags(flags));
        let (opening, user) = self.act(requester, |user| async move {
            let (maker, mode) = (user.masked(asked.umask), asked.bits & 0o7777);
            let opening = maker.open_known(target.clone(), wire, mode, Striping::default()).await?;
            Ok((opening, user))
        })?;
        let (attr, created, watched) = (opening.attr, opening.created, opening.watched);
        let file = opening.file.ok_or_else(|| not_a_file(attr.kind))?;
        let through = through(self.options.direct, flags);
        let caching = self.pages_opened(&attr, watched, through);
        let writes_pages = through == Through::Writing && caching != Caching::Bypass;
        let number = self.files.insert(OpenEntry { writes_pages, ..entry(file, user, flags) });
        Ok(Opened { attr, created, number, kept: kept(caching) })
    }

    fn pages_opened(&self, attr: &Attr, watched: Option<Mark>, through: Through) -> Caching {
        // Past pages a program could not share a map, and where leases are not kept everybody seems to be others.
        let can_bypass = self.options.cache == Cache::Lease && self.maps_past_pages.load(Relaxed);
        let opening = Opening { version: Version::of(attr), watched, through, can_bypass };
        self.nodes.opened(attr.handle, opening, |mark| self.unchanged_since(mark, attr.handle))
    }

    /// A descriptor is closed: the byte-range locks of its owner go.
    pub fn flush(
        &self,
        requester: Requester,
        node: u64,
        number: FileHandle,
        owner: u64,
    ) -> Result<()> {
        if self.owners.take(node, owner) {
            let entry = self.files.get(number)?;
            self.unlock(requester.pid, &entry, LockFamily::Range, owner)?;
        }
        Ok(())
    }

    /// The last descriptor of an open file is closed. The manager hears of it later: until then it counts
    /// the file as being written and has the iods asked for its size, so nobody sees an old one.
    pub fn release(self: &Arc<Self>, number: FileHandle, flock_owner: Option<u64>) {
        let Some(entry) = self.files.remove(number) else { return };
        if let Some(_inline) = self.data.inline() {
            return self.close(entry, flock_owner);
        }
        let mounted = self.clone();
        self.closing.spawn(move || mounted.close(entry, flock_owner));
    }

    /// Closes everything, before the end.
    pub fn close_all(self: &Arc<Self>) {
        for entry in self.files.drain() {
            let mounted = self.clone();
            self.closing.spawn(move || mounted.close(entry, None));
        }
        self.unpin(self.replaced.drain());
        self.closing.drain(CLOSING_TIMEOUT);
    }

    fn close(&self, entry: Arc<OpenEntry>, flock_owner: Option<u64>) {
        // The lease takes what cannot be given up now.
        if let Some(owner) = flock_owner {
            let _ = self.unlock(0, &entry, LockFamily::Flock, owner);
        }
        for owner in entry.take_range_owners() {
            if self.owners.take(entry.node, owner) {
                let _ = self.unlock(0, &entry, LockFamily::Range, owner);
            }
        }
        let Some(entry) = sole(entry) else { return };
        if let Err(error) = wait(0, entry.user.close(entry.file)) {
            tracing::warn!(
                "closing object {}: {error}; the manager will settle its size",
                entry.node
            );
        }
        self.nodes.closed(entry.node, entry.writes_pages);
    }

    fn unlock(&self, thread: u32, entry: &OpenEntry, family: LockFamily, owner: u64) -> Result<()> {
        let whole = Lock {
            handle: entry.file.handle,
            family,
            owner,
            pid: 0,
            kind: LockKind::Unlock,
            start: 0,
            end: u64::MAX,
            wait_ms: 0,
        };
        wait(thread, entry.user.lock(whole, pvfs_client::Wait::No))
    }
}

/// The entry, once the requests that were just answered have let go of it.
fn sole(mut entry: Arc<OpenEntry>) -> Option<OpenEntry> {
    for _ in 0..SOLE_TRIES {
        match Arc::try_unwrap(entry) {
            Ok(entry) => return Some(entry),
            Err(shared) => entry = shared,
        }
        thread::sleep(Duration::from_millis(1));
    }
    tracing::warn!("object {} is still in use after its last close", entry.node);
    None
}

fn entry(file: OpenFile, user: User<Blocking>, flags: OFlags) -> OpenEntry {
    OpenEntry {
        node: file.handle.object,
        sync: flags.intersects(OFlags::DSYNC | OFlags::SYNC),
        append: flags.contains(OFlags::APPEND),
        writes_pages: false,
        unanswered: Mutex::default(),
        range_owners: Mutex::default(),
        file,
        user,
    }
}

/// Only regular files are opened through us; what else is found here was swapped in meanwhile.
fn not_a_file(kind: FileKind) -> Error {
    let errno = match kind {
        FileKind::Directory => Errno::EISDIR,
        FileKind::Symlink => Errno::ELOOP,
        _ => Errno::ENXIO,
    };
    errno.into()
}

/// The kernel has followed symlinks already, so a symlink that turns up is not followed again.
fn wire_flags(flags: OFlags) -> OpenFlags {
    let access = match flags.intersection(OFlags::ACCMODE) {
        _ if flags.contains(FOR_EXECUTION) => OpenFlags::EXECUTE,
        OFlags::WRONLY => OpenFlags::WRITE,
        OFlags::RDWR => OpenFlags::READ.with(OpenFlags::WRITE),
        _ => OpenFlags::READ,
    };
    access
        .with(OpenFlags::NOFOLLOW)
        .with_if(flags.contains(OFlags::CREATE), OpenFlags::CREATE)
        .with_if(flags.contains(OFlags::EXCL), OpenFlags::EXCLUSIVE)
        .with_if(flags.contains(OFlags::TRUNC), OpenFlags::TRUNCATE)
        .with_if(flags.contains(OFlags::APPEND), OpenFlags::APPEND)
        .with_if(flags.contains(OFlags::TMPFILE), OpenFlags::DIRECTORY | OpenFlags::NAMELESS)
}

/// A name that is replaced so often in a row is not worth more.
const PIN_TRIES: u32 = 64;

/// The mode of an open that makes no file.
const NOTHING_NEW: Asked = Asked { bits: 0, umask: 0 };

/// The kernel's own flag of an execve(2), which may read what the user may only execute.
const FOR_EXECUTION: OFlags = OFlags::from_bits_retain(0x20);

/// Milliseconds to wait for a request that has been answered but not yet returned.
const SOLE_TRIES: u32 = 5000;

/// How long an unmount waits for the manager to hear of the last closes; its lease ends the rest.
const CLOSING_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_mean_the_same_on_the_wire() {
        let base = OpenFlags::NOFOLLOW;
        assert_eq!(wire_flags(OFlags::RDONLY), base.with(OpenFlags::READ));
        assert_eq!(wire_flags(OFlags::WRONLY), base.with(OpenFlags::WRITE));
        let all = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC | OFlags::APPEND;
        let expected = [
            OpenFlags::READ,
            OpenFlags::WRITE,
            OpenFlags::CREATE,
            OpenFlags::EXCLUSIVE,
            OpenFlags::TRUNCATE,
            OpenFlags::APPEND,
        ];
        assert_eq!(wire_flags(all), expected.into_iter().fold(base, OpenFlags::with));
        let nameless = OpenFlags::DIRECTORY | OpenFlags::NAMELESS | OpenFlags::EXCLUSIVE;
        let expected = base.with(OpenFlags::WRITE).with(nameless);
        assert_eq!(wire_flags(OFlags::WRONLY | OFlags::TMPFILE | OFlags::EXCL), expected);
        let execution = wire_flags(OFlags::RDONLY | FOR_EXECUTION);
        assert_eq!(execution, base.with(OpenFlags::EXECUTE), "who may execute need not read");
    }
}
