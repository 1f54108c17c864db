//! What is stored: versioned by a first byte, little-endian, compact.
//!
//! Layouts are in docs/disk.md, "manager records". A record of an unknown version is refused, never
//! guessed at.

mod dentry;
mod file;
mod inode;
mod open;

pub use dentry::{Dentry, Named};
pub use file::{RegularFile, Truncation, Writing, Written};
pub use inode::{Body, Directory, Inode};
pub use open::{First, OpenFile, ReplyRecord, SharedOpen};

use pvfs_wire::attr::Time;
use pvfs_wire::codec::{Reader, Wire};
use pvfs_wire::{DecodeError, record};

/// The version byte of every record of this build.
pub const VERSION: u8 = 1;

/// A value that is stored.
pub trait Record: Sized {
    /// Appends everything but the version byte.
    fn put(&self, out: &mut Vec<u8>);
    /// Takes everything but the version byte.
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// The bytes to store.
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(RECORD_BYTES_USUAL);
        out.push(VERSION);
        self.put(&mut out);
        out
    }

    /// The value of stored bytes.
    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Reader::new(bytes);
        match u8::get(&mut from)? {
            VERSION => {}
            other => return Err(DecodeError::Version(other)),
        }
        let value = Self::get(&mut from)?;
        from.finish()?;
        Ok(value)
    }
}

/// Stores a record of the wire as it travels.
macro_rules! as_on_the_wire {
    ($($name:ty),*) => {$(
        impl $crate::record::Record for $name {
            fn put(&self, out: &mut Vec<u8>) {
                pvfs_wire::Wire::put(self, out);
            }
            fn get(from: &mut pvfs_wire::Reader<'_>) -> Result<Self, pvfs_wire::DecodeError> {
                <Self as pvfs_wire::Wire>::get(from)
            }
        }
    )*};
}
use as_on_the_wire;

record! {
    /// Which file system this is; written once, by format.
    pub struct Identity {
        /// Part of every handle.
        pub fsid: u32,
        /// Part of every handle; new with each format and each restore.
        pub generation: u32,
        /// Key of the hash that orders directories.
        pub hash_key: [u8; 16],
        /// Bits of that hash: 60, less only where tests want names to collide.
        pub hash_bits: u8,
        /// When it was formatted.
        pub created: Time,
    }
}

record! {
    /// What grows and shrinks with the objects.
    #[derive(Copy, Default)]
    pub struct Counters {
        /// The id of the next object. Never goes back, so that ids are never reused.
        pub next_object: u64,
        /// Objects there are.
        pub objects: u64,
        /// Objects in the purge queue.
        pub purging: u64,
    }
}

as_on_the_wire!(Identity, Counters, pvfs_wire::attr::Placement);

/// A regular file's inode with one run of iods takes 112 bytes.
const RECORD_BYTES_USUAL: usize = 128;
