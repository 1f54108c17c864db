//! The invariants of the name space, checked over all records.
//!
//! Slow and whole: for tests, and for an administrator who wants to know.

use std::collections::{BTreeMap, BTreeSet};

use pvfs_wire::attr::FileKind;
use pvfs_wire::handle::ROOT_OBJECT;

use crate::keys;
use crate::record::{Counters, Dentry, Inode, Named, OpenFile, Record, RegularFile};
use crate::store::{KeyRange, StoreError, View};

/// Something that should never be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation(pub String);

/// All there is.
#[derive(Default)]
struct Everything {
    inodes: BTreeMap<u64, Inode>,
    names: Vec<(u64, Named)>,
    opens: Vec<(u64, u64, OpenFile)>,
    tickets: BTreeSet<(u64, u64)>,
    purging: BTreeSet<u64>,
    /// Directories with entries or gaps.
    listed: BTreeSet<u64>,
    xattrs: BTreeMap<u64, u16>,
    counters: Counters,
    violations: Vec<Violation>,
}

/// Everything that is wrong with the name space in `view`; empty when all is well.
pub fn check(view: &dyn View) -> Result<Vec<Violation>, StoreError> {
    let mut all = Everything::default();
    for entry in view.scan(&KeyRange::all()) {
        let (key, value) = entry?;
        all.read(&key, &value);
    }
    all.check_names();
    all.check_directories();
    all.check_files();
    all.check_counters();
    Ok(all.violations)
}

impl Everything {
    fn wrong(&mut self, what: String) {
        self.violations.push(Violation(what));
    }

    fn decode<R: Record>(&mut self, key: &[u8], value: &[u8]) -> Option<R> {
        let decoded = R::decode(value);
        if let Err(error) = &decoded {
            self.wrong(format!("{} is not understood: {error}", key.escape_ascii()));
        }
        decoded.ok()
    }

    fn read(&mut self, key: &[u8], value: &[u8]) {
        let first = keys::first_number(key).unwrap_or(0);
        let second = keys::second_number(key).unwrap_or(0);
        match key.first().copied() {
            Some(keys::META) if key == keys::COUNTERS => {
                self.counters = self.decode(key, value).unwrap_or_default();
            }
            Some(keys::DENTRY) => {
                self.listed.insert(first);
                let dentry = self.decode::<Dentry>(key, value).and_then(|dentry| dentry.named);
                self.names.extend(dentry.map(|named| (first, named)));
            }
            Some(keys::INODE) => {
                let inode = self.decode(key, value);
                self.inodes.extend(inode.map(|inode| (first, inode)));
            }
            Some(keys::XATTR) => *self.xattrs.entry(first).or_default() += 1,
            Some(keys::OPEN) => {
                let open = self.decode(key, value);
                self.opens.extend(open.map(|open| (first, second, open)));
            }
            Some(keys::TICKET) => {
                self.tickets.insert((first, second));
            }
            Some(keys::PURGE) => {
                self.purging.insert(first);
            }
            _ => {}
        }
    }

    fn check_names(&mut self) {
        let mut times: BTreeMap<u64, u32> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (dir, named) in self.names.clone() {
            *times.entry(named.object).or_default() += 1;
            if !seen.insert((dir, named.name.clone())) {
                self.wrong(format!("{} is in {dir} twice", named.name.escape_ascii()));
            }
            self.check_name(dir, &named);
        }
        for dir in std::mem::take(&mut self.listed) {
            if !self.inodes.get(&dir).is_some_and(Inode::is_directory) {
                self.wrong(format!("something is in {dir}, which is no directory"));
            }
        }
        self.check_links(&times);
    }

    fn check_name(&mut self, dir: u64, named: &Named) {
        let name = named.name.escape_ascii().to_string();
        let Some(inode) = self.inodes.get(&named.object) else {
            return self.wrong(format!("{name} in {dir} names nothing: {}", named.object));
        };
        let is_elsewhere = inode.as_directory().is_some_and(|directory| directory.parent != dir);
        if inode.kind() != named.kind {
            self.wrong(format!("{name} in {dir} is not what its inode says"));
        } else if is_elsewhere {
            self.wrong(format!("directory {name} is in {dir} but has another parent"));
        }
    }

