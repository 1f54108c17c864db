//! One order for the requests of an object: readers share, writers and truncations exclude.
//!
//! The kernel makes a write atomic against other writes, but not against reads (ext4 copies page by page),
//! and not one of several pieces. So every request holds its object's lock while it touches the object
//! (contract D3). Objects share a fixed set of locks by their number: a collision costs waiting, never
//! correctness, and nothing is allocated or forgotten.
//! A copy needs two: the one with the lower number first, so that no two copies wait for each other.

use std::sync::Arc;

use parking_lot::{ArcRwLockReadGuard, RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use pvfs_wire::{Errno, Handle};

use crate::disk::Waiting;

/// The locks of all objects.
pub struct ObjectLocks {
    locks: Box<[Arc<RwLock<()>>]>,
}

impl ObjectLocks {
    /// Unlocked.
    pub fn new() -> Self {
        Self { locks: (0..LOCKS).map(|_| Arc::default()).collect() }
    }

    /// Keeps changes of the object out. EAGAIN when it is being changed and the caller cannot wait.
    pub fn share(
        &self,
        handle: Handle,
        waiting: Waiting,
    ) -> Result<RwLockReadGuard<'_, ()>, Errno> {
        let lock = self.lock_of(handle);
        match waiting {
            Waiting::Allowed => Ok(lock.read()),
            Waiting::Never => lock.try_read().ok_or(Errno::EAGAIN),
        }
    }

    /// The same, to be kept as long as a reply is on its way.
    pub fn share_on(&self, handle: Handle, waiting: Waiting) -> Result<SharedLock, Errno> {
        let lock = self.lock_of(handle);
        match waiting {
            Waiting::Allowed => Ok(lock.read_arc()),
            Waiting::Never => lock.try_read_arc().ok_or(Errno::EAGAIN),
        }
    }

    /// Keeps everyone else out. EAGAIN when it is in use and the caller cannot wait.
    pub fn exclude(
        &self,
        handle: Handle,
        waiting: Waiting,
    ) -> Result<RwLockWriteGuard<'_, ()>, Errno> {
        let lock = self.lock_of(handle);
        match waiting {
            Waiting::Allowed => Ok(lock.write()),
            Waiting::Never => lock.try_write().ok_or(Errno::EAGAIN),
        }
    }

    /// Keeps changes of `source` out, and everyone out of `target`; the two may be the same. Waits.
    pub fn exclude_and_share(&self, target: Handle, source: Handle) -> Both<'_> {
        let (writes, reads) = (index(target), index(source));
        let write = || self.locks[writes].write();
        let read = || self.locks[reads].read();
        if writes == reads {
            return Both { _write: write(), _read: None };
        }
        if writes < reads {
            let first = write();
            return Both { _write: first, _read: Some(read()) };
        }
        let first = read();
        Both { _write: write(), _read: Some(first) }
    }

    fn lock_of(&self, handle: Handle) -> &Arc<RwLock<()>> {
        &self.locks[index(handle)]
    }
}

/// Changes of an object are kept out until this is dropped, by whatever thread.
pub type SharedLock = ArcRwLockReadGuard<RawRwLock, ()>;

/// The locks of two objects.
pub struct Both<'a> {
    _write: RwLockWriteGuard<'a, ()>,
    _read: Option<RwLockReadGuard<'a, ()>>,
}

fn index(handle: Handle) -> usize {
    (spread(handle) >> (64 - LOCKS.trailing_zeros())) as usize
}

/// A number whose upper bits differ for objects whose ids follow one another.
pub fn spread(handle: Handle) -> u64 {
    let name = handle.object ^ u64::from(handle.generation) << 32 ^ u64::from(handle.fsid) << 48;
    name.wrapping_mul(GOLDEN_RATIO)
}

/// Far more than threads that could contend.
const LOCKS: usize = 1024;
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_objects_rarely_share_a_lock() {
        let locks = ObjectLocks::new();
        let handle = |object| Handle { fsid: 1, generation: 1, object };
        let _held = locks.exclude(handle(0), Waiting::Never).unwrap();
        let free = (1..500).filter(|at| locks.share(handle(*at), Waiting::Never).is_ok()).count();
        assert!(free > 490, "{free} of 499");
    }

    /// Copies crosswise between the same objects, from several threads: they all come to an end.
    #[test]
    fn copies_in_both_directions_never_wait_for_each_other() {
        let locks = ObjectLocks::new();
        let handle = |object| Handle { fsid: 1, generation: 1, object };
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let locks = &locks;
                scope.spawn(move || {
                    for round in 0..2000 {
                        let (a, b) = (handle(round % 7), handle((round + thread) % 5));
                        drop(locks.exclude_and_share(a, b));
                        drop(locks.exclude_and_share(b, a));
                    }
                });
            }
        });
    }

    #[test]
    fn readers_share_and_writers_exclude() {
        let locks = ObjectLocks::new();
        let handle = Handle::root(1, 1);
        let first = locks.share(handle, Waiting::Never).unwrap();
        let second = locks.share(handle, Waiting::Never).unwrap();
        assert_eq!(locks.exclude(handle, Waiting::Never).err(), Some(Errno::EAGAIN));
        drop((first, second));
        let _alone = locks.exclude(handle, Waiting::Never).unwrap();
        assert_eq!(locks.share(handle, Waiting::Never).err(), Some(Errno::EAGAIN));
    }
}
