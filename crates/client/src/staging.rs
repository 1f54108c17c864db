//! Memory that the iods of this node see, where data lie while they are written by loan.
//!
//! ```text
//!   share for iod 0 ──copied──> staged ──pwrite──> object of iod 0
//!   share for iod 1 ──copied──> staged ──pwrite──> object of iod 1     the same memory, still in the cache
//! ```
//!
//! A mount has its data in such memory from the start, and stages nothing.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pvfs_net::runtime::Runtime;
use pvfs_net::shared_buffers::{SharedBuffer, SharedBuffers};

/// The buffers of a client. Made when they are first needed.
#[derive(Default)]
pub struct Staging {
    made: OnceLock<Option<Made>>,
}

struct Made {
    all: Arc<SharedBuffers>,
    /// The last one used first: it is in the cache.
    free: Mutex<Vec<SharedBuffer>>,
}

/// Data that have been put down. The buffer is free again when this is dropped.
pub struct Staged<'a> {
    made: &'a Made,
    buffer: Option<SharedBuffer>,
    bytes: usize,
}

impl Staging {
    /// Only these are used from now on, by whoever holds them, unless there are some already.
    pub fn share(&self, all: Arc<SharedBuffers>) {
        let _ = self.made.set(Some(Made { all, free: Mutex::default() }));
    }

    /// What iods are to be shown.
    pub fn buffers(&self) -> Option<&Arc<SharedBuffers>> {
        self.made.get()?.as_ref().map(|made| &made.all)
    }

    /// Puts the pieces down, one after the other. `None` where no buffer is free, or long enough.
    pub fn stage<R: Runtime>(&self, runtime: &R, pieces: &[&[u8]]) -> Option<Staged<'_>> {
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        let made = self.made.get_or_init(|| {
            let (all, free) = SharedBuffers::create(runtime, BUFFERS, BUFFER_BYTES).ok()?;
            Some(Made { all, free: Mutex::new(free) })
        });
        let made = made.as_ref().filter(|_| bytes <= BUFFER_BYTES)?;
        let mut buffer = made.free.lock().unwrap_or_else(PoisonError::into_inner).pop()?;
        buffer.put(pieces);
        Some(Staged { made, buffer: Some(buffer), bytes })
    }
}

impl Deref for Staged<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer.as_ref().expect("it is there until the end")[..self.bytes]
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        let mut free = self.made.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.buffer.take());
    }
}

/// Threads that stage at once; further ones do without.
const BUFFERS: usize = 4;

/// As much as a request carries. What is not used of them takes no memory.
const BUFFER_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_net::blocking::Blocking;

    #[test]
    fn the_memory_used_last_is_used_again() {
        let staging = Staging::default();
        let first = staging.stage(&Blocking, &[b"one ", b"", b"two"]).unwrap();
        assert_eq!(&*first, b"one two");
        let at = staging.buffers().unwrap().places(&[&first]).unwrap();
        let second = staging.stage(&Blocking, &[b"more"]).unwrap();
        assert_eq!((&*first, &*second), (&b"one two"[..], &b"more"[..]));
        drop(second);
        drop(first);
        let third = staging.stage(&Blocking, &[b"another"]).unwrap();
        assert_eq!(staging.buffers().unwrap().places(&[&third]), Some(at));
    }

    #[test]
    fn who_finds_no_room_does_without() {
        let staging = Staging::default();
        assert!(staging.stage(&Blocking, &[&vec![0; BUFFER_BYTES + 1]]).is_none());
        let held: Vec<_> = (0..BUFFERS).map(|_| staging.stage(&Blocking, &[b"x"])).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(staging.stage(&Blocking, &[b"x"]).is_none());
        drop(held);
        assert!(staging.stage(&Blocking, &[b"x"]).is_some());
    }

    #[test]
    fn who_has_shared_its_own_stages_nothing() {
        let staging = Staging::default();
        let (all, _buffers) = SharedBuffers::create(&Blocking, 1, 4096).unwrap();
        staging.share(all.clone());
        assert!(staging.stage(&Blocking, &[b"x"]).is_none());
        assert!(Arc::ptr_eq(staging.buffers().unwrap(), &all));
    }
}
