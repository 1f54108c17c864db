//! What names a file for ever: 128 bits, never reused.

use std::fmt;

use crate::record;

record! {
    /// A file system object: file, directory, symlink or special file.
    #[derive(Copy, Hash, Ord, PartialOrd, Default)]
    pub struct Handle {
        /// Which file system.
        pub fsid: u32,
        /// Tells a restored or recreated file system from the one before.
        pub generation: u32,
        /// Which object; also its inode number.
        pub object: u64,
    }
}

/// The object id of every file system's root directory.
pub const ROOT_OBJECT: u64 = 1;

impl Handle {
    /// The root directory of a file system.
    pub fn root(fsid: u32, generation: u32) -> Self {
        Self { fsid, generation, object: ROOT_OBJECT }
    }

    /// Another object of the same file system.
    #[must_use]
    pub fn sibling(self, object: u64) -> Self {
        Self { object, ..self }
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}.{:08x}.{:016x}", self.fsid, self.generation, self.object)
    }
}
