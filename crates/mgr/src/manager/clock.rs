//! The two clocks of a manager: one that never steps, for leases and deadlines, and the wall's.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pvfs_wire::attr::Time;

/// What time it is; a simulation brings its own.
pub trait Clock: Send + Sync {
    /// Nanoseconds since some moment; never steps back.
    fn monotonic_ns(&self) -> u64;

    /// The time of day, as set by the administrator; may step.
    fn wall(&self) -> Time;
}

/// The clocks of this machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn wall(&self) -> Time {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Time::from_nanos(i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// Unix seconds of a time of day.
pub fn unix_seconds(time: Time) -> u64 {
    u64::try_from(time.seconds).unwrap_or(0)
}
