//! Which state readers see: the current version, and the older ones that somebody still holds.
//!
//! ```text
//! version 812 = sequence 812 + active memtable + frozen memtable + state file view 700
//! ```
//!
//! A commit publishes a version with the next sequence, a freeze one with an empty active memtable,
//! a checkpoint one with a newer view of the state file. Taking a snapshot is cloning one `Arc`.

use super::batch::Sequence;
use super::error::StoreError;
use super::memtable::Memtable;
use super::merge::Merge;
use super::state::StateView;
use super::view::{KeyRange, Scan, View};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One state of the store, and where its parts are.
#[derive(Clone)]
pub(crate) struct Version {
    pub(crate) sequence: Sequence,
    pub(crate) active: Arc<Memtable>,
    pub(crate) frozen: Option<Arc<Memtable>>,
    pub(crate) state: Arc<StateView>,
}

/// The versions that are, or may be, read.
pub(crate) struct Publication {
    versions: Mutex<Versions>,
}

struct Versions {
    current: Arc<Version>,
    /// Held here so that their reference counts tell whether anybody else holds them: nobody can
    /// take a superseded version anew.
    superseded: Vec<Arc<Version>>,
}

impl Publication {
    /// Begins with `version`.
    pub(crate) fn new(version: Version) -> Self {
        let versions = Versions { current: Arc::new(version), superseded: Vec::new() };
        Self { versions: Mutex::new(versions) }
    }

    /// The state after the last commit.
    pub(crate) fn current(&self) -> Arc<Version> {
        self.lock().current.clone()
    }

    /// The sequences at which somebody reads or may begin to.
    pub(crate) fn living(&self) -> Vec<Sequence> {
        let mut versions = self.lock();
        versions.sweep();
        let superseded = versions.superseded.iter().map(|version| version.sequence);
        superseded.chain([versions.current.sequence]).collect()
    }

    /// Makes everything up to `sequence` visible.
    pub(crate) fn advance(&self, sequence: Sequence) {
        self.publish(|version| version.sequence = sequence);
    }

    /// Puts an empty memtable in the active one's place.
    pub(crate) fn freeze(&self) {
        self.publish(|version| {
            assert!(version.frozen.is_none(), "one frozen memtable at a time");
            version.frozen = Some(std::mem::take(&mut version.active));
        });
    }

    /// The state file has what the frozen memtable had.
    pub(crate) fn thaw(&self, state: Arc<StateView>) {
        self.publish(|version| {
            version.frozen = None;
            version.state = state;
        });
    }

    /// The state file was opened again, or has a part of what the frozen memtable has.
    pub(crate) fn refresh(&self, state: Arc<StateView>) {
        self.publish(|version| version.state = state);
    }

    /// Forgets versions that nobody reads any more.
    pub(crate) fn sweep(&self) {
        self.lock().sweep();
    }

    fn publish(&self, change: impl FnOnce(&mut Version)) {
        let mut versions = self.lock();
        let mut next = Version::clone(&versions.current);
        change(&mut next);
        let superseded = std::mem::replace(&mut versions.current, Arc::new(next));
        versions.superseded.push(superseded);
        versions.sweep();
    }

    fn lock(&self) -> MutexGuard<'_, Versions> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Versions {
    /// Forgets versions that nobody reads. At every change, since each pins pages of the state file.
    fn sweep(&mut self) {
        self.superseded.retain(|version| Arc::strong_count(version) > 1);
    }
}

impl Version {
    /// The frozen memtable, if there is one, and the active one.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        self.frozen.iter().chain([&self.active]).map(|memtable| &**memtable)
    }

    /// Memory taken by changes that are not in the state file.
    pub(crate) fn memtable_bytes(&self) -> usize {
        self.memtables().map(Memtable::bytes).sum()
    }
}

impl View for Version {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let frozen = || self.frozen.as_ref().and_then(|frozen| frozen.get(key, self.sequence));
        match self.active.get(key, self.sequence).or_else(frozen) {
            Some(value) => Ok(value),
            None => self.state.get(key),
        }
    }

    fn scan<'v>(&'v self, range: &KeyRange) -> Scan<'v> {
        let mut layers = vec![self.active.scan(range, self.sequence)];
        layers.extend(self.frozen.as_ref().map(|frozen| frozen.scan(range, self.sequence)));
        layers.push(self.state.scan(range));
        Box::new(Merge::new(layers))
    }
}
