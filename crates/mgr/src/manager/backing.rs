//! What a manager wants to know of its store beyond reading and committing.

use crate::store::{DiskStore, MemoryStore, Store};

/// A store under a manager.
pub trait Backing: Store {
    /// Whether only changes that free space should be let in.
    fn is_space_low(&self) -> bool {
        false
    }

    /// Why changes are refused, or soon may be.
    fn failure(&self) -> Option<String> {
        None
    }

    /// Figures for the status: (name with unit, value).
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl Backing for MemoryStore {}

impl Backing for DiskStore {
    fn is_space_low(&self) -> bool {
        DiskStore::is_space_low(self)
    }

    fn failure(&self) -> Option<String> {
        self.status().failure
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let status = self.status();
        vec![
            ("store_groups_total", status.last),
            ("store_groups_unsynced", status.last.saturating_sub(status.synced)),
            ("store_groups_in_log", status.last.saturating_sub(status.checkpointed)),
            ("store_log_bytes", status.log_bytes),
            ("store_memtable_bytes", status.memtable_bytes as u64),
            ("store_memtable_keys", status.memtable_keys as u64),
        ]
    }
}
