//! The changes of one round, seen by the requests that make them before anyone else does.
//!
//! ```text
//! transaction     dentry a = 7   inode 7 = ...      what the round has changed so far
//!                 undo: inode 7 was absent          how to take back the request under way
//! view            the store before the round
//! ```
//!
//! Of each key only the last value is kept: eight creates in one directory write its inode once.

use super::batch::{Batch, Change};
use super::error::StoreError;
use super::merge::{Layer, Merge};
use super::view::{KeyRange, Scan, View};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A view with changes on top, which become one group.
pub struct Transaction<'v> {
    view: &'v dyn View,
    changes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    undo: Vec<Undo>,
    watch: Option<&'v dyn Watch>,
}

/// Is told what is read through a transaction.
pub trait Watch: Send + Sync {
    /// This key was read, there or not.
    fn saw(&self, key: &[u8]);
}

/// What became of one key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Difference {
    /// The key.
    pub key: Vec<u8>,
    /// Its value before, if it had one.
    pub before: Option<Vec<u8>>,
    /// Its value now.
    pub after: Option<Vec<u8>>,
}

/// A point to which a transaction can be rolled back.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use = "a savepoint is there to be rolled back to"]
pub struct Savepoint {
    undo_length: usize,
}

/// What the transaction said of a key before a change: `None` if nothing.
struct Undo {
    key: Vec<u8>,
    before: Option<Option<Vec<u8>>>,
}

impl<'v> Transaction<'v> {
    /// No change yet on top of `view`.
    pub fn new(view: &'v dyn View) -> Self {
        Self { view, changes: BTreeMap::new(), undo: Vec::new(), watch: None }
    }

    /// The like; `watch` is told of every read.
    pub fn watched(view: &'v dyn View, watch: &'v dyn Watch) -> Self {
        Self { watch: Some(watch), ..Self::new(view) }
    }

    /// Gives `key` a value.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.change(key.into(), Some(value.into()));
    }

    /// Deletes `key`, present or not.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        self.change(key.into(), None);
    }

    /// Where the transaction is now. A request that fails rolls back to where it began.
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { undo_length: self.undo.len() }
    }

    /// Takes back every change made since `savepoint`.
    ///
    /// # Panics
    /// If the transaction was already rolled back to an earlier point.
    pub fn rollback(&mut self, savepoint: Savepoint) {
        assert!(savepoint.undo_length <= self.undo.len(), "the savepoint was rolled back");
        for Undo { key, before } in self.undo.drain(savepoint.undo_length..).rev() {
            match before {
                Some(change) => self.changes.insert(key, change),
                None => self.changes.remove(&key),
            };
        }
    }

    /// Runs one request: if it fails, it leaves nothing.
    pub fn attempt<T, E>(
        &mut self,
        request: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let savepoint = self.savepoint();
        let result = request(self);
        if result.is_err() {
            self.rollback(savepoint);
        }
        result
    }

    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How many keys are changed.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// What became since `savepoint` of the keys that `wanted` accepts.
    pub fn differences(
        &self,
        savepoint: Savepoint,
        wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Difference>, StoreError> {
        let mut differences: Vec<Difference> = Vec::new();
        for Undo { key, before } in &self.undo[savepoint.undo_length..] {
            // Of several changes to one key the first says what was before.
            if !wanted(key) || differences.iter().any(|known| known.key == *key) {
                continue;
            }
            let before = match before {
                Some(before) => before.clone(),
                None => self.view.get(key)?,
            };
            let after = self.changes.get(key).cloned().flatten();
            differences.push(Difference { key: key.clone(), before, after });
        }
        Ok(differences)
    }

    /// The changes, to be committed.
    pub fn into_batch(self) -> Batch {
        self.changes.into_iter().map(|(key, value)| Change { key, value }).collect()
    }

    fn change(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        let before = self.changes.insert(key.clone(), value);
        self.undo.push(Undo { key, before });
    }
}

