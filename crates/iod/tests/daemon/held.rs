//! A disk whose calls wait until they are let go, so that tests decide what overlaps what.

use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pvfs_iod::MemoryDisk;
use pvfs_iod::disk::{Disk, Object, Waiting};
use pvfs_wire::ops::{Allocation, ObjectStat, StoreStat};
use pvfs_wire::{Errno, Handle};

/// A memory disk behind a gate. Reads and syncs that may wait do so while it is shut.
#[derive(Clone)]
pub struct HeldDisk {
    pub inner: MemoryDisk,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    shut: bool,
    waiting: usize,
}

struct HeldObject {
    inner: Arc<dyn Object>,
    gate: Arc<Gate>,
}

impl HeldDisk {
    pub fn new() -> Self {
        Self { inner: MemoryDisk::new(1), gate: Arc::default() }
    }

    /// From now on reads have to be waited for, and they and syncs do not end.
    pub fn shut(&self) {
        self.gate.state.lock().unwrap().shut = true;
    }

    pub fn open(&self) {
        self.gate.state.lock().unwrap().shut = false;
        self.gate.changed.notify_all();
    }

    /// Waits until so many calls are held.
    pub fn await_held(&self, count: usize) {
        let state = self.gate.state.lock().unwrap();
        let patience = Duration::from_secs(30);
        let fewer = |state: &mut State| state.waiting < count;
        let waited = self.gate.changed.wait_timeout_while(state, patience, fewer).unwrap();
        assert!(!waited.1.timed_out(), "{} calls are held, not {count}", waited.0.waiting);
    }

    fn wrap(&self, inner: Arc<dyn Object>) -> Arc<dyn Object> {
        Arc::new(HeldObject { inner, gate: Arc::clone(&self.gate) })
    }
}

impl Gate {
    fn pass(&self, waiting: Waiting) -> Result<(), Errno> {
        let mut state = self.state.lock().unwrap();
        if state.shut && waiting == Waiting::Never {
            return Err(Errno::EAGAIN);
        }
        state.waiting += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |state| state.shut).unwrap();
        state.waiting -= 1;
        Ok(())
    }
}

impl Disk for HeldDisk {
    fn find(&self, handle: Handle, waiting: Waiting) -> Result<Option<Arc<dyn Object>>, Errno> {
        Ok(self.inner.find(handle, waiting)?.map(|object| self.wrap(object)))
    }
    fn create(&self, handle: Handle) -> Result<Arc<dyn Object>, Errno> {
        self.inner.create(handle).map(|object| self.wrap(object))
    }
    fn stat(&self, handle: Handle) -> Result<ObjectStat, Errno> {
        self.inner.stat(handle)
    }
    fn remove(&self, handle: Handle) -> Result<(), Errno> {
        self.inner.remove(handle)
    }
    fn list(&self, fsid: u32, visit: &mut dyn FnMut(Handle, ObjectStat)) -> Result<(), Errno> {
        self.inner.list(fsid, visit)
    }
    fn commit(&self) -> Result<(), Errno> {
        self.inner.commit()
    }
    fn boot(&self) -> u64 {
        self.inner.boot()
    }
    fn end_boot(&self) {
        self.inner.end_boot();
    }
    fn keep_boot(&self) -> Result<(), Errno> {
        self.inner.keep_boot()
    }
    fn space(&self) -> Result<StoreStat, Errno> {
        self.inner.space()
    }
    fn open_objects(&self) -> usize {
        self.inner.open_objects()
    }
}

impl Object for HeldObject {
    fn read_at(&self, local: u64, into: &mut [u8], waiting: Waiting) -> Result<usize, Errno> {
        self.gate.pass(waiting)?;
        self.inner.read_at(local, into, waiting)
    }
    fn write_at(&self, local: u64, from: &[u8]) -> Result<(), Errno> {
        self.inner.write_at(local, from)
    }
    fn allocate(&self, how: Allocation, range: Range<u64>, grow: bool) -> Result<(), Errno> {
        self.inner.allocate(how, range, grow)
    }
    fn next_data(&self, local: u64) -> Result<Option<u64>, Errno> {
        self.inner.next_data(local)
    }
    fn next_hole(&self, local: u64) -> Result<Option<u64>, Errno> {
        self.inner.next_hole(local)
    }
    fn copy_from(
        &self,
        source: &dyn Object,
        from: u64,
        local: u64,
        bytes: u64,
    ) -> Result<(), Errno> {
        self.inner.copy_from(source, from, local, bytes)
    }
    fn truncate(&self, local_size: u64) -> Result<(), Errno> {
        self.inner.truncate(local_size)
    }
    fn sync(&self) -> Result<(), Errno> {
        self.gate.pass(Waiting::Allowed)?;
        self.inner.sync()
    }
    fn stat(&self) -> Result<ObjectStat, Errno> {
        self.inner.stat()
    }
}
