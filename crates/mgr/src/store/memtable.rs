//! Recent changes in memory, ordered by key, with the versions that living snapshots still see.
//!
//! A snapshot is a sequence number: it sees of each key the newest version not after it. So readers
//! and the one writer share the table under a lock held for one key or one chunk, and a group of any
//! size becomes visible at once, when its sequence number does.
//!
//! A superseded version is kept only while a living snapshot lies between it and its successor, so
//! an inode changed a million times costs as much as one changed twice.

use super::batch::{Change, Sequence};
use super::merge::Layer;
use super::sorted::SortedKey;
use super::view::KeyRange;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The changes since some point, in memory.
#[derive(Debug, Default)]
pub(crate) struct Memtable {
    slots: RwLock<BTreeMap<SortedKey, Slot>>,
    bytes: AtomicUsize,
}

/// All that is known of one key.
#[derive(Debug)]
struct Slot {
    newest: Version,
    /// Newest first.
    older: Vec<Version>,
}

#[derive(Debug)]
struct Version {
    sequence: Sequence,
    value: Option<Box<[u8]>>,
}

impl Memtable {
    /// Applies one group. `living` are the sequence numbers that snapshots may still read at,
    /// among them the one current before this group.
    pub(crate) fn apply(
        &self,
        changes: impl IntoIterator<Item = Change>,
        sequence: Sequence,
        living: &[Sequence],
    ) {
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let mut bytes = 0;
            for change in changes.by_ref().take(CHANGES_PER_LOCK) {
                bytes += put(&mut slots, change, sequence, living);
            }
            self.bytes.fetch_add(bytes as usize, Ordering::Relaxed);
        }
    }

    /// What this table says of `key` at `sequence`: nothing, deleted, or a value.
    pub(crate) fn get(&self, key: &[u8], sequence: Sequence) -> Option<Option<Vec<u8>>> {
        let slots = self.read();
        let version = slots.get(&SortedKey::new(key))?.at(sequence)?;
        Some(version.value.as_ref().map(|value| value.to_vec()))
    }

    /// The changes within `range` as of `sequence`, in order.
    pub(crate) fn scan(&self, range: &KeyRange, sequence: Sequence) -> Layer<'_> {
        let chunks =
            Chunks { table: self, sequence, rest: Some(range.clone()), length: CHUNK_FIRST };
        Box::new(chunks.flatten().map(Ok))
    }

    /// Calls `visit` with the newest version of each of at most `keys_max` keys from `start` on, in
    /// order, until it fails. Returns where to go on.
    pub(crate) fn each_newest<E>(
        &self,
        start: &[u8],
        keys_max: usize,
        mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
    ) -> Result<Option<Vec<u8>>, E> {
        let slots = self.read();
        let mut rest = slots.range(SortedKey::new(start)..);
        for (key, slot) in rest.by_ref().take(keys_max) {
            visit(&key.to_vec(), slot.newest.value.as_deref())?;
        }
        Ok(rest.next().map(|(key, _)| key.to_vec()))
    }

    /// About how much memory the table takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How many keys it knows.
    pub(crate) fn len(&self) -> usize {
        self.read().len()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<SortedKey, Slot>> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns by how much the table grew, negative when it shrank.
fn put(
    slots: &mut BTreeMap<SortedKey, Slot>,
    change: Change,
    sequence: Sequence,
    living: &[Sequence],
) -> isize {
    let newest = Version { sequence, value: change.value.map(Vec::into_boxed_slice) };
    let grown = newest.bytes() as isize;
    match slots.entry(SortedKey::new(&change.key)) {
        Entry::Occupied(mut slot) => grown - slot.get_mut().supersede(newest, living) as isize,
        Entry::Vacant(place) => {
            place.insert(Slot { newest, older: Vec::new() });
            grown + (SLOT_BYTES + change.key.len()) as isize
        }
    }
}

impl Slot {
    fn at(&self, sequence: Sequence) -> Option<&Version> {
        if self.newest.sequence <= sequence {
            return Some(&self.newest);
        }
        self.older.iter().find(|version| version.sequence <= sequence)
    }

    /// Puts `newest` on top and drops what no living snapshot can see. Returns the bytes dropped.
    fn supersede(&mut self, newest: Version, living: &[Sequence]) -> usize {
        let same_group = self.newest.sequence == newest.sequence;
        let superseded = std::mem::replace(&mut self.newest, newest);
        if same_group {
            return superseded.bytes();
        }
        self.older.insert(0, superseded);
        let (mut successor, mut dropped) = (self.newest.sequence, 0);
        self.older.retain(|version| {
            let seen = living.iter().any(|s| (version.sequence..successor).contains(s));
            successor = version.sequence;
            dropped += if seen { 0 } else { version.bytes() };
            seen
        });
        dropped
    }
}

impl Version {
    fn bytes(&self) -> usize {
        VERSION_BYTES + self.value.as_ref().map_or(0, |value| value.len())
    }
}

/// Reads a range a chunk at a time, so that a long scan never holds the writer up.
struct Chunks<'t> {
    table: &'t Memtable,
    sequence: Sequence,
    rest: Option<KeyRange>,
    length: usize,
}

