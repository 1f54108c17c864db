//! The store on a local disk: commits go to the log and the memtable, checkpoints follow behind.
//!
//! ```text
//! commit --> log segment (one write) --> active memtable --> visible
//!                |  sync thread, <= 1 s       | full: freeze, begin a new segment
//!                v                            v
//!              disk                    frozen memtable --checkpoint thread--> state.redb, fsynced
//!                                                                             log segment removed
//! ```

use super::batch::{Batch, Sequence};
use super::checkpoint::{Checkpoints, Job};
use super::error::StoreError;
use super::lock::StoreLock;
use super::log::{
    self,
    recovery::{self, Known, Recovered},
};
use super::media::{LocalMedia, Media};
use super::memtable::Memtable;
use super::options::{Durability, StoreOptions};
use super::publication::{Publication, Version};
use super::state::{StateStore, StateView};
use super::sync::Syncer;
use super::view::{Snapshot, Store};
use super::workers;
use super::writer::Writer;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A [`Store`] in a directory of its own.
pub struct DiskStore {
    core: Arc<Core>,
    workers: Vec<JoinHandle<()>>,
    /// Released last.
    _lock: StoreLock,
}

/// What commits, readers and the two background threads share.
pub(crate) struct Core {
    pub(crate) options: StoreOptions,
    pub(crate) media: Arc<dyn Media>,
    pub(crate) directory: PathBuf,
    pub(crate) publication: Publication,
    pub(crate) syncer: Syncer,
    pub(crate) checkpoints: Checkpoints,
    space_low: AtomicBool,
    /// Whether it was said that nothing can be done about that.
    space_low_said: AtomicBool,
    /// Beside the writer, which may be waiting for a checkpoint while somebody asks for the status.
    log_bytes: AtomicU64,
    writer: Mutex<Writer>,
}

/// How the store is, for `status` and for tests.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoreStatus {
    /// The last group committed.
    pub last: Sequence,
    /// The last group that a power loss cannot take.
    pub synced: Sequence,
    /// The last group in the state file.
    pub checkpointed: Sequence,
    /// The log behind the last checkpoint begun.
    pub log_bytes: u64,
    /// Memory taken by changes not yet in the state file.
    pub memtable_bytes: usize,
    /// How many keys those changes concern.
    pub memtable_keys: usize,
    /// Whether a checkpoint is under way.
    pub checkpointing: bool,
    /// Whether free space is so low that only changes that free some should be let in.
    pub space_low: bool,
    /// Why commits are refused, or why the checkpoint does not get on.
    pub failure: Option<String>,
}

impl DiskStore {
    /// Opens the store in `directory`, or begins one there.
    pub fn open(directory: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_on(Arc::new(LocalMedia), directory, options)
    }

    /// Whether a store was made in `directory`. Opening makes one where there is none.
    pub fn exists(directory: &Path) -> Result<bool, StoreError> {
        StateStore::exists(directory)
    }

    /// Opens the store with its files on `media`.
    pub fn open_on(
        media: Arc<dyn Media>,
        directory: &Path,
        mut options: StoreOptions,
    ) -> Result<Self, StoreError> {
        options.check()?;
        let lock = StoreLock::take(directory)?;
        let space = media.space(directory);
        options.fit(space.map_or(u64::MAX, |space| space.capacity_bytes));
        let state = open_state(&media, directory, &options)?;
        let view = state.view()?;
        let (recovered, memtable) = recover(&*media, directory, &view)?;
        let core = Core::new(media, directory, options, view, &recovered, memtable)?;
        let core = Arc::new(core);
        core.take_over(recovered)?;
        let workers = workers::start(&core, state)?;
        Ok(Self { core, workers, _lock: lock })
    }

