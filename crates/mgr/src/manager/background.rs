//! The two threads beside the network's: one purges, one looks at space.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pvfs_layout::IodId;
use pvfs_wire::Errno;

use super::Manager;
use super::orders::Mode;
use crate::iods::Iods;
use crate::namespace::Purge;
use crate::purge::{PurgeQueue, Purged, Purger};
use crate::space::{self, Space};

/// The threads; dropped, they end after what they are at.
pub struct Background {
    end: Arc<End>,
    threads: Vec<JoinHandle<()>>,
}

/// Wakes sleeping threads when it is time to end.
#[derive(Default)]
struct End {
    come: Mutex<bool>,
    wake: Condvar,
}

impl Background {
    /// Begins purging and looking at space.
    pub fn start(manager: &Arc<Manager>, iods: &Arc<dyn Iods>) -> std::io::Result<Self> {
        let mut background = Self { end: Arc::default(), threads: Vec::new() };
        let mut purger = Purger::default();
        background.spawn("purge", manager, iods, move |manager, iods| {
            purger.step(manager, iods, manager.clock.monotonic_ns())
        })?;
        let mut space = Space::new(manager.policy().iods.iter().copied());
        background.spawn("space", manager, iods, move |manager, iods| {
            manager.look_at_space(&mut space, iods)
        })?;
        Ok(background)
    }

    /// Runs `step` again and again, after the pause in nanoseconds that it returns.
    fn spawn(
        &mut self,
        name: &str,
        manager: &Arc<Manager>,
        iods: &Arc<dyn Iods>,
        mut step: impl FnMut(&Manager, &dyn Iods) -> u64 + Send + 'static,
    ) -> std::io::Result<()> {
        let (manager, iods, end) = (manager.clone(), iods.clone(), self.end.clone());
        let thread = thread::Builder::new().name(format!("mgr-{name}"));
        self.threads.push(thread.spawn(move || {
            while !end.comes_within(Duration::from_nanos(step(&manager, &*iods))) {}
        })?);
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        *self.end.come.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.wake.notify_all();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a background thread of the manager panicked");
            }
        }
    }
}

impl End {
    fn comes_within(&self, pause: Duration) -> bool {
        let come = self.come.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_timeout_while(come, pause, |come| !*come);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Manager {
    /// Asks the iods for their space and uses the answers. Returns the pause until the next look.
    pub fn look_at_space(&self, space: &mut Space, iods: &dyn Iods) -> u64 {
        space.set_iods(&self.policy().iods);
        space.look(iods, self.clock.monotonic_ns());
        let free_bytes = space.free_bytes();
        if self.policy().free_bytes != free_bytes {
            self.change_policy(|policy| policy.free_bytes = free_bytes);
        }
        self.set_silent_iods(space.silent());
        space::PAUSE_NS
    }

    pub(super) fn set_silent_iods(&self, iods: Vec<IodId>) {
        let map = &self.policy().map;
        let name = |iod: IodId| match map.iods.get(iod.0 as usize) {
            Some(known) => known.name.clone(),
            None => format!("iod {iod}"),
        };
        let names = iods.into_iter().map(name).collect();
        *self.silent_iods.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }
}

impl PurgeQueue for Manager {
    fn entries(&self, after: u64, entries_max: usize) -> Result<Vec<Purge>, Errno> {
        if self.orders.mode() == Mode::Stopped {
            return Err(Errno::EIO);
        }
        crate::namespace::purge_queue(&*self.store.snapshot(), &self.fs, after, entries_max)
    }

    fn purged(&self, entries: Vec<Purged>) {
        self.submit([super::work::Work::Purged(entries)]);
    }
}
