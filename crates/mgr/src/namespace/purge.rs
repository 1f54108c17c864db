//! The queue of objects whose data still lie on iods although the file is gone.
//!
//! An entry is made in the batch that removes the file, and goes when all its iods have confirmed. So
//! nothing is purged that can still be opened, and nothing is forgotten by a crash.

use pvfs_wire::attr::Placement;
use pvfs_wire::{Errno, Handle};

use super::Filesystem;
use super::names::decode;
use crate::keys;
use crate::record::{Counters, Record};
use crate::store::{KeyRange, StoreError, Transaction, View};

/// One object to be removed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Purge {
    /// Which.
    pub handle: Handle,
    /// From which iods.
    pub placement: Placement,
}

/// The first `entries_max` objects of the queue whose number is above `after`.
pub fn purge_queue(
    view: &dyn View,
    fs: &Filesystem,
    after: u64,
    entries_max: usize,
) -> Result<Vec<Purge>, Errno> {
    let range = KeyRange::prefix(&[keys::PURGE]).after(&keys::purge(after));
    view.scan(&range)
        .take(entries_max)
        .map(|entry| {
            let (key, value) = entry?;
            let object = keys::first_number(&key).ok_or(Errno::EIO)?;
            Ok(Purge { handle: fs.handle(object), placement: decode(&key, &value)? })
        })
        .collect()
}

/// These objects are gone from all their iods. Objects not in the queue are passed over.
pub fn purged(
    tx: &mut Transaction<'_>,
    objects: impl IntoIterator<Item = u64>,
) -> Result<(), StoreError> {
    let Some(bytes) = tx.get(keys::COUNTERS)? else { return Ok(()) };
    let Ok(mut counters) = Counters::decode(&bytes) else { return Ok(()) };
    for object in objects {
        if tx.contains(&keys::purge(object))? {
            tx.delete(keys::purge(object));
            counters.purging = counters.purging.saturating_sub(1);
        }
    }
    tx.put(keys::COUNTERS, counters.encode());
    Ok(())
}
