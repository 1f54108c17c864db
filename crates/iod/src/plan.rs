//! What a request touches of one object: pure arithmetic between the wire and the disk.
//!
//! A request names bytes of the *file*; the plan says which bytes of this iod's *object* they are, piece
//! after piece, in the order in which the data travel:
//!
//! ```text
//! regions of the file   |  #######      ####|         logical order: that of the regions
//! this slot's strips    |000   000   000   |
//! pieces of the object   [1..4]   [6..8]              their bytes are the message's data
//! local size                    ^7                    a read ends here: 3 + 1 bytes
//! ```

use std::ops::Range;

use pvfs_layout::{Dist, Distribution, FILE_SIZE_MAX, Intersection, Regions};
use pvfs_wire::Errno;

/// Bytes of the object that are side by side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Extent {
    /// Where in the object.
    pub local: u64,
    /// How many bytes; never none.
    pub bytes: u64,
}

/// The bytes of one object that a request touches, in the order in which they travel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan {
    extents: Vec<Extent>,
    total_bytes: u64,
}

impl Plan {
    /// Which bytes of the object of `slot` the `regions` of the file are. Refused with EINVAL when the
    /// file has no such slot or when they are more than one message carries.
    pub fn new(dist: &Dist, slot: u32, regions: &Regions) -> Result<Self, Errno> {
        check_slot(dist, slot)?;
        let extents: Vec<Extent> = match regions.as_contiguous() {
            Some(region) => {
                let local = dist.local_range(slot, region.offset..region.end());
                Extent::between(local.start, local.end).into_iter().collect()
            }
            None => Intersection::new(dist, slot, regions)
                .map(|piece| Extent { local: piece.local, bytes: piece.len })
                .collect(),
        };
        Self::of(extents)
    }

    fn of(extents: Vec<Extent>) -> Result<Self, Errno> {
        let total_bytes = extents.iter().map(|extent| extent.bytes).sum();
        if total_bytes > u64::from(pvfs_wire::DATA_BYTES_MAX) {
            return Err(Errno::EINVAL);
        }
        Ok(Self { extents, total_bytes })
    }

    /// The pieces, none empty, in the order in which their bytes travel.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The same as ranges of the object.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.extents.iter().map(|extent| extent.local..extent.local + extent.bytes)
    }

    /// How many bytes travel when no end of file is in the way.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Whether it is so many pieces that a reactor should not be kept with it, even in memory.
    pub fn is_long(&self) -> bool {
        self.extents.len() > EXTENTS_AT_ONCE_MAX
    }

    /// How many bytes a read of an object of `local_size` bytes returns: all up to the last one the object
    /// has. An access may go backwards, so pieces before that one may lie beyond the end: they are zeros.
    pub fn readable_bytes(&self, local_size: u64) -> u64 {
        let (mut before, mut readable) = (0, 0);
        for extent in &self.extents {
            let held = extent.held_bytes(local_size);
            readable = if held > 0 { before + held } else { readable };
            before += extent.bytes;
        }
        readable
    }
}

/// The part of the object of `slot` that is `bytes` bytes of the file from `offset` on; EFBIG when that is
/// beyond any file.
pub fn local_part(dist: &Dist, slot: u32, offset: u64, bytes: u64) -> Result<Range<u64>, Errno> {
    check_slot(dist, slot)?;
    let end = offset.checked_add(bytes).filter(|end| *end <= FILE_SIZE_MAX).ok_or(Errno::EFBIG)?;
    Ok(dist.local_range(slot, offset..end))
}

/// The size of the object of `slot` when its file is cut or extended to `size`.
pub fn truncated_size(dist: &Dist, slot: u32, size: u64) -> Result<u64, Errno> {
    check_slot(dist, slot)?;
    if size > FILE_SIZE_MAX { Err(Errno::EFBIG) } else { Ok(dist.local_size(slot, size)) }
}

impl Extent {
    /// How many of the bytes, from the first on, an object of `local_size` bytes has.
    pub fn held_bytes(&self, local_size: u64) -> u64 {
        local_size.saturating_sub(self.local).min(self.bytes)
    }

    fn between(start: u64, end: u64) -> Option<Self> {
        (start < end).then(|| Self { local: start, bytes: end - start })
    }
}

fn check_slot(dist: &Dist, slot: u32) -> Result<(), Errno> {
    if slot < dist.slots() { Ok(()) } else { Err(Errno::EINVAL) }
}

