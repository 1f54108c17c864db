//! Who waits for a lock in one file, and for whom.
//!
//! A request stands behind what is held and in its way, and behind earlier requests that are in its way,
//! so that a stream of readers cannot starve a writer. The latter is courtesy only: it is dropped when
//! the earlier request waits, directly or not, for the later one, which would be a deadlock of our making.
//!
//! Clients wait in short turns, so as to stay interruptible. A request whose turn lapsed keeps its place for
//! a moment: nothing is given to it, but it goes on where it stood when it is asked again.

use super::held::{Held, Holder, Ranges};
use super::table::WaiterId;

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// Its number.
    pub id: WaiterId,
    /// What it wants.
    pub wanted: Held,
    /// Nobody waits for the answer, unless it is asked again.
    pub lapsed: bool,
}

/// One file's locks of one family.
#[derive(Debug, Default)]
pub struct FileLocks {
    /// What is held.
    pub held: Ranges,
    /// Who waits, the longest first.
    pub queue: Vec<Waiter>,
}

/// Which waits count when asking who waits for whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Waits {
    /// Those for locks that are held: a circle of these never ends by itself.
    ForHeld,
    /// Those out of courtesy to earlier requests too.
    All,
}

impl FileLocks {
    /// Whether nothing is held and nobody waits.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty() && self.queue.is_empty()
    }

    /// Earlier requests in the way of `wanted`, which stands at `position`.
    pub fn earlier<'a>(
        &'a self,
        wanted: &'a Held,
        position: usize,
    ) -> impl Iterator<Item = Holder> + 'a {
        let earlier = &self.queue[..position];
        let in_the_way = earlier.iter().filter(|waiter| waiter.wanted.conflicts(wanted));
        in_the_way.map(|waiter| waiter.wanted.holder)
    }

    /// Whom the waiter `id` waits for.
    pub fn waits_for(&self, id: WaiterId, which: Waits) -> Vec<Holder> {
        let Some(position) = self.queue.iter().position(|waiter| waiter.id == id) else {
            return Vec::new();
        };
        let Waiter { wanted, lapsed, .. } = &self.queue[position];
        if *lapsed && which == Waits::ForHeld {
            return Vec::new();
        }
        let mut holders: Vec<Holder> =
            self.held.conflicts(wanted).map(|held| held.holder).collect();
        if which == Waits::All {
            holders.extend(self.earlier(wanted, position));
        }
        holders
    }

    /// The lapsed request that `wanted` asks again.
    pub fn lapsed(&self, wanted: &Held) -> Option<usize> {
        let same = |other: &Held| Held { pid: wanted.pid, ..*other } == *wanted;
        self.queue.iter().position(|waiter| waiter.lapsed && same(&waiter.wanted))
    }

    /// The waiter of this number.
    pub fn waiter_mut(&mut self, id: WaiterId) -> Option<&mut Waiter> {
        self.queue.iter_mut().find(|waiter| waiter.id == id)
    }

    /// Takes the waiter `id` out of the queue.
    pub fn leave(&mut self, id: WaiterId) -> Option<Waiter> {
        let position = self.queue.iter().position(|waiter| waiter.id == id)?;
        Some(self.queue.remove(position))
    }
}
