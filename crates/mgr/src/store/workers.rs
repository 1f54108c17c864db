//! The two threads behind a store on disk: one syncs the log, one does checkpoints.

use super::checkpoint::{Job, Stopped};
use super::disk::Core;
use super::error::StoreError;
use super::memtable::Memtable;
use super::state::StateStore;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Starts both. They end when the store is closed.
pub(crate) fn start(
    core: &Arc<Core>,
    state: StateStore,
) -> Result<Vec<JoinHandle<()>>, StoreError> {
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let started = thread::Builder::new().name(name.to_owned()).spawn(work);
        started.map_err(|error| StoreError::io("start a thread for", &core.directory, error))
    };
    let (syncing, checkpointing) = (core.clone(), core.clone());
    let sync = spawn("store-sync", Box::new(move || sync(&syncing)))?;
    let work = Checkpointer { core: checkpointing, state, retired: Vec::new() };
    match spawn("store-ckpt", Box::new(move || work.run())) {
        Ok(checkpoint) => Ok(vec![sync, checkpoint]),
        Err(error) => {
            core.syncer.stop();
            sync.join().expect("the sync thread does not panic");
            Err(error)
        }
    }
}

/// Syncs what is not yet, half a second behind the commits, and once more at the end.
fn sync(core: &Core) {
    loop {
        let going_on = core.syncer.wait_for_work(core.options.sync_delay());
        let written = core.syncer.written();
        if let Err(error) = core.syncer.sync_to(written).and_then(|()| core.mark_synced()) {
            tracing::error!("{error}");
        }
        core.measure_space();
        if !going_on || core.syncer.check().is_err() {
            return;
        }
    }
}

struct Checkpointer {
    core: Arc<Core>,
    state: StateStore,
    /// Memtables that a reader may still hold: freeing one takes a while, so this thread does it.
    retired: Vec<Arc<Memtable>>,
}

impl Checkpointer {
    fn run(mut self) {
        while let Ok(job) = self.core.checkpoints.next_job(RETIRED_WAIT) {
            self.core.publication.sweep();
            self.retired.retain(|memtable| Arc::strong_count(memtable) > 1);
            let Some(job) = job else { continue };
            if self.work(&job) == Err(Stopped) {
                return;
            }
            self.retired.push(job.memtable);
        }
    }

    /// Tries until it is done. Meanwhile reads go on, and commits until memory is used up.
    fn work(&mut self, job: &Job) -> Result<(), Stopped> {
        while let Err(error) = self.try_once(job) {
            tracing::error!("checkpoint up to group {} failed: {error}; trying again", job.last);
            self.core.checkpoints.failed(&error, RETRY_PAUSE)?;
            if let Err(error) = self.reopen() {
                tracing::error!("{error}");
            }
        }
        self.core.checkpoints.done();
        Ok(())
    }

    fn try_once(&mut self, job: &Job) -> Result<(), StoreError> {
        if self.core.publication.current().state.applied < job.last {
            self.move_memtable(job)?;
        }
        self.core.remove_segments(&job.segments)
    }

    /// In parts, each a transaction: redb writes changed pages to new places, and only the pages of
    /// one part need to find room before old ones are free again.
    fn move_memtable(&mut self, job: &Job) -> Result<(), StoreError> {
        // The parts may only be on the disk if the log is. If its sync has failed, one part is safe.
        let in_parts = self.core.syncer.sync_to(job.last).is_ok();
        let mut start = Vec::new();
        loop {
            let keys_max = if in_parts { self.part_keys() } else { usize::MAX };
            let rest = self.state.take_over(&job.memtable, job.last, &start, keys_max)?;
            self.core.measure_space();
            let Some(rest) = rest else { break };
            self.core.publication.refresh(Arc::new(self.state.view()?));
            start = rest;
        }
        let state = Arc::new(self.state.view()?);
        self.core.syncer.checkpointed(job.last);
        self.core.publication.thaw(state);
        Ok(())
    }

    /// How many keys a part may have so that even if each is on a page of its own, and that page is
    /// split, it takes a quarter of the free space: redb frees pages a few transactions later.
    fn part_keys(&self) -> usize {
        let space = self.core.media.space(&self.core.directory);
        let free_bytes = space.map_or(u64::MAX, |space| space.free_bytes);
        (free_bytes / PART_BYTES_PER_KEY).clamp(PART_KEYS_MIN, PART_KEYS_MAX) as usize
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.state.reopen()?;
        let state = Arc::new(self.state.view()?);
        self.core.publication.refresh(state);
        Ok(())
    }
}

/// Two pages of 4 KiB, within a quarter of the free space.
const PART_BYTES_PER_KEY: u64 = 4 * 2 * 4096;

/// Fewer keys than this a part are not worth its two syncs, even on a full disk.
const PART_KEYS_MIN: u64 = 64;

/// So many keys a part, 256 MiB of pages at worst, make its syncs cheap enough.
const PART_KEYS_MAX: u64 = 32_768;

/// How often memtables are looked at that readers hold.
const RETIRED_WAIT: Duration = Duration::from_millis(200);

/// How long a failed checkpoint waits before it is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
