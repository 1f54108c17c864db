//! Multi-dimensional blocks (MDBI of PVFS 1). A forked child goes on with the arrays of its parent, but not with what
//! the parent had buffered: that is written once.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::os::fd::RawFd;
use std::panic::catch_unwind;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::ssize_t;
use pvfs_client::Region;
use pvfs_posix::blocks::{Blocks, DIMENSIONS_MAX, File, Shape};
use pvfs_posix::c::answer::fail;
use pvfs_posix::shared::identity;
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;

use super::native::{opened, pvfs_close};
use super::readx::{read_regions, write_regions};
use crate::export;
use crate::ffi::arguments::{bytes, list, room};

export! {
    /// open(2) of a file that will be moved by blocks.
    fn open_blk(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
        opened(path, flags, mode as u32, &Striping::default())
    }
    /// Writes what is buffered, and closes.
    fn close_blk(fd: c_int) -> c_int {
        pvfs_close(fd)
    }
    /// Says how the file is an array. What was buffered before is written.
    fn pvfs_set_blk(fd: c_int, dimensions: c_int, record_bytes: i64, elements: *const i64, blocks: *const i64) -> c_int {
        let set = || -> Result<(), Errno> {
            let identity = identity(fd).filter(|_| fd >= 0).ok_or(Errno::EBADF)?;
            let dimensions = usize::try_from(dimensions).ok().filter(|one| *one <= DIMENSIONS_MAX);
            let dimensions = dimensions.ok_or(Errno::EINVAL)?;
            let shape =
                Shape::new(record_bytes, list(elements, dimensions)?, list(blocks, dimensions)?)?;
            end(fd)?;
            let array = Arc::new(Mutex::new(Blocks::new(shape)));
            all().insert(fd, Array { identity, blocks: array });
            IS_USED.store(true, Ordering::Relaxed);
            Ok(())
        };
        set().map_or_else(fail, |()| 0)
    }
    /// Sets how many blocks are buffered in each dimension.
    fn pvfs_buf_blk(fd: c_int, blocks: *const i64) -> c_int {
        let set = || -> Result<(), Errno> {
            let array = array(fd)?;
            let mut array = lock(&array);
            let blocks = list(blocks, array.shape().dimensions())?;
            array.set_buffered(&Descriptor(fd), blocks)
        };
        set().map_or_else(fail, |()| 0)
    }
    /// Reads a block; how many of its bytes lie before the end of the file.
    fn pvfs_read_blk(fd: c_int, to: *mut c_void, index: *const i64) -> ssize_t {
        let read = || -> Result<u64, Errno> {
            let array = array(fd)?;
            let mut array = lock(&array);
            let block = array.shape().block(list(index, array.shape().dimensions())?)?;
            let to = room(to, array.shape().block_bytes() as usize)?;
            array.read(&Descriptor(fd), &block, to)
        };
        read().map_or_else(fail, |bytes| bytes as ssize_t)
    }
    /// Writes a block.
    fn pvfs_write_blk(fd: c_int, from: *const c_void, index: *const i64) -> ssize_t {
        let write = || -> Result<u64, Errno> {
            let array = array(fd)?;
            let mut array = lock(&array);
            let block = array.shape().block(list(index, array.shape().dimensions())?)?;
            let from = bytes(from, array.shape().block_bytes() as usize)?;
            array.write(&Descriptor(fd), &block, from)?;
            Ok(from.len() as u64)
        };
        write().map_or_else(fail, |bytes| bytes as ssize_t)
    }
    /// How many dimensions were set.
    fn pvfs_blk_dimensions(fd: c_int) -> c_int {
        let dimensions = array(fd).map(|array| lock(&array).shape().dimensions());
        dimensions.map_or_else(fail, |dimensions| dimensions as c_int)
    }
}

/// Writes what is buffered for a descriptor that is about to be closed, and forgets its array.
pub fn end(fd: RawFd) -> Result<(), Errno> {
    if !IS_USED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let Some(array) = all().remove(&fd) else { return Ok(()) };
    match identity(fd) {
        Some(identity) if identity == array.identity => lock(&array.blocks).flush(&Descriptor(fd)),
        // Closed behind our back.
        _ => Ok(()),
    }
}

/// Writes all that is buffered, at the end of the program.
pub fn end_all() {
    if IS_USED.load(Ordering::Relaxed) {
        let open: Vec<RawFd> = all().keys().copied().collect();
        // There is nobody left to be told.
        open.into_iter().for_each(|fd| end(fd).unwrap_or_default());
    }
}

/// The array that was set for a descriptor.
fn array(fd: RawFd) -> Result<Arc<Mutex<Blocks>>, Errno> {
    let identity = identity(fd).filter(|_| fd >= 0).ok_or(Errno::EBADF)?;
    match all().get(&fd) {
        Some(array) if array.identity == identity => Ok(array.blocks.clone()),
        _ => Err(Errno::EINVAL),
    }
}

struct Descriptor(RawFd);

impl File for Descriptor {
    fn read(&self, memory: &mut [&mut [u8]], regions: &[Region]) -> Result<u64, Errno> {
        read_regions(self.0, memory, regions)
    }

    fn write(&self, memory: &[&[u8]], regions: &[Region]) -> Result<(), Errno> {
        write_regions(self.0, memory, regions).map(drop)
    }
}

struct Array {
    /// Of the open file that it was set for.
    identity: (u64, u64),
    blocks: Arc<Mutex<Blocks>>,
}

type Arrays = Mutex<HashMap<RawFd, Array>>;

fn all() -> MutexGuard<'static, HashMap<RawFd, Array>> {
    let mut known = ARRAYS.load(Ordering::Acquire);
    if known.is_null() {
        let made = Box::into_raw(Box::<Arrays>::default());
        let first = ARRAYS.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
        known = match first {
            Ok(_) => {
                // SAFETY: the handler lives as long as the library, which is never unloaded.
                unsafe { libc::pthread_atfork(None, None, Some(forked)) };
                made
            }
            Err(other) => {
                // SAFETY: nobody but us has seen it.
                drop(unsafe { Box::from_raw(made) });
                other
            }
        };
    }
    // SAFETY: it is never freed once it was published.
    lock(unsafe { &*known })
}

/// In the child of a fork: what a thread of the parent was changing is not known here.
extern "C" fn forked() {
    let _ = catch_unwind(|| {
        let parent = ARRAYS.load(Ordering::Acquire);
        // SAFETY: the handler was registered by whoever published it, and it is never freed.
        let parent = unsafe { parent.as_ref() };
        let mut arrays = HashMap::new();
        if let Some(Ok(parent)) = parent.map(Mutex::try_lock) {
            for (fd, array) in parent.iter() {
                if let Ok(blocks) = array.blocks.try_lock() {
                    let blocks = Arc::new(Mutex::new(Blocks::new(blocks.shape().clone())));
                    arrays.insert(*fd, Array { identity: array.identity, blocks });
                }
            }
        }
        ARRAYS.store(Box::into_raw(Box::new(Mutex::new(arrays))), Ordering::Release);
    });
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

static ARRAYS: AtomicPtr<Arrays> = AtomicPtr::new(null_mut());

/// Most programs never set an array, and pay nothing for it.
static IS_USED: AtomicBool = AtomicBool::new(false);
