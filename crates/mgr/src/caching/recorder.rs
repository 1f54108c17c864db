//! Notes what a request reads of the name space.

use std::sync::{Mutex, PoisonError};

use super::Key;
use crate::store::Watch;

/// What was read since the last look.
#[derive(Debug, Default)]
pub struct Recorder {
    read: Mutex<Vec<Key>>,
}

impl Recorder {
    /// What was read, each key once.
    pub fn take(&self) -> Vec<Key> {
        let mut read =
            std::mem::take(&mut *self.read.lock().unwrap_or_else(PoisonError::into_inner));
        read.sort_unstable();
        read.dedup();
        read
    }
}

impl Watch for Recorder {
    fn saw(&self, key: &[u8]) {
        if let Some(key) = Key::of(key) {
            self.read.lock().unwrap_or_else(PoisonError::into_inner).push(key);
        }
    }
}
