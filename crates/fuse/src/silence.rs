//! Iods that do not answer: not asked for sizes until they answer a ping, so that `ls` waits once and not
//! per file, and sizes are exact again the moment an iod is back.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;

use pvfs_client::{User, block_on};
use pvfs_net::blocking::Blocking;
use pvfs_net::call::CallError;
use pvfs_wire::attr::Placement;
use pvfs_wire::ops::Ping;

/// The iods that let a question for sizes time out, and have not answered since.
#[derive(Default)]
pub struct Silence(Mutex<HashSet<u32>>);

impl Silence {
    /// An iod did not answer in time: it is pinged on this user's behalf until it does.
    pub fn note(self: &Arc<Self>, iod: u32, user: User<Blocking>) {
        if !self.begin(iod) {
            return;
        }
        let silence = Arc::downgrade(self);
        let pinging = move || {
            ping_until_answered(&silence, &user, iod);
            if let Some(silence) = silence.upgrade() {
                silence.end(iod);
            }
        };
        if thread::Builder::new().name("pvfs-ping".into()).spawn(pinging).is_err() {
            self.end(iod);
        }
    }

    /// Whether asking for this file's size would only be waiting.
    pub fn covers(&self, placement: &Placement) -> bool {
        let silent = self.lock();
        !silent.is_empty() && placement.iods.iter().any(|iod| silent.contains(&iod.0))
    }

    /// Whether this is news.
    fn begin(&self, iod: u32) -> bool {
        self.lock().insert(iod)
    }

    fn end(&self, iod: u32) {
        self.lock().remove(&iod);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.0.lock().expect("no code panics while it holds the set")
    }
}

/// A ping that is never answered ends at its deadline, and is followed by the next for as long as the mount
/// lives. An iod that refuses connections is no longer silent: asking it costs no time.
fn ping_until_answered(silence: &Weak<Silence>, user: &User<Blocking>, iod: u32) {
    while silence.strong_count() > 0 {
        let server = &user.filesystem().iods()[iod as usize];
        let Err(CallError::Timeout { .. }) = block_on(user.inquire(server, &Ping {})) else {
            return;
        };
    }
}

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
        assert!(silence.begin(2));
        assert!(!silence.begin(2), "one ping is enough");
        assert!(silence.covers(&placement(&[1, 2])));
        assert!(!silence.covers(&placement(&[0, 1, 3])));
        silence.end(2);
        assert!(!silence.covers(&placement(&[1, 2])));
    }
}
