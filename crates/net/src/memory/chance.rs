//! Chance from a seed.

use std::time::Duration;

/// The splitmix64 generator: small, fast, and good enough to shake a network.
pub struct Chance(u64);

impl Chance {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.any() % (high.saturating_sub(low) + 1)
    }

    /// Less than `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.any() % bound as u64) as usize
    }

    /// Something that happens so many times in a million.
    pub fn happens(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.any() % 1_000_000 < u64::from(ppm)
    }

    /// A time from `shortest` to `longest`.
    pub fn time(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX - 1);
        Duration::from_nanos(self.between(nanos(shortest), nanos(longest)))
    }
}
