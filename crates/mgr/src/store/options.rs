//! What may be set of a store, with defaults for a manager of some million files.

use super::error::StoreError;
use std::time::Duration;

/// What a power loss may take. A killed process never loses anything.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Durability {
    /// At most the last second of commits: a suffix, never a hole.
    #[default]
    Local,
    /// Nothing: a commit is on the disk before it returns.
    Strict,
}

/// How a store is opened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreOptions {
    /// What a power loss may take.
    pub durability: Durability,
    /// How long a group waits for its sync under [`Durability::Local`], in milliseconds. The sync
    /// itself takes time too, and the promise is one second for both.
    pub sync_delay_ms: u64,
    /// A log of this size is checkpointed. Larger: fewer checkpoints, longer recovery. At most a
    /// thirty-second of the disk is used, whatever this says.
    pub log_bytes_max: u64,
    /// A memtable of this size is checkpointed. Two of them may be in memory at a time.
    pub memtable_bytes_max: usize,
    /// Memory for pages of the state file.
    pub cache_bytes: usize,
    /// How long a commit waits for a checkpoint to make room, in milliseconds.
    pub commit_wait_ms_max: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            durability: Durability::Local,
            sync_delay_ms: 500,
            log_bytes_max: 32 << 20,
            memtable_bytes_max: 80 << 20,
            cache_bytes: 256 << 20,
            commit_wait_ms_max: 5_000,
        }
    }
}

impl StoreOptions {
    /// Refuses what could not work.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        check("sync_delay_ms", self.sync_delay_ms, 0, 900)?;
        check("log_bytes_max", self.log_bytes_max, LOG_BYTES_MIN, 1 << 30)?;
        check("memtable_bytes_max", self.memtable_bytes_max as u64, 4 << 10, 16 << 30)?;
        check("commit_wait_ms_max", self.commit_wait_ms_max, 1, 60_000)
    }

    pub(crate) fn sync_delay(&self) -> Duration {
        Duration::from_millis(self.sync_delay_ms)
    }

    pub(crate) fn commit_wait_max(&self) -> Duration {
        Duration::from_millis(self.commit_wait_ms_max)
    }

    /// A small disk gets a small log, so that the reserve below is a small part of it.
    pub(crate) fn fit(&mut self, capacity_bytes: u64) {
        let fitting = (capacity_bytes / 32).max(LOG_BYTES_MIN);
        self.log_bytes_max = self.log_bytes_max.min(fitting);
    }

    /// Below this much free space only changes that free some should be let in: room for two log
    /// segments, for the pages that checkpoints of deletions write before they free others, and for
    /// what is already promised to the changes in memory.
    pub(crate) fn free_bytes_low(&self, pending_bytes: u64) -> u64 {
        self.log_bytes_max * 6 + pending_bytes * 2
    }
}

/// Below this a checkpoint would follow every few commits.
const LOG_BYTES_MIN: u64 = 4 << 10;

fn check(option: &'static str, value: u64, min: u64, max: u64) -> Result<(), StoreError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(StoreError::BadOption { option, value, allowed: format!("{min} to {max}") })
}
