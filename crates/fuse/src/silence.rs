//! Files whose iods do not answer: not asked again for a while, so that `ls` waits once and not per file.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The nodes whose size could not be told lately.
#[derive(Default)]
pub struct Silence(Mutex<HashMap<u64, Instant>>);

impl Silence {
    /// Some iod of the file did not tell its size.
    pub fn note(&self, node: u64) {
        let mut silent = self.lock();
        if silent.len() >= NODES_MAX {
            silent.retain(|_, until| Instant::now() < *until);
        }
        if silent.len() < NODES_MAX {
            silent.insert(node, Instant::now() + DURATION);
        }
    }

    /// Whether it is of no use to ask now.
    pub fn lasts(&self, node: u64) -> bool {
        let mut silent = self.lock();
        match silent.get(&node) {
            Some(until) if Instant::now() < *until => true,
            Some(_) => silent.remove(&node).is_none(),
            None => false,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.0.lock().expect("no code panics while it holds the table")
    }
}

const DURATION: Duration = Duration::from_secs(5);

const NODES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_silent_file_is_left_alone() {
        let silence = Silence::default();
        silence.note(7);
        assert!(silence.lasts(7));
        assert!(!silence.lasts(8));
    }

    #[test]
    fn silence_ends() {
        let silence = Silence::default();
        silence.lock().insert(7, Instant::now());
        assert!(!silence.lasts(7));
        assert!(silence.lock().is_empty());
    }
}