impl Iterator for Chunks<'_> {
    type Item = Vec<Change>;

    fn next(&mut self) -> Option<Vec<Change>> {
        let range = self.rest.take().filter(|range| !range.is_empty())?;
        let slots = self.table.read();
        let bounds = (Bound::Included(SortedKey::new(&range.start)), end_bound(&range));
        let mut changes = Vec::new();
        for (visited, (key, slot)) in slots.range(bounds).enumerate() {
            if visited == self.length {
                self.rest = Some(KeyRange { start: key.to_vec(), end: range.end.clone() });
                break;
            }
            changes.extend(slot.at(self.sequence).map(|version| version.to_change(key)));
        }
        self.length = (self.length * 2).min(CHUNK_MAX);
        Some(changes)
    }
}

impl Version {
    fn to_change(&self, key: &SortedKey) -> Change {
        Change { key: key.to_vec(), value: self.value.as_ref().map(|value| value.to_vec()) }
    }
}

fn end_bound(range: &KeyRange) -> Bound<SortedKey> {
    range.end.as_deref().map_or(Bound::Unbounded, |end| Bound::Excluded(SortedKey::new(end)))
}

/// Longest run of changes applied under one lock: some 20 µs that a reader may have to wait.
const CHANGES_PER_LOCK: usize = 64;

/// A scan reads little at first, since most stop early, and doubles up to `CHUNK_MAX`.
const CHUNK_FIRST: usize = 16;
const CHUNK_MAX: usize = 256;

/// Memory for a key beside its own bytes: its share of a tree node and of the allocator's headers.
const SLOT_BYTES: usize = 96;

/// Memory for a version beside its own bytes.
const VERSION_BYTES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str) -> Change {
        Change { key: key.into(), value: Some(value.into()) }
    }

    fn versions(table: &Memtable, key: &str) -> Vec<Sequence> {
        let slots = table.read();
        let slot = &slots[&SortedKey::new(key.as_bytes())];
        let older = slot.older.iter().map(|version| version.sequence);
        std::iter::once(slot.newest.sequence).chain(older).collect()
    }

    #[test]
    fn a_snapshot_sees_the_newest_version_not_after_it() {
        let table = Memtable::default();
        table.apply([put("a", "1")], 1, &[0]);
        table.apply([put("a", "2"), put("b", "2")], 2, &[1]);
        table.apply([Change { key: b"a".to_vec(), value: None }], 3, &[1, 2]);
        assert_eq!(table.get(b"a", 0), None);
        assert_eq!(table.get(b"a", 1), Some(Some(b"1".to_vec())));
        assert_eq!(table.get(b"a", 2), Some(Some(b"2".to_vec())));
        assert_eq!(table.get(b"a", 3), Some(None));
        assert_eq!(table.get(b"b", 1), None);
    }

    #[test]
    fn a_version_no_living_snapshot_sees_is_dropped() {
        let table = Memtable::default();
        for sequence in 1..=9 {
            table.apply([put("a", "x")], sequence, &[3, sequence - 1]);
        }
        assert_eq!(versions(&table, "a"), [9, 8, 3]);
    }

    #[test]
    fn overwriting_one_key_for_ever_takes_no_more_memory() {
        let table = Memtable::default();
        table.apply([put("a", "x"), put("a", "x")], 1, &[0]);
        table.apply([put("a", "x")], 2, &[1]);
        let bytes = table.bytes();
        for sequence in 3..1000 {
            table.apply([put("a", "y"), put("a", "x")], sequence, &[sequence - 1]);
        }
        assert_eq!(table.bytes(), bytes);
    }

    #[test]
    fn a_scan_over_many_chunks_gives_each_key_once() {
        let table = Memtable::default();
        let keys: Vec<String> = (0..2000).map(|key| format!("{key:04}")).collect();
        table.apply(keys.iter().map(|key| put(key, "v")), 1, &[0]);
        let all = table.scan(&KeyRange::all(), 1).map(|change| change.unwrap().key);
        assert!(all.eq(keys.iter().map(|key| key.as_bytes())));
        let part = table.scan(&KeyRange::between("0100", "0700"), 1);
        assert_eq!(part.count(), 600);
        assert_eq!(table.scan(&KeyRange::all(), 0).count(), 0);
    }
}
