//! Directory streams.
//!
//! A position is 0 before `.`, 1 before `..`, 2 before the first entry, and the manager's cookie of the last
//! entry seen from then on, so that it holds across rewinds, changes and restarts.

use std::os::fd::RawFd;
use std::sync::Arc;

use pvfs_client::{Directory, block_on};
use pvfs_wire::attr::{Entry, FileKind};
use pvfs_wire::{Errno, Handle};

use crate::description::Description;
use crate::errno::Reach;
use crate::process::Process;

/// A name in a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Item {
    /// The name.
    pub name: Vec<u8>,
    /// The number of the object.
    pub object: u64,
    /// What it is.
    pub kind: FileKind,
    /// Where to go on after it.
    pub position: u64,
}

/// A directory that is being read.
pub struct Stream {
    description: Arc<Description>,
    position: u64,
    page: std::vec::IntoIter<Entry>,
    /// The last entry of the page is the last of all.
    end: bool,
    parent: Option<Handle>,
    /// Entries asked for at once.
    page_entries: u32,
}

impl Process {
    /// Begins to read a directory that is open.
    pub fn stream(&self, fd: RawFd) -> Reach<Stream> {
        let description = self.description(fd)?;
        if description.record.path_only {
            return Err(Errno::EBADF.into());
        }
        if description.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let page = Vec::new().into_iter();
        let page_entries = PAGE_ENTRIES;
        Ok(Stream { description, position: 0, page, end: false, parent: None, page_entries })
    }

    /// The next entry; nothing at the end.
    pub fn next_item(&self, stream: &mut Stream) -> Reach<Option<Item>> {
        let handle = stream.description.record.handle;
        if stream.position == 0 {
            if stream.parent.is_none() {
                self.fetch(stream, 0)?;
            }
            if stream.parent.is_none() {
                // One that was removed has not even the dots.
                return Ok(None);
            }
            stream.position = 1;
            return Ok(Some(dots(b".", handle, 1)));
        }
        if stream.position == 1 {
            let parent = match stream.parent {
                Some(parent) => parent,
                None => {
                    self.fetch(stream, 0)?;
                    stream.parent.unwrap_or(handle)
                }
            };
            stream.position = FIRST;
            return Ok(Some(dots(b"..", parent, FIRST)));
        }
        loop {
            if let Some(entry) = stream.page.next() {
                stream.position = entry.cookie;
                let (object, position) = (entry.handle.object, entry.cookie);
                let item = Item { name: entry.name.0, object, kind: entry.kind, position };
                return Ok(Some(item));
            }
            if stream.end {
                return Ok(None);
            }
            let cookie = if stream.position <= FIRST { 0 } else { stream.position };
            self.fetch(stream, cookie)?;
        }
    }

    fn fetch(&self, stream: &mut Stream, cookie: u64) -> Reach<()> {
        let user = self.user()?;
        let handle = stream.description.record.handle;
        match block_on(user.readdir_known(handle, cookie, stream.page_entries, false)) {
            Ok(Directory { entries, end, parent }) => {
                stream.end = end || entries.is_empty();
                stream.page = entries.into_iter();
                stream.parent = Some(parent);
                Ok(())
            }
            // A directory that was removed while it is open is empty.
            Err(error) if error.errno() == Errno::ESTALE => {
                stream.end = true;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Stream {
    /// Where it is.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// No more than this many entries will be asked for.
    pub fn expect(&mut self, entries: usize) {
        self.page_entries = u32::try_from(entries).unwrap_or(PAGE_ENTRIES).min(PAGE_ENTRIES);
    }

    /// Goes on elsewhere; what was fetched is forgotten, so that 0 shows the directory as it is then.
    pub fn seek(&mut self, position: u64) {
        self.position = position;
        self.page = Vec::new().into_iter();
        self.end = false;
    }
}

fn dots(name: &[u8], handle: Handle, position: u64) -> Item {
    Item { name: name.to_vec(), object: handle.object, kind: FileKind::Directory, position }
}

/// Before the first entry. Managers give no entry a cookie as small.
pub(crate) const FIRST: u64 = 2;

const PAGE_ENTRIES: u32 = 1024;