    /// Begins a checkpoint now and returns when it is done: afterwards opening replays nothing.
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        let mut writer = self.core.lock_writer();
        self.core.rotate(&mut writer)?;
        drop(writer);
        self.core.checkpoints.wait_until_idle(self.core.options.commit_wait_max())
    }

    /// Whether space is so low that the caller should refuse whatever makes the store grow, so that
    /// files can still be removed.
    ///
    /// Looked at after commits; while it is low, anew each time, since then no commits come.
    pub fn is_space_low(&self) -> bool {
        if self.core.space_low.load(Ordering::Relaxed) {
            self.core.measure_space();
            self.core.reclaim_space();
        }
        self.core.space_low.load(Ordering::Relaxed)
    }

    /// How the store is.
    pub fn status(&self) -> StoreStatus {
        self.core.status()
    }

    /// Syncs and closes. Dropping does the same but cannot say that it failed.
    pub fn close(mut self) -> Result<(), StoreError> {
        self.core.syncer.check()?;
        self.stop();
        self.sync()
    }

    fn stop(&mut self) {
        self.core.syncer.stop();
        self.core.checkpoints.stop();
        for worker in self.workers.drain(..) {
            worker.join().expect("the store's threads do not panic");
        }
    }
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directory = &self.core.directory;
        formatter.debug_struct("DiskStore").field("directory", directory).finish_non_exhaustive()
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Store for DiskStore {
    fn snapshot(&self) -> Snapshot {
        self.core.publication.current()
    }

    fn commit(&self, group: Batch) -> Result<Sequence, StoreError> {
        group.check_limits()?;
        let mut writer = self.core.lock_writer();
        if group.is_empty() {
            return Ok(writer.last());
        }
        self.core.commit(&mut writer, group)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let last = self.core.publication.current().sequence;
        self.core.syncer.sync_to(last)
    }
}

impl Core {
    fn new(
        media: Arc<dyn Media>,
        directory: &Path,
        options: StoreOptions,
        state: StateView,
        recovered: &Recovered,
        memtable: Memtable,
    ) -> Result<Self, StoreError> {
        let last = recovered.last;
        let syncer = Syncer::new(media.clone(), directory, last);
        let writer = Writer::begin(&*media, directory, state.store_id, last, &syncer)?;
        let frozen = (memtable.len() > 0).then(|| Arc::new(memtable));
        let (active, state) = (Arc::default(), Arc::new(state));
        let version = Version { sequence: last, active, frozen, state };
        Ok(Self {
            options,
            media,
            directory: directory.to_path_buf(),
            publication: Publication::new(version),
            syncer,
            checkpoints: Checkpoints::default(),
            space_low: AtomicBool::new(false),
            space_low_said: AtomicBool::new(false),
            log_bytes: AtomicU64::new(0),
            writer: Mutex::new(writer),
        })
    }

    /// What was replayed goes into the state file at once: the next start is quick, and pages that
    /// an earlier failed sync left unwritten do not matter any more.
    fn take_over(&self, recovered: Recovered) -> Result<(), StoreError> {
        self.measure_space();
        let named = self.media.sync_directory(&self.directory);
        named.map_err(|error| StoreError::io("sync", &self.directory, error))?;
        let own = self.lock_writer().segment_path().to_path_buf();
        let mut segments = recovered.segments;
        segments.retain(|path| *path != own);
        self.remove_segments(&recovered.obsolete)?;
        match &self.publication.current().frozen {
            Some(frozen) => {
                let (memtable, last) = (frozen.clone(), recovered.last);
                self.checkpoints.submit(Job { memtable, last, segments });
                Ok(())
            }
            None => self.remove_segments(&segments),
        }
    }

    fn commit(&self, writer: &mut Writer, group: Batch) -> Result<Sequence, StoreError> {
        self.syncer.check()?;
        self.make_room(writer)?;
        let sequence = writer.append(&group, &self.syncer)?;
        self.log_bytes.store(writer.log_bytes(), Ordering::Relaxed);
        if self.options.durability == Durability::Strict {
            self.syncer.sync_to(sequence)?;
        }
        let living = self.publication.living();
        self.publication.current().active.apply(group, sequence, &living);
        self.publication.advance(sequence);
        Ok(sequence)
    }

    /// Begins a checkpoint when the log or the memtable is full. If the one before is still under
    /// way, this waits: that bounds memory.
    fn make_room(&self, writer: &mut Writer) -> Result<(), StoreError> {
        let memtable_bytes = self.publication.current().active.bytes();
        let full = writer.log_bytes() >= self.options.log_bytes_max
            || memtable_bytes >= self.options.memtable_bytes_max;
        if full { self.rotate(writer) } else { Ok(()) }
    }

