//! Shared opens: one open of a file that any number of processes use by its group handle (openg, openfh).
//!
//! The manager records it once, under a number of its own, with an end instead of a client's lease. Whoever
//! holds the handle ([`crate::group_handle`]) and is admitted uses it without asking anyone, until a capability
//! has to be renewed.

use super::Target;
use crate::attr::{Attr, Striping};
use crate::codec::Bytes;
use crate::{choice, record};

choice! {
    /// Who may use a group handle.
    pub enum Sharers {
        /// The user who opened.
        User = 0,
        /// The users in the opener's primary group.
        Group = 1,
        /// Whoever holds the handle and has a session.
        Anyone = 2,
    }
}

record! {
    /// Opens a regular file for many, and creates it if asked. Neither TRUNCATE nor APPEND.
    pub struct OpenShared {
        /// Which file.
        pub target: Target,
        /// How.
        pub flags: super::OpenFlags,
        /// Permission bits of a new file, the umask already taken off.
        pub mode: u32,
        /// Wishes for a new file's striping.
        pub striping: Striping,
        /// Who may use the handle.
        pub sharers: Sharers,
        /// How long it is open when nobody renews it; the manager has a limit.
        pub lifetime_s: u32,
    }
}

record! {
    /// A shared open.
    pub struct OpenedShared {
        /// The file's attributes.
        pub attr: Attr,
        /// Whether this open created it.
        pub created: bool,
        /// The sealed handle.
        pub handle: Bytes,
    }
}

record! {
    /// A handle with a fresh capability. The shared open lasts its lifetime from now on.
    pub struct RenewShared {
        /// The handle, as it was given.
        pub handle: Bytes,
    }
}

record! {
    /// Ends a shared open for all. One that has ended is ended again.
    pub struct CloseShared {
        /// The handle, as it was given.
        pub handle: Bytes,
    }
}

choice! {
    /// How a number changes.
    pub enum Count {
        /// It grows by this much.
        Add = 0,
        /// It becomes this.
        Set = 1,
    }
}

record! {
    /// Changes the number that all who share an open have in common (shared file pointers). It begins at 0, is never
    /// below, and ends with the open.
    pub struct CountShared {
        /// The handle, as it was given.
        pub handle: Bytes,
        /// How.
        pub count: Count,
        /// By how much, or to what.
        pub number: i64,
    }
}

record! {
    /// A number that was changed.
    pub struct Counted {
        /// What it was before.
        pub before: i64,
    }
}

/// The one open of the client that does not exist, under whose identity a shared open is recorded.
pub const SHARED_OPEN_NUMBER: u64 = 1;
