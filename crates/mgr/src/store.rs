//! The manager's store: an embedded, transactional, ordered map of byte strings.
//!
//! ```text
//!                 Transaction            the changes of one round, visible to that round
//!                     |
//! readers --- Snapshot (a View)          active memtable | frozen memtable | state file, as one
//!                     |
//! commit(Batch) --> log --> memtable ..> checkpoint ..> state.redb
//! ```
//!
//! The name space above is a pure function of a [`View`] and a request that yields a [`Batch`]; the
//! store knows nothing of what keys and values mean. A commit is one record in a log and is done
//! when the record has been written: a killed process loses nothing. [`Durability`] says what a
//! power loss may take. [`DiskStore`] is the real one, [`MemoryStore`] its model for simulations.
//!
//! The decision for this design, its measurements and its file formats are in
//! docs/design/metadata-store.md.

mod batch;
mod checkpoint;
mod disk;
mod error;
mod lock;
mod log;
mod media;
mod memory;
mod memtable;
mod merge;
mod options;
mod publication;
mod sorted;
mod state;
mod sync;
mod transaction;
mod view;
mod workers;
mod writer;

#[cfg(test)]
mod tests;

pub use batch::{Batch, Change, GROUP_BYTES_MAX, KEY_BYTES_MAX, Sequence, VALUE_BYTES_MAX};
pub use disk::{DiskStore, StoreStatus};
pub use error::StoreError;
pub use media::{LocalMedia, Media, MediaFile, Space};
pub use memory::MemoryStore;
pub use options::{Durability, StoreOptions};
pub use transaction::{Difference, Savepoint, Transaction, Watch};
pub use view::{Entry, KeyRange, Scan, Snapshot, Store, View};
