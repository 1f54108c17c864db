//! Counters for the status, kept without locks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What the manager has done since it started.
#[derive(Debug, Default)]
pub struct Figures {
    queries: AtomicU64,
    grouped: AtomicU64,
    groups: AtomicU64,
    group_max: AtomicU64,
    commits: AtomicU64,
    commits_failed: AtomicU64,
    repeated: AtomicU64,
    locks_held: AtomicU64,
    locks_awaited: AtomicU64,
    last_commit_failed: AtomicU64,
}

impl Figures {
    /// A request was answered from a snapshot.
    pub fn query(&self) {
        self.queries.fetch_add(1, Relaxed);
    }

    /// A group of so many requests was executed.
    pub fn group(&self, requests: u64, commits: bool, succeeded: bool) {
        // The clock alone makes no group.
        self.groups.fetch_add(u64::from(requests > 0), Relaxed);
        self.grouped.fetch_add(requests, Relaxed);
        self.group_max.fetch_max(requests, Relaxed);
        if commits {
            self.commits.fetch_add(1, Relaxed);
            self.commits_failed.fetch_add(u64::from(!succeeded), Relaxed);
            self.last_commit_failed.store(u64::from(!succeeded), Relaxed);
        }
    }

    /// A request came again and was answered from its record.
    pub fn repeated(&self) {
        self.repeated.fetch_add(1, Relaxed);
    }

    /// So many locks are held and awaited.
    pub fn locks(&self, held: usize, awaited: usize) {
        self.locks_held.store(held as u64, Relaxed);
        self.locks_awaited.store(awaited as u64, Relaxed);
    }

    /// Whether the last group could not be stored.
    pub fn last_commit_failed(&self) -> bool {
        self.last_commit_failed.load(Relaxed) != 0
    }

    /// For the status: (name with unit, value).
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        let (grouped, groups) = (self.grouped.load(Relaxed), self.groups.load(Relaxed));
        vec![
            ("queries_total", self.queries.load(Relaxed)),
            ("changes_total", grouped),
            ("changes_repeated_total", self.repeated.load(Relaxed)),
            ("groups_total", groups),
            ("group_requests_mean_milli", grouped.saturating_mul(1000) / groups.max(1)),
            ("group_requests_max", self.group_max.load(Relaxed)),
            ("commits_total", self.commits.load(Relaxed)),
            ("commits_failed_total", self.commits_failed.load(Relaxed)),
            ("locks_held", self.locks_held.load(Relaxed)),
            ("locks_awaited", self.locks_awaited.load(Relaxed)),
        ]
    }
}
