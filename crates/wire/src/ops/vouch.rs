//! What an agent tells managers of the client processes of its node.

use crate::record;

record! {
    /// These processes live. Good for a lease, for as long as the connection lasts. Asks for the rights of a
    /// daemon.
    pub struct Vouch {
        /// All that live, by their identity in `Hello`.
        pub living: Vec<u64>,
        /// Those that ended and were not yet told of in a message that was answered.
        pub gone: Vec<u64>,
    }
}

/// More processes than any node runs.
pub const VOUCHED_MAX: usize = 32 << 10;
