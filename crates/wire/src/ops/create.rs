//! New objects other than regular files.

use super::Target;
use crate::attr::{Attr, FileKind};
use crate::codec::Bytes;
use crate::record;

record! {
    /// A new directory.
    pub struct Mkdir {
        /// Its name.
        pub target: Target,
        /// Permission bits, the umask already taken off.
        pub mode: u32,
    }
}

record! {
    /// A new special file, or a regular one without opening it.
    pub struct Mknod {
        /// Its name.
        pub target: Target,
        /// What it is.
        pub kind: FileKind,
        /// Permission bits, the umask already taken off.
        pub mode: u32,
        /// Device number, for devices.
        pub rdev: u64,
    }
}

record! {
    /// A new symbolic link.
    pub struct Symlink {
        /// Its name.
        pub target: Target,
        /// What it points to.
        pub path: Bytes,
    }
}

record! {
    /// The object that was made, or got a new name.
    pub struct Made {
        /// Its attributes.
        pub attr: Attr,
    }
}
