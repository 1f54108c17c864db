//! Making the log survive a power loss: one sync at a time, everyone waiting shares the next one.
//!
//! A sync that failed is never taken back: the kernel may have dropped the pages it could not write
//! and say "done" the next time (the fsync problem of 2018), so from then on the store is suspect.

use super::batch::Sequence;
use super::error::StoreError;
use super::media::{Media, MediaFile};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What of the log is on the disk.
pub(crate) struct Syncer {
    media: Arc<dyn Media>,
    directory: PathBuf,
    synced: AtomicU64,
    /// Held while syncing.
    round: Mutex<()>,
    dirty: Mutex<Dirty>,
    woken: Condvar,
    suspect: OnceLock<String>,
}

/// What is to be synced.
#[derive(Debug)]
struct Dirty {
    /// The last group written.
    written: Sequence,
    /// Segments with bytes that may be in memory only, the oldest first; the last one grows.
    segments: Vec<(Sequence, Arc<dyn MediaFile>)>,
    /// Whether a segment's name may be in memory only.
    names: bool,
    /// When the first group was written that the thread has not looked at.
    since: Option<Instant>,
    stopping: bool,
}

impl Syncer {
    /// Everything up to `last` is on the disk.
    pub(crate) fn new(media: Arc<dyn Media>, directory: &Path, last: Sequence) -> Self {
        let dirty = Dirty {
            written: last,
            segments: Vec::new(),
            names: false,
            since: None,
            stopping: false,
        };
        Self {
            media,
            directory: directory.to_path_buf(),
            synced: AtomicU64::new(last),
            round: Mutex::new(()),
            dirty: Mutex::new(dirty),
            woken: Condvar::new(),
            suspect: OnceLock::new(),
        }
    }

    /// The last group known to be on the disk.
    pub(crate) fn synced(&self) -> Sequence {
        self.synced.load(Ordering::Acquire)
    }

    /// A new segment receives groups from `first` on.
    pub(crate) fn begin_segment(&self, first: Sequence, file: Arc<dyn MediaFile>) {
        let mut dirty = self.lock();
        dirty.segments.push((first, file));
        dirty.names = true;
    }

    /// Group `sequence` is in the log.
    pub(crate) fn wrote(&self, sequence: Sequence) {
        let mut dirty = self.lock();
        dirty.written = sequence;
        if dirty.since.is_none() {
            dirty.since = Some(Instant::now());
            self.woken.notify_all();
        }
    }

    /// A checkpoint put everything up to `last` on the disk; segments before the one that begins
    /// after it are no longer needed.
    pub(crate) fn checkpointed(&self, last: Sequence) {
        self.lock().segments.retain(|(first, _)| *first > last);
        self.synced.fetch_max(last, Ordering::AcqRel);
    }

    /// Returns when group `target` is on the disk.
    pub(crate) fn sync_to(&self, target: Sequence) -> Result<(), StoreError> {
        let _round = self.round.lock().unwrap_or_else(PoisonError::into_inner);
        self.check()?;
        if self.synced() >= target {
            return Ok(());
        }
        let (written, segments, names) = {
            let mut dirty = self.lock();
            (dirty.written, dirty.segments.clone(), std::mem::take(&mut dirty.names))
        };
        self.sync_files(&segments, names).map_err(|error| self.fail(&error))?;
        self.finish(written, &segments);
        Ok(())
    }

    /// Refuses if a sync has failed.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        match self.suspect.get() {
            Some(reason) => Err(StoreError::Suspect { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    /// Marks the store suspect: what the disk holds is not known.
    pub(crate) fn fail(&self, error: &StoreError) -> StoreError {
        let reason = self.suspect.get_or_init(|| error.to_string());
        StoreError::Suspect { reason: reason.clone() }
    }

    /// The last group written to the log, visible or about to be.
    pub(crate) fn written(&self) -> Sequence {
        self.lock().written
    }

    /// Waits until `delay` after a group was written, or for the stop. Returns whether to go on.
    pub(crate) fn wait_for_work(&self, delay: Duration) -> bool {
        let mut dirty = self.lock();
        loop {
            let waited = dirty.since.map(|since| since.elapsed());
            if dirty.stopping || waited.is_some_and(|waited| waited >= delay) {
                dirty.since = None;
                return !dirty.stopping;
            }
            let left = waited.map_or(IDLE_WAIT, |waited| delay - waited);
            let woken = self.woken.wait_timeout(dirty, left);
            dirty = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends [`wait_for_work`](Self::wait_for_work).
    pub(crate) fn stop(&self) {
        self.lock().stopping = true;
        self.woken.notify_all();
    }

    /// The older segment first: what is on the disk must have no hole, so the last one alone is not
    /// enough.
    fn sync_files(
        &self,
        segments: &[(Sequence, Arc<dyn MediaFile>)],
        names: bool,
    ) -> Result<(), StoreError> {
        let failed = |error| StoreError::io("sync the log in", &self.directory, error);
        for (_, file) in segments {
            file.sync_data().map_err(failed)?;
        }
        if names {
            self.media.sync_directory(&self.directory).map_err(failed)?;
        }
        Ok(())
    }

    /// Of the segments synced, all but the last are complete and need no further sync.
    fn finish(&self, written: Sequence, segments: &[(Sequence, Arc<dyn MediaFile>)]) {
        let growing = segments.last().map_or(0, |(first, _)| *first);
        self.lock().segments.retain(|(first, _)| *first >= growing);
        self.synced.fetch_max(written, Ordering::AcqRel);
    }

    fn lock(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long the thread sleeps when there is nothing to sync; it is woken for work anyway.
const IDLE_WAIT: Duration = Duration::from_secs(60);
