//! The manager's store with a power switch, in either durability.

use pvfs_mgr::manager::Backing;
use pvfs_mgr::store::{Batch, MemoryStore, Sequence, Snapshot, Store, StoreError};

/// A store in memory that syncs as a store on disk would.
pub struct SimulatedStore {
    inner: MemoryStore,
    /// Every group is synced before it is answered.
    strict: bool,
}

impl SimulatedStore {
    /// An empty one.
    pub fn new(strict: bool) -> Self {
        Self { inner: MemoryStore::new(), strict }
    }

    /// Loses power: some suffix of what was not synced is gone.
    pub fn lose_power(&self, seed: u64) {
        self.inner.crash(seed);
    }
}

impl Store for SimulatedStore {
    fn snapshot(&self) -> Snapshot {
        self.inner.snapshot()
    }

    fn commit(&self, group: Batch) -> Result<Sequence, StoreError> {
        let sequence = self.inner.commit(group)?;
        if self.strict {
            self.inner.sync()?;
        }
        Ok(sequence)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }
}

impl Backing for SimulatedStore {}
