//! Removing names.

use super::Target;
use crate::attr::Attr;
use crate::handle::Handle;
use crate::record;

record! {
    /// Removes a name that is no directory. The data go when no name and no open is left.
    pub struct Unlink {
        /// The name.
        pub target: Target,
    }
}

record! {
    /// Removes an empty directory.
    pub struct Rmdir {
        /// Its name.
        pub target: Target,
    }
}

record! {
    /// The name is gone.
    pub struct Unlinked {
        /// What it named.
        pub handle: Handle,
        /// Names the object still has.
        pub nlink: u32,
        /// The directory of the name, as it is since.
        pub directory: Attr,
    }
}
