//! Strided accesses: one block, repeated at a stride, and all of that repeated again.
//!
//! ```text
//! block 2, levels (stride 3, count 2), (stride 10, count 3)
//!
//! |## ##     ## ##     ## ##     |      blocks are numbered 0..6 in the order of the stream
//!  0  1      2  3      4  5             block 5 = digit 1 of the first level, 2 of the second
//! ```
//!
//! Only part of the stream may be meant, from the middle of one block to the middle of another.
//! Everything follows from where block `index` is, which is arithmetic on the digits of `index`.

use super::{Region, RegionError};
use crate::distribution::FILE_SIZE_MAX;
use std::ops::Range;

/// How deep strides nest: enough for a block of a four-dimensional array.
pub const LEVELS_MAX: usize = 4;

/// One repetition of all that is inside it.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Level {
    /// Bytes from the start of one to the start of the next.
    pub stride: u64,
    /// How often in all.
    pub count: u64,
}

/// The logical partition of PVFS 1: groups of `gsize` bytes, `stride` apart, without end (paper 000,
/// figure 3). Nested, the file is `ngroups` such groups every `gstride` bytes; the paper leaves that
/// form out, and this reading of it is ours.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Partition {
    /// Where in the file the first group is.
    pub offset: u64,
    /// Bytes in a group.
    pub gsize: u64,
    /// Bytes from the start of one group to the start of the next.
    pub stride: u64,
    /// Bytes from the start of one set of groups to the start of the next. 0: not nested.
    pub gstride: u64,
    /// Groups in a set. 0: not nested.
    pub ngroups: u64,
}

/// So folded that no level only continues what is inside it. An access of no bytes has no levels.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Strided {
    pub(super) offset: u64,
    pub(super) block: u64,
    levels: [Level; LEVELS_MAX],
    depth: usize,
    /// The part of the stream that is meant.
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Partition {
    /// As many levels as there are, repeated often enough for `stream_bytes` of stream.
    pub(super) fn levels(&self, stream_bytes: u64) -> Result<([Level; 2], usize), RegionError> {
        let nested = self.gstride > 0 && self.ngroups > 0;
        let set = match nested {
            true => self.gsize.checked_mul(self.ngroups).ok_or(RegionError::TooLong)?,
            false => self.gsize,
        };
        let count = match set {
            0 => 0,
            _ => stream_bytes.div_ceil(set),
        };
        let groups =
            Level { stride: self.stride, count: if nested { self.ngroups } else { count } };
        let sets = Level { stride: self.gstride, count };
        Ok(([groups, sets], if nested { 2 } else { 1 }))
    }
}

/// Bytes in the stream of such an access.
pub(super) fn stream_bytes(block: u64, levels: &[Level]) -> Result<u64, RegionError> {
    if levels.iter().any(|level| level.count == 0) {
        return Ok(0);
    }
    levels
        .iter()
        .try_fold(block, |bytes, level| bytes.checked_mul(level.count))
        .ok_or(RegionError::TooLong)
}

impl Strided {
    pub(super) fn new(
        offset: u64,
        block: u64,
        levels: &[Level],
        stream: Range<u64>,
    ) -> Result<Self, RegionError> {
        if levels.len() > LEVELS_MAX {
            return Err(RegionError::TooDeep(levels.len()));
        }
        if stream.start > stream.end || stream.end > stream_bytes(block, levels)? {
            return Err(RegionError::OutsideStream);
        }
        let (start, end) = (stream.start, stream.end);
        let mut strided = Self { offset, block, levels: Default::default(), depth: 0, start, end };
        if start < end {
            levels.iter().for_each(|level| strided.repeat(*level));
        }
        strided.check_end()?;
        Ok(strided)
    }

    pub(super) fn levels(&self) -> &[Level] {
        &self.levels[..self.depth]
    }

    pub(super) fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Blocks that are meant, in whole or in part.
    pub(super) fn block_count(&self) -> u64 {
        match self.last_block() {
            Some(last) => last - self.start / self.block + 1,
            None => 0,
        }
    }

