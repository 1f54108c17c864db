//! The state file: all that checkpoints have taken over from the log, in redb.
//!
//! redb checks its pages only when it repairs a file, and panics on some damaged ones. So every call
//! into it goes through [`contained`]: a damaged file is an error of the request that met it, and
//! the manager lives on.

use super::batch::{Change, Sequence};
use super::error::StoreError;
use super::media::{Media, StateFile};
use super::memtable::Memtable;
use super::merge::Layer;
use super::view::KeyRange;
use redb::{Database, ReadOnlyTable, ReadableDatabase, Table, TableDefinition, WriteTransaction};
use std::fs;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// The state file, open for checkpoints.
#[derive(Debug)]
pub(crate) struct StateStore {
    media: Arc<dyn Media>,
    path: Arc<Path>,
    cache_bytes: usize,
    /// `None` only while it could not be opened again after a failure.
    database: Option<Database>,
}

/// The state as of one checkpoint: a read transaction and its table, kept until nobody looks.
pub(crate) struct StateView {
    entries: ReadOnlyTable<&'static [u8], &'static [u8]>,
    path: Arc<Path>,
    /// The last group that is in it.
    pub(crate) applied: Sequence,
    /// The last group that it may contain a part of: the log holds it.
    pub(crate) synced: Sequence,
    /// Told apart from every other store by this.
    pub(crate) store_id: u64,
}

impl StateStore {
    /// Opens the state file in `directory`, creating it if the store is new.
    pub(crate) fn open(
        media: Arc<dyn Media>,
        directory: &Path,
        cache_bytes: usize,
        new_store_id: u64,
    ) -> Result<Self, StoreError> {
        let path = directory.join(FILE_NAME).into();
        let mut state = Self { media, path, cache_bytes, database: None };
        if !Self::exists(directory)? {
            state.create(directory, new_store_id)?;
        }
        state.reopen()?;
        Ok(state)
    }

    /// Whether there is a state file in `directory`.
    pub(crate) fn exists(directory: &Path) -> Result<bool, StoreError> {
        let path = directory.join(FILE_NAME);
        path.try_exists().map_err(|error| StoreError::io("find", &path, error))
    }

    /// Opens the file again after a failure: redb refuses everything once one write has failed,
    /// and its file is as the last checkpoint left it.
    pub(crate) fn reopen(&mut self) -> Result<(), StoreError> {
        self.close();
        let path = self.path.clone();
        self.database = Some(contained(&path, || self.open_file(&path))?);
        Ok(())
    }

    /// The state as of the last checkpoint.
    pub(crate) fn view(&self) -> Result<StateView, StoreError> {
        contained(&self.path, || self.read_view())
    }

    fn read_view(&self) -> Result<StateView, StoreError> {
        let read = self.database()?.begin_read().map_err(reading)?;
        let facts = read.open_table(FACTS).map_err(reading)?;
        let fact = |name| {
            let value = facts.get(name).map_err(reading)?.map(|value| value.value());
            value.ok_or_else(|| self.corrupt(&format!("it does not say its {name}")))
        };
        self.check_version(fact(FORMAT)?)?;
        let entries = read.open_table(ENTRIES).map_err(reading)?;
        Ok(StateView {
            entries,
            path: self.path.clone(),
            applied: fact(APPLIED)?,
            synced: fact(SYNCED)?,
            store_id: fact(STORE_ID)?,
        })
    }

    /// Takes over at most `keys_max` changes of `memtable`, from `start` on, and syncs: all or none.
    /// Returns where to go on, or `None` after the last part, with which group `last` is applied.
    ///
    /// Between the parts the file holds a mixture of old and new entries. That is sound as long as
    /// the memtable, or the log, is read on top; so the log up to `last` must have been synced.
    pub(crate) fn take_over(
        &self,
        memtable: &Memtable,
        last: Sequence,
        start: &[u8],
        keys_max: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        contained(&self.path, || {
            let write = self.begin_write()?;
            let rest = write_part(&write, memtable, last, start, keys_max)?;
            write.commit().map_err(writing)?;
            Ok(rest)
        })
    }

    /// A new file gets its name when it is complete, so that no crash leaves half a store.
    fn create(&self, directory: &Path, store_id: u64) -> Result<(), StoreError> {
        let unfinished = directory.join(UNFINISHED_NAME);
        let emptied = self.media.open(&unfinished).and_then(|file| file.set_len(0));
        emptied.map_err(|error| StoreError::io("create", &unfinished, error))?;
        let created = Self {
            media: self.media.clone(),
            path: unfinished.as_path().into(),
            cache_bytes: 0,
            database: Some(self.open_file(&unfinished)?),
        };
        created.initialize(store_id)?;
        drop(created);
        fs::rename(&unfinished, &self.path)
            .and_then(|()| self.media.sync_directory(directory))
            .map_err(|error| StoreError::io("create", &self.path, error))
    }

    fn initialize(&self, store_id: u64) -> Result<(), StoreError> {
        let write = self.begin_write()?;
        {
            write.open_table(ENTRIES).map_err(writing)?;
            let mut facts = write.open_table(FACTS).map_err(writing)?;
            let version = (FORMAT, FORMAT_VERSION);
            for (name, value) in [version, (STORE_ID, store_id), (APPLIED, 0), (SYNCED, 0)] {
                facts.insert(name, value).map_err(writing)?;
            }
        }
        write.commit().map_err(writing)
    }

