//! What time it is: the system's, or a simulation's.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Time since some fixed point; never steps back. For deadlines.
    fn monotonic(&self) -> Duration;

    /// Time since the epoch. For expiry dates.
    fn unix(&self) -> Duration;
}

/// The clock of this machine.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts now.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(Self { start: Instant::now() })
    }
}

impl Clock for SystemClock {
    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    fn unix(&self) -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }
}
