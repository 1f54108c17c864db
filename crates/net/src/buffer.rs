//! Memory for file data: pooled, because fresh pages are slow.
//!
//! A buffer goes back to the pool it came from when it is dropped, and the next one asked for is the last
//! one that came back, so that it is still in the processor's cache.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A stack of idle buffers, shared by all threads of a daemon.
#[derive(Clone)]
pub struct Pool {
    shelves: Arc<[Shelf; SIZES.len()]>,
    lent_bytes: Arc<AtomicUsize>,
}

/// Idle buffers of one size.
type Shelf = Mutex<Vec<Box<[u8]>>>;

/// Bytes on loan from a pool. Behaves as a slice of the length asked for.
pub struct Buffer {
    bytes: Box<[u8]>,
    used_bytes: usize,
    home: Option<Pool>,
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl Pool {
    /// A pool with nothing in it.
    pub fn new() -> Self {
        Self {
            shelves: Arc::new(std::array::from_fn(|_| Mutex::new(Vec::new()))),
            lent_bytes: Arc::default(),
        }
    }

    /// A buffer of `bytes` bytes with arbitrary content.
    pub fn take(&self, bytes: usize) -> Buffer {
        let Some(shelf) = SIZES.iter().position(|size| *size >= bytes) else {
            return Buffer::unpooled(bytes);
        };
        let idle = self.lock(shelf).pop();
        let memory = idle.unwrap_or_else(|| vec![0; SIZES[shelf]].into_boxed_slice());
        self.lent_bytes.fetch_add(SIZES[shelf], Ordering::Relaxed);
        Buffer { bytes: memory, used_bytes: bytes, home: Some(self.clone()) }
    }

    /// Memory of this pool that is in use.
    pub fn lent_bytes(&self) -> usize {
        self.lent_bytes.load(Ordering::Relaxed)
    }

    fn give_back(&self, memory: Box<[u8]>) {
        let Some(shelf) = SIZES.iter().position(|size| *size == memory.len()) else { return };
        self.lent_bytes.fetch_sub(SIZES[shelf], Ordering::Relaxed);
        let mut idle = self.lock(shelf);
        if (idle.len() + 1) * SIZES[shelf] <= IDLE_BYTES_MAX {
            idle.push(memory);
        }
    }

    fn lock(&self, shelf: usize) -> std::sync::MutexGuard<'_, Vec<Box<[u8]>>> {
        self.shelves[shelf].lock().expect("no code panics while it holds a shelf")
    }
}

impl Buffer {
    /// Memory of its own, freed when dropped.
    pub fn unpooled(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes].into_boxed_slice(), used_bytes: bytes, home: None }
    }

    /// Keeps the first `bytes` bytes only.
    pub fn truncate(&mut self, bytes: usize) {
        self.used_bytes = self.used_bytes.min(bytes);
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[..self.used_bytes]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.used_bytes]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

/// The sizes kept: a page, a strip, a stripe's share, the largest message and a head before each.
const SIZES: [usize; 5] = [8 << 10, 72 << 10, 264 << 10, 1032 << 10, 4104 << 10];

/// Idle memory kept per size.
const IDLE_BYTES_MAX: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_buffer_given_back_is_the_next_one_taken() {
        let pool = Pool::new();
        let mut first = pool.take(5000);
        let second = pool.take(5000);
        first[0] = 42;
        drop(second);
        drop(first);
        let again = pool.take(100);
        assert_eq!((again[0], again.len()), (42, 100));
    }

    #[test]
    fn idle_memory_is_bounded() {
        let pool = Pool::new();
        let many: Vec<Buffer> = (0..8).map(|_| pool.take(4 << 20)).collect();
        drop(many);
        let idle = pool.shelves.last().unwrap().lock().unwrap().len();
        assert!(idle * (4 << 20) <= IDLE_BYTES_MAX);
    }
}
