//! Who uses the file system, and who one file. Administrators are told of everybody, users of themselves.
//!
//! Clients go by numbers of the manager. Their identities in `Hello` are not told: whoever knows one can end that
//! client's connections.

use super::{HeldLock, LockFamily, OpenFlags, Target};
use crate::record;

record! {
    /// Which clients does the manager know? With the rights of an administrator or a daemon all, else those with
    /// sessions of the same user.
    pub struct Sessions {
        /// Only those of greater numbers: where the last page ended.
        pub after: Option<u64>,
    }
}

record! {
    /// A page of them, in the order of their numbers. One may be empty and not the last.
    pub struct SessionList {
        /// The clients.
        pub clients: Vec<ClientReport>,
        /// What to ask for next; absent when there are no more.
        pub next: Option<u64>,
    }
}

record! {
    /// A client process, as the manager knows it.
    pub struct ClientReport {
        /// The manager's number for it, never reused while the manager runs.
        pub number: u64,
        /// What it says of itself: program, version, node and process. Empty if it has not come since the manager
        /// was started.
        pub software: String,
        /// Where it came from last: an IP address, or `unix` for the manager's own node.
        pub address: String,
        /// Seconds since it came; absent while it has no connection.
        pub here_s: Option<u64>,
        /// Seconds until what it holds is freed, unless it comes back; absent while it has a connection.
        pub freed_in_s: Option<u64>,
        /// The sessions that it has shown and that are still good, as far as they are told to who asks.
        pub sessions: Vec<SessionReport>,
        /// Its open files, as far as they are told to who asks. Not more than [`OPENS_COUNTED_MAX`] are counted.
        pub opens: u64,
        /// Locks it holds and waits for; absent where the client serves others as well as who asks.
        pub locks: Option<LockCounts>,
        /// Names and attributes that it may believe without asking; absent if it does not cache.
        pub cached: Option<u64>,
    }
}

record! {
    /// A session that a client has proven to own.
    #[derive(Copy)]
    pub struct SessionReport {
        /// See [`crate::token::Session::id`].
        pub id: u64,
        /// User, as the daemon takes it.
        pub uid: u32,
        /// Unix seconds of issue.
        pub issued: u64,
        /// Unix seconds after which it is refused.
        pub expiry: u64,
    }
}

record! {
    /// How many locks a client has.
    #[derive(Copy, Default)]
    pub struct LockCounts {
        /// Ranges held.
        pub held: u64,
        /// Ranges waited for.
        pub awaited: u64,
    }
}

record! {
    /// Who has this object open or locked? Told as by [`Sessions`].
    pub struct Uses {
        /// The object; the last component is followed if it is a symlink.
        pub target: Target,
        /// Where the last page ended; absent to begin.
        pub after: Option<LastUse>,
    }
}

record! {
    /// The last open that was looked at.
    #[derive(Copy)]
    pub struct LastUse {
        /// The client's number.
        pub number: u64,
        /// The client's number for the open; `u64::MAX` for all it has.
        pub open: u64,
    }
}

record! {
    /// A page of them. One may be empty and not the last.
    #[derive(Default)]
    pub struct UseList {
        /// Opens.
        pub opens: Vec<OpenReport>,
        /// Locks, with the last page: those that are held by family and first byte, then those waited for, the longest
        /// wait first. At most [`LOCKS_TOLD_MAX`].
        pub locks: Vec<LockReport>,
        /// There are more locks, or more opens by group handles, than are told.
        pub incomplete: bool,
        /// What to ask for next; absent when there are no more.
        pub next: Option<LastUse>,
    }
}

record! {
    /// One open of a file.
    #[derive(Copy)]
    pub struct OpenReport {
        /// The client's number; absent for an open by a group handle, which no client has.
        pub number: Option<u64>,
        /// By whom.
        pub uid: u32,
        /// How.
        pub flags: OpenFlags,
    }
}

record! {
    /// A lock on a file.
    pub struct LockReport {
        /// The client's number; absent when it has ended and others take part in its open, whose lock it is.
        pub number: Option<u64>,
        /// Which family.
        pub family: LockFamily,
        /// The lock.
        pub lock: HeldLock,
        /// It is waited for, not held.
        pub awaited: bool,
    }
}

/// Counting more of one client would take longer than a page may.
pub const OPENS_COUNTED_MAX: u64 = 16 << 10;

/// Locks of one file: the manager's writer makes the list, and everybody waits for it.
pub const LOCKS_TOLD_MAX: usize = 4 << 10;
