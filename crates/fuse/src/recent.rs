//! The attributes that a thread has just been given, for the question that follows at once.
//!
//! stat(2) of a path makes the kernel ask twice: for the name, then for the attributes of what it names.
//! Since nothing may be remembered, the second would cost another message. It is answered from the first,
//! if the same thread asks it next, once, within a millisecond: both belong to one system call, and what is
//! told was true during it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pvfs_wire::attr::Attr;

/// What was told last, by thread.
pub struct Recent {
    shards: [Mutex<HashMap<u32, Told>>; SHARDS],
}

struct Told {
    attr: Attr,
    at: Instant,
}

impl Default for Recent {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Recent {
    /// A thread is told an object's attributes by name.
    pub fn told(&self, thread: u32, attr: &Attr) {
        let mut shard = self.lock(thread);
        if shard.len() >= THREADS_MAX / SHARDS {
            shard.clear();
        }
        shard.insert(thread, Told { attr: *attr, at: Instant::now() });
    }

    /// What the thread was told of this object, if that was its last request.
    pub fn take(&self, thread: u32, node: u64) -> Option<Attr> {
        let told = self.lock(thread).remove(&thread)?;
        let fresh = told.at.elapsed() < FRESH && told.attr.handle.object == node;
        fresh.then_some(told.attr)
    }

    /// The thread does something else.
    pub fn forget(&self, thread: u32) {
        self.lock(thread).remove(&thread);
    }

    fn lock(&self, thread: u32) -> MutexGuard<'_, HashMap<u32, Told>> {
        let shard = &self.shards[thread as usize % SHARDS];
        shard.lock().expect("no code panics while it holds a shard")
    }
}

const FRESH: Duration = Duration::from_millis(1);

const SHARDS: usize = 16;

/// Threads that are remembered; forgetting one costs a message.
const THREADS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::tests::attr;

    #[test]
    fn an_answer_serves_once_for_its_thread_and_object() {
        let recent = Recent::default();
        recent.told(5, &attr(9));
        assert_eq!(recent.take(6, 9), None, "another thread");
        assert_eq!(recent.take(5, 9), Some(attr(9)));
        assert_eq!(recent.take(5, 9), None, "once");
        recent.told(5, &attr(9));
        assert_eq!(recent.take(5, 8), None, "another object");
        assert_eq!(recent.take(5, 9), None, "something else came between");
    }

    #[test]
    fn an_answer_does_not_outlive_its_system_call() {
        let recent = Recent::default();
        recent.told(5, &attr(9));
        recent.forget(5);
        assert_eq!(recent.take(5, 9), None);
        recent.told(5, &attr(9));
        std::thread::sleep(FRESH);
        assert_eq!(recent.take(5, 9), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let recent = Recent::default();
        (0..3 * THREADS_MAX as u32).for_each(|thread| recent.told(thread, &attr(9)));
        let count: usize = recent.shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        assert!(count <= THREADS_MAX);
    }
}
