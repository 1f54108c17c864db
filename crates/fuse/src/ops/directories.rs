//! Reading directories.

use std::sync::RwLockReadGuard;
use std::time::Duration;

use pvfs_client::Result;
use pvfs_net::blocking::Blocking;
use pvfs_net::runtime::Runtime;
use pvfs_wire::attr::{Attr, Entry, FileKind};
use pvfs_wire::ops::Target;

use crate::attributes::{file_attr, generation, kind_bits, nominal};
use crate::directory::{Line, OpenDirectory};
use crate::identity::Requester;
use crate::listings::Watched;
use crate::mounted::Mounted;
use crate::options::Cache;
use crate::protocol::answer::EntryOut;
use crate::protocol::listing::{Listing, Name};
use crate::protocol::{FileHandle, Kept};

impl Mounted {
    /// opendir(3). No message for the superuser: the kernel has just looked the directory up.
    /// Says what the kernel is to do with what it has of the names.
    pub fn opendir(&self, requester: Requester, node: u64) -> Result<(FileHandle, Kept)> {
        let handle = self.nodes.handle(node)?;
        if requester.uid != 0 && !self.kernel_checks {
            self.access(requester, node, READ)?;
        }
        let user = self.identities.user(requester)?;
        let flags = self.listing_flags(node);
        Ok((self.directories.insert(OpenDirectory::new(handle, user)), flags))
    }

    fn listing_flags(&self, node: u64) -> Kept {
        if self.options.cache != Cache::Lease {
            return Kept::NONE;
        }
        let (cache, now) = (self.filesystem.cache(), Blocking.now());
        let since = cache.mark(now);
        let watched = cache
            .attributes(node, now)
            .map(|(_, until)| Watched { since, until: now.after(now.until(until) / 2) });
        let holds = |since| cache.is_untouched_since(since, node, now);
        match self.nodes.opened_directory(node, watched, now, holds) {
            true => Kept::CACHE_DIR | Kept::KEEP_CACHE,
            false => Kept::CACHE_DIR,
        }
    }

    /// closedir(3)
    pub fn releasedir(&self, node: u64, number: FileHandle) {
        self.directories.remove(number);
        self.nodes.closed_directory(node);
    }

    /// Names only.
    pub fn readdir(
        &self,
        requester: Requester,
        number: FileHandle,
        offset: u64,
        lines: &mut Listing,
    ) -> Result<()> {
        let directory = self.directories.get(number)?;
        directory.list(self, requester.pid, offset, false, |line| lines.add(name(line)))
    }

    /// Names and attributes; the kernel refers to each object from now on, but for the dots. The reply is to be sent
    /// while what is returned is held.
    pub fn readdirplus(
        &self,
        requester: Requester,
        number: FileHandle,
        offset: u64,
        lines: &mut Listing,
    ) -> Result<RwLockReadGuard<'_, ()>> {
        let directory = self.directories.get(number)?;
        // What has to be asked for is asked for before the kernel is being told.
        directory.prepare(self, requester, offset)?;
        let telling = self.coherence.telling();
        directory.list(self, requester.pid, offset, true, |line| {
            self.add_line(requester, directory.handle.object, line, lines)
        })?;
        Ok(telling)
    }

    /// Adds a line; says whether it found no room.
    fn add_line(
        &self,
        requester: Requester,
        directory: u64,
        line: &Line<'_>,
        lines: &mut Listing,
    ) -> bool {
        let Some(attr) = self.attr_of(requester, directory, line) else { return false };
        let ttl = match line.entry {
            Some(_) => self.name_ttl(directory, line.name, Some(line.object)),
            None => Duration::ZERO,
        };
        let ttl = ttl.min(self.attr_ttl(&attr));
        let entry = EntryOut::new(file_attr(&attr), generation(attr.handle), ttl, ttl);
        let full = lines.add_plus(&entry, name(line));
        if !full && line.entry.is_some() {
            self.nodes.looked_up(&attr);
            if !ttl.is_zero() {
                self.nodes.believed(line.object);
            }
        }
        full
    }

    /// The attributes of a line; nothing when its object is gone meanwhile.
    ///
    /// Those of a file open here are asked for again unless they are of this moment: were the kernel told an
    /// old size, it would drop pages of its own that lie beyond.
    fn attr_of(&self, requester: Requester, directory: u64, line: &Line<'_>) -> Option<Attr> {
        let Some(entry) = line.entry else { return Some(dot(directory, line)) };
        if self.options.cache == Cache::Lease {
            return Some(self.kept_attr_of(line, entry));
        }
        let outdated = line.stale && self.nodes.is_open(line.object);
        match entry.attr.filter(|_| !outdated) {
            Some(attr) => Some(attr),
            None => self.missing_attr(requester, entry),
        }
    }

    /// The attributes of a line as the cache has them, or as they were fetched. Nobody is asked while the kernel
    /// is being told.
    fn kept_attr_of(&self, line: &Line<'_>, entry: &Entry) -> Attr {
        let kept = self.filesystem.cache().attributes(line.object, Blocking.now());
        let attr = kept.map(|(attr, _)| attr).or(entry.attr);
        attr.unwrap_or_else(|| nominal(entry.handle, entry.kind))
    }

    /// Attributes of an entry that are not known, or may not be told any more; nothing when its object is gone.
    pub fn missing_attr(&self, requester: Requester, entry: &Entry) -> Option<Attr> {
        match self.stat(requester, &Target::object(entry.handle)) {
            Ok(attr) => Some(attr),
            Err(error) if is_gone(&error) => None,
            Err(_) => Some(nominal(entry.handle, entry.kind)),
        }
    }
}

fn name<'a>(line: &Line<'a>) -> Name<'a> {
    let Line { object, offset, kind, name, .. } = *line;
    Name { object, offset, kind: kind_bits(kind), name }
}

/// `R_OK`
const READ: u32 = 4;

fn is_gone(error: &pvfs_client::Error) -> bool {
    use pvfs_wire::Errno;
    matches!(error.errno(), Errno::ENOENT | Errno::ESTALE)
}

/// The kernel looks at the number and kind of a dot only.
fn dot(directory: u64, line: &Line<'_>) -> Attr {
    let handle = pvfs_wire::Handle { object: directory, ..Default::default() };
    nominal(pvfs_wire::Handle { object: line.object, ..handle }, FileKind::Directory)
}
