//! Listing a directory.

use crate::attr::Entry;
use crate::handle::Handle;
use crate::record;

record! {
    /// The entries after `cookie`, as many as fit. `.` and `..` are the client's business.
    pub struct Readdir {
        /// The directory.
        pub dir: Handle,
        /// 0 to start, else the cookie of the last entry seen.
        pub cookie: u64,
        /// At most this many entries.
        pub entries_max: u32,
        /// Whether attributes are wanted (readdirplus, getdents_plus).
        pub attributes: bool,
    }
}

record! {
    /// Part of a directory.
    pub struct Listing {
        /// In the order of their cookies.
        pub entries: Vec<Entry>,
        /// Whether these are the last.
        pub end: bool,
        /// The directory `..` names.
        pub parent: Handle,
    }
}