    fn rotate(&self, writer: &mut Writer) -> Result<(), StoreError> {
        self.checkpoints.wait_until_idle(self.options.commit_wait_max())?;
        let memtable = self.publication.current().active.clone();
        if memtable.len() == 0 {
            return Ok(());
        }
        let complete = writer.begin_segment(&*self.media, &self.directory, &self.syncer)?;
        self.publication.freeze();
        self.checkpoints.submit(Job { memtable, last: writer.last(), segments: vec![complete] });
        self.measure_space();
        Ok(())
    }

    /// While space is low no commits come that would fill the memtable, and what was removed takes space
    /// until the next checkpoint: so one begins now. When it cannot, it is tried again at the next look.
    fn reclaim_space(&self) {
        let (under_way, _) = self.checkpoints.progress();
        if under_way || !self.space_low.load(Ordering::Relaxed) {
            return;
        }
        let begun = self.rotate(&mut self.lock_writer());
        let was_said = self.space_low_said.swap(begun.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (begun, was_said) {
            tracing::warn!("no checkpoint could begin though space is low: {error}");
        }
    }

    /// Says in the log what is synced, if no group written since does.
    pub(crate) fn mark_synced(&self) -> Result<(), StoreError> {
        self.lock_writer().mark(&self.syncer)
    }

    /// Looks at the free space.
    pub(crate) fn measure_space(&self) {
        let pending_bytes = self.publication.current().memtable_bytes() as u64;
        let low_bytes = self.options.free_bytes_low(pending_bytes);
        let space = self.media.space(&self.directory);
        let low = space.is_ok_and(|space| space.free_bytes < low_bytes);
        self.space_low.store(low, Ordering::Relaxed);
    }

    /// Removes segments whose groups are in the state file. The successor's name must be on the
    /// disk before, lest a power loss leave no log at all.
    pub(crate) fn remove_segments(&self, segments: &[PathBuf]) -> Result<(), StoreError> {
        if segments.is_empty() {
            return Ok(());
        }
        let synced = self.media.sync_directory(&self.directory);
        synced.map_err(|error| StoreError::io("sync", &self.directory, error))?;
        for path in segments {
            match self.media.remove(path) {
                // Gone already: this is the second try.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(|error| StoreError::io("remove", path, error))?,
            }
        }
        Ok(())
    }

    fn status(&self) -> StoreStatus {
        let version = self.publication.current();
        let (checkpointing, failure) = self.checkpoints.progress();
        StoreStatus {
            last: version.sequence,
            synced: self.syncer.synced(),
            checkpointed: version.state.applied,
            log_bytes: self.log_bytes.load(Ordering::Relaxed),
            memtable_bytes: version.memtable_bytes(),
            memtable_keys: version.memtables().map(|memtable| memtable.len()).sum(),
            checkpointing,
            space_low: self.space_low.load(Ordering::Relaxed),
            failure: self.syncer.check().err().map(|error| error.to_string()).or(failure),
        }
    }

    fn lock_writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn open_state(
    media: &Arc<dyn Media>,
    directory: &Path,
    options: &StoreOptions,
) -> Result<StateStore, StoreError> {
    let store_id = random(directory)?;
    if !StateStore::exists(directory)? && !log::segments_in(directory)?.is_empty() {
        let damage = "its log is there, but its state file is missing".to_owned();
        return Err(StoreError::Corrupt { path: directory.to_path_buf(), damage });
    }
    StateStore::open(media.clone(), directory, options.cache_bytes, store_id)
}

fn recover(
    media: &dyn Media,
    directory: &Path,
    state: &StateView,
) -> Result<(Recovered, Memtable), StoreError> {
    let memtable = Memtable::default();
    let mut replay = |sequence, group| memtable.apply(group, sequence, &[]);
    let known = Known { store_id: state.store_id, applied: state.applied, synced: state.synced };
    let recovered = recovery::recover(media, directory, known, &mut replay)?;
    if recovered.bytes_cut > 0 || recovered.records_lost > 0 {
        tracing::warn!(
            "the log in {} ended in {} bytes after group {} that a crash had left unfinished \
             ({} whole groups among them, none of them synced); they were cut off",
            directory.display(),
            recovered.bytes_cut,
            recovered.last,
            recovered.records_lost,
        );
    }
    Ok((recovered, memtable))
}

/// A number that nobody can guess.
pub(crate) fn random(directory: &Path) -> Result<u64, StoreError> {
    getrandom::u64().map_err(|error| {
        StoreError::io("draw a random number for", directory, io::Error::other(error))
    })
}