    fn check_links(&mut self, times: &BTreeMap<u64, u32>) {
        for (object, inode) in self.inodes.clone() {
            let names = times.get(&object).copied().unwrap_or(0);
            let expected = match inode.kind() {
                FileKind::Directory if object == ROOT_OBJECT => 0,
                FileKind::Directory => 1,
                _ => inode.nlink,
            };
            if names != expected {
                self.wrong(format!("object {object} has {names} names, not {expected}"));
            }
        }
    }

    fn check_directories(&mut self) {
        for (object, inode) in self.inodes.clone() {
            let Some(directory) = inode.as_directory() else { continue };
            let own = self.names.iter().filter(|(dir, _)| *dir == object);
            let entries = own.clone().count() as u64;
            let below = own.filter(|(_, named)| named.kind == FileKind::Directory).count() as u32;
            if directory.entries != entries {
                let counted = directory.entries;
                self.wrong(format!("directory {object} has {entries} names, counted {counted}"));
            }
            if inode.nlink != below + 2 {
                self.wrong(format!("directory {object}: nlink {}, {below} below", inode.nlink));
            }
            if !self.reaches_root(object) {
                self.wrong(format!("directory {object} is not below the root"));
            }
        }
    }

    fn reaches_root(&self, mut object: u64) -> bool {
        for _ in 0..=self.inodes.len() {
            if object == ROOT_OBJECT {
                return true;
            }
            let Some(directory) = self.inodes.get(&object).and_then(Inode::as_directory) else {
                return false;
            };
            object = directory.parent;
        }
        false
    }

    fn check_files(&mut self) {
        for (object, inode) in self.inodes.clone() {
            if inode.xattrs != self.xattrs.remove(&object).unwrap_or(0) {
                self.wrong(format!("object {object}: {} xattrs is miscounted", inode.xattrs));
            }
            if let Some(file) = inode.as_file() {
                self.check_opens(object, &inode, file);
                self.check_truncation(object, file);
            }
        }
        self.check_leftovers();
    }

    fn check_opens(&mut self, object: u64, inode: &Inode, file: &RegularFile) {
        let own = self.opens.iter().filter(|(_, _, open)| open.object == object);
        let count = |wanted: fn(&OpenFile) -> bool| {
            own.clone().filter(|(_, _, open)| wanted(open)).count() as u32
        };
        let counted = (count(|_| true), count(OpenFile::writes), count(OpenFile::appends));
        let kept = (file.writing.opens, file.writing.writers, file.writing.appenders);
        if counted != kept {
            self.wrong(format!("file {object}: opens {counted:?}, kept {kept:?}"));
        }
        if inode.nlink == 0 && counted.0 == 0 {
            self.wrong(format!("file {object} has neither name nor open"));
        }
        if inode.nlink > 0 && file.linkable {
            self.wrong(format!("file {object} has a name and is to get its first"));
        }
        if self.purging.contains(&object) {
            self.wrong(format!("file {object} is in the purge queue"));
        }
    }

    fn check_truncation(&mut self, object: u64, file: &RegularFile) {
        let Some(cut) = file.writing.truncation else { return };
        let is_its = |(client, open, _): &(u64, u64, OpenFile)| {
            (*client, Some(*open)) == (cut.client, cut.open)
        };
        let known = match cut.open {
            None => self.tickets.remove(&(cut.client, object)),
            Some(_) => self.opens.iter().any(is_its),
        };
        if !known {
            self.wrong(format!("file {object}: nobody holds its truncation"));
        }
    }

    /// What belongs to nothing.
    fn check_leftovers(&mut self) {
        for (client, number, open) in std::mem::take(&mut self.opens) {
            if self.inodes.get(&open.object).is_none_or(|inode| inode.as_file().is_none()) {
                self.wrong(format!("open {number} of client {client} is of no file"));
            }
        }
        for (client, object) in std::mem::take(&mut self.tickets) {
            self.wrong(format!("client {client} holds a ticket of {object} for nothing"));
        }
        for object in std::mem::take(&mut self.xattrs).into_keys() {
            self.wrong(format!("xattrs of {object}, which does not exist"));
        }
    }

    fn check_counters(&mut self) {
        let Counters { next_object, objects, purging } = self.counters;
        if objects != self.inodes.len() as u64 || purging != self.purging.len() as u64 {
            self.wrong(format!("{:?} is miscounted", self.counters));
        }
        if self.inodes.keys().any(|object| *object >= next_object) {
            self.wrong(format!("object {next_object} would be used again"));
        }
    }
}
