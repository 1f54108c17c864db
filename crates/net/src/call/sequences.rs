//! Slots for changes of metadata: at most one change outstanding in each, so that the manager needs to keep
//! one reply per slot.

use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard};
use std::task::{Poll, Waker};

use pvfs_wire::Sequence;

use super::pool::{Lines, Mover};
use crate::line::Turn;
use crate::runtime::Runtime;

/// Slots for changes of metadata, with the count each has reached.
#[derive(Default)]
pub(super) struct Sequences {
    free: Vec<Sequence>,
    made: u16,
    /// In use by operations of queues.
    queued: u16,
    waiting: Lines,
}

impl Sequences {
    fn take(&mut self, mover: Mover) -> Option<Sequence> {
        if mover == Mover::Queue && self.queued >= SLOTS_OF_QUEUES_MAX {
            return None;
        }
        let taken = self.take_any()?;
        self.queued += u16::from(mover == Mover::Queue);
        Some(taken)
    }

    fn take_any(&mut self) -> Option<Sequence> {
        if let Some(last) = self.free.pop() {
            return Some(Sequence { count: last.count + 1, ..last });
        }
        (self.made < SLOTS_MAX).then(|| {
            self.made += 1;
            Sequence { slot: self.made - 1, count: 1 }
        })
    }
}

/// The use of a slot for one change, all its repetitions included.
pub(super) struct ChangeSlot<'a> {
    pub(super) sequence: Sequence,
    mover: Mover,
    home: &'a Mutex<Sequences>,
}

impl<'a> ChangeSlot<'a> {
    /// A slot and the count of its next change, once one is free.
    pub(super) async fn take<R: Runtime>(
        home: &'a Mutex<Sequences>,
        mover: Mover,
        runtime: &R,
    ) -> Self {
        let mut wish = Wish { home, mover, turn: Turn::default() };
        let sequence = poll_fn(|cx| wish.poll(cx.waker(), runtime)).await;
        Self { sequence, mover, home }
    }
}

impl Drop for ChangeSlot<'_> {
    fn drop(&mut self) {
        let mut sequences = lock(self.home);
        sequences.free.push(self.sequence);
        sequences.queued -= u16::from(self.mover == Mover::Queue);
        sequences.waiting.call();
    }
}

/// Somebody who wants a slot.
struct Wish<'a> {
    home: &'a Mutex<Sequences>,
    mover: Mover,
    turn: Turn,
}

impl Wish<'_> {
    fn poll(&mut self, waker: &Waker, runtime: &impl Runtime) -> Poll<Sequence> {
        let sequences = &mut *lock(self.home);
        let taken = sequences.take(self.mover);
        let line = sequences.waiting.of(self.mover);
        match taken {
            Some(sequence) => {
                line.leave(&mut self.turn);
                Poll::Ready(sequence)
            }
            None => {
                runtime.expect_wake();
                line.wait(&mut self.turn, waker);
                Poll::Pending
            }
        }
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        let line = &mut lock(self.home).waiting;
        if line.of(self.mover).leave(&mut self.turn) {
            line.of(self.mover).call();
        }
    }
}

fn lock(sequences: &Mutex<Sequences>) -> MutexGuard<'_, Sequences> {
    sequences.lock().expect("no code panics while it holds the sequences")
}

/// Changes of metadata outstanding at once; managers keep this many reply records of a client.
const SLOTS_MAX: u16 = 64;

/// Of these, for operations of queues.
const SLOTS_OF_QUEUES_MAX: u16 = 48;
