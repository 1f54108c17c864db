//! Where objects are kept: what the engine asks of a disk, and the disks there are.
//!
//! - [`LocalDisk`]: sparse files in directories of a local file system.
//! - [`MemoryDisk`]: the same in memory, with a seed: crashes, full, failing and slow on request.
//!
//! One suite ([`conformance`](self)) is run against both. Callers keep order among themselves: nobody
//! removes an object, or writes it, while another call on the same object is under way; two reads, or a
//! sync beside anything, are fine.

mod boot;
#[cfg(test)]
mod conformance;
mod format;
mod local;
mod memory;

use std::sync::Arc;

use pvfs_wire::ops::{ObjectStat, StoreStat};
use pvfs_wire::{Errno, Handle};

pub use format::{FormatError, StoreName};
pub use local::LocalDisk;
pub use memory::{Fault, MemoryDisk};

/// Whether a call may wait for the hardware.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Waiting {
    /// Yes: the caller is a worker.
    Allowed,
    /// No: the caller is a reactor. What cannot be done at once fails with EAGAIN.
    Never,
}

/// A store of objects. An object that was never written does not exist and counts as empty.
pub trait Disk: Send + Sync {
    /// The object, if it exists.
    fn find(&self, handle: Handle, waiting: Waiting) -> Result<Option<Arc<dyn Object>>, Errno>;

    /// The object, made if need be.
    fn create(&self, handle: Handle) -> Result<Arc<dyn Object>, Errno>;

    /// Size, space and time of an object; all zero when it does not exist.
    fn stat(&self, handle: Handle) -> Result<ObjectStat, Errno>;

    /// Removes the object and frees its space. It is no error when there is none.
    fn remove(&self, handle: Handle) -> Result<(), Errno>;

    /// Shows all objects of a file system to `visit`, in no particular order.
    fn list(&self, fsid: u32, visit: &mut dyn FnMut(Handle, ObjectStat)) -> Result<(), Errno>;

    /// Brings everything done so far to stable storage.
    fn commit(&self) -> Result<(), Errno>;

    /// A number that is another one after something done and not synced may be gone
    /// ([`pvfs_wire::ops::Welcome::boot`]).
    fn boot(&self) -> u64;

    /// Something may be gone although the power was not lost: the next start is another boot.
    fn end_boot(&self);

    /// Everything is on stable storage and nothing more will be done: the next start is the same boot,
    /// whatever happens to the machine in between.
    fn keep_boot(&self) -> Result<(), Errno>;

    /// Space of the store.
    fn space(&self) -> Result<StoreStat, Errno>;

    /// How many descriptors, or the like, it holds open now.
    fn open_objects(&self) -> usize;
}

/// One object, open.
pub trait Object: Send + Sync {
    /// Fills `into` from `local` on. Returns how many bytes there are before the end of the object, or
    /// fewer than that when the rest would have to be waited for.
    fn read_at(&self, local: u64, into: &mut [u8], waiting: Waiting) -> Result<usize, Errno>;

    /// Writes all of `from` at `local`. On failure part of it may have been written.
    fn write_at(&self, local: u64, from: &[u8]) -> Result<(), Errno>;

    /// Cuts the object, or extends it with zeros.
    fn truncate(&self, local_size: u64) -> Result<(), Errno>;

    /// Brings the object's data, size and name to stable storage. After a failure it never succeeds again
    /// for what was lost, see [`crate::engine`].
    fn sync(&self) -> Result<(), Errno>;

    /// Size, space and time.
    fn stat(&self) -> Result<ObjectStat, Errno>;

    /// The size alone, which may be known without asking.
    fn local_size(&self) -> Result<u64, Errno> {
        self.stat().map(|stat| stat.local_size)
    }
}
