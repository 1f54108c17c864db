//! Seeing that a list of regions is regular, so that it travels in a few words.
//!
//! ```text
//! 2 blocks, 10 apart, that again 30 further        levels (10, 2), (30, 2)
//! |##        ##                  ##        ##  |
//!  0         10                  30        40      each offset is the one the levels so far foretell,
//!                                                  or it opens a level outside of them
//! ```
//!
//! One pass, no memory, one step back never: columns and blocks of arrays are found, whatever list names them.

use super::{LEVELS_MAX, Level, Region, RegionError, Regions};
use crate::join::Joined;

impl Regions {
    /// The access to these regions in this order, when it can be said without listing them: adjacent ones
    /// are joined, and what is left is one block or blocks of one size at regular strides. `None` when only
    /// the list itself says it.
    ///
    /// # Errors
    /// As [`Regions::list`].
    pub fn regular(regions: &[Region]) -> Result<Option<Self>, RegionError> {
        let filled = regions.iter().copied().filter(|region| region.len > 0);
        let mut joined = Joined::new(filled);
        let Some(first) = joined.next() else { return Self::contiguous(0, 0).map(Some) };
        first.checked()?;
        let mut pattern = Pattern::new(first);
        for region in joined {
            region.checked()?;
            if !pattern.take(region) {
                return Ok(None);
            }
        }
        pattern.finished()
    }
}

/// Levels that foretell where the next block is. The outermost one still grows.
struct Pattern {
    first: Region,
    /// Strides and counts; the count of the outermost level is that of its full rounds so far.
    levels: [Level; LEVELS_MAX],
    depth: usize,
    /// Where the next block is in the inner levels, all but the outermost.
    digits: [u64; LEVELS_MAX],
    /// Blocks so far.
    taken: u64,
}

impl Pattern {
    fn new(first: Region) -> Self {
        let (levels, digits) = ([Level::default(); LEVELS_MAX], [0; LEVELS_MAX]);
        Self { first, levels, depth: 0, digits, taken: 1 }
    }

    /// Takes the next block in; false when no levels explain it.
    fn take(&mut self, region: Region) -> bool {
        if region.len != self.first.len {
            return false;
        }
        self.step();
        let explained = self.foretold() == Some(region.offset) || self.open_level(region);
        self.taken += 1;
        explained
    }

    /// Turns the digits to the next block. The outermost one never turns over.
    fn step(&mut self) {
        for (at, digit) in self.digits[..self.depth].iter_mut().enumerate() {
            *digit += 1;
            if at + 1 == self.depth || *digit < self.levels[at].count {
                return;
            }
            *digit = 0;
        }
    }

    fn foretold(&self) -> Option<u64> {
        if self.depth == 0 {
            return None;
        }
        let steps = self.levels.iter().zip(&self.digits).take(self.depth);
        steps.into_iter().try_fold(self.first.offset, |offset, (level, digit)| {
            offset.checked_add(level.stride.checked_mul(*digit)?)
        })
    }

    /// A block that is not where it was foretold begins a round of a new level, if all rounds before were full.
    fn open_level(&mut self, region: Region) -> bool {
        let Some(stride) = region.offset.checked_sub(self.first.offset) else { return false };
        let inner_full = match self.depth.checked_sub(1) {
            None => true,
            Some(outermost) => {
                self.levels[outermost].count = self.digits[outermost];
                self.digits[..outermost].iter().all(|digit| *digit == 0)
            }
        };
        if !inner_full || self.depth == LEVELS_MAX {
            return false;
        }
        self.digits[..self.depth].fill(0);
        self.levels[self.depth] = Level { stride, count: 0 };
        self.digits[self.depth] = 1;
        self.depth += 1;
        true
    }

    /// The last round of the outermost level may be cut short.
    fn finished(mut self) -> Result<Option<Regions>, RegionError> {
        let Some(outermost) = self.depth.checked_sub(1) else {
            return Regions::contiguous(self.first.offset, self.first.len).map(Some);
        };
        self.levels[outermost].count = self.digits[outermost] + 1;
        let bytes = self.first.len.checked_mul(self.taken).ok_or(RegionError::TooLong)?;
        let levels = &self.levels[..self.depth];
        Regions::strided_part(self.first.offset, self.first.len, levels, 0..bytes).map(Some)
    }
}
