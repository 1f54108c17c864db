//! What the kernel knows: each object it holds a reference to, until it forgets it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use pvfs_wire::attr::{Attr, FileKind, SizeState, Time};
use pvfs_wire::handle::ROOT_OBJECT;
use pvfs_wire::{Errno, Handle};

/// The table of nodes. A node's number is its object's id, so nothing has to be made up.
pub struct Nodes {
    table: Mutex<HashMap<u64, Node>>,
}

/// One object.
#[derive(Clone, Debug)]
struct Node {
    handle: Handle,
    /// References the kernel has and will give back with forget.
    lookups: u64,
    /// Files of this mount that are open on it.
    opens: u32,
    /// The version that the kernel's pages are of.
    pages: Option<Version>,
    /// The size last known for certain, by attributes or by a write of this mount.
    size: u64,
    mode: u32,
    /// When a write of this mount was done last, until somebody sets the time.
    written: Option<Time>,
    /// What was last told of a directory: it can still be some program's working directory when it is gone.
    directory: Option<Box<Attr>>,
}

/// What changes whenever somebody has changed a file's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Version {
    size: u64,
    mtime: Time,
    change: u64,
}

impl Version {
    /// The version of a file that nobody is writing; else there is no saying.
    pub fn of(attr: &Attr) -> Option<Self> {
        let settled = attr.size_state == SizeState::Settled;
        settled.then_some(Self { size: attr.size, mtime: attr.mtime, change: attr.change })
    }
}

impl Node {
    fn new(handle: Handle) -> Self {
        Self {
            handle,
            lookups: 0,
            opens: 0,
            pages: None,
            size: 0,
            mode: 0,
            written: None,
            directory: None,
        }
    }
}

impl Nodes {
    /// A table with nothing but the root, which is never forgotten.
    pub fn new(root: Handle) -> Self {
        let root = Node { lookups: 1, ..Node::new(root) };
        Self { table: Mutex::new(HashMap::from([(ROOT_OBJECT, root)])) }
    }

    /// The handle of a node; ESTALE when the kernel should not know it.
    pub fn handle(&self, node: u64) -> Result<Handle, Errno> {
        self.lock().get(&node).map(|node| node.handle).ok_or(Errno::ESTALE)
    }

    /// The kernel is given one more reference.
    pub fn looked_up(&self, attr: &Attr) {
        let mut table = self.lock();
        let node = table.entry(attr.handle.object).or_insert_with(|| Node::new(attr.handle));
        node.lookups += 1;
        node.mode = attr.mode;
        if attr.kind == FileKind::Directory {
            node.directory = Some(Box::new(*attr));
        }
    }

    /// A directory that is gone, as those see it who are still in it: without a name.
    pub fn gone_directory(&self, node: u64) -> Option<Attr> {
        let last = *self.lock().get(&node)?.directory.as_deref()?;
        Some(Attr { nlink: 0, size: 0, ..last })
    }

    /// The kernel gives references back.
    pub fn forget(&self, node: u64, lookups: u64) {
        let mut table = self.lock();
        let Some(known) = table.get_mut(&node) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && known.opens == 0 && node != ROOT_OBJECT {
            table.remove(&node);
        }
    }

    /// A file is opened; says whether the kernel may keep the pages it has of it.
    pub fn opened(&self, attr: &Attr) -> bool {
        let mut table = self.lock();
        let node = table.entry(attr.handle.object).or_insert_with(|| Node::new(attr.handle));
        node.opens += 1;
        let version = Version::of(attr);
        let keep = version.is_some() && node.pages == version;
        node.pages = version;
        keep
    }

    /// A file is closed.
    pub fn closed(&self, node: u64) {
        let mut table = self.lock();
        let Some(known) = table.get_mut(&node) else { return };
        known.opens = known.opens.saturating_sub(1);
        if known.lookups == 0 && known.opens == 0 && node != ROOT_OBJECT {
            table.remove(&node);
        }
    }

