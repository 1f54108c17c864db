//! What the kernel knows: each object it holds a reference to, until it forgets it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use pvfs_client::cache::Mark;
use pvfs_net::runtime::Instant;
use pvfs_wire::attr::{Attr, FileKind, Time};
use pvfs_wire::handle::ROOT_OBJECT;
use pvfs_wire::{Errno, Handle};

use crate::listings::{Listings, Watched};
use crate::pages::{Caching, Opening, Pages};

/// The table of nodes. A node's number is its object's id, so nothing has to be made up.
pub struct Nodes {
    table: Mutex<Table>,
}

struct Table {
    nodes: HashMap<u64, Node>,
    /// What was recalled before this is known to the nodes.
    recalled: Option<Mark>,
}

/// One object.
#[derive(Clone, Debug)]
struct Node {
    handle: Handle,
    /// References the kernel has and will give back with forget.
    lookups: u64,
    /// Files of this mount that are open on it.
    opens: u32,
    /// Whether the kernel may believe what it was told of attributes.
    is_believed: bool,
    /// What the kernel has of its data.
    pages: Pages,
    /// The size last known for certain, by attributes or by a write of this mount.
    size: Option<u64>,
    mode: u32,
    /// When a write of this mount was done last, until somebody sets the time.
    written: Option<Time>,
    /// What was last told of a directory: it can still be some program's working directory when it is gone.
    directory: Option<Box<Attr>>,
    /// What the kernel may have of its names.
    listings: Option<Box<Listings>>,
}

impl Node {
    fn new(handle: Handle) -> Self {
        Self {
            handle,
            lookups: 0,
            opens: 0,
            is_believed: false,
            pages: Pages::default(),
            size: None,
            mode: 0,
            written: None,
            directory: None,
            listings: None,
        }
    }

    fn is_open_directory(&self) -> bool {
        self.listings.as_ref().is_some_and(|listings| listings.is_open())
    }
}

impl Nodes {
    /// A table with nothing but the root, which is never forgotten.
    pub fn new(root: Handle) -> Self {
        let root = Node { lookups: 1, ..Node::new(root) };
        let nodes = HashMap::from([(ROOT_OBJECT, root)]);
        Self { table: Mutex::new(Table { nodes, recalled: None }) }
    }

    /// The handle of a node; ESTALE when the kernel should not know it.
    pub fn handle(&self, node: u64) -> Result<Handle, Errno> {
        self.lock().nodes.get(&node).map(|node| node.handle).ok_or(Errno::ESTALE)
    }

    /// The kernel is given one more reference.
    pub fn looked_up(&self, attr: &Attr) {
        let mut table = self.lock();
        let node = table.nodes.entry(attr.handle.object).or_insert_with(|| Node::new(attr.handle));
        node.lookups += 1;
        node.mode = attr.mode;
        if attr.kind == FileKind::Directory {
            node.directory = Some(Box::new(*attr));
        }
    }

    /// A directory that is gone, as those see it who are still in it: without a name.
    pub fn gone_directory(&self, node: u64) -> Option<Attr> {
        let last = *self.lock().nodes.get(&node)?.directory.as_deref()?;
        Some(Attr { nlink: 0, size: 0, ..last })
    }

    /// The kernel gives references back.
    pub fn forget(&self, node: u64, lookups: u64) {
        let mut table = self.lock();
        let Some(known) = table.nodes.get_mut(&node) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && known.opens == 0 && node != ROOT_OBJECT {
            table.nodes.remove(&node);
        }
    }

    /// A file is opened; says what that is to do with the pages the kernel has of it. `holds` tells of a time
    /// whether no change of the file was recalled since: it is asked here and now, so that a recall is either
    /// known to it or comes to [`Self::recalled`] afterwards.
    pub fn opened(
        &self,
        handle: Handle,
        opening: Opening,
        holds: impl Fn(Mark) -> bool,
    ) -> Caching {
        let mut table = self.lock();
        let recalled = table.recalled;
        let opening = Opening { watched: opening.watched.filter(|mark| holds(*mark)), ..opening };
        let node = table.nodes.entry(handle.object).or_insert_with(|| Node::new(handle));
        node.opens += 1;
        node.pages.opened(opening, |mark| holds(recalled.map_or(mark, |later| mark.max(later))))
    }

