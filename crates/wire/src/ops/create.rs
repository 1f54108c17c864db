//! New objects other than regular files.

use super::Target;
use crate::attr::{Attr, FileKind};
use crate::codec::Bytes;
use crate::record;

/// The mode of something new, as its creator asks for it: in a `mode` of a request, permission bits are below
/// and the umask above. A directory's default list takes the umask's place, so only the manager can apply it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Asked {
    /// Permission bits with setuid, setgid and sticky.
    pub bits: u32,
    /// Permission bits not to be given, unless there is a default list.
    pub umask: u32,
}

impl Asked {
    /// What a `mode` on the wire asks for.
    pub fn of(mode: u32) -> Self {
        Self { bits: mode & 0xffff, umask: mode >> UMASK_SHIFT & 0o777 }
    }

    /// The `mode` for the wire.
    pub fn mode(self) -> u32 {
        self.bits & 0xffff | (self.umask & 0o777) << UMASK_SHIFT
    }
}

const UMASK_SHIFT: u32 = 16;

record! {
    /// A new directory.
    pub struct Mkdir {
        /// Its name.
        pub target: Target,
        /// Permission bits and umask, see [`Asked`].
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
        /// Permission bits and umask, see [`Asked`].
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
        /// The directory of its name, as it is since.
        pub directory: Attr,
    }
}