    /// The one region meant, when there is at most one.
    pub(super) fn as_single_block(&self) -> Option<Region> {
        match self.block_count() {
            0 => Some(Region { offset: self.offset.min(FILE_SIZE_MAX), len: 0 }),
            1 => Some(self.region_at(self.start)),
            _ => None,
        }
    }

    pub(super) fn slice(&self, stream: Range<u64>) -> Self {
        let start = self.start.saturating_add(stream.start).min(self.end);
        let end = self.start.saturating_add(stream.end).clamp(start, self.end);
        Self { start, end, ..*self }
    }

    /// From the byte at `position` of the whole stream, which must be meant, to the end of its block
    /// or of what is meant.
    pub(super) fn region_at(&self, position: u64) -> Region {
        let in_block = position % self.block;
        let len = (self.block - in_block).min(self.end - position);
        Region { offset: self.block_offset(position / self.block) + in_block, len }
    }

    /// Of the blocks of the innermost level from `position` on, where a block begins, how many end
    /// at or below offset `until`. 0 where that level begins anew, since offsets may fall there.
    pub(super) fn blocks_below(&self, position: u64, until: u64) -> u64 {
        let index = position / self.block;
        let Level { stride, count } = self.levels[0];
        let digit = index % count;
        if position >= self.end || digit == 0 {
            return 0;
        }
        match until.checked_sub(self.block_offset(index).saturating_add(self.block)) {
            None => 0,
            Some(room) => room.checked_div(stride).map_or(count, |more| more.saturating_add(1)),
        }
        .min(count - digit)
    }

    /// The highest end of all blocks that are meant, which is not always that of the last: an outer
    /// stride may go backwards.
    pub(super) fn end_offset(&self) -> u64 {
        self.checked_end_offset().expect("checked when made")
    }

    /// Adds a level outside of those there are, or folds it into the one it continues. What is
    /// folded here cannot overflow, since the length of the stream does not.
    fn repeat(&mut self, level: Level) {
        let inner = self.levels[..self.depth].last_mut();
        match inner {
            _ if level.count <= 1 => {}
            None if level.stride == self.block => self.block *= level.count,
            Some(inner) if inner.stride.checked_mul(inner.count) == Some(level.stride) => {
                inner.count *= level.count;
            }
            _ => {
                self.levels[self.depth] = level;
                self.depth += 1;
            }
        }
    }

    fn check_end(&self) -> Result<(), RegionError> {
        if self.len() > FILE_SIZE_MAX {
            return Err(RegionError::TooLong);
        }
        match self.checked_end_offset() {
            Some(end) if end <= FILE_SIZE_MAX => Ok(()),
            _ => Err(RegionError::TooFar),
        }
    }

    /// The number of the last block that is meant.
    fn last_block(&self) -> Option<u64> {
        (self.start < self.end).then(|| (self.end - 1) / self.block)
    }

    /// Offsets grow with every digit, so only the last block can be highest, or one that is last of
    /// its kind: the one just before the present round of some level began.
    fn checked_end_offset(&self) -> Option<u64> {
        let Some(last) = self.last_block() else { return Some(0) };
        let first = self.start / self.block;
        let in_last = (self.end - 1) % self.block + 1;
        let mut end = self.checked_block_offset(last)?.checked_add(in_last)?;
        let mut round = 1;
        for level in self.levels() {
            let before = (last / round * round).checked_sub(1);
            if let Some(before) = before.filter(|before| *before >= first) {
                end = end.max(self.checked_block_offset(before)?.checked_add(self.block)?);
            }
            round *= level.count;
        }
        Some(end)
    }

    fn block_offset(&self, index: u64) -> u64 {
        let mut offset = self.offset;
        let mut rest = index;
        for level in self.levels() {
            offset += rest % level.count * level.stride;
            rest /= level.count;
        }
        offset
    }

    fn checked_block_offset(&self, index: u64) -> Option<u64> {
        let mut rest = index;
        self.levels().iter().try_fold(self.offset, |offset, level| {
            let digit = rest % level.count;
            rest /= level.count;
            offset.checked_add(digit.checked_mul(level.stride)?)
        })
    }
}