    /// Whether this mount has the object open.
    pub fn is_open(&self, node: u64) -> bool {
        self.lock().get(&node).is_some_and(|node| node.opens > 0)
    }

    /// All objects the kernel may hold something of.
    pub fn all(&self) -> Vec<u64> {
        self.lock().keys().copied().collect()
    }

    /// Those that this mount has open.
    pub fn open(&self) -> Vec<u64> {
        let table = self.lock();
        table.iter().filter(|(_, node)| node.opens > 0).map(|(number, _)| *number).collect()
    }

    /// A write up to `end` is done, the last of its file at `time`.
    pub fn wrote(&self, node: u64, end: u64, time: Option<Time>) {
        if let Some(node) = self.lock().get_mut(&node) {
            node.size = node.size.max(end);
            node.written = node.written.max(time);
        }
    }

    /// A program has set the modification time: earlier writes do not count any more.
    pub fn chose_mtime(&self, node: u64) {
        if let Some(node) = self.lock().get_mut(&node) {
            node.written = None;
        }
    }

    /// The mode last seen.
    pub fn mode(&self, node: u64) -> u32 {
        self.lock().get(&node).map_or(0, |node| node.mode)
    }

    /// Notes what complete attributes say, and tells what is to be shown of them. The iods' clocks are coarse
    /// and the manager hears of writes only at the close: a program must not see the modification time of a file
    /// change when it does nothing but close it, so the time that the close will set is shown at once.
    #[must_use]
    pub fn seen(&self, attr: Attr) -> Attr {
        let mut table = self.lock();
        let Some(node) = table.get_mut(&attr.handle.object) else { return attr };
        node.mode = attr.mode;
        node.size = attr.size;
        match node.written.filter(|written| *written > attr.ctime) {
            Some(written) => Attr { mtime: attr.mtime.max(written), ctime: written, ..attr },
            None => attr,
        }
    }

    /// Attributes whose size the iods could not tell, with what this mount knows of it.
    pub fn with_known_size(&self, attr: Attr) -> Attr {
        let known = self.lock().get(&attr.handle.object).map_or(0, |node| node.size);
        Attr { size: attr.size.max(known), ..attr }
    }

    /// How many nodes the kernel holds.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Node>> {
        self.table.lock().expect("no code panics while it holds the table")
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

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
        nodes.opened(&attr(9));
        nodes.forget(9, 1);
        assert!(nodes.is_open(9));
        nodes.closed(9);
        assert_eq!(nodes.count(), 1);
    }

    #[test]
    fn pages_are_kept_only_while_nothing_has_changed() {
        let nodes = nodes();
        let first = attr(9);
        assert!(!nodes.opened(&first), "nothing is known of pages before the first open");
        assert!(nodes.opened(&first));
        for changed in [
            Attr { size: 11, ..first },
            Attr { mtime: Time { seconds: 5, nanos: 1 }, ..first },
            Attr { change: 8, ..first },
        ] {
            assert!(!nodes.opened(&changed), "{changed:?}");
            assert!(!nodes.opened(&first), "and back again is a change too");
        }
    }

    #[test]
    fn pages_of_a_file_that_somebody_writes_are_never_kept() {
        let nodes = nodes();
        let unsettled = Attr { size_state: SizeState::Unsettled, ..attr(9) };
        assert!(!nodes.opened(&unsettled));
        assert!(!nodes.opened(&unsettled));
        assert!(!nodes.opened(&attr(9)), "written in between");
    }

    #[test]
    fn a_silent_iod_does_not_make_done_writes_invisible() {
        let nodes = nodes();
        nodes.opened(&attr(9));
        nodes.wrote(9, 500, None);
        nodes.wrote(9, 200, None);
        assert_eq!(nodes.with_known_size(attr(9)).size, 500);
        let _ = nodes.seen(Attr { size: 20, ..attr(9) });
        assert_eq!(nodes.with_known_size(attr(9)).size, 20, "cut meanwhile");
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
        nodes.opened(&told);
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
