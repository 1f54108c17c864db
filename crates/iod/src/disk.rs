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
mod windows;

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use pvfs_net::window::FileWindow;
use pvfs_wire::ops::{Allocation, LoanFor, ObjectStat, StoreStat};
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

    /// The like for who will only read it, which a store that has become read-only still allows.
    fn find_to_read(
        &self,
        handle: Handle,
        waiting: Waiting,
    ) -> Result<Option<Arc<dyn Object>>, Errno> {
        self.find(handle, waiting)
    }

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

    /// Whether the store is memory, so that no read waits.
    fn is_memory(&self) -> bool {
        false
    }

    /// Whether any object may be written by others: one that is lent for that, or was by a daemon before this one.
    fn others_may_write_some(&self) -> bool {
        false
    }

    /// Whether that may be any object: nobody knows what a daemon that was killed had lent.
    fn others_may_write_all(&self) -> bool {
        false
    }

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

    /// Sets space of the range aside or gives it back, see [`Allocation`]. The object grows to the end of
    /// the range only if `grow`, and by a punch never.
    fn allocate(&self, how: Allocation, range: Range<u64>, grow: bool) -> Result<(), Errno>;

    /// The first byte of data at or behind `local`; nothing when there is none. Holes may be told to be data.
    fn next_data(&self, local: u64) -> Result<Option<u64>, Errno>;

    /// The first byte of a hole at or behind `local`, or the end of the object; nothing behind the end.
    fn next_hole(&self, local: u64) -> Result<Option<u64>, Errno>;

    /// Copies bytes of another object of the same disk, all of which it has, to `local`.
    fn copy_from(
        &self,
        source: &dyn Object,
        from: u64,
        local: u64,
        bytes: u64,
    ) -> Result<(), Errno> {
        copy_bytes(source, from, self, local, bytes)
    }

    /// The descriptor behind it, if there is one, which lets a local file system copy by itself.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Cuts the object, or extends it with zeros.
    fn truncate(&self, local_size: u64) -> Result<(), Errno>;

    /// Brings the object's data, size and name to stable storage. After a failure it never succeeds again
    /// for what was lost, see [`crate::engine`].
    fn sync(&self) -> Result<(), Errno>;

    /// Size, space and time.
    fn stat(&self) -> Result<ObjectStat, Errno>;

    /// Another descriptor of the object, only for this purpose, for a process of this node. Who is lent it for writing
    /// may do so for [`WRITING`](crate::loans::WRITING). EOPNOTSUPP when there is no such thing.
    fn lend(&self, _purpose: LoanFor) -> Result<OwnedFd, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// These bytes, all of which the object has, where they are in memory; nothing where they are not, or where
    /// reading them is better. Nobody changes the object as long as they are looked at.
    fn view(&self, _range: Range<u64>) -> Option<View> {
        None
    }

    /// The size alone, which may be known without asking.
    fn local_size(&self) -> Result<u64, Errno> {
        self.stat().map(|stat| stat.local_size)
    }
}

/// Bytes of an object where they are in memory.
pub struct View {
    window: Arc<FileWindow>,
    range: Range<u64>,
}

impl View {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.window.bytes(&self.range)
    }

    /// Which they are.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }
}

/// Copies through memory.
fn copy_bytes(
    source: &dyn Object,
    from: u64,
    target: &(impl Object + ?Sized),
    to: u64,
    bytes: u64,
) -> Result<(), Errno> {
    let mut buffer = vec![0; bytes.min(COPIED_AT_ONCE) as usize];
    let mut done = 0;
    while done < bytes {
        let piece = &mut buffer[..(bytes - done).min(COPIED_AT_ONCE) as usize];
        if source.read_at(from + done, piece, Waiting::Allowed)? != piece.len() {
            return Err(Errno::EIO);
        }
        target.write_at(to + done, piece)?;
        done += piece.len() as u64;
    }
    Ok(())
}

/// Memory of a copy that no file system does for us.
const COPIED_AT_ONCE: u64 = 1 << 20;
