//! Sizes: truncation, settling, and the ranges of appends.
//!
//! Data is cut on the iods, but the manager orders it: a truncation has a ticket from
//! [`Truncate`] (or an open with TRUNCATE) to [`Truncated`]; a second one waits for the first. Until then,
//! and while anybody has the file open for writing, the size is unsettled and readers ask the iods.

use super::Target;
use crate::attr::{Attr, Placement, Time};
use crate::codec::Bytes;
use crate::handle::Handle;
use crate::record;

record! {
    /// Begins a truncation.
    pub struct Truncate {
        /// Which file.
        pub target: Target,
        /// Whether a symlink as the last component is followed.
        pub follow: bool,
        /// The new size in bytes.
        pub size: u64,
        /// The open it is done through, which then stands for the permission (ftruncate).
        pub open: Option<u64>,
    }
}

record! {
    /// Go ahead on the iods.
    pub struct Truncating {
        /// The file as it is now.
        pub attr: Attr,
        /// Where its data lie.
        pub placement: Placement,
        /// Allows the truncation.
        pub capability: Bytes,
        /// To be repeated in [`Truncated`].
        pub ticket: u64,
    }
}

record! {
    /// All iods have cut; answered with [`super::Stated`].
    pub struct Truncated {
        /// Which file.
        pub handle: Handle,
        /// From [`Truncating`] or [`super::Opened`].
        pub ticket: u64,
        /// The size reached; absent when it failed and the iods must be asked.
        pub size: Option<u64>,
        /// Bytes of disk that the file takes now, by the iods that cut it; absent when it failed.
        pub disk_bytes: Option<u64>,
    }
}

record! {
    /// What the iods say of a file whose size is unsettled although nobody has it open for writing
    /// (its last writer died); answered with [`super::Stated`]. Ignored when `change` is outdated.
    pub struct Settle {
        /// Which file.
        pub handle: Handle,
        /// [`Attr::change`] at the time of asking.
        pub change: u64,
        /// Size by the local sizes.
        pub size: u64,
        /// Bytes of disk that all objects take.
        pub disk_bytes: u64,
        /// Latest modification of any object.
        pub mtime: Time,
    }
}

record! {
    /// Reserves a range at the end of the file for one appending write (D5).
    pub struct Append {
        /// The open, which has the APPEND flag.
        pub open: u64,
        /// How many bytes.
        pub bytes: u64,
        /// The end of the file by the iods, when the manager asked for it.
        pub end: Option<u64>,
    }
}

record! {
    /// Where the append goes.
    pub struct Appended {
        /// Its offset; absent when others write this file by position, so that the iods know the
        /// end better: ask them and call again with `end`.
        pub offset: Option<u64>,
    }
}
