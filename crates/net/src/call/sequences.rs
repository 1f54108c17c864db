//! Slots for changes of metadata: at most one change outstanding in each, so that the manager needs to keep
//! one reply per slot.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};

use pvfs_wire::Sequence;

use crate::runtime::Runtime;

/// Slots for changes of metadata, with the count each has reached.
#[derive(Default)]
pub(super) struct Sequences {
    free: Vec<Sequence>,
    made: u16,
    waiting: Vec<Waker>,
}

impl Sequences {
    fn take<R: Runtime>(&mut self, waker: &Waker, runtime: &R) -> Poll<Sequence> {
        if let Some(last) = self.free.pop() {
            return Poll::Ready(Sequence { count: last.count + 1, ..last });
        }
        if self.made < SLOTS_MAX {
            self.made += 1;
            return Poll::Ready(Sequence { slot: self.made - 1, count: 1 });
        }
        runtime.expect_wake();
        self.waiting.push(waker.clone());
        Poll::Pending
    }
}

/// The use of a slot for one change, all its repetitions included.
pub(super) struct ChangeSlot<'a> {
    pub(super) sequence: Sequence,
    home: &'a Mutex<Sequences>,
}

impl<'a> ChangeSlot<'a> {
    /// A slot and the count of its next change, once one is free.
    pub(super) async fn take<R: Runtime>(home: &'a Mutex<Sequences>, runtime: &R) -> Self {
        let sequence = poll_fn(|cx| lock(home).take(cx.waker(), runtime)).await;
        Self { sequence, home }
    }
}

impl Drop for ChangeSlot<'_> {
    fn drop(&mut self) {
        let mut sequences = lock(self.home);
        sequences.free.push(self.sequence);
        // All of them: the first may have given up waiting, and would keep it from the others.
        sequences.waiting.drain(..).for_each(Waker::wake);
    }
}

fn lock(sequences: &Mutex<Sequences>) -> MutexGuard<'_, Sequences> {
    sequences.lock().expect("no code panics while it holds the sequences")
}

/// Changes of metadata outstanding at once; managers keep this many reply records of a client.
const SLOTS_MAX: u16 = 64;
