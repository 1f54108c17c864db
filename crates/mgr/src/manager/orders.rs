//! What orders make of the manager.

use std::sync::atomic::{AtomicU8, Ordering};

use pvfs_net::orders::OrderBook;

/// What the manager does with requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// Serves.
    Serving,
    /// Serves, but opens nothing any more: it is about to exit.
    Stopping,
    /// Answers everything with EIO until resumed.
    Stopped,
}

/// The mode, and the orders taken.
pub struct Orders {
    mode: AtomicU8,
    /// Which were taken.
    pub book: OrderBook,
}

impl Orders {
    /// Of a manager that starts now and serves.
    pub fn new(start: u64) -> Self {
        Self { mode: AtomicU8::new(Mode::Serving as u8), book: OrderBook::new(start) }
    }

    /// What to do with requests.
    pub fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            0 => Mode::Serving,
            1 => Mode::Stopping,
            _ => Mode::Stopped,
        }
    }

    /// Goes over to another mode.
    pub fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Release);
    }
}
