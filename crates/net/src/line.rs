//! A line of operations that wait for one of a few things (a lane, a slot, room), the longest first.
//!
//! Whoever gives a thing back calls the first, and only the first: so hundreds that wait cost no more than one each.
//! A call is no promise. Who comes too late takes its old place again; who gives up after it was called
//! ([`Line::leave`]) has to call the next.

use std::collections::BTreeMap;
use std::task::Waker;

/// Those who wait.
#[derive(Debug, Default)]
pub(crate) struct Line {
    waiting: BTreeMap<u64, Waker>,
    last: u64,
}

/// A place in a line, kept from the first wait to the end of it.
#[derive(Debug, Default)]
pub(crate) struct Turn(Option<u64>);

impl Line {
    /// Waits to be called: at the end of the line, or where it was before.
    pub fn wait(&mut self, turn: &mut Turn, waker: &Waker) {
        let number = *turn.0.get_or_insert_with(|| {
            self.last += 1;
            self.last
        });
        self.waiting.insert(number, waker.clone());
    }

    /// Whether it has waited, and was called.
    pub fn was_called(&self, turn: &Turn) -> bool {
        turn.0.is_some_and(|number| !self.waiting.contains_key(&number))
    }

    /// Waits no more. Says whether it was called.
    pub fn leave(&mut self, turn: &mut Turn) -> bool {
        turn.0.take().is_some_and(|number| self.waiting.remove(&number).is_none())
    }

    /// Calls the first.
    pub fn call(&mut self) {
        if let Some((_, waker)) = self.waiting.pop_first() {
            waker.wake();
        }
    }

    /// Calls all.
    pub fn call_all(&mut self) {
        std::mem::take(&mut self.waiting).into_values().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn one_is_called_at_a_time_in_the_order_of_coming() {
        let mut line = Line::default();
        let counts: Vec<Arc<Count>> = (0..4).map(|_| Arc::default()).collect();
        let mut turns: Vec<Turn> = (0..4).map(|_| Turn::default()).collect();
        let called = || -> Vec<usize> {
            counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect()
        };
        for (turn, count) in turns.iter_mut().zip(&counts) {
            line.wait(turn, &Waker::from(count.clone()));
            line.wait(turn, &Waker::from(count.clone()));
        }
        line.call();
        assert_eq!(called(), [1, 0, 0, 0]);
        // It came too late, and is the first again.
        assert!(line.was_called(&turns[0]) && !line.was_called(&turns[1]));
        line.wait(&mut turns[0], &Waker::from(counts[0].clone()));
        assert!(!line.leave(&mut turns[1]), "it was not called");
        line.call();
        line.call();
        assert_eq!(called(), [2, 0, 1, 0]);
        assert!(line.leave(&mut turns[2]) && !line.leave(&mut turns[2]));
        line.call_all();
        line.call();
        assert_eq!(called(), [2, 0, 1, 1]);
    }
}
