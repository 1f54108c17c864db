//! Cached names and attributes: the long poll by which a client renews its lease and hears what to drop.
//!
//! Only clients that cache take part. A reply that says so in its header (`timeout_ms`) may be believed until
//! the lease ends or a recall names what it told.

use crate::codec::Bytes;
use crate::{choice, record};

choice! {
    /// What is to be dropped.
    pub enum RecallKind {
        /// One name in a directory, there or not.
        Name = 1,
        /// All names in a directory.
        Names = 2,
        /// The attributes of an object, extended ones and access control lists included; of a directory
        /// also how it was listed.
        Attributes = 3,
        /// The attributes of a file, and its pages: somebody else is about to write it.
        Data = 4,
    }
}

record! {
    /// Something that is no longer as it was told.
    #[derive(Hash)]
    pub struct Recall {
        /// What to drop.
        pub kind: RecallKind,
        /// The object, or the directory of the name.
        pub object: u64,
        /// The name; empty for the other kinds.
        pub name: Bytes,
    }
}

record! {
    /// Waits for recalls, acknowledges earlier ones, and renews the lease.
    pub struct Recalls {
        /// The lease, as the last reply numbered it. 0 begins a new one: nothing is cached any more.
        pub lease: u64,
        /// Everything recalled up to this number has been dropped.
        pub acknowledged: u64,
        /// How long the manager may hold the request back until there is something to say.
        pub wait_ms: u32,
        /// Nothing is cached any more, nor will be: this ends the client's lease, whatever its number.
        pub ends: bool,
    }
}

record! {
    /// What to drop.
    pub struct Recalled {
        /// The lease. 0 says that there is none any more: all that is cached must go.
        pub lease: u64,
        /// The number of the last recall listed here or before.
        pub number: u64,
        /// How long the lease is good for from when the request was sent; 0 when it was not renewed, since
        /// recalls listed in earlier replies are not acknowledged.
        pub lease_ms: u32,
        /// What to drop, the oldest first.
        pub recalls: Vec<Recall>,
    }
}

impl Recalled {
    /// There is no lease any more.
    pub fn of_no_lease() -> Self {
        Self { lease: 0, number: 0, lease_ms: 0, recalls: Vec::new() }
    }
}