    fn open_file(&self, path: &Path) -> Result<Database, StoreError> {
        let file = self.media.open(path).map_err(|error| StoreError::io("open", path, error))?;
        Database::builder()
            .set_cache_size(self.cache_bytes)
            .create_with_backend(StateFile(file))
            .map_err(|error| StoreError::state("open", error))
    }

    /// Every commit saves the allocator's state, so that opening after a crash takes milliseconds
    /// and not a walk over the whole file.
    fn begin_write(&self) -> Result<WriteTransaction, StoreError> {
        let mut write = self.database()?.begin_write().map_err(writing)?;
        write.set_quick_repair(true);
        Ok(write)
    }

    fn database(&self) -> Result<&Database, StoreError> {
        let closed = || StoreError::state("use", redb::Error::DatabaseClosed);
        self.database.as_ref().ok_or_else(closed)
    }

    fn check_version(&self, found: u64) -> Result<(), StoreError> {
        if found == FORMAT_VERSION {
            return Ok(());
        }
        Err(StoreError::UnknownVersion {
            path: self.path.to_path_buf(),
            found,
            known: FORMAT_VERSION,
        })
    }

    fn corrupt(&self, damage: &str) -> StoreError {
        StoreError::Corrupt { path: self.path.to_path_buf(), damage: damage.to_owned() }
    }

    fn close(&mut self) {
        let database = self.database.take();
        // What it could not write is still in the log.
        let _ = contained(&self.path, || {
            drop(database);
            Ok(())
        });
    }
}

impl Drop for StateStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl StateView {
    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        contained(&self.path, || {
            let value = self.entries.get(key).map_err(reading)?;
            Ok(value.map(|value| value.value().to_vec()))
        })
    }

    /// The entries of `range` in order, as a layer without deletions.
    pub(crate) fn scan(&self, range: &KeyRange) -> Layer<'_> {
        if range.is_empty() {
            return Box::new(std::iter::empty());
        }
        let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let bounds = (Bound::Included(range.start.as_slice()), end);
        let entries = || self.entries.range::<&[u8]>(bounds).map_err(reading);
        match contained(&self.path, entries) {
            Ok(mut entries) => Box::new(std::iter::from_fn(move || self.next(&mut entries))),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn next(&self, entries: &mut Entries) -> Option<Result<Change, StoreError>> {
        let next = contained(&self.path, || {
            let Some(entry) = entries.next() else { return Ok(None) };
            let (key, value) = entry.map_err(reading)?;
            let (key, value) = (key.value().to_vec(), value.value().to_vec());
            Ok(Some(Change { key, value: Some(value) }))
        });
        next.transpose()
    }
}

/// Runs `work` in redb; a panic there means that the file at `path` is damaged.
///
/// Nothing of ours is left half done by the panic: what `work` borrows is only redb's, whose own
/// locks then refuse further use, and which is opened anew after a failure.
fn contained<T>(
    path: &Path,
    work: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let damage = "redb found an impossible page in it".to_owned();
        Err(StoreError::Corrupt { path: path.to_path_buf(), damage })
    })
}

fn write_part(
    write: &WriteTransaction,
    memtable: &Memtable,
    last: Sequence,
    start: &[u8],
    keys_max: usize,
) -> Result<Option<Vec<u8>>, StoreError> {
    let mut entries = write.open_table(ENTRIES).map_err(writing)?;
    let rest =
        memtable.each_newest(start, keys_max, |key, value| change(&mut entries, key, value))?;
    let mut facts = write.open_table(FACTS).map_err(writing)?;
    facts.insert(SYNCED, last).map_err(writing)?;
    if rest.is_none() {
        facts.insert(APPLIED, last).map_err(writing)?;
    }
    Ok(rest)
}

fn change(
    entries: &mut Table<&[u8], &[u8]>,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), StoreError> {
    match value {
        Some(value) => entries.insert(key, value).map_err(writing)?,
        None => entries.remove(key).map_err(writing)?,
    };
    Ok(())
}

fn reading(source: impl Into<redb::Error>) -> StoreError {
    StoreError::state("read", source)
}

fn writing(source: impl Into<redb::Error>) -> StoreError {
    StoreError::state("write", source)
}

/// A scan of the entries.
type Entries = redb::Range<'static, &'static [u8], &'static [u8]>;

/// The state file's name.
const FILE_NAME: &str = "state.redb";

/// Its name until it is complete.
const UNFINISHED_NAME: &str = "state.redb.new";

/// Everything the store holds.
const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");

/// What the store must know of itself: [`FORMAT`], [`STORE_ID`], [`APPLIED`], [`SYNCED`].
const FACTS: TableDefinition<&str, u64> = TableDefinition::new("facts");

/// The version of the tables.
const FORMAT: &str = "format";
const FORMAT_VERSION: u64 = 1;

/// A random number given at creation, also in every log segment.
const STORE_ID: &str = "store id";

/// The last group that the entries contain.
const APPLIED: &str = "applied";

/// The last group that they may contain a part of, while a checkpoint is under way.
const SYNCED: &str = "synced";
