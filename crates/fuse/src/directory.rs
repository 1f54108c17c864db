//! An open directory: a page of entries from the manager serves many requests of the kernel.
//!
//! Offsets are the manager's cookies; those below [`FIRST_COOKIE`] are left to `.` and `..`.

use std::collections::HashSet;
use std::sync::Mutex;

use pvfs_client::{Result, User};
use pvfs_net::blocking::Blocking;
use pvfs_net::runtime::Runtime;
use pvfs_wire::attr::{Entry, FileKind};
use pvfs_wire::ops::Listing;
use pvfs_wire::{Errno, Handle};

use crate::identity::Requester;
use crate::mounted::{Mounted, wait};
use crate::options::Cache;

/// An open directory.
pub struct OpenDirectory {
    /// The directory.
    pub handle: Handle,
    user: User<Blocking>,
    page: Mutex<Page>,
}

/// Entries of a directory, and which come next.
#[derive(Default)]
struct Page {
    /// The cookie these entries follow; nothing was fetched yet while absent.
    after: Option<u64>,
    entries: Vec<Entry>,
    next: usize,
    end: bool,
    parent: u64,
    /// Fetched for the request that comes next.
    prepared: bool,
}

/// One line of a listing.
pub struct Line<'a> {
    /// Its object's number.
    pub object: u64,
    /// Where to go on after it.
    pub offset: u64,
    /// What it is.
    pub kind: FileKind,
    /// Its name.
    pub name: &'a [u8],
    /// The entry it is made from; absent for `.` and `..`.
    pub entry: Option<&'a Entry>,
    /// Whether the entry was fetched for an earlier request, so that its attributes may be outdated.
    pub stale: bool,
}

impl OpenDirectory {
    /// A directory opened by this user.
    pub fn new(handle: Handle, user: User<Blocking>) -> Self {
        Self { handle, user, page: Mutex::default() }
    }

    /// Fetches what the lines after `offset` are made from, so that they can be told without asking anybody.
    pub fn prepare(&self, mounted: &Mounted, requester: Requester, offset: u64) -> Result<()> {
        let mut page = self.page.lock().expect(NO_PANIC);
        page.prepare(offset, |cookie, entries_max| {
            self.fetch(mounted, requester.pid, cookie, entries_max, true)
        })?;
        if mounted.options.cache == Cache::Lease {
            page.complete_lines(mounted, requester);
        }
        Ok(())
    }

