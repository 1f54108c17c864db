//! What the memfd of an open file says about it, for processes that inherit it.

use pvfs_client::Inheritance;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::OpenFlags;
use pvfs_wire::{Bytes, Handle, Wire, record};

use crate::errno::Stop;

record! {
    /// The record of an open file. It never changes; what does is in the shared page.
    pub struct Record {
        /// The object.
        pub handle: Handle,
        /// What it is.
        pub kind: FileKind,
        /// Whether it was opened with O_PATH: as a place in the name space only.
        pub path_only: bool,
        /// The access mode, as open(2) numbers it.
        pub access: u32,
        /// The path it was opened by, from the root of all.
        pub path: Bytes,
        /// How a regular file was opened.
        pub flags: OpenFlags,
        /// What came with the open.
        pub capability: Bytes,
        /// The client that opened it.
        pub client: u64,
        /// Its number for the open.
        pub open: u64,
        /// The handle of a group open; whoever has it needs no server to use the file.
        pub group: Bytes,
    }
}

impl Record {
    /// The record in these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Stop> {
        Self::from_bytes(bytes).map_err(|_| Stop::NotOurs)
    }

    /// Whether bytes can be read or written through it.
    pub fn is_file(&self) -> bool {
        self.kind == FileKind::Regular && !self.path_only
    }

    /// Whether the manager knows opens of it, one of each process: those of a group need none, nor do directories.
    pub fn has_opens(&self) -> bool {
        self.is_file() && self.group.is_empty()
    }

    /// What it takes to take part in the open, with other lasting flags.
    pub fn inheritance(&self, flags: OpenFlags) -> Inheritance {
        Inheritance {
            handle: self.handle,
            flags,
            capability: self.capability.clone(),
            client: self.client,
            open: self.open,
        }
    }
}
