//! Renaming, atomic to all observers.

use super::Target;
use crate::attr::Attr;
use crate::handle::Handle;
use crate::{bits, record};

bits! {
    /// The flags of renameat2(2).
    pub struct RenameFlags {
        /// Fail with EEXIST when the new name is taken.
        NOREPLACE = 1,
        /// Swap the two names.
        EXCHANGE = 2,
    }
}

record! {
    /// Moves a name.
    pub struct Rename {
        /// The old name.
        pub from: Target,
        /// The new name, replaced if present.
        pub to: Target,
        /// How.
        pub flags: RenameFlags,
    }
}

record! {
    /// The name has moved.
    pub struct Renamed {
        /// The object that moved.
        pub attr: Attr,
        /// What had the new name before: replaced, or swapped.
        pub other: Option<Handle>,
        /// The directories of the names, as they are since; none where both names were of one object, and stay.
        pub directories: Vec<Attr>,
    }
}