    /// Adds the lines after `offset` until `add` says that no more fit.
    pub fn list(
        &self,
        mounted: &Mounted,
        thread: u32,
        offset: u64,
        attributes: bool,
        add: impl FnMut(&Line<'_>) -> bool,
    ) -> Result<()> {
        let mut page = self.page.lock().expect(NO_PANIC);
        let fetch =
            |cookie, entries_max| self.fetch(mounted, thread, cookie, entries_max, attributes);
        page.list(self.handle.object, offset, fetch, add)
    }

    fn fetch(
        &self,
        mounted: &Mounted,
        thread: u32,
        cookie: u64,
        entries_max: u32,
        attributes: bool,
    ) -> Result<Listing> {
        let mut listing = if mounted.options.cache == Cache::Lease {
            wait(thread, self.user.readdir_cached(self.handle, cookie, entries_max))?
        } else {
            let known = self.user.readdir_known(self.handle, cookie, entries_max, attributes);
            wait(thread, known)?
        };
        self.complete(mounted, thread, &mut listing.entries)?;
        Ok(listing)
    }

    /// Asks the iods for the sizes that the manager does not know, as far as they answer.
    fn complete(&self, mounted: &Mounted, thread: u32, entries: &mut [Entry]) -> Result<()> {
        for entry in &mut *entries {
            let Some(attr) = &mut entry.attr else { continue };
            if entry.placement.as_ref().is_some_and(|placement| mounted.covers_silent(placement)) {
                entry.placement = None;
                *attr = mounted.nodes.with_known_size(*attr).unwrap_or(*attr);
            }
        }
        let failure = wait(thread, async { Ok(self.user.complete_entries(entries).await) })?;
        if let Some(error) = failure {
            mounted.note_silence(&error);
        }
        Ok(())
    }
}

impl Page {
    fn list(
        &mut self,
        own: u64,
        offset: u64,
        fetch: impl Fn(u64, u32) -> Result<Listing>,
        mut add: impl FnMut(&Line<'_>) -> bool,
    ) -> Result<()> {
        let mut cookie = if offset < FIRST_COOKIE { 0 } else { offset };
        let mut stale = !std::mem::take(&mut self.prepared);
        // The beginning is asked for again by opendir and rewinddir, which want the directory as it is now.
        if offset == 0 && stale || !self.seek(cookie) {
            self.fetch(cookie, &fetch)?;
            stale = false;
        }
        if self.add_dots(own, offset, &mut add) {
            return Ok(());
        }
        loop {
            while let Some(entry) = self.entries.get(self.next) {
                if add(&line(entry, stale)) {
                    return Ok(());
                }
                cookie = entry.cookie;
                self.next += 1;
            }
            // Whatever was added is an answer; the next page belongs to the next request.
            if self.end || cookie >= FIRST_COOKIE && cookie != offset {
                return Ok(());
            }
            self.fetch(cookie, &fetch)?;
            stale = false;
        }
    }

    /// Fetches what a list from here would have to, if anything.
    fn prepare(&mut self, offset: u64, fetch: impl Fn(u64, u32) -> Result<Listing>) -> Result<()> {
        let cookie = if offset < FIRST_COOKIE { 0 } else { offset };
        let is_at_end = |page: &Self| page.next == page.entries.len() && !page.end;
        if offset == 0 || !self.seek(cookie) || is_at_end(self) {
            self.fetch(cookie, fetch)?;
            self.prepared = true;
        }
        Ok(())
    }

    /// Asks for the attributes of the next lines that are not known, and of those whose file is open here unless they
    /// are of this moment: were the kernel told an old size, it would drop pages of its own that lie beyond.
    fn complete_lines(&mut self, mounted: &Mounted, requester: Requester) {
        let open: HashSet<u64> = mounted.nodes.open().into_iter().collect();
        let (cache, now) = (mounted.filesystem.cache(), Blocking.now());
        let lines = self.entries.iter_mut().skip(self.next).take(LINES_MAX);
        for entry in lines {
            let outdated = !self.prepared && open.contains(&entry.handle.object);
            let known = entry.attr.is_some() && !outdated;
            if !known && cache.attributes(entry.handle.object, now).is_none() {
                entry.attr = mounted.missing_attr(requester, entry);
            }
        }
    }

    /// Moves to the entry after `cookie` if it is in this page.
    fn seek(&mut self, cookie: u64) -> bool {
        let Some(after) = self.after else { return false };
        let at =
            |index: usize| index.checked_sub(1).map_or(after, |before| self.entries[before].cookie);
        if at(self.next) != cookie {
            match (0..=self.entries.len()).find(|index| at(*index) == cookie) {
                Some(index) => self.next = index,
                None => return false,
            }
        }
        true
    }

    fn fetch(&mut self, cookie: u64, fetch: impl Fn(u64, u32) -> Result<Listing>) -> Result<()> {
        let entries_max = if cookie == 0 { ENTRIES_FIRST } else { ENTRIES_NEXT };
        let listing = match fetch(cookie, entries_max) {
            // A directory that was removed while open has no entries.
            Err(error) if matches!(error.errno(), Errno::ESTALE | Errno::ENOENT) => Listing {
                entries: Vec::new(),
                end: true,
                parent: Handle { object: self.parent, ..Handle::default() },
            },
            listing => listing?,
        };
        // A manager that sends nothing and yet promises more would keep us here for ever.
        let end = listing.end || listing.entries.is_empty();
        let (entries, parent) = (listing.entries, listing.parent.object);
        *self = Self { after: Some(cookie), entries, next: 0, end, parent, prepared: false };
        Ok(())
    }

    fn add_dots(&self, own: u64, offset: u64, add: &mut impl FnMut(&Line<'_>) -> bool) -> bool {
        let dot = |object, offset, name| Line {
            object,
            offset,
            kind: FileKind::Directory,
            name,
            entry: None,
            stale: false,
        };
        let parent = if self.parent == 0 { own } else { self.parent };
        offset < 1 && add(&dot(own, 1, b".")) || offset < 2 && add(&dot(parent, 2, b".."))
    }
}

fn line(entry: &Entry, stale: bool) -> Line<'_> {
    Line {
        object: entry.handle.object,
        offset: entry.cookie,
        kind: entry.kind,
        name: &entry.name.0,
        entry: Some(entry),
        stale,
    }
}

const NO_PANIC: &str = "nobody panics while they hold the page";

/// Lines that fit into a reply.
const LINES_MAX: usize = 8192;

/// Managers give no entry a smaller cookie.
const FIRST_COOKIE: u64 = 8;

/// Entries asked for at first: most directories are smaller.
const ENTRIES_FIRST: u32 = 1024;

/// Entries asked for when a directory has turned out to be large.
const ENTRIES_NEXT: u32 = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_wire::Bytes;
    use std::cell::Cell;

    /// A directory whose entries are named by their cookies, and how often it was asked.
    struct Model {
        cookies: Vec<u64>,
        page_entries: usize,
        asked: Cell<u32>,
    }

