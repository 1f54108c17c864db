//! Which objects are mapped: those much is read of, a bounded part of the store.
//!
//! Mapping takes page tables (2 MiB for a gigabyte of small pages) and as long as reading a hundred kilobytes, so it has to pay
//! first. An object has one window at most, and loses it with its descriptor: what is removed must give its
//! space back.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pvfs_net::window::FileWindow;
use pvfs_wire::Handle;

use crate::recent::Recent;

/// All that are open.
pub struct Windows {
    open: Mutex<Recent<Handle, Arc<Slot>>>,
}

/// Where an object has its window.
#[derive(Default)]
pub struct Slot {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    window: Option<Arc<FileWindow>>,
    /// Asked for where no window was.
    missed_bytes: u64,
}

impl Windows {
    /// None.
    pub fn new() -> Self {
        Self { open: Mutex::new(Recent::new(WINDOWS_MAX)) }
    }

    /// The window of an object onto this range, if there is one or should be by now.
    pub fn find(
        &self,
        (handle, file): (Handle, &OwnedFd),
        slot: &Arc<Slot>,
        range: &Range<u64>,
    ) -> Option<Arc<FileWindow>> {
        let mut state = slot.lock();
        let known = state.window.as_ref().filter(|window| window.covers(range));
        if let Some(window) = known {
            return Some(Arc::clone(window));
        }
        state.missed_bytes += range.end - range.start;
        if state.missed_bytes < MAPPED_AFTER_BYTES {
            return None;
        }
        state.missed_bytes = 0;
        let start = range.start / WINDOW_BYTES * WINDOW_BYTES;
        let window = Arc::new(FileWindow::open(file, start..start + WINDOW_BYTES).ok()?);
        state.window = Some(Arc::clone(&window));
        drop(state);
        self.note(handle, slot);
        window.covers(range).then_some(window)
    }

    fn note(&self, handle: Handle, slot: &Arc<Slot>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let evicted = open.insert(handle, Arc::clone(slot));
        drop(open);
        if let Some(other) = evicted.filter(|other| !Arc::ptr_eq(other, slot)) {
            other.close();
        }
    }
}

impl Slot {
    /// Gives the window up.
    pub fn close(&self) {
        self.lock().window = None;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of an object is mapped. Aligned to itself, so nearly every access is inside of one.
const WINDOW_BYTES: u64 = 1 << 30;

/// Their page tables take 128 MiB where pages are small.
const WINDOWS_MAX: usize = 64;

/// So much has to be read without a window, since the last one, before there is one.
const MAPPED_AFTER_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::ftruncate;

    fn file() -> OwnedFd {
        let file = tempfile::tempfile().unwrap();
        ftruncate(&file, 3 * WINDOW_BYTES).unwrap();
        file.into()
    }

    fn handle(object: u64) -> Handle {
        Handle { fsid: 1, generation: 1, object }
    }

    #[test]
    fn an_object_is_mapped_once_enough_was_read_of_it() {
        let (windows, slot, file) = (Windows::new(), Arc::new(Slot::default()), file());
        let object = (handle(1), &file);
        let half = MAPPED_AFTER_BYTES / 2;
        assert!(windows.find(object, &slot, &(0..half)).is_none());
        assert!(windows.find(object, &slot, &(half..2 * half)).is_some());
        assert!(windows.find(object, &slot, &(WINDOW_BYTES - 1..WINDOW_BYTES)).is_some());
        // Elsewhere it has to pay again, and one over the edge is in no window.
        assert!(windows.find(object, &slot, &(WINDOW_BYTES..WINDOW_BYTES + 1)).is_none());
        let over = WINDOW_BYTES - half..WINDOW_BYTES + half;
        assert!(windows.find(object, &slot, &over).is_none());
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let (windows, file) = (Windows::new(), file());
        let slots: Vec<Arc<Slot>> = (0..2 * WINDOWS_MAX).map(|_| Arc::default()).collect();
        for (number, slot) in (0..).zip(&slots) {
            let object = (handle(number), &file);
            assert!(windows.find(object, slot, &(0..MAPPED_AFTER_BYTES)).is_some());
        }
        let open = slots.iter().filter(|slot| slot.lock().window.is_some()).count();
        assert_eq!(open, WINDOWS_MAX);
    }
}
