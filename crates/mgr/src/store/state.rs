//! The state file: all that checkpoints have taken over from the log, in redb.

use super::batch::{Change, Sequence};
use super::error::StoreError;
use super::media::{Media, StateFile};
use super::memtable::Memtable;
use super::merge::Layer;
use super::view::KeyRange;
use redb::{Database, ReadOnlyTable, ReadableDatabase, Table, TableDefinition, WriteTransaction};
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The state file, open for checkpoints.
#[derive(Debug)]
pub(crate) struct StateStore {
    media: Arc<dyn Media>,
    path: PathBuf,
    cache_bytes: usize,
    /// `None` only while it could not be opened again after a failure.
    database: Option<Database>,
}

/// The state as of one checkpoint: a read transaction and its table, kept until nobody looks.
pub(crate) struct StateView {
    entries: ReadOnlyTable<&'static [u8], &'static [u8]>,
    /// The last group that is in it.
    pub(crate) applied: Sequence,
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
        let path = directory.join(FILE_NAME);
        let mut state = Self { media, path, cache_bytes, database: None };
        if !state.path.exists() {
            state.create(directory, new_store_id)?;
        }
        state.reopen()?;
        Ok(state)
    }

    /// Opens the file again after a failure: redb refuses everything once one write has failed,
    /// and its file is as the last checkpoint left it.
    pub(crate) fn reopen(&mut self) -> Result<(), StoreError> {
        self.database = None;
        self.database = Some(self.open_file(&self.path)?);
        Ok(())
    }

    /// The state as of the last checkpoint.
    pub(crate) fn view(&self) -> Result<StateView, StoreError> {
        let read = self.database()?.begin_read().map_err(reading)?;
        let facts = read.open_table(FACTS).map_err(reading)?;
        let fact = |name| {
            let value = facts.get(name).map_err(reading)?.map(|value| value.value());
            value.ok_or_else(|| self.corrupt(&format!("it does not say its {name}")))
        };
        self.check_version(fact(FORMAT)?)?;
        let entries = read.open_table(ENTRIES).map_err(reading)?;
        Ok(StateView { entries, applied: fact(APPLIED)?, store_id: fact(STORE_ID)? })
    }

    /// Takes over the changes of `memtable`, which end with group `last`, and syncs: all or none.
    pub(crate) fn checkpoint(
        &mut self,
        memtable: &Memtable,
        last: Sequence,
    ) -> Result<StateView, StoreError> {
        let write = self.begin_write()?;
        {
            let mut entries = write.open_table(ENTRIES).map_err(writing)?;
            memtable.each_newest(|key, value| change(&mut entries, key, value))?;
            let mut facts = write.open_table(FACTS).map_err(writing)?;
            facts.insert(APPLIED, last).map_err(writing)?;
        }
        write.commit().map_err(writing)?;
        self.view()
    }

    /// A new file gets its name when it is complete, so that no crash leaves half a store.
    fn create(&self, directory: &Path, store_id: u64) -> Result<(), StoreError> {
        let unfinished = directory.join(UNFINISHED_NAME);
        let created = Self {
            media: self.media.clone(),
            path: unfinished.clone(),
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
            for (name, value) in [(FORMAT, FORMAT_VERSION), (STORE_ID, store_id), (APPLIED, 0)] {
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
        Err(StoreError::UnknownVersion { path: self.path.clone(), found, known: FORMAT_VERSION })
    }

    fn corrupt(&self, damage: &str) -> StoreError {
        StoreError::Corrupt { path: self.path.clone(), damage: damage.to_owned() }
    }
}

impl StateView {
    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.entries.get(key).map_err(reading)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    /// The entries of `range` in order, as a layer without deletions.
    pub(crate) fn scan(&self, range: &KeyRange) -> Layer<'static> {
        if range.is_empty() {
            return Box::new(std::iter::empty());
        }
        let end = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        match self.entries.range::<&[u8]>((Bound::Included(range.start.as_slice()), end)) {
            Ok(entries) => Box::new(entries.map(|entry| {
                let (key, value) = entry.map_err(reading)?;
                Ok(Change { key: key.value().to_vec(), value: Some(value.value().to_vec()) })
            })),
            Err(error) => Box::new(std::iter::once(Err(reading(error)))),
        }
    }
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

/// The state file's name.
pub(crate) const FILE_NAME: &str = "state.redb";

/// Its name until it is complete.
const UNFINISHED_NAME: &str = "state.redb.new";

/// Everything the store holds.
const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");

/// What the store must know of itself: [`FORMAT`], [`STORE_ID`], [`APPLIED`].
const FACTS: TableDefinition<&str, u64> = TableDefinition::new("facts");

/// The version of the tables.
const FORMAT: &str = "format";
const FORMAT_VERSION: u64 = 1;

/// A random number given at creation, also in every log segment.
const STORE_ID: &str = "store id";

/// The last group that the entries contain.
const APPLIED: &str = "applied";