    /// A file is closed that was opened so.
    pub fn closed(&self, node: u64, wrote_pages: bool) {
        let mut table = self.lock();
        let Some(known) = table.nodes.get_mut(&node) else { return };
        known.opens = known.opens.saturating_sub(1);
        if wrote_pages {
            known.pages.writer_closed();
        }
        if known.lookups == 0 && known.opens == 0 && node != ROOT_OBJECT {
            table.nodes.remove(&node);
        }
    }

    /// A directory is opened; says whether what the kernel has of its names holds ([`Listings::opened`]).
    pub fn opened_directory(
        &self,
        node: u64,
        watched: Option<Watched>,
        now: Instant,
        holds: impl Fn(Mark) -> bool,
    ) -> bool {
        let mut table = self.lock();
        let Some(node) = table.nodes.get_mut(&node) else { return false };
        node.listings.get_or_insert_default().opened(watched, now, holds)
    }

    /// It is closed.
    pub fn closed_directory(&self, node: u64) {
        if let Some(node) = self.lock().nodes.get_mut(&node)
            && let Some(listings) = &mut node.listings
        {
            listings.closed();
        }
    }

    /// Whether a program may read this directory again from the beginning without opening it.
    pub fn is_open_directory(&self, node: u64) -> bool {
        self.lock().nodes.get(&node).is_some_and(Node::is_open_directory)
    }

    /// All of that kind.
    pub fn open_directories(&self) -> Vec<u64> {
        let table = self.lock();
        let open = table.nodes.iter().filter(|(_, node)| node.is_open_directory());
        open.map(|(number, _)| *number).collect()
    }

    /// What the kernel has of this file's data may not be what the file is.
    pub fn doubt_pages(&self, node: u64) {
        if let Some(node) = self.lock().nodes.get_mut(&node) {
            node.pages.doubt();
        }
    }

    /// Others change these, or everything; all that was recalled before `mark` is among what was told here.
    pub fn recalled(&self, objects: Option<&[u64]>, mark: Mark) {
        let mut table = self.lock();
        match objects {
            None => table.nodes.values_mut().for_each(|node| node.pages.recalled()),
            Some(objects) => {
                for object in objects {
                    if let Some(node) = table.nodes.get_mut(object) {
                        node.pages.recalled();
                    }
                }
            }
        }
        table.recalled = Some(mark);
    }

    /// Whether nobody but this mount can have changed the file since its pages were good.
    pub fn is_ours(&self, node: u64, holds: impl Fn(Mark) -> bool) -> bool {
        let table = self.lock();
        let alone = table.nodes.get(&node).and_then(|node| node.pages.alone_since());
        alone.is_some_and(|mark| holds(table.recalled.map_or(mark, |later| mark.max(later))))
    }

    /// Whether a program may be writing through pages: dropping them now could leave an old one.
    pub fn pages_are_written(&self, node: u64) -> bool {
        self.lock().nodes.get(&node).is_some_and(|node| node.pages.are_written())
    }

    /// The kernel is being told attributes that it may believe.
    pub fn believed(&self, node: u64) {
        if let Some(node) = self.lock().nodes.get_mut(&node) {
            node.is_believed = true;
        }
    }

    /// The kernel is to be told that it may not any more; says whether it might have.
    pub fn disbelieved(&self, node: u64) -> bool {
        let mut table = self.lock();
        table.nodes.get_mut(&node).is_some_and(|node| std::mem::take(&mut node.is_believed))
    }

    /// Whether this mount has the object open.
    pub fn is_open(&self, node: u64) -> bool {
        self.lock().nodes.get(&node).is_some_and(|node| node.opens > 0)
    }

