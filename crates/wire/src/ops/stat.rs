//! What is this? Attributes, symlink targets, permissions.

use super::Target;
use crate::attr::{Attr, Placement};
use crate::codec::Bytes;
use crate::{bits, record};

record! {
    /// Attributes of an object (stat, lstat, lookup).
    pub struct Stat {
        /// Which.
        pub target: Target,
        /// Whether a symlink as the last component is followed.
        pub follow: bool,
        /// Whether the placement of a regular file is wanted even when its size is settled.
        pub placement: bool,
    }
}

record! {
    /// Attributes, and what is needed to complete them.
    pub struct Stated {
        /// The attributes.
        pub attr: Attr,
        /// Where the data lie: when asked for, or when the size must be asked from the iods.
        pub placement: Option<Placement>,
    }
}

record! {
    /// The target of a symlink.
    pub struct Readlink {
        /// Which symlink.
        pub target: Target,
    }
}

record! {
    /// A symlink's target.
    pub struct LinkTarget {
        /// As given to symlink(2).
        pub path: Bytes,
    }
}

record! {
    /// May the session do this (access(2))? Answered by success or EACCES.
    pub struct CheckAccess {
        /// Which object.
        pub target: Target,
        /// Whether a symlink as the last component is followed.
        pub follow: bool,
        /// What is wanted.
        pub wanted: AccessBits,
    }
}

bits! {
    /// The bits of access(2); none asks for existence.
    pub struct AccessBits {
        /// Execute or search.
        EXECUTE = 1,
        /// Write.
        WRITE = 2,
        /// Read.
        READ = 4,
    }
}

record! {
    /// The session may.
    pub struct Allowed {}
}