    impl Model {
        fn new(count: u64, page_entries: usize) -> Self {
            let cookies = (0..count).map(|index| FIRST_COOKIE + index * 3).collect();
            Self { cookies, page_entries, asked: Cell::new(0) }
        }

        fn fetch(&self, cookie: u64) -> Listing {
            self.asked.set(self.asked.get() + 1);
            let rest: Vec<u64> = self.cookies.iter().copied().filter(|own| *own > cookie).collect();
            let taken = rest.iter().take(self.page_entries);
            let entries: Vec<Entry> = taken.map(|cookie| entry(*cookie)).collect();
            let end = entries.len() == rest.len();
            Listing { entries, end, parent: Handle { object: 1, ..Handle::default() } }
        }

        fn lines(&self, page: &mut Page, offset: u64, room: usize) -> Vec<(String, u64)> {
            let mut lines = Vec::new();
            let add = |line: &Line<'_>| {
                let full = lines.len() == room;
                if !full {
                    let name = String::from_utf8(line.name.to_vec()).unwrap();
                    lines.push((name, line.offset));
                }
                full
            };
            page.list(42, offset, |cookie, _| Ok(self.fetch(cookie)), add).unwrap();
            lines
        }

        /// As the kernel reads: each request goes on where the one before ended.
        fn names(&self, room: usize) -> Vec<String> {
            let mut page = Page::default();
            let (mut names, mut offset) = (Vec::new(), 0);
            loop {
                let lines = self.lines(&mut page, offset, room);
                let Some(last) = lines.last() else { return names };
                offset = last.1;
                names.extend(lines.into_iter().map(|line| line.0));
            }
        }

        fn expected(&self) -> Vec<String> {
            let own = self.cookies.iter().map(u64::to_string);
            [".".to_owned(), "..".to_owned()].into_iter().chain(own).collect()
        }
    }

    fn entry(cookie: u64) -> Entry {
        Entry {
            name: Bytes::from(cookie.to_string()),
            cookie,
            handle: Handle { object: cookie, ..Handle::default() },
            kind: FileKind::Regular,
            attr: None,
            placement: None,
        }
    }

    #[test]
    fn every_entry_is_listed_once_whatever_fits_into_a_request() {
        for count in [0, 1, 2, 5, 17] {
            for page_entries in [1, 2, 4, 100] {
                for room in [1, 2, 3, 7, 100] {
                    let model = Model::new(count, page_entries);
                    let case =
                        format!("{count} entries, pages of {page_entries}, {room} at a time");
                    assert_eq!(model.names(room), model.expected(), "{case}");
                }
            }
        }
    }

    #[test]
    fn what_is_prepared_is_not_fetched_again() {
        let model = Model::new(20, 6);
        let mut page = Page::default();
        let mut offset = 0;
        for asked in [1, 2, 3, 4] {
            page.prepare(offset, |cookie, _| Ok(model.fetch(cookie))).unwrap();
            let lines = model.lines(&mut page, offset, 100);
            assert_eq!(model.asked.get(), asked);
            offset = lines.last().unwrap().1;
        }
        page.prepare(offset, |cookie, _| Ok(model.fetch(cookie))).unwrap();
        assert!(model.lines(&mut page, offset, 100).is_empty());
    }

    #[test]
    fn a_page_serves_many_requests() {
        let model = Model::new(1000, 500);
        model.names(10);
        assert_eq!(model.asked.get(), 2);
    }

    #[test]
    fn any_offset_ever_given_can_be_returned_to() {
        let model = Model::new(20, 6);
        let mut page = Page::default();
        let expected = model.expected();
        let offsets = [0, 1, 2].into_iter().chain(model.cookies.iter().copied());
        let places: Vec<(usize, u64)> = offsets.enumerate().collect();
        for (index, offset) in places.iter().rev().chain(&places) {
            let name = model.lines(&mut page, *offset, 1).pop().map(|line| line.0);
            assert_eq!(name.as_ref(), expected.get(*index), "offset {offset}");
        }
    }

    #[test]
    fn the_beginning_is_always_read_anew() {
        let mut model = Model::new(3, 100);
        let mut page = Page::default();
        assert_eq!(model.lines(&mut page, 0, 100).len(), 5);
        model.cookies.push(1000);
        assert_eq!(model.lines(&mut page, 0, 100).len(), 6);
    }

    #[test]
    fn a_removed_directory_lists_nothing_more() {
        let mut page = Page::default();
        let gone = |_, _| Err(Errno::ESTALE.into());
        let mut names = Vec::new();
        page.list(42, 0, gone, |line| {
            names.push(line.object);
            false
        })
        .unwrap();
        assert_eq!(names, [42, 42]);
    }
}
