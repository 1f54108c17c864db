//! A noncontiguous access as its caller names it: which bytes of the file, in the order of the caller's memory.

use std::slice;

use pvfs_layout::region::RegionIter;
use pvfs_layout::{Region, RegionError, Regions};
use pvfs_wire::Errno;

/// Checked: no byte is beyond the largest file.
pub enum Access<'a> {
    /// Said in a few words, which every iod is told.
    Regular(Regions),
    /// A list, of which every iod is told its part.
    List(&'a [Region]),
}

/// A walk through an access, which can stop inside a region.
#[derive(Clone)]
pub struct Walk<'a> {
    regions: Iter<'a>,
    /// What is left of the region under way; not empty.
    current: Option<Region>,
}

#[derive(Clone)]
enum Iter<'a> {
    Regular(RegionIter<'a>),
    List(slice::Iter<'a, Region>),
}

impl<'a> Access<'a> {
    /// These regions in this order, in few words if they are regular.
    pub fn of_list(list: &'a [Region]) -> Result<Self, Errno> {
        match Regions::regular(list).map_err(refusal)? {
            Some(regular) => Ok(Self::Regular(regular)),
            None => Self::checked_list(list),
        }
    }

    /// An access that was described.
    pub fn of(regions: &'a Regions) -> Self {
        match regions.as_list() {
            Some(list) => Self::List(list),
            None => Self::Regular(regions.clone()),
        }
    }

    /// Bytes in all.
    pub fn total_bytes(&self) -> u64 {
        match self {
            Self::Regular(regions) => regions.total_bytes(),
            Self::List(list) => list.iter().map(|region| region.len).sum(),
        }
    }

    /// From the first byte on.
    pub fn walk(&self) -> Walk<'_> {
        let regions = match self {
            Self::Regular(regions) => Iter::Regular(regions.iter()),
            Self::List(list) => Iter::List(list.iter()),
        };
        Walk { regions, current: None }
    }

    /// A list that is not regular was looked at only up to where that showed.
    fn checked_list(list: &'a [Region]) -> Result<Self, Errno> {
        let mut total_bytes = 0u64;
        for region in list {
            let end = region.offset.checked_add(region.len);
            end.filter(|end| *end <= pvfs_layout::FILE_SIZE_MAX).ok_or(Errno::EFBIG)?;
            total_bytes = total_bytes.checked_add(region.len).ok_or(Errno::EINVAL)?;
        }
        if total_bytes > pvfs_layout::FILE_SIZE_MAX {
            return Err(Errno::EINVAL);
        }
        Ok(Self::List(list))
    }
}

impl Walk<'_> {
    /// What is left of the region under way, or the next one; never empty.
    pub fn current(&mut self) -> Option<Region> {
        while self.current.is_none() {
            let next = self.regions.next()?;
            self.current = (next.len > 0).then_some(next);
        }
        self.current
    }

    /// Goes `bytes` further, at most to the end of the region under way.
    pub fn advance(&mut self, bytes: u64) {
        let Some(Region { offset, len }) = self.current else { return };
        let rest = Region { offset: offset + bytes, len: len.saturating_sub(bytes) };
        self.current = (rest.len > 0).then_some(rest);
    }

    /// Of the next `bytes` bytes, how many lie before `end` of the file.
    pub fn bytes_before(&mut self, end: u64, mut bytes: u64) -> u64 {
        let mut before = 0;
        while bytes > 0
            && let Some(region) = self.current()
        {
            let here = region.len.min(bytes);
            before += end.saturating_sub(region.offset).min(here);
            self.advance(here);
            bytes -= here;
        }
        before
    }
}

impl Iterator for Iter<'_> {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        match self {
            Self::Regular(regions) => regions.next(),
            Self::List(regions) => regions.next().copied(),
        }
    }
}

/// The error number of an access that no file can have.
pub fn refusal(error: RegionError) -> Errno {
    match error {
        RegionError::TooFar => Errno::EFBIG,
        _ => Errno::EINVAL,
    }
}
