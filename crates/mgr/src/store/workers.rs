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
            self.core.publication.living();
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
            self.check_space(job)?;
            let state = self.state.checkpoint(&job.memtable, job.last)?;
            self.core.syncer.checkpointed(job.last);
            self.core.publication.thaw(Arc::new(state));
        }
        self.core.remove_segments(&job.segments)
    }

    /// Running out of space in the middle would close the state file for readers for a moment, so
    /// it is better not to begin.
    fn check_space(&self, job: &Job) -> Result<(), StoreError> {
        let needed = job.memtable.bytes() as u64 * 2;
        let directory = &self.core.directory;
        match self.core.media.space(directory) {
            Ok(space) if space.free_bytes < needed => {
                Err(StoreError::NoSpace { directory: directory.clone() })
            }
            _ => Ok(()),
        }
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        self.state.reopen()?;
        let state = Arc::new(self.state.view()?);
        self.core.publication.reopened(state);
        Ok(())
    }
}

/// How often memtables are looked at that readers hold.
const RETIRED_WAIT: Duration = Duration::from_millis(200);

/// How long a failed checkpoint waits before it is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
