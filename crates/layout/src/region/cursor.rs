//! Walking the regions of an access in the order of its stream, one at a time, without memory.

use super::{Region, Regions, Shape};
use crate::join::{Join, Joined};

/// Where a walk is. It does not hold the access, which must be the same one in every call, so that
/// a request may own both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    /// Bytes of the stream behind us.
    position: u64,
    /// Entries of a list behind us.
    index: usize,
}

impl Cursor {
    /// The next region as described (strided ones block by block), and its position in the stream.
    pub(crate) fn next(&mut self, regions: &Regions) -> Option<(u64, Region)> {
        if self.position >= regions.total_bytes() {
            return None;
        }
        let region = match &regions.0 {
            Shape::Contiguous(region) => *region,
            Shape::Strided(strided) => strided.region_at(strided.start + self.position),
            Shape::List(list) => *list.regions.get(self.index)?,
        };
        let position = self.position;
        self.position += region.len;
        self.index += 1;
        Some((position, region))
    }

    /// Skips regions that end at or below offset `until`, as far as arithmetic can tell without
    /// looking at each and offsets are known to rise from the region yielded last.
    pub(crate) fn skip_below(&mut self, regions: &Regions, until: u64) {
        if let Shape::Strided(strided) = &regions.0 {
            let blocks = strided.blocks_below(strided.start + self.position, until);
            self.position += blocks * strided.block;
        }
    }
}

/// The regions of an access in the order of its stream, adjacent ones joined.
/// See [`Regions::iter`].
#[derive(Clone, Debug)]
pub struct RegionIter<'a>(Joined<Walk<'a>>);

#[derive(Clone, Debug)]
struct Walk<'a> {
    regions: &'a Regions,
    cursor: Cursor,
}

impl<'a> RegionIter<'a> {
    pub(super) fn new(regions: &'a Regions) -> Self {
        Self(Joined::new(Walk { regions, cursor: Cursor::default() }))
    }
}

impl Iterator for RegionIter<'_> {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        self.0.next()
    }
}

impl Iterator for Walk<'_> {
    type Item = Region;

    fn next(&mut self) -> Option<Region> {
        self.cursor.next(self.regions).map(|(_, region)| region)
    }
}

impl Join for Region {
    fn join(&mut self, next: &Self) -> bool {
        let continues = self.end() == next.offset;
        if continues {
            self.len += next.len;
        }
        continues
    }
}
