//! Noncontiguous accesses in a few words: contiguous, strided (nested), or a list.
//!
//! An access names bytes of the file in the order in which they lie in the caller's memory: the
//! *stream*. It has one of three shapes:
//!
//! ```text
//! contiguous   offset, len                        |#######|
//! strided      offset, block, (stride, count)*    |##  ##  ##  ##|     and that again, nested
//! list         (offset, len)*                     |#  ####   ##|       in any order
//! ```
//!
//! A description stays as small as it was given: a strided access of a billion blocks is iterated
//! without memory. Regions may go backwards or overlap where a list or a stride says so; the stream
//! then follows the regions as given, and of two writes to one byte the later in the stream wins.

mod binary;
mod cursor;
mod regular;
mod strided;

pub use cursor::RegionIter;
pub use strided::{LEVELS_MAX, Level, Partition};

pub(crate) use cursor::Cursor;

use crate::distribution::FILE_SIZE_MAX;
use std::ops::Range;
use strided::Strided;

/// Bytes of a file that are side by side.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Region {
    /// Where in the file.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
}

/// A checked access: no byte is beyond the largest file, and the stream is no longer than that.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Regions(Shape);

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum Shape {
    Contiguous(Region),
    Strided(Strided),
    List(List),
}

/// At least two regions, none empty, none that only continues the one before it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct List {
    regions: Vec<Region>,
    total_bytes: u64,
}

/// Why an access was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RegionError {
    /// A byte beyond the largest file.
    #[error("the access reaches beyond the largest file")]
    TooFar,
    /// More bytes in all than the largest file has.
    #[error("the access names more bytes than the largest file has")]
    TooLong,
    /// Nested deeper than [`LEVELS_MAX`].
    #[error("a strided access can be nested {LEVELS_MAX} deep, not {0}")]
    TooDeep(usize),
    /// Part of a stream was asked for that the description does not have.
    #[error("the access asks for bytes its description does not have")]
    OutsideStream,
}

impl Region {
    /// The first offset after the region.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    fn checked(self) -> Result<Self, RegionError> {
        match self.offset.checked_add(self.len) {
            Some(end) if end <= FILE_SIZE_MAX => Ok(self),
            _ => Err(RegionError::TooFar),
        }
    }

    /// The part of this region that is bytes `part` of it.
    fn slice(self, part: Range<u64>) -> Self {
        let start = part.start.min(self.len);
        let end = part.end.clamp(start, self.len);
        Self { offset: self.offset + start, len: end - start }
    }
}

impl Regions {
    /// `len` bytes from `offset` on.
    pub fn contiguous(offset: u64, len: u64) -> Result<Self, RegionError> {
        Region { offset, len }.checked().map(|region| Self(Shape::Contiguous(region)))
    }

    /// Blocks of `block` bytes, the first at `offset`. The first of `levels` repeats the block
    /// `count` times, `stride` bytes from start to start; each further one repeats all before it.
    ///
    /// A stride may be shorter than what it repeats; the access then goes backwards or overlaps.
    pub fn strided(offset: u64, block: u64, levels: &[Level]) -> Result<Self, RegionError> {
        let stream_bytes = strided::stream_bytes(block, levels)?;
        Self::strided_part(offset, block, levels, 0..stream_bytes)
    }

    /// `len` bytes from `position` on of a partitioned file of PVFS 1, counted as its reader does:
    /// as if the groups lay end to end.
    pub fn partition(partition: &Partition, position: u64, len: u64) -> Result<Self, RegionError> {
        let end = position.checked_add(len).ok_or(RegionError::TooLong)?;
        let (levels, depth) = partition.levels(end)?;
        Self::strided_part(partition.offset, partition.gsize, &levels[..depth], position..end)
    }

