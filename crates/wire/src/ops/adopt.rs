//! Taking part in an open that another process made: descriptors are inherited over fork and exec, and passed
//! through sockets, but each process is a client of its own.

use super::OpenFlags;
use crate::codec::Bytes;
use crate::handle::Handle;
use crate::record;

record! {
    /// Opens a file again through a descriptor that somebody else opened; answered with [`super::Opened`]. Not
    /// the file's permissions count but the capability that came with the first open, as with any descriptor
    /// that is handed on.
    ///
    /// A capability whose time is over counts only while the first open lasts: else EKEYEXPIRED, and the file
    /// is to be opened by its handle.
    pub struct Adopt {
        /// The file.
        pub handle: Handle,
        /// READ, WRITE and APPEND, within the capability's rights.
        pub flags: OpenFlags,
        /// What the manager gave to the first open.
        pub capability: Bytes,
        /// The client that made the first open.
        pub from_client: u64,
        /// Its number for it.
        pub from_open: u64,
        /// The number for the new open, never used before by this client.
        pub open: u64,
    }
}
