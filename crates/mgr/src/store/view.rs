//! What the name space sees of a store: one consistent state, to get and scan.

use super::batch::{Batch, Sequence};
use super::error::StoreError;
use std::sync::Arc;

/// A key and its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// Entries in ascending key order, read as they are asked for.
pub type Scan<'v> = Box<dyn Iterator<Item = Result<Entry, StoreError>> + Send + 'v>;

/// One consistent state of the store: whole groups, and nothing that happens later.
pub trait View: Send + Sync {
    /// The value of `key`.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// The entries of `range` in ascending order. Stopping early costs little more than was read.
    fn scan<'v>(&'v self, range: &KeyRange) -> Scan<'v>;

    /// The entries whose key begins with `prefix`, in ascending order.
    fn scan_prefix<'v>(&'v self, prefix: &[u8]) -> Scan<'v> {
        self.scan(&KeyRange::prefix(prefix))
    }

    /// Whether `key` has a value.
    fn contains(&self, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.get(key)?.is_some())
    }
}

/// A view that may be kept and shared. While it lives, the store keeps what it shows: hold it for a
/// request, not for a session.
pub type Snapshot = Arc<dyn View>;

/// A transactional store of byte strings.
pub trait Store: Send + Sync {
    /// The state after the last commit.
    fn snapshot(&self) -> Snapshot;

    /// Does all of `group` or nothing. When this returns, the group is visible to every snapshot
    /// taken from now on, and as durable as the store promises for its [level](super::Durability).
    fn commit(&self, group: Batch) -> Result<Sequence, StoreError>;

    /// Returns when every commit that returned before this call survives a power loss.
    fn sync(&self) -> Result<(), StoreError>;
}

/// Keys from `start` on, up to but without `end`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyRange {
    /// The first key that is in the range.
    pub start: Vec<u8>,
    /// The first key that is no longer in it; `None` for no bound.
    pub end: Option<Vec<u8>>,
}

impl KeyRange {
    /// Every key.
    pub fn all() -> Self {
        Self { start: Vec::new(), end: None }
    }

    /// Keys from `start` up to but without `end`.
    pub fn between(start: impl Into<Vec<u8>>, end: impl Into<Vec<u8>>) -> Self {
        Self { start: start.into(), end: Some(end.into()) }
    }

    /// Keys that begin with `prefix`.
    pub fn prefix(prefix: &[u8]) -> Self {
        Self { start: prefix.to_vec(), end: prefix_end(prefix) }
    }

    /// The part of this range after `key`: how a listing goes on where it stopped.
    #[must_use]
    pub fn after(mut self, key: &[u8]) -> Self {
        if key >= self.start.as_slice() {
            self.start = successor(key);
        }
        self
    }

    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.start)
    }
}

/// The smallest key greater than `key`.
fn successor(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// The smallest key greater than every key beginning with `prefix`, if there is one.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_sibling() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(prefix_end(&[0xff, 0xff]), None);
        assert_eq!(prefix_end(b""), None);
    }

    #[test]
    fn a_listing_goes_on_after_the_last_key_it_gave() {
        let range = KeyRange::prefix(b"a").after(b"ab");
        assert_eq!(range, KeyRange::between(b"ab\0", b"b"));
        assert_eq!(KeyRange::prefix(b"b").after(b"a"), KeyRange::prefix(b"b"));
    }
}
