//! Who of a queue's operations is to be looked at, said from any thread.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

use super::Keep;
use crate::runtime::KeptFile;

/// The operations that were woken, and a bell that ends the queue's sleep.
pub(super) struct Alarm {
    woken: Mutex<Vec<u64>>,
    /// The queue's thread is not polling operations, and so would not see `woken`.
    is_away: AtomicBool,
    bell: Arc<KeptFile>,
}

/// Wakes one operation.
pub(super) struct TaskWaker {
    id: u64,
    alarm: Arc<Alarm>,
    is_woken: AtomicBool,
}

impl Alarm {
    pub fn new(keep: &Keep) -> io::Result<Self> {
        let bell = Arc::new(keep(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?)?);
        Ok(Self { woken: Mutex::default(), is_away: AtomicBool::new(true), bell })
    }

    /// What becomes readable when the bell rings.
    pub fn bell(&self) -> Arc<KeptFile> {
        self.bell.clone()
    }

    /// Those woken since the last call. From now on the thread looks by itself, until nobody is left.
    pub fn take_woken(&self) -> Vec<u64> {
        self.is_away.store(false, Ordering::SeqCst);
        let woken = std::mem::take(&mut *self.woken());
        if woken.is_empty() {
            self.is_away.store(true, Ordering::SeqCst);
            // Who was woken between the two may not have rung.
            return std::mem::take(&mut *self.woken());
        }
        woken
    }

    /// Whether somebody was woken and not looked at since.
    pub fn is_woken(&self) -> bool {
        !self.woken().is_empty()
    }

    /// Rings, or silences the bell.
    pub fn set(&self, ringing: bool) {
        if ringing {
            self.ring();
        } else {
            let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        }
    }

    /// Ends the queue's sleep.
    pub fn ring(&self) {
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
    }

    fn woken(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskWaker {
    pub fn new(id: u64, alarm: Arc<Alarm>) -> Self {
        Self { id, alarm, is_woken: AtomicBool::new(false) }
    }

    /// The operation is looked at now.
    pub fn begin(&self) {
        self.is_woken.store(false, Ordering::SeqCst);
    }

    /// The operation is to be looked at, and the queue's thread, which says so, will.
    pub fn note(&self) -> bool {
        let is_news = !self.is_woken.swap(true, Ordering::SeqCst);
        if is_news {
            self.alarm.woken().push(self.id);
        }
        is_news
    }

    fn ring(&self) {
        if self.note() && self.alarm.is_away.load(Ordering::SeqCst) {
            self.alarm.ring();
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}
