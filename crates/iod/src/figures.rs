//! Counters for `pvfs status`. Counting costs an addition; reading them is rare.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What happened since the daemon started.
        #[derive(Default)]
        pub struct Figures { $($(#[$doc])* pub $name: Counter,)* }

        impl Figures {
            /// Name and value of each.
            pub fn list(&self) -> Vec<(String, u64)> {
                vec![$((concat!(stringify!($name), "_total").to_owned(), self.$name.0.load(Relaxed)),)*]
            }
        }
    };
}

figures! {
    /// Requests that passed the gate.
    requests,
    /// Requests answered with an error.
    errors,
    /// File data sent.
    read_bytes,
    /// File data stored.
    written_bytes,
    /// Reads served at once from memory.
    read_hits,
    /// Reads that waited for the disk.
    read_misses,
    /// Reads sent from where the file lies in memory, without a copy of it.
    read_views,
    /// Requests handed to workers, for whatever reason.
    deferred,
    /// Requests answered EAGAIN because too many waited.
    overloads,
    /// Requests whose time was over before it was their turn.
    timeouts,
    /// Requests that had to wait until data were on stable storage.
    syncs,
    /// How often data were brought there for them.
    fsyncs,
    /// How often everything was brought there, in the background.
    commits,
    /// Objects handed to processes of this node for reading.
    loans,
    /// Writes carried out for clients that were killed while they did them themselves.
    redone_writes,
    /// Objects removed.
    removed_objects,
    /// Errors of the disk, a full one not counted.
    disk_errors,
    /// Times the disk was full.
    disk_full,
    /// Capabilities that nobody we trust had signed.
    forged_capabilities,
}

/// A number that only grows.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }
}