    /// All objects the kernel may hold something of.
    pub fn all(&self) -> Vec<u64> {
        self.lock().nodes.keys().copied().collect()
    }

    /// Those that this mount has open.
    pub fn open(&self) -> Vec<u64> {
        let table = self.lock();
        table.nodes.iter().filter(|(_, node)| node.opens > 0).map(|(number, _)| *number).collect()
    }

    /// A write up to `end` is done, the last of its file at `time`.
    pub fn wrote(&self, node: u64, end: u64, time: Option<Time>) {
        if let Some(node) = self.lock().nodes.get_mut(&node) {
            node.size = node.size.max(Some(end));
            node.written = node.written.max(time);
        }
    }

    /// A program has set the modification time: earlier writes do not count any more.
    pub fn chose_mtime(&self, node: u64) {
        if let Some(node) = self.lock().nodes.get_mut(&node) {
            node.written = None;
        }
    }

    /// The mode last seen.
    pub fn mode(&self, node: u64) -> u32 {
        self.lock().nodes.get(&node).map_or(0, |node| node.mode)
    }

    /// Notes what complete attributes say, and tells what is to be shown of them. The iods' clocks are coarse
    /// and the manager hears of writes only at the close: a program must not see the modification time of a file
    /// change when it does nothing but close it, so the time that the close will set is shown at once.
    #[must_use]
    pub fn seen(&self, attr: Attr) -> Attr {
        let mut table = self.lock();
        let Some(node) = table.nodes.get_mut(&attr.handle.object) else { return attr };
        node.mode = attr.mode;
        node.size = Some(attr.size);
        match node.written.filter(|written| *written > attr.ctime) {
            Some(written) => Attr { mtime: attr.mtime.max(written), ctime: written, ..attr },
            None => attr,
        }
    }

    /// Attributes whose size the iods could not tell, with what this mount and the manager know of it; nothing when that
    /// is nothing.
    pub fn with_known_size(&self, attr: Attr) -> Option<Attr> {
        let seen = self.lock().nodes.get(&attr.handle.object).and_then(|node| node.size);
        let told = Some(attr.size).filter(|told| *told > 0);
        seen.max(told).map(|size| Attr { size, ..attr })
    }

    /// How many nodes the kernel holds.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.lock().nodes.len()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no code panics while it holds the table")
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::pages::{Through, Version};
    use pvfs_client::cache::Cache;
    use pvfs_net::runtime::Instant;
    use pvfs_wire::attr::SizeState;

    /// A quiet file.
    pub fn attr(object: u64) -> Attr {
        Attr {
            handle: Handle { fsid: 1, generation: 2, object },
            kind: FileKind::Regular,
            mode: 0o644,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 10,
            size_state: SizeState::Settled,
            disk_bytes: None,
            atime: Time::default(),
            mtime: Time { seconds: 5, nanos: 0 },
            ctime: Time::default(),
            btime: Time::default(),
            change: 7,
            extras: pvfs_wire::attr::Extras::NONE,
        }
    }

    fn nodes() -> Nodes {
        Nodes::new(Handle::root(1, 2))
    }

    fn open(nodes: &Nodes, attr: &Attr, watched: Option<Mark>, cache: &Cache) -> Caching {
        let (version, through) = (Version::of(attr), Through::Writing);
        let opening = Opening { version, watched, through, can_bypass: true };
        let holds = |mark| cache.holds_since(mark, attr.handle.object, Instant(1));
        nodes.opened(attr.handle, opening, holds)
    }

    #[test]
    fn the_root_is_known_and_never_forgotten() {
        let nodes = nodes();
        nodes.forget(ROOT_OBJECT, 1000);
        assert_eq!(nodes.handle(ROOT_OBJECT), Ok(Handle::root(1, 2)));
    }

