//! Whether the disk is so strained that even writes to memory block.
//!
//! A buffered write is a copy, until too much memory waits to be written back: then the kernel makes
//! writers sleep, up to 200 ms each, and has no way of saying so beforehand. A reactor would take all its clients
//! along. So every write of a reactor is timed, and after a slow one writes are left to workers for a while.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock::Clock;

/// The last slow write of a reactor.
#[derive(Default)]
pub struct Strain {
    /// Until when writes are left to workers, in nanoseconds of the monotonic clock.
    until_ns: AtomicU64,
}

impl Strain {
    /// Does what may turn out to be slow.
    pub fn watch<T>(&self, clock: &dyn Clock, work: impl FnOnce() -> T) -> T {
        let begun = clock.monotonic();
        let outcome = work();
        let ended = clock.monotonic();
        if ended.saturating_sub(begun) > SLOW {
            self.until_ns.store((ended + RELIEF).as_nanos() as u64, Relaxed);
        }
        outcome
    }

    /// Whether there was a slow one lately.
    pub fn is_felt(&self, clock: &dyn Clock) -> bool {
        let until_ns = self.until_ns.load(Relaxed);
        until_ns > 0 && clock.monotonic().as_nanos() < u128::from(until_ns)
    }
}

/// A hundred times what a copy of the longest write takes that a reactor tries.
const SLOW: Duration = Duration::from_millis(10);
/// Long enough that little time is lost on trying, short enough that it is over when the strain is.
const RELIEF: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    struct Stepping(AtomicU64);

    impl Clock for Stepping {
        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.load(Relaxed))
        }
        fn unix(&self) -> Duration {
            self.monotonic()
        }
    }

    #[test]
    fn a_slow_write_is_felt_for_a_while_and_a_fast_one_is_not() {
        let (strain, clock) = (Strain::default(), Stepping(AtomicU64::new(5)));
        assert!(!strain.is_felt(&clock));
        strain.watch(&clock, || clock.0.fetch_add(10, Relaxed));
        assert!(!strain.is_felt(&clock));
        strain.watch(&clock, || clock.0.fetch_add(11, Relaxed));
        assert!(strain.is_felt(&clock));
        clock.0.fetch_add(500, Relaxed);
        assert!(!strain.is_felt(&clock));
    }
}
