//! A file as an array of blocks (MDBI of PVFS 1): where a block's bytes are, and which blocks are buffered.
//!
//! ```text
//!   dimension 1 ->          2 dimensions: blocks of 3 x 2 records, 2 x 2 blocks
//!   | 0 0 0 1 1 1           the file holds the array row after row, so that block (0, 0) is the first
//!   | 0 0 0 1 1 1           three records of the first two rows
//!   v 2 2 2 3 3 3
//!   2 2 2 2 3 3 3           a group of blocks that are buffered together is read in one call
//! ```

mod buffered;

use std::os::fd::RawFd;

use pvfs_client::Region;
use pvfs_wire::Errno;

use crate::process::Process;

pub use buffered::{Blocks, File};

/// A file of ours that is open, to move blocks from and to.
pub struct Open<'p>(pub &'p Process, pub RawFd);

impl File for Open<'_> {
    fn read(&self, memory: &mut [&mut [u8]], regions: &[Region]) -> Result<u64, Errno> {
        self.0.readx(self.1, memory, regions).map_err(|stop| stop.errno())
    }

    fn write(&self, memory: &[&[u8]], regions: &[Region]) -> Result<(), Errno> {
        self.0.writex(self.1, memory, regions).map(drop).map_err(|stop| stop.errno())
    }
}

/// An array: how long each dimension is, in records and in blocks.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shape {
    record_bytes: u64,
    dimensions: Vec<Dimension>,
}

/// One dimension; the first varies fastest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Dimension {
    /// Records in a block.
    elements: u64,
    /// Blocks.
    blocks: u64,
    /// Blocks that are buffered together.
    buffered: u64,
}

impl Shape {
    /// EINVAL for what is no array, EFBIG for one that no file can hold.
    pub fn new(record_bytes: i64, elements: &[i64], blocks: &[i64]) -> Result<Self, Errno> {
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let record_bytes = positive(record_bytes).ok_or(Errno::EINVAL)?;
        if elements.is_empty() || elements.len() > DIMENSIONS_MAX || elements.len() != blocks.len()
        {
            return Err(Errno::EINVAL);
        }
        let mut bytes = record_bytes;
        let mut dimensions = Vec::new();
        for (elements, blocks) in elements.iter().zip(blocks) {
            let elements = positive(*elements).ok_or(Errno::EINVAL)?;
            let blocks = positive(*blocks).ok_or(Errno::EINVAL)?;
            let records = elements.checked_mul(blocks).ok_or(Errno::EFBIG)?;
            bytes = bytes.checked_mul(records).ok_or(Errno::EFBIG)?;
            i64::try_from(bytes).map_err(|_| Errno::EFBIG)?;
            dimensions.push(Dimension { elements, blocks, buffered: 1 });
        }
        Ok(Self { record_bytes, dimensions })
    }

    /// How many dimensions.
    pub fn dimensions(&self) -> usize {
        self.dimensions.len()
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.record_bytes * self.dimensions.iter().map(|one| one.elements).product::<u64>()
    }

    /// Sets how many blocks are buffered together in each dimension.
    pub fn set_buffered(&mut self, blocks: &[i64]) -> Result<(), Errno> {
        let mut dimensions = self.dimensions.clone();
        if blocks.len() != dimensions.len() {
            return Err(Errno::EINVAL);
        }
        for (dimension, blocks) in dimensions.iter_mut().zip(blocks) {
            let blocks = u64::try_from(*blocks).ok().filter(|blocks| *blocks > 0);
            dimension.buffered = blocks.ok_or(Errno::EINVAL)?.min(dimension.blocks);
        }
        self.dimensions = dimensions;
        Ok(())
    }

    /// A block's place, if there is such a block.
    pub fn block(&self, index: &[i64]) -> Result<Vec<u64>, Errno> {
        let within = |(index, dimension): (&i64, &Dimension)| {
            u64::try_from(*index).ok().filter(|index| *index < dimension.blocks)
        };
        let block: Option<Vec<u64>> = index.iter().zip(&self.dimensions).map(within).collect();
        block.filter(|block| block.len() == self.dimensions.len()).ok_or(Errno::EINVAL)
    }

    /// Where a block's bytes are, in the order of its records.
    pub fn regions(&self, block: &[u64]) -> Vec<Region> {
        let row_bytes = self.dimensions[0].elements * self.record_bytes;
        let rows = self.block_bytes() / row_bytes;
        (0..rows)
            .map(|row| Region { offset: self.row_offset(block, row), len: row_bytes })
            .collect()
    }

