//! Memory for file data: pooled, because fresh pages are slow.
//!
//! A buffer goes back to the pool it came from when it is dropped, and the next one asked for is the last
//! one that came back, so that it is still in the processor's cache. Pooled buffers begin at a page: where the
//! target of a copy is 1 to 16 bytes ahead of its source, modulo a page, the kernel's copy loop takes two to eight
//! times as long, and that is just where an allocator puts large memory relative to a page of a file.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A stack of idle buffers, shared by all threads of a daemon.
#[derive(Clone)]
pub struct Pool {
    shelves: Arc<[Mutex<Shelf>; SIZES.len()]>,
    lent_bytes: Arc<AtomicUsize>,
}

/// Idle buffers of one size.
#[derive(Default)]
struct Shelf {
    idle: Vec<Box<[u8]>>,
    /// The fewest that were idle since the last trim: so many nobody needed.
    least_idle: usize,
}

/// Bytes on loan from a pool. Behaves as a slice of the length asked for.
pub struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
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
            shelves: Arc::new(std::array::from_fn(|_| Mutex::default())),
            lent_bytes: Arc::default(),
        }
    }

    /// A buffer of `bytes` bytes with arbitrary content.
    pub fn take(&self, bytes: usize) -> Buffer {
        let Some(shelf) = SIZES.iter().position(|size| *size >= bytes) else {
            return Buffer::unpooled(bytes);
        };
        let idle = self.lock(shelf).take();
        let memory = idle.unwrap_or_else(|| vec![0; SIZES[shelf] + PAGE_BYTES].into_boxed_slice());
        let start = memory.as_ptr().align_offset(PAGE_BYTES);
        self.lent_bytes.fetch_add(SIZES[shelf], Ordering::Relaxed);
        Buffer { bytes: memory, start, used_bytes: bytes, home: Some(self.clone()) }
    }

    /// Memory of this pool that is in use.
    pub fn lent_bytes(&self) -> usize {
        self.lent_bytes.load(Ordering::Relaxed)
    }

    fn give_back(&self, memory: Box<[u8]>) {
        let is_home = |size: &usize| *size + PAGE_BYTES == memory.len();
        let Some(shelf) = SIZES.iter().position(is_home) else { return };
        self.lent_bytes.fetch_sub(SIZES[shelf], Ordering::Relaxed);
        let mut found = self.lock(shelf);
        if (found.idle.len() + 1) * SIZES[shelf] <= IDLE_BYTES_MAX {
            found.idle.push(memory);
        }
    }

    /// Frees what nobody has needed since the last trim.
    pub fn trim(&self) {
        for shelf in 0..SIZES.len() {
            // Freed without the lock: giving pages back takes a while.
            let unneeded = self.lock(shelf).split_off_unneeded();
            drop(unneeded);
        }
    }

    fn lock(&self, shelf: usize) -> MutexGuard<'_, Shelf> {
        self.shelves[shelf].lock().expect("no code panics while it holds a shelf")
    }
}

impl Shelf {
    fn take(&mut self) -> Option<Box<[u8]>> {
        let memory = self.idle.pop();
        self.least_idle = self.least_idle.min(self.idle.len());
        memory
    }

    fn split_off_unneeded(&mut self) -> Vec<Box<[u8]>> {
        // The bottom of the stack is what was idle all the time.
        let unneeded = self.idle.drain(..self.least_idle.min(self.idle.len())).collect();
        self.least_idle = self.idle.len();
        unneeded
    }
}

impl Buffer {
    /// Memory of its own, freed when dropped.
    pub fn unpooled(bytes: usize) -> Self {
        Self { bytes: vec![0; bytes].into_boxed_slice(), start: 0, used_bytes: bytes, home: None }
    }

    /// Keeps the first `bytes` bytes only.
    pub fn truncate(&mut self, bytes: usize) {
        self.used_bytes = self.used_bytes.min(bytes);
    }
}

impl Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.used_bytes]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.used_bytes]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

/// Added to each, to begin at a page.
const PAGE_BYTES: usize = 4096;

/// The sizes kept: a page, a strip, a stripe's share, the largest message and a head before each.
const SIZES: [usize; 5] = [8 << 10, 72 << 10, 264 << 10, 1032 << 10, 4104 << 10];

/// Idle memory kept per size, for at most two trims after it was last needed.
const IDLE_BYTES_MAX: usize = 64 << 20;

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
        let many: Vec<Buffer> = (0..32).map(|_| pool.take(4 << 20)).collect();
        assert!(pool.lent_bytes() >= 32 * (4 << 20));
        drop(many);
        assert_eq!(pool.lent_bytes(), 0);
        assert!(idle_count(&pool) * (4 << 20) <= IDLE_BYTES_MAX);
    }

    #[test]
    fn memory_that_nobody_needs_is_freed_and_the_rest_is_kept() {
        let pool = Pool::new();
        let many: Vec<Buffer> = (0..10).map(|_| pool.take(4 << 20)).collect();
        drop(many);
        pool.trim();
        assert_eq!(idle_count(&pool), 10);
        let few: Vec<Buffer> = (0..3).map(|_| pool.take(4 << 20)).collect();
        drop(few);
        pool.trim();
        assert_eq!(idle_count(&pool), 3);
        pool.trim();
        assert_eq!(idle_count(&pool), 0);
    }

    #[test]
    fn buffers_begin_at_a_page() {
        let pool = Pool::new();
        for bytes in [1, 4096, 70_000, 1 << 20, 4 << 20] {
            let buffer = pool.take(bytes);
            assert_eq!((buffer.as_ptr().addr() % PAGE_BYTES, buffer.len()), (0, bytes));
        }
    }

    fn idle_count(pool: &Pool) -> usize {
        pool.lock(SIZES.len() - 1).idle.len()
    }
}