    /// These regions in this order. Empty ones are dropped, adjacent ones joined.
    pub fn list(regions: impl IntoIterator<Item = Region>) -> Result<Self, RegionError> {
        let mut joined: Vec<Region> = Vec::new();
        let mut total_bytes = 0u64;
        for region in regions {
            total_bytes =
                total_bytes.checked_add(region.checked()?.len).ok_or(RegionError::TooLong)?;
            match joined.last_mut() {
                _ if region.len == 0 => {}
                Some(last) if last.end() == region.offset => last.len += region.len,
                _ => joined.push(region),
            }
        }
        if total_bytes > FILE_SIZE_MAX {
            return Err(RegionError::TooLong);
        }
        Ok(Self::from_joined(joined, total_bytes))
    }

    /// Bytes in the stream.
    pub fn total_bytes(&self) -> u64 {
        match &self.0 {
            Shape::Contiguous(region) => region.len,
            Shape::Strided(strided) => strided.len(),
            Shape::List(list) => list.total_bytes,
        }
    }

    /// The first offset after all bytes: what the file's size is at least, once this is written.
    /// 0 for an access of no bytes.
    pub fn end_offset(&self) -> u64 {
        match &self.0 {
            Shape::Contiguous(Region { len: 0, .. }) => 0,
            Shape::Contiguous(region) => region.end(),
            Shape::Strided(strided) => strided.end_offset(),
            Shape::List(list) => list.regions.iter().map(Region::end).max().unwrap_or(0),
        }
    }

    /// The one region, when there is no more than one.
    pub fn as_contiguous(&self) -> Option<Region> {
        match &self.0 {
            Shape::Contiguous(region) => Some(*region),
            _ => None,
        }
    }

    /// The regions one by one, when nothing shorter says what they are.
    pub fn as_list(&self) -> Option<&[Region]> {
        match &self.0 {
            Shape::List(list) => Some(&list.regions),
            _ => None,
        }
    }

    /// How many regions there are at most, found without looking at them: the work of iterating.
    pub fn region_count_max(&self) -> u64 {
        match &self.0 {
            Shape::Contiguous(_) => 1,
            Shape::Strided(strided) => strided.block_count(),
            Shape::List(list) => list.regions.len() as u64,
        }
    }

    /// The regions in the order of the stream, none empty, adjacent ones joined. Takes no memory.
    pub fn iter(&self) -> RegionIter<'_> {
        RegionIter::new(self)
    }

    /// The access that is bytes `stream` of this one's stream, as far as there are any: how a large
    /// access is cut into requests of bounded size.
    pub fn slice(&self, stream: Range<u64>) -> Self {
        match &self.0 {
            Shape::Contiguous(region) => Self(Shape::Contiguous(region.slice(stream))),
            Shape::Strided(strided) => Self::from_strided(strided.slice(stream)),
            Shape::List(list) => list.slice(stream),
        }
    }

    fn strided_part(
        offset: u64,
        block: u64,
        levels: &[Level],
        stream: Range<u64>,
    ) -> Result<Self, RegionError> {
        Strided::new(offset, block, levels, stream).map(Self::from_strided)
    }

    /// One block, or none, is better said as a contiguous region.
    fn from_strided(strided: Strided) -> Self {
        match strided.as_single_block() {
            Some(region) => Self(Shape::Contiguous(region)),
            None => Self(Shape::Strided(strided)),
        }
    }

    fn from_joined(regions: Vec<Region>, total_bytes: u64) -> Self {
        match regions[..] {
            [] => Self(Shape::Contiguous(Region { offset: 0, len: 0 })),
            [region] => Self(Shape::Contiguous(region)),
            _ => Self(Shape::List(List { regions, total_bytes })),
        }
    }
}

impl<'a> IntoIterator for &'a Regions {
    type Item = Region;
    type IntoIter = RegionIter<'a>;

    fn into_iter(self) -> RegionIter<'a> {
        self.iter()
    }
}

impl List {
    fn slice(&self, stream: Range<u64>) -> Regions {
        let mut position = 0;
        let mut kept = Vec::new();
        for region in &self.regions {
            let start = stream.start.saturating_sub(position);
            let part = region.slice(start..stream.end.saturating_sub(position));
            if part.len > 0 {
                kept.push(part);
            }
            position += region.len;
        }
        let total_bytes = kept.iter().map(|region| region.len).sum();
        Regions::from_joined(kept, total_bytes)
    }
}