/// A system call each, half a microsecond or so.
const EXTENTS_AT_ONCE_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pvfs_layout::{Level, Region};

    /// The locals of the bytes of `regions` on `slot`, one by one.
    fn dealt(dist: &Dist, slot: u32, regions: &Regions) -> Vec<u64> {
        let offsets = regions.iter().flat_map(|region| region.offset..region.end());
        let places = offsets.map(|offset| dist.locate(offset));
        places.filter(|place| place.slot == slot).map(|place| place.local).collect()
    }

    fn locals(extents: impl IntoIterator<Item = Extent>) -> Vec<u64> {
        extents.into_iter().flat_map(|extent| extent.local..extent.local + extent.bytes).collect()
    }

    fn dists() -> impl Strategy<Value = Dist> {
        prop_oneof![
            (1u64..9, 1u32..6).prop_map(|(ssize, slots)| Dist::simple_stripe(ssize, slots)),
            (1u32..3, 1u32..4, 1u64..5).prop_map(|(groups, factor, ssize)| {
                Dist::two_d(groups, factor, ssize, groups * 2)
            }),
            Just(Ok(Dist::basic())),
        ]
        .prop_map(|dist| dist.unwrap())
    }

    fn accesses() -> impl Strategy<Value = Regions> {
        let region = (0u64..200, 0u64..40).prop_map(|(offset, len)| Region { offset, len });
        let level = (0u64..50, 0u64..5).prop_map(|(stride, count)| Level { stride, count });
        prop_oneof![
            (0u64..200, 0u64..300).prop_map(|(offset, len)| Regions::contiguous(offset, len)),
            prop::collection::vec(region, 0..8).prop_map(Regions::list),
            (0u64..100, 0u64..20, prop::collection::vec(level, 0..3))
                .prop_map(|(offset, block, levels)| Regions::strided(offset, block, &levels)),
        ]
        .prop_map(|regions| regions.unwrap())
    }

    proptest! {
        #[test]
        fn a_plan_is_the_bytes_dealt_to_the_slot_in_logical_order(dist in dists(), regions in accesses()) {
            for slot in 0..dist.slots() {
                let plan = Plan::new(&dist, slot, &regions).unwrap();
                let expected = dealt(&dist, slot, &regions);
                prop_assert_eq!(plan.total_bytes(), expected.len() as u64);
                prop_assert!(plan.extents().iter().all(|extent| extent.bytes > 0));
                prop_assert_eq!(locals(plan.extents().iter().copied()), expected);
            }
        }

        #[test]
        fn a_read_ends_with_the_last_byte_the_object_has(
            dist in dists(), regions in accesses(), local_size in 0u64..150,
        ) {
            for slot in 0..dist.slots() {
                let plan = Plan::new(&dist, slot, &regions).unwrap();
                let dealt = dealt(&dist, slot, &regions);
                let last = dealt.iter().rposition(|local| *local < local_size);
                prop_assert_eq!(plan.readable_bytes(local_size), last.map_or(0, |at| at as u64 + 1));
            }
        }

        #[test]
        fn a_truncated_file_has_exactly_its_bytes(dist in dists(), size in 0u64..400) {
            let sizes: Vec<u64> = (0..dist.slots())
                .map(|slot| truncated_size(&dist, slot, size).unwrap())
                .collect();
            prop_assert_eq!(sizes.iter().sum::<u64>(), size);
            prop_assert_eq!(dist.file_size(&sizes), Some(size));
        }
    }

    #[test]
    fn a_slot_the_file_does_not_have_is_refused() {
        let dist = Dist::simple_stripe(4, 3).unwrap();
        let regions = Regions::contiguous(0, 10).unwrap();
        assert_eq!(Plan::new(&dist, 3, &regions), Err(Errno::EINVAL));
        assert_eq!(truncated_size(&dist, 3, 10), Err(Errno::EINVAL));
    }

    #[test]
    fn more_than_one_message_carries_is_refused_whatever_its_shape() {
        let dist = Dist::basic();
        let limit = u64::from(pvfs_wire::DATA_BYTES_MAX);
        assert!(Plan::new(&dist, 0, &Regions::contiguous(7, limit).unwrap()).is_ok());
        let long = Regions::contiguous(7, limit + 1).unwrap();
        assert_eq!(Plan::new(&dist, 0, &long), Err(Errno::EINVAL));
        let far = Regions::contiguous(0, FILE_SIZE_MAX).unwrap();
        assert_eq!(Plan::new(&dist, 0, &far), Err(Errno::EINVAL));
        let again = Level { stride: 0, count: limit + 1 };
        let overlapping = Regions::strided(0, 1, &[again]).unwrap();
        assert_eq!(Plan::new(&dist, 0, &overlapping), Err(Errno::EINVAL));
    }

    #[test]
    fn a_file_larger_than_any_is_refused() {
        let dist = Dist::basic();
        assert_eq!(truncated_size(&dist, 0, FILE_SIZE_MAX), Ok(FILE_SIZE_MAX));
        assert_eq!(truncated_size(&dist, 0, FILE_SIZE_MAX + 1), Err(Errno::EFBIG));
    }
}
