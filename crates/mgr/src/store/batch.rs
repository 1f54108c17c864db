//! An ordered list of changes, all of which happen or none.

use super::error::StoreError;

/// Position of a group in the history of one store: the first group is 1, each next one more.
pub type Sequence = u64;

/// Longest key. The log stores its length in 16 bits.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// Longest value: above the largest extended attribute (64 KiB), far below a group.
pub const VALUE_BYTES_MAX: usize = 4 << 20;

/// Largest group as encoded in the log, so that recovery can bound what it reads.
pub const GROUP_BYTES_MAX: usize = 32 << 20;

/// What happens to one key: it gets a value, or is deleted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// The key.
    pub key: Vec<u8>,
    /// Its new value, or `None` to delete it.
    pub value: Option<Vec<u8>>,
}

/// An ordered list of changes. Of two changes to one key the later one counts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Batch {
    changes: Vec<Change>,
}

impl Batch {
    /// No change yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives `key` a value.
    pub fn put(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.push(Change { key: key.into(), value: Some(value.into()) });
    }

    /// Deletes `key`, present or not.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) {
        self.push(Change { key: key.into(), value: None });
    }

    /// Adds one change at the end.
    pub fn push(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Adds the changes of `other` after these: batches of one round become a group.
    pub fn append(&mut self, mut other: Batch) {
        self.changes.append(&mut other.changes);
    }

    /// The changes in order.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Refuses what the log could not hold, before anything is written.
    pub fn check_limits(&self) -> Result<(), StoreError> {
        let mut group_bytes = 0;
        for change in &self.changes {
            let value_bytes = change.value.as_ref().map_or(0, Vec::len);
            check("key", change.key.len(), KEY_BYTES_MAX)?;
            check("value", value_bytes, VALUE_BYTES_MAX)?;
            group_bytes += CHANGE_HEADER_BYTES + change.key.len() + value_bytes;
        }
        check("group", group_bytes, GROUP_BYTES_MAX)
    }
}

impl IntoIterator for Batch {
    type Item = Change;
    type IntoIter = std::vec::IntoIter<Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.changes.into_iter()
    }
}

impl FromIterator<Change> for Batch {
    fn from_iter<I: IntoIterator<Item = Change>>(changes: I) -> Self {
        Self { changes: changes.into_iter().collect() }
    }
}

fn check(what: &'static str, bytes: usize, bytes_max: usize) -> Result<(), StoreError> {
    if bytes > bytes_max {
        return Err(StoreError::TooLarge { what, bytes, bytes_max });
    }
    Ok(())
}

/// Key length (2) and value length (4) before each change in the log.
pub(crate) const CHANGE_HEADER_BYTES: usize = 6;
