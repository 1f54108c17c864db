//! A store in memory with a power switch, for simulations.
//!
//! It keeps what was synced. A crash loses an arbitrary suffix of what was not, chosen by a seed:
//! the same as the store on disk promises, so code that survives here survives there.

use super::batch::{Batch, Change, Sequence};
use super::error::StoreError;
use super::view::{KeyRange, Scan, Snapshot, Store, View};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A [`Store`] without files.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What readers see.
    visible: Arc<MemoryView>,
    last: Sequence,
    /// What a power loss cannot take.
    durable: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The groups behind it that it can take, the oldest first.
    unsynced: VecDeque<Batch>,
}

#[derive(Clone, Debug, Default)]
struct MemoryView {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many groups a crash now could lose.
    pub fn unsynced(&self) -> usize {
        self.lock().unsynced.len()
    }

    /// Loses power: an arbitrary suffix, possibly empty, of the groups that were not synced is gone
    /// (the same one for the same `seed` and history). Returns the last group that is left.
    pub fn crash(&self, seed: u64) -> Sequence {
        let mut inner = self.lock();
        let kept = (mix(seed) % (inner.unsynced.len() as u64 + 1)) as usize;
        inner.keep(kept)
    }

    /// Is killed without a power loss: nothing is gone.
    pub fn kill(&self) -> Sequence {
        self.lock().last
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn keep(&mut self, kept: usize) -> Sequence {
        self.last -= (self.unsynced.len() - kept) as Sequence;
        self.unsynced.truncate(kept);
        self.make_durable();
        self.visible = Arc::new(MemoryView { entries: self.durable.clone() });
        self.last
    }

    fn make_durable(&mut self) {
        for change in self.unsynced.drain(..).flatten() {
            apply(&mut self.durable, change);
        }
    }
}

impl Store for MemoryStore {
    fn snapshot(&self) -> Snapshot {
        self.lock().visible.clone()
    }

    fn commit(&self, group: Batch) -> Result<Sequence, StoreError> {
        group.check_limits()?;
        let mut inner = self.lock();
        if group.is_empty() {
            return Ok(inner.last);
        }
        let visible = Arc::make_mut(&mut inner.visible);
        for change in group.changes() {
            apply(&mut visible.entries, change.clone());
        }
        inner.unsynced.push_back(group);
        inner.last += 1;
        Ok(inner.last)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.lock().make_durable();
        Ok(())
    }
}

impl View for MemoryView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.entries.get(key).cloned())
    }

    fn scan<'v>(&'v self, range: &KeyRange) -> Scan<'v> {
        if range.is_empty() {
            return Box::new(std::iter::empty());
        }
        let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range::<[u8], _>((Bound::Included(range.start.as_slice()), end));
        Box::new(entries.map(|(key, value)| Ok((key.clone(), value.clone()))))
    }
}

fn apply(entries: &mut BTreeMap<Vec<u8>, Vec<u8>>, change: Change) {
    match change.value {
        Some(value) => entries.insert(change.key, value),
        None => entries.remove(&change.key),
    };
}

/// splitmix64: one step from a seed to an even spread.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &MemoryStore, key: u8) {
        let mut group = Batch::new();
        group.put([key], [key]);
        store.commit(group).unwrap();
    }

    fn keys(store: &MemoryStore) -> Vec<u8> {
        let snapshot = store.snapshot();
        snapshot.scan(&KeyRange::all()).map(|entry| entry.unwrap().0[0]).collect()
    }

    #[test]
    fn a_crash_loses_only_a_suffix_of_what_was_not_synced() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let store = MemoryStore::new();
            (0..3).for_each(|key| put(&store, key));
            store.sync().unwrap();
            (3..6).for_each(|key| put(&store, key));
            let last = store.crash(seed);
            assert_eq!(keys(&store), (0..last as u8).collect::<Vec<_>>(), "seed {seed}");
            assert_eq!(store.unsynced(), 0);
            lengths.insert(last);
        }
        assert_eq!(lengths, (3..=6).collect());
    }

    #[test]
    fn a_snapshot_stays_as_it_was() {
        let store = MemoryStore::new();
        put(&store, 1);
        let snapshot = store.snapshot();
        put(&store, 2);
        assert!(!snapshot.contains(&[2]).unwrap());
        assert_eq!(keys(&store), [1, 2]);
    }
}