    #[test]
    fn a_node_lives_until_every_lookup_is_forgotten() {
        let nodes = nodes();
        (0..3).for_each(|_| nodes.looked_up(&attr(9)));
        nodes.forget(9, 2);
        assert_eq!(nodes.handle(9), Ok(attr(9).handle));
        nodes.forget(9, 1);
        assert_eq!(nodes.handle(9), Err(Errno::ESTALE));
        assert_eq!(nodes.count(), 1);
    }

    #[test]
    fn forgetting_more_than_was_looked_up_harms_nobody() {
        let nodes = nodes();
        nodes.looked_up(&attr(9));
        nodes.forget(9, u64::MAX);
        nodes.forget(9, 1);
        nodes.forget(77, 1);
        assert_eq!(nodes.count(), 1);
    }

    #[test]
    fn an_open_file_outlives_its_lookups() {
        let nodes = nodes();
        nodes.looked_up(&attr(9));
        open(&nodes, &attr(9), None, &Cache::default());
        nodes.forget(9, 1);
        assert!(nodes.is_open(9));
        nodes.closed(9, true);
        assert_eq!(nodes.count(), 1);
    }

    #[test]
    fn attributes_are_taken_back_only_from_a_kernel_that_may_believe_them() {
        let nodes = nodes();
        nodes.looked_up(&attr(9));
        assert!(!nodes.disbelieved(9), "it was never told for how long");
        nodes.believed(9);
        assert!(nodes.disbelieved(9));
        assert!(!nodes.disbelieved(9), "it knows already");
        assert!(!nodes.disbelieved(10));
    }

    #[test]
    fn a_silent_iod_does_not_make_done_writes_invisible() {
        let nodes = nodes();
        open(&nodes, &attr(9), None, &Cache::default());
        nodes.wrote(9, 500, None);
        nodes.wrote(9, 200, None);
        let known =
            |told| nodes.with_known_size(Attr { size: told, ..attr(9) }).map(|attr| attr.size);
        assert_eq!(known(10), Some(500));
        let _ = nodes.seen(Attr { size: 20, ..attr(9) });
        assert_eq!(known(10), Some(20), "cut meanwhile");
        let _ = nodes.seen(Attr { size: 0, ..attr(9) });
        assert_eq!(known(0), Some(0), "seen empty");
        let never_seen = nodes.with_known_size(Attr { size: 0, ..attr(10) });
        assert_eq!(never_seen, None, "nothing is not a size");
    }

    #[test]
    fn a_directory_that_is_gone_has_no_name_left() {
        let nodes = nodes();
        let directory = Attr { kind: FileKind::Directory, nlink: 2, ..attr(9) };
        nodes.looked_up(&directory);
        nodes.looked_up(&attr(10));
        assert_eq!(nodes.gone_directory(9), Some(Attr { nlink: 0, size: 0, ..directory }));
        assert_eq!(nodes.gone_directory(10), None, "no directory");
        assert_eq!(nodes.gone_directory(11), None, "not known");
    }

    #[test]
    fn the_time_of_a_write_is_shown_before_and_after_the_close_alike() {
        let nodes = nodes();
        let time = |seconds| Time { seconds, nanos: 0 };
        let told = Attr { mtime: time(5), ctime: time(5), ..attr(9) };
        open(&nodes, &told, None, &Cache::default());
        nodes.wrote(9, 10, Some(time(8)));
        nodes.wrote(9, 10, Some(time(7)));
        let shown = nodes.seen(told);
        assert_eq!((shown.mtime, shown.ctime), (time(8), time(8)));
        let closed = Attr { mtime: time(8), ctime: time(8), ..told };
        assert_eq!(nodes.seen(closed), closed);
        // A time that was chosen since stays, whatever was written before.
        let chosen = Attr { mtime: time(1), ctime: time(9), ..told };
        assert_eq!(nodes.seen(chosen), chosen);
        nodes.chose_mtime(9);
        let chosen = Attr { mtime: time(1), ctime: time(7), ..told };
        assert_eq!(nodes.seen(chosen), chosen, "even if clocks differ");
    }
}
