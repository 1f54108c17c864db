//! One order for the requests of an object: readers share, writers and truncations exclude.
//!
//! The kernel makes a write atomic against other writes, but not against reads (ext4 copies page by page),
//! and not one of several pieces. So every request holds its object's lock while it touches the object
//! (contract D3). Objects share a fixed set of locks by their number: a collision costs waiting, never
//! correctness, and nothing is allocated or forgotten.
//! A reactor must not wait, but a change that is under way in memory is over sooner than a worker has begun: it is given a
//! moment. A copy needs two: the one with the lower number first, so that no two copies wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{ArcRwLockReadGuard, RawRwLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use pvfs_wire::{Errno, Handle};

use crate::disk::Waiting;

/// The locks of all objects.
pub struct ObjectLocks {
    locks: Box<[ObjectLock]>,
}

#[derive(Default)]
struct ObjectLock {
    lock: Arc<RwLock<()>>,
    /// A moment was waited for who has it now, in vain.
    is_kept_long: AtomicBool,
}

impl ObjectLocks {
    /// Unlocked.
    pub fn new() -> Self {
        Self { locks: (0..LOCKS).map(|_| ObjectLock::default()).collect() }
    }

    /// Keeps changes of the object out. EAGAIN when it is being changed and the caller cannot wait.
    pub fn share(
        &self,
        handle: Handle,
        waiting: Waiting,
    ) -> Result<RwLockReadGuard<'_, ()>, Errno> {
        let it @ ObjectLock { lock, .. } = self.lock_of(handle);
        match waiting {
            Waiting::Allowed => Ok(lock.read()),
            Waiting::Never => it.soon(lock.try_read(), || lock.try_read_for(MOMENT)),
        }
    }

    /// The same, to be kept as long as a reply is on its way.
    pub fn share_on(&self, handle: Handle, waiting: Waiting) -> Result<SharedLock, Errno> {
        let it @ ObjectLock { lock, .. } = self.lock_of(handle);
        match waiting {
            Waiting::Allowed => Ok(lock.read_arc()),
            Waiting::Never => it.soon(lock.try_read_arc(), || lock.try_read_arc_for(MOMENT)),
        }
    }

    /// Keeps everyone else out. EAGAIN when it is in use and the caller cannot wait.
    pub fn exclude(
        &self,
        handle: Handle,
        waiting: Waiting,
    ) -> Result<RwLockWriteGuard<'_, ()>, Errno> {
        let it @ ObjectLock { lock, .. } = self.lock_of(handle);
        match waiting {
            Waiting::Allowed => Ok(lock.write()),
            Waiting::Never => it.soon(lock.try_write(), || lock.try_write_for(MOMENT)),
        }
    }

    /// Keeps changes of `source` out, and everyone out of `target`; the two may be the same. Waits.
    pub fn exclude_and_share(&self, target: Handle, source: Handle) -> Both<'_> {
        let (writes, reads) = (index(target), index(source));
        let write = || self.locks[writes].lock.write();
        let read = || self.locks[reads].lock.read();
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

    fn lock_of(&self, handle: Handle) -> &ObjectLock {
        &self.locks[index(handle)]
    }
}

impl ObjectLock {
    /// What was got at once, or in a moment from who changes the object. Not from who reads: that may be a reply of this very
    /// thread on its way. Nor once more from who does not come to an end, for a moment of each request that waits for a
    /// slow disk would be long.
    fn soon<G>(
        &self,
        at_once: Option<G>,
        in_a_moment: impl FnOnce() -> Option<G>,
    ) -> Result<G, Errno> {
        let is_kept_long = self.is_kept_long.load(Ordering::Relaxed);
        if let Some(got) = at_once {
            if is_kept_long {
                self.is_kept_long.store(false, Ordering::Relaxed);
            }
            return Ok(got);
        }
        if is_kept_long || !self.lock.is_locked_exclusive() {
            return Err(Errno::EAGAIN);
        }
        let got = in_a_moment();
        self.is_kept_long.store(got.is_none(), Ordering::Relaxed);
        got.ok_or(Errno::EAGAIN)
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

/// About what a change of an object takes in memory, and less than to hand the request to a worker.
const MOMENT: Duration = Duration::from_micros(100);

/// Far more than threads that could contend.
const LOCKS: usize = 1024;
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

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

    #[test]
    fn a_change_that_is_over_in_a_moment_is_waited_for() {
        let locks = ObjectLocks::new();
        let handle = Handle::root(1, 1);
        // On a busy machine either thread may be held up for longer.
        let was_waited_for = (0..500).any(|_| {
            drop(locks.exclude(handle, Waiting::Never).unwrap());
            let (held, is_held) = std::sync::mpsc::channel();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _alone = locks.exclude(handle, Waiting::Allowed);
                    held.send(()).unwrap();
                    std::thread::sleep(MOMENT / 10);
                });
                is_held.recv().unwrap();
                let was_locked = locks.lock_of(handle).lock.is_locked();
                locks.exclude(handle, Waiting::Never).is_ok() && was_locked
            })
        });
        assert!(was_waited_for, "in none of so many attempts");
    }

    #[test]
    fn one_that_takes_longer_is_waited_for_once() {
        let locks = ObjectLocks::new();
        let handle = Handle::root(1, 1);
        for _ in 0..2 {
            let alone = locks.exclude(handle, Waiting::Allowed);
            let start = Instant::now();
            assert!(locks.exclude(handle, Waiting::Never).is_err());
            assert!(start.elapsed() >= MOMENT);
            let quickest =
                (0..20).map(|_| elapsed(|| locks.share(handle, Waiting::Never).is_err()));
            assert!(quickest.min() < Some(MOMENT));
            drop(alone);
            assert!(locks.share_on(handle, Waiting::Never).is_ok());
        }
    }

    #[test]
    fn readers_are_not_waited_for() {
        let locks = ObjectLocks::new();
        let handle = Handle::root(1, 1);
        let _read = locks.share_on(handle, Waiting::Never).unwrap();
        let quickest = (0..20).map(|_| elapsed(|| locks.exclude(handle, Waiting::Never).is_err()));
        assert!(quickest.min() < Some(MOMENT));
    }

    fn elapsed(is_so: impl FnOnce() -> bool) -> Duration {
        let start = Instant::now();
        assert!(is_so());
        start.elapsed()
    }
}
