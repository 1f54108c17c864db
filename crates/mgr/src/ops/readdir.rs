//! Readdir.

use pvfs_wire::attr::Entry;
use pvfs_wire::ops::{AccessBits, Listing, Readdir};
use pvfs_wire::{Bytes, Errno, Wire};

use crate::execute::{Context, Execute};
use crate::namespace::parent;

impl Execute for Readdir {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Listing, Errno> {
        let dir = cx.node(self.dir)?;
        let above = parent(cx, &dir)?.object;
        cx.who.require(&dir.inode, AccessBits::READ)?;
        // Who may not search a directory learns its names, not what they are like.
        let attributes = self.attributes && cx.who.may(&dir.inode, AccessBits::EXECUTE);
        let mut page = Page { entries: Vec::new(), bytes: 0 };
        let entries_max = self.entries_max.clamp(1, ENTRIES_MAX) as usize;
        let end = cx.list(dir.object, self.cookie, |cookie, named| {
            if page.entries.len() == entries_max || page.bytes >= PAGE_BYTES {
                return Ok(false);
            }
            let node = attributes.then(|| cx.load(named.object)).transpose()?;
            page.push(Entry {
                name: Bytes(named.name),
                cookie,
                handle: cx.fs.handle(named.object),
                kind: named.kind,
                attr: node.as_ref().map(|node| cx.attr(node)),
                placement: node.and_then(|node| cx.stated(&node, false).placement),
            });
            Ok(true)
        })?;
        Ok(Listing { entries: page.entries, end, parent: cx.fs.handle(above) })
    }
}

struct Page {
    entries: Vec<Entry>,
    bytes: usize,
}

impl Page {
    fn push(&mut self, entry: Entry) {
        let placement_bytes = entry.placement.as_ref().map_or(0, |place| place.to_bytes().len());
        self.bytes += ENTRY_BYTES + entry.name.len() + placement_bytes;
        self.entries.push(entry);
    }
}

/// More are never given at once, so that a round is not held up.
const ENTRIES_MAX: u32 = 16 << 10;

/// A page is full with this; the largest entry then still fits into a body of 2 MiB.
const PAGE_BYTES: usize = 1 << 20;

/// An entry with attributes but without name and placement: 4 + 8 + 16 + 1 + 1 + 106 + 1.
const ENTRY_BYTES: usize = 137;