impl View for Transaction<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(watch) = self.watch {
            watch.saw(key);
        }
        match self.changes.get(key) {
            Some(value) => Ok(value.clone()),
            None => self.view.get(key),
        }
    }

    fn scan<'s>(&'s self, range: &KeyRange) -> Scan<'s> {
        let below = self.view.scan(range);
        if range.is_empty() || self.changes.is_empty() {
            return self.watch(below);
        }
        let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let own = self.changes.range::<[u8], _>((Bound::Included(range.start.as_slice()), end));
        let own: Layer<'s> =
            Box::new(own.map(|(key, value)| Ok(Change { key: key.clone(), value: value.clone() })));
        self.watch(Box::new(Merge::new(vec![own, Box::new(below.map(as_change))])))
    }
}

impl<'v> Transaction<'v> {
    fn watch<'s>(&self, scan: Scan<'s>) -> Scan<'s>
    where
        'v: 's,
    {
        let Some(watch) = self.watch else { return scan };
        Box::new(scan.inspect(move |entry| {
            if let Ok((key, _)) = entry {
                watch.saw(key);
            }
        }))
    }
}

fn as_change(entry: Result<(Vec<u8>, Vec<u8>), StoreError>) -> Result<Change, StoreError> {
    entry.map(|(key, value)| Change { key, value: Some(value) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{MemoryStore, Store};

    fn store() -> MemoryStore {
        let store = MemoryStore::new();
        let mut group = Batch::new();
        for (key, value) in [("a", "1"), ("b", "2"), ("c", "3")] {
            group.put(key, value);
        }
        store.commit(group).unwrap();
        store
    }

    fn read(view: &dyn View) -> Vec<String> {
        let entries = view.scan(&KeyRange::all()).map(|entry| entry.unwrap());
        entries.map(|(key, value)| String::from_utf8([key, value].concat()).unwrap()).collect()
    }

    #[test]
    fn a_round_sees_its_own_changes_and_nobody_else_does() {
        let snapshot = store().snapshot();
        let mut transaction = Transaction::new(&*snapshot);
        transaction.put("b", "9");
        transaction.delete("a");
        transaction.put("d", "4");
        assert_eq!(read(&transaction), ["b9", "c3", "d4"]);
        assert_eq!(transaction.get(b"a").unwrap(), None);
        assert_eq!(transaction.get(b"b").unwrap(), Some(b"9".to_vec()));
        assert_eq!(transaction.get(b"c").unwrap(), Some(b"3".to_vec()));
        assert_eq!(read(&*snapshot), ["a1", "b2", "c3"]);
    }

    #[test]
    fn a_failed_request_leaves_nothing() {
        let snapshot = store().snapshot();
        let mut transaction = Transaction::new(&*snapshot);
        transaction.put("a", "8");
        let failed: Result<(), ()> = transaction.attempt(|transaction| {
            transaction.put("a", "9");
            transaction.put("x", "9");
            transaction.delete("b");
            transaction.put("x", "10");
            Err(())
        });
        assert!(failed.is_err());
        assert_eq!(read(&transaction), ["a8", "b2", "c3"]);
        let mut expected = Batch::new();
        expected.put("a", "8");
        assert_eq!(transaction.into_batch(), expected);
    }

    #[test]
    fn savepoints_nest() {
        let snapshot = store().snapshot();
        let mut transaction = Transaction::new(&*snapshot);
        let outer = transaction.savepoint();
        transaction.put("a", "8");
        let inner = transaction.savepoint();
        transaction.put("a", "9");
        transaction.rollback(inner);
        assert_eq!(read(&transaction), ["a8", "b2", "c3"]);
        transaction.rollback(outer);
        assert!(transaction.is_empty());
    }

    #[test]
    fn each_key_is_written_once_in_a_group() {
        let snapshot = store().snapshot();
        let mut transaction = Transaction::new(&*snapshot);
        for value in 0..8_u8 {
            transaction.put("parent", [value]);
        }
        assert_eq!(transaction.into_batch().len(), 1);
    }
}
