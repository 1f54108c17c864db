//! What a daemon's network counts, for `status`.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! figures {
    ($($(#[$meta:meta])* $name:ident,)*) => {
        /// Counters since the start; `connections` is how many there are now.
        #[derive(Debug, Default)]
        pub struct Figures { $($(#[$meta])* pub $name: Counter,)* }

        impl Figures {
            /// All of them by name, for a status report.
            pub fn list(&self) -> Vec<(String, u64)> {
                vec![$((concat!("net_", stringify!($name)).to_owned(), self.$name.get()),)*]
            }
        }
    };
}

figures! {
    /// Open now.
    connections,
    /// Accepted.
    accepted_count,
    /// Turned away because a cap was reached.
    capped_count,
    /// Requests handed to the service.
    requests_count,
    /// Replies sent or queued.
    replies_count,
    /// Bytes received.
    received_bytes,
    /// Bytes sent.
    sent_bytes,
    /// Connections closed for bytes that mean nothing.
    malformed_count,
    /// Connections closed because the two ends do not get on over TLS.
    untrusted_count,
    /// Connections closed for more outstanding than agreed, or a message out of turn.
    unruly_count,
    /// Connections closed for making no progress.
    stalled_count,
    /// Messages dropped because they came twice.
    duplicates_count,
    /// Connections that went from one thread to another.
    moved_count,
    /// Connections closed because their lane reconnected.
    replaced_count,
    /// Times that a listener rested because the process was out of descriptors.
    accept_rests_count,
}

/// A number that several threads add to.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, amount: u64) {
        if amount > 0 {
            self.0.fetch_add(amount, Ordering::Relaxed);
        }
    }

    /// Takes one off.
    pub fn take_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// How much it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
