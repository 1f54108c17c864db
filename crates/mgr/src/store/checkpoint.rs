//! Moving a frozen memtable into the state file, in the background, one at a time.

use super::batch::Sequence;
use super::error::StoreError;
use super::memtable::Memtable;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a checkpoint has to do.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) memtable: Arc<Memtable>,
    /// The last group in it.
    pub(crate) last: Sequence,
    /// The log segments that hold the same, and nothing else.
    pub(crate) segments: Vec<PathBuf>,
}

/// The place between commits, which hand over a job, and the thread that does it.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    desk: Mutex<Desk>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Desk {
    /// Stays here until it is done.
    job: Option<Job>,
    /// Why the job could not be done so far.
    failure: Option<Failure>,
    stopping: bool,
}

impl Checkpoints {
    /// Hands over `job`. There must be none: see [`wait_until_idle`](Self::wait_until_idle).
    pub(crate) fn submit(&self, job: Job) {
        let mut desk = self.lock();
        assert!(desk.job.is_none(), "one checkpoint at a time");
        desk.job = Some(job);
        self.changed.notify_all();
    }

    /// Returns when no checkpoint is under way; refuses when one still is after `wait_max`, at once
    /// when it is the disk that has no space.
    pub(crate) fn wait_until_idle(&self, wait_max: Duration) -> Result<(), StoreError> {
        let begun = Instant::now();
        let mut desk = self.lock();
        while desk.job.is_some() {
            let left = wait_max.saturating_sub(begun.elapsed());
            if left.is_zero() || desk.is_out_of_space() {
                return Err(desk.overloaded(begun.elapsed()));
            }
            desk = self.wait(desk, left);
        }
        Ok(())
    }

    /// Waits for a job until `wait_max` is over. `Err` says that there will be none.
    pub(crate) fn next_job(&self, wait_max: Duration) -> Result<Option<Job>, Stopped> {
        let desk = self.lock();
        let idle = desk.job.is_none() && !desk.stopping;
        let desk = if idle { self.wait(desk, wait_max) } else { desk };
        match (&desk.job, desk.stopping) {
            (Some(job), _) => Ok(Some(job.clone())),
            (None, false) => Ok(None),
            (None, true) => Err(Stopped),
        }
    }

    /// The job is done.
    pub(crate) fn done(&self) {
        let mut desk = self.lock();
        (desk.job, desk.failure) = (None, None);
        self.changed.notify_all();
    }

    /// The job failed. Waits for `pause`, and says whether to try again: not if the store closes,
    /// since the log still has everything.
    pub(crate) fn failed(&self, error: &StoreError, pause: Duration) -> Result<(), Stopped> {
        let begun = Instant::now();
        let mut desk = self.lock();
        desk.failure = Some(Failure { reason: error.to_string(), no_space: error.is_no_space() });
        self.changed.notify_all();
        while !desk.stopping && begun.elapsed() < pause {
            desk = self.wait(desk, pause.saturating_sub(begun.elapsed()));
        }
        if desk.stopping { Err(Stopped) } else { Ok(()) }
    }

    /// Ends the thread once the job at hand is done.
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Whether a checkpoint is under way, and how it failed so far.
    pub(crate) fn progress(&self) -> (bool, Option<String>) {
        let desk = self.lock();
        (desk.job.is_some(), desk.failure.as_ref().map(|failure| failure.reason.clone()))
    }

    fn wait<'d>(&self, desk: MutexGuard<'d, Desk>, wait_max: Duration) -> MutexGuard<'d, Desk> {
        let woken = self.changed.wait_timeout(desk, wait_max);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Desk {
    fn is_out_of_space(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.no_space)
    }

    fn overloaded(&self, waited: Duration) -> StoreError {
        let slow = || "the checkpoint is slower than the changes".to_owned();
        StoreError::Overloaded {
            waited_ms: waited.as_millis() as u64,
            reason: self.failure.as_ref().map_or_else(slow, |failure| failure.reason.clone()),
            no_space: self.is_out_of_space(),
        }
    }
}

#[derive(Clone, Debug)]
struct Failure {
    reason: String,
    no_space: bool,
}

/// The store is being closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stopped;