    /// Where the row of this number in a block begins.
    fn row_offset(&self, block: &[u64], mut row: u64) -> u64 {
        let mut offset = 0;
        let mut step = self.record_bytes;
        for (at, dimension) in self.dimensions.iter().enumerate() {
            let within = if at == 0 { 0 } else { row % dimension.elements };
            if at > 0 {
                row /= dimension.elements;
            }
            offset += (block[at] * dimension.elements + within) * step;
            step *= dimension.elements * dimension.blocks;
        }
        offset
    }

    /// The first block of the group that is buffered together with a block.
    pub fn group(&self, block: &[u64]) -> Vec<u64> {
        let first =
            |(at, dimension): (&u64, &Dimension)| at / dimension.buffered * dimension.buffered;
        block.iter().zip(&self.dimensions).map(first).collect()
    }

    /// All blocks of a group, the first dimension varying fastest.
    pub fn members(&self, group: &[u64]) -> Vec<Vec<u64>> {
        let mut members = vec![Vec::new()];
        for (first, dimension) in group.iter().zip(&self.dimensions) {
            let end = (first + dimension.buffered).min(dimension.blocks);
            let longer =
                |at| members.iter().map(move |one: &Vec<u64>| [one.as_slice(), &[at]].concat());
            members = (*first..end).flat_map(longer).collect();
        }
        members
    }

    /// Where a block is among the members of its group.
    pub fn place(&self, group: &[u64], block: &[u64]) -> usize {
        let (mut place, mut step) = (0, 1);
        for ((first, at), dimension) in group.iter().zip(block).zip(&self.dimensions) {
            place += (at - first) * step;
            step *= dimension.buffered.min(dimension.blocks - first);
        }
        place as usize
    }

    /// Blocks in the largest group; `None` beyond what can be counted.
    pub fn group_blocks(&self) -> Option<u64> {
        self.dimensions.iter().try_fold(1u64, |all, one| all.checked_mul(one.buffered))
    }
}

/// As many dimensions as an array can have; so in pvfs.h.
pub const DIMENSIONS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// The offset of a record of a block, from the definition.
    fn offset(shape: &Shape, block: &[u64], record: &[u64]) -> u64 {
        let mut number = 0;
        for at in (0..block.len()).rev() {
            let one = shape.dimensions[at];
            number = number * one.elements * one.blocks + block[at] * one.elements + record[at];
        }
        number * shape.record_bytes
    }

    #[test]
    fn a_block_is_where_the_definition_says() {
        let shape = Shape::new(5, &[3, 2, 4], &[2, 3, 2]).unwrap();
        for number in 0..12 {
            let block = [number % 2, number / 2 % 3, number / 6];
            let mut expected = Vec::new();
            for record in 0..24 {
                let record = [record % 3, record / 3 % 2, record / 6];
                let start = offset(&shape, &block, &record);
                expected.extend(start..start + 5);
            }
            let bytes = |region: Region| region.offset..region.offset + region.len;
            let seen: Vec<u64> = shape.regions(&block).into_iter().flat_map(bytes).collect();
            assert_eq!(seen, expected, "{block:?}");
        }
    }

    #[test]
    fn groups_hold_every_block_once() {
        let mut shape = Shape::new(1, &[1, 1], &[5, 3]).unwrap();
        shape.set_buffered(&[2, 100]).unwrap();
        assert_eq!(shape.group(&[3, 2]), [2, 0]);
        assert_eq!(shape.group_blocks(), Some(6));
        let mut all: Vec<_> =
            [[0, 0], [2, 0], [4, 0]].iter().flat_map(|group| shape.members(group)).collect();
        assert_eq!(shape.members(&[4, 0]), [[4, 0], [4, 1], [4, 2]]);
        for group in [[0, 0], [2, 0], [4, 0]] {
            for (place, block) in shape.members(&group).iter().enumerate() {
                assert_eq!(shape.place(&group, block), place);
            }
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 15);
    }

    #[test]
    fn what_is_no_array_is_refused() {
        let of =
            |record, elements: &[i64], blocks: &[i64]| Shape::new(record, elements, blocks).err();
        assert_eq!(of(0, &[1], &[1]), Some(Errno::EINVAL));
        assert_eq!(of(1, &[], &[]), Some(Errno::EINVAL));
        assert_eq!(of(1, &[-1], &[1]), Some(Errno::EINVAL));
        assert_eq!(of(1, &[1; 17], &[1; 17]), Some(Errno::EINVAL));
        assert_eq!(of(1, &[i64::MAX, 2], &[1, 1]), Some(Errno::EFBIG));
        assert_eq!(of(1, &[i64::MAX], &[i64::MAX]), Some(Errno::EFBIG));
        let mut shape = Shape::new(1, &[2], &[2]).unwrap();
        assert_eq!(shape.block(&[2]), Err(Errno::EINVAL));
        assert_eq!(shape.block(&[-1]), Err(Errno::EINVAL));
        assert_eq!(shape.set_buffered(&[0]), Err(Errno::EINVAL));
    }
}
