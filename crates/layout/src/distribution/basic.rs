//! `basic`: no striping, the object on slot 0 is the file.

use super::{Distribution, FILE_SIZE_MAX, Place, within_file};

/// The whole file on slot 0.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Basic;

impl Distribution for Basic {
    fn slots(&self) -> u32 {
        1
    }

    fn bytes_before(&self, slot: u32, offset: u64) -> u64 {
        if slot == 0 { offset } else { 0 }
    }

    fn locate(&self, offset: u64) -> Place {
        Place { slot: 0, local: offset }
    }

    fn file_offset(&self, slot: u32, local: u64) -> Option<u64> {
        if slot == 0 { within_file(local) } else { None }
    }

    fn contiguous_from(&self, _slot: u32, local: u64) -> u64 {
        FILE_SIZE_MAX.saturating_sub(local).max(1)
    }
}
