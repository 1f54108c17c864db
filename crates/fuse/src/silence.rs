//! Iods that do not answer: not asked for sizes again for a while, so that `ls` waits once and not per file.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pvfs_wire::attr::Placement;

/// The iods that let a question for sizes time out lately.
#[derive(Default)]
pub struct Silence(Mutex<HashMap<u32, Instant>>);

impl Silence {
    /// An iod did not answer in time.
    pub fn note(&self, iod: u32) {
        self.lock().insert(iod, Instant::now() + DURATION);
    }

    /// Whether asking for this file's size would only be waiting.
    pub fn covers(&self, placement: &Placement) -> bool {
        let mut silent = self.lock();
        if silent.is_empty() {
            return false;
        }
        silent.retain(|_, until| Instant::now() < *until);
        placement.iods.iter().any(|iod| silent.contains_key(&iod.0))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Instant>> {
        self.0.lock().expect("no code panics while it holds the table")
    }
}

/// One question in a while finds out whether it is back.
const DURATION: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_layout::{Dist, IodId, IodList};

    fn placement(iods: &[u32]) -> Placement {
        let dist = Dist::simple_stripe(64 << 10, iods.len() as u32).unwrap();
        let iods = IodList::new(iods.iter().copied().map(IodId)).unwrap();
        Placement { dist, iods }
    }

    #[test]
    fn only_files_of_the_silent_iod_are_left_alone() {
        let silence = Silence::default();
        assert!(!silence.covers(&placement(&[1, 2])));
        silence.note(2);
        assert!(silence.covers(&placement(&[1, 2])));
        assert!(!silence.covers(&placement(&[0, 1, 3])));
    }

    #[test]
    fn silence_ends() {
        let silence = Silence::default();
        silence.lock().insert(2, Instant::now());
        assert!(!silence.covers(&placement(&[1, 2])));
        assert!(silence.lock().is_empty());
    }
}
