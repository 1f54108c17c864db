//! The name space as records in a store: what the operations are made of.
//!
//! ```text
//! ops/*.rs        one operation: which rules, in which order
//! walk            from a target to a node or a place for a name
//! names           directory entries and their cookies
//! objects         inodes: load, save, allocate, remove
//! opens           open files and capabilities
//! placing         where a new file's data will lie
//! purge, check    the queue of removed objects; the invariants
//! ```
//!
//! Nothing is kept in memory between requests: all of it derives from the store.

mod check;
mod names;
mod objects;
mod opens;
mod placing;
mod purge;
mod walk;

pub use check::{Violation, check};
pub use names::{Found, Lookup, Slot};
pub use objects::Node;
pub use opens::{Ending, expire_client, latest, permissions, rights};
pub use placing::Parameter;
pub use purge::{Purge, purge_queue, purged};
pub use walk::{Last, Place, Walk, parent};

use std::hash::Hasher;

use pvfs_wire::attr::{Striping, Time};
use pvfs_wire::handle::ROOT_OBJECT;
use pvfs_wire::{DecodeError, Handle};
use siphasher::sip::SipHasher13;

use crate::acl::Lists;
use crate::keys;
use crate::permission::MODE_BITS;
use crate::record::{Body, Counters, Directory, Identity, Inode, Record};
use crate::store::{StoreError, Transaction, View};

/// The identity of a file system: what its handles and cookies are made with.
#[derive(Clone, Debug)]
pub struct Filesystem {
    identity: Identity,
}

/// How a new file system is to be.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Part of every handle.
    pub fsid: u32,
    /// Part of every handle; random, so that handles of a former file system are refused.
    pub generation: u32,
    /// Random; orders directories in a way nobody can foresee.
    pub hash_key: [u8; 16],
    /// [`HASH_BITS`], or less where a test wants names to collide.
    pub hash_bits: u8,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// Permission bits of the root directory, usually 0755.
    pub mode: u32,
}

/// Why a store could not be formatted or opened.
#[derive(Debug, thiserror::Error)]
pub enum FilesystemError {
    /// There is a file system already.
    #[error("the store already holds file system {0:08x}; remove its directory to format anew")]
    Formatted(u32),
    /// There is none.
    #[error("the store holds no file system; format it first")]
    Unformatted,
    /// Its first record is not understood.
    #[error("the store's file system record is not understood: {0}")]
    Damaged(#[from] DecodeError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FormatOptions {
    /// Everything as usual: the root directory is root's, mode 0755.
    pub fn new(fsid: u32, generation: u32, hash_key: [u8; 16]) -> Self {
        Self { fsid, generation, hash_key, hash_bits: HASH_BITS, uid: 0, gid: 0, mode: 0o755 }
    }
}

impl Filesystem {
    /// Makes a file system in an empty store: the root directory and nothing else.
    pub fn format(
        tx: &mut Transaction<'_>,
        options: &FormatOptions,
        now: Time,
    ) -> Result<Self, FilesystemError> {
        if let Some(bytes) = tx.get(keys::IDENTITY)? {
            return Err(FilesystemError::Formatted(Identity::decode(&bytes)?.fsid));
        }
        let identity = Identity {
            fsid: options.fsid,
            generation: options.generation,
            hash_key: options.hash_key,
            hash_bits: options.hash_bits.clamp(1, HASH_BITS),
            created: now,
        };
        let counters = Counters { next_object: ROOT_OBJECT + 1, objects: 1, purging: 0 };
        tx.put(keys::IDENTITY, identity.encode());
        tx.put(keys::COUNTERS, counters.encode());
        tx.put(keys::inode(ROOT_OBJECT), root(options, now).encode());
        Ok(Self { identity })
    }

    /// The file system that a store holds.
    pub fn load(view: &dyn View) -> Result<Self, FilesystemError> {
        let bytes = view.get(keys::IDENTITY)?.ok_or(FilesystemError::Unformatted)?;
        Ok(Self { identity: Identity::decode(&bytes)? })
    }

    /// Part of every handle.
    pub fn fsid(&self) -> u32 {
        self.identity.fsid
    }

    /// Part of every handle.
    pub fn generation(&self) -> u32 {
        self.identity.generation
    }

    /// The handle of an object.
    pub fn handle(&self, object: u64) -> Handle {
        Handle { fsid: self.identity.fsid, generation: self.identity.generation, object }
    }

    /// Whether a handle is one of this file system.
    pub fn owns(&self, handle: Handle) -> bool {
        self.handle(handle.object) == handle
    }

    /// The first of the cookies a name can have. Cookies below 8 are left to `.` and `..`.
    fn first_cookie(&self, name: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.identity.hash_key);
        hasher.write(name);
        let hash = hasher.finish() >> (u64::BITS - u32::from(self.identity.hash_bits));
        hash.max(1) << INDEX_BITS
    }
}

fn root(options: &FormatOptions, now: Time) -> Inode {
    Inode {
        mode: options.mode & MODE_BITS,
        nlink: 2,
        uid: options.uid,
        gid: options.gid,
        atime: now,
        mtime: now,
        ctime: now,
        btime: now,
        change: 1,
        xattrs: 0,
        lists: Lists::default(),
        body: Body::Directory(Directory::new(ROOT_OBJECT, Striping::default())),
    }
}

/// Bits of the hash in a cookie: with the index below, cookies stay positive as `off_t`.
pub const HASH_BITS: u8 = 60;

/// Names of one hash have cookies that differ in so many bits only.
pub(crate) const INDEX_BITS: u32 = 3;
