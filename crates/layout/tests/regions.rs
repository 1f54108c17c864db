//! Accesses against walking them byte by byte.

mod dealer;

use dealer::{Access, any_size, levels_of, small_access};
use proptest::prelude::*;
use pvfs_layout::{FILE_SIZE_MAX, Level, Partition, Region, RegionError, Regions};

/// Longest runs of offsets that are side by side.
fn joined(offsets: &[u64]) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for offset in offsets {
        match regions.last_mut() {
            Some(last) if last.end() == *offset => last.len += 1,
            _ => regions.push(Region { offset: *offset, len: 1 }),
        }
    }
    regions
}

fn assert_is(regions: &Regions, offsets: &[u64]) {
    let expected = joined(offsets);
    assert_eq!(regions.iter().collect::<Vec<Region>>(), expected, "{regions:?}");
    assert_eq!(regions.total_bytes(), offsets.len() as u64, "{regions:?}");
    let end = offsets.iter().max().map_or(0, |offset| offset + 1);
    assert_eq!(regions.end_offset(), end, "{regions:?}");
    assert!(regions.region_count_max() >= expected.len() as u64, "{regions:?}");
}

#[test]
fn every_small_nested_stride_is_as_loops_would_walk_it() {
    let levels: Vec<(u64, u64)> =
        (0..10).flat_map(|stride| (0..4).map(move |count| (stride, count))).collect();
    for block in 0..4 {
        for inner in &levels {
            for outer in &levels {
                let access = Access::Strided(3, block, vec![*inner, *outer]);
                assert_is(&access.regions(), &access.offsets());
            }
        }
    }
}

/// PVFS 1's reader sees the groups as if they lay end to end.
#[test]
fn every_small_partition_is_read_as_pvfs_1_did() {
    for (gsize, stride) in (1..4).flat_map(|gsize| (1..7).map(move |stride| (gsize, stride))) {
        for (ngroups, gstride) in [(0, 0), (1, 9), (2, 13), (3, 0), (0, 5), (3, 17)] {
            let partition = Partition { offset: 5, gsize, stride, gstride, ngroups };
            let nested = ngroups > 0 && gstride > 0;
            let view: Vec<u64> = (0..40)
                .flat_map(|group| {
                    let start = match nested {
                        true => group / ngroups * gstride + group % ngroups * stride,
                        false => group * stride,
                    };
                    5 + start..5 + start + gsize
                })
                .collect();
            for (position, len) in (0..12).flat_map(|at| (0..25).map(move |len| (at, len))) {
                let regions = Regions::partition(&partition, position, len).unwrap();
                assert_is(&regions, &view[position as usize..(position + len) as usize]);
            }
        }
    }
}

#[test]
fn a_billion_blocks_cost_no_more_than_one() {
    let regions = Regions::strided(
        1,
        8,
        &[Level { stride: 24, count: 1000 }, Level { stride: 40_000, count: 1_000_000 }],
    )
    .unwrap();
    assert_eq!(regions.region_count_max(), 1_000_000_000);
    assert_eq!(regions.total_bytes(), 8_000_000_000);
    assert_eq!(regions.end_offset(), 1 + 999 * 24 + 999_999 * 40_000 + 8);
    let mut middle = regions.slice(4_000_000_004..4_000_000_010).iter().collect::<Vec<Region>>();
    assert_eq!(middle.pop(), Some(Region { offset: 1 + 500_000 * 40_000 + 24, len: 2 }));
    assert_eq!(middle.pop(), Some(Region { offset: 1 + 500_000 * 40_000 + 4, len: 4 }));
    let mut bytes = Vec::new();
    regions.encode(&mut bytes);
    assert!(bytes.len() < 80);
}

/// Blocks that touch are one region, without looking at each.
#[test]
fn strides_without_gaps_fold_into_one_region() {
    let levels = [Level { stride: 8, count: 1 << 30 }, Level { stride: 8 << 30, count: 1 << 20 }];
    let regions = Regions::strided(16, 8, &levels).unwrap();
    assert_eq!(regions.as_contiguous(), Some(Region { offset: 16, len: 8 << 50 }));
}

/// Levels that only repeat once, or go on where the one inside them ends, say nothing.
#[test]
fn one_access_has_one_description() {
    let strided = |levels: &[(u64, u64)]| Regions::strided(0, 4, &levels_of(levels)).unwrap();
    let plain = strided(&[(8, 12)]);
    assert_eq!(strided(&[(8, 4), (32, 3)]), plain);
    assert_eq!(strided(&[(99, 1), (8, 12), (5, 1)]), plain);
    assert_eq!(strided(&[(4, 1), (8, 6), (48, 2), (7, 1)]), plain);
    assert_eq!(strided(&[(8, 1)]), Regions::contiguous(0, 4).unwrap());
}

/// A column of a matrix at a time: each outer step goes back to the first row.
#[test]
fn an_outer_stride_may_go_backwards() {
    let regions =
        Regions::strided(0, 4, &[Level { stride: 100, count: 3 }, Level { stride: 4, count: 2 }])
            .unwrap();
    let offsets: Vec<u64> = regions.iter().map(|region| region.offset).collect();
    assert_eq!(offsets, [0, 100, 200, 4, 104, 204]);
    assert_eq!(regions.slice(0..16).end_offset(), 204);
}

#[test]
fn refuses_what_no_file_can_have() {
    let max = FILE_SIZE_MAX;
    assert!(Regions::contiguous(max, 0).is_ok());
    assert_eq!(Regions::contiguous(max, 1), Err(RegionError::TooFar));
    assert_eq!(Regions::contiguous(u64::MAX, u64::MAX), Err(RegionError::TooFar));
    let strided = |offset, block, levels: &[(u64, u64)]| {
        Regions::strided(offset, block, &levels_of(levels)).map(|_| ())
    };
    assert_eq!(strided(0, 1, &[(max - 1, 2)]), Ok(()));
    assert_eq!(strided(0, 1, &[(max, 2)]), Err(RegionError::TooFar));
    assert_eq!(strided(0, 1, &[(u64::MAX, 3)]), Err(RegionError::TooFar));
    assert_eq!(strided(0, 1, &[(1 << 32, 1 << 32)]), Err(RegionError::TooFar));
    assert_eq!(strided(0, 2, &[(0, 1 << 62)]), Err(RegionError::TooLong));
    assert_eq!(strided(0, 2, &[(0, 1 << 63)]), Err(RegionError::TooLong));
    assert_eq!(strided(0, 0, &[(0, u64::MAX), (1, u64::MAX)]), Ok(()));
    assert_eq!(strided(0, 1, &[(2, 2); 5]), Err(RegionError::TooDeep(5)));
    let whole = Region { offset: 0, len: max };
    assert_eq!(Regions::list([whole, whole]), Err(RegionError::TooLong));
    assert_eq!(Regions::list([Region { offset: max, len: 1 }]), Err(RegionError::TooFar));
    let empty_groups = Partition { offset: 0, gsize: 0, stride: 8, ..Partition::default() };
    assert_eq!(Regions::partition(&empty_groups, 0, 1), Err(RegionError::OutsideStream));
}

/// Only the bytes that are meant must exist, not all of the last group.
#[test]
fn a_partition_may_end_in_the_middle_of_a_group_at_the_end_of_the_largest_file() {
    let offset = FILE_SIZE_MAX - 12;
    let partition = Partition { offset, gsize: 5, stride: 10, ..Partition::default() };
    let regions = Regions::partition(&partition, 0, 7).unwrap();
    assert_eq!(regions.end_offset(), FILE_SIZE_MAX);
    assert_eq!(Regions::partition(&partition, 0, 8), Err(RegionError::TooFar));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn every_access_is_as_its_bytes(access in small_access()) {
        assert_is(&access.regions(), &access.offsets());
    }

    /// Cutting a large access into requests gives the bytes in between, also when cut again.
    #[test]
    fn a_slice_is_that_part_of_the_stream(
        access in small_access(),
        (a, b, c, d) in (0usize..80, 0usize..80, 0usize..80, 0usize..80),
    ) {
        let offsets = access.offsets();
        let cut = |offsets: &[u64], a: usize, b: usize| -> Vec<u64> {
            offsets.iter().skip(a.min(b)).take(a.abs_diff(b)).copied().collect()
        };
        let once = access.regions().slice(a.min(b) as u64..a.max(b) as u64);
        let once_by_hand = cut(&offsets, a, b);
        assert_is(&once, &once_by_hand);
        let twice = once.slice(c.min(d) as u64..c.max(d) as u64);
        assert_is(&twice, &cut(&once_by_hand, c, d));
    }

    /// Whatever numbers arrive, a refusal or a walk, but no overflow (this build checks).
    #[test]
    fn no_argument_overflows(
        offset in any_size(),
        block in any_size(),
        levels in prop::collection::vec((any_size(), any_size()), 0..5),
        (start, end) in (any_size(), any_size()),
        partition in (any_size(), any_size(), any_size(), any_size(), any_size()),
    ) {
        for regions in [
            Regions::strided(offset, block, &levels_of(&levels)),
            Regions::contiguous(offset, block),
            Regions::list(levels.iter().map(|(offset, len)| Region { offset: *offset, len: *len })),
            Regions::partition(
                &Partition {
                    offset: partition.0,
                    gsize: partition.1,
                    stride: partition.2,
                    gstride: partition.3,
                    ngroups: partition.4,
                },
                start,
                end,
            ),
        ].into_iter().flatten() {
            let part = regions.slice(start..end);
            prop_assert!(part.end_offset() <= regions.end_offset());
            prop_assert!(regions.end_offset() <= FILE_SIZE_MAX);
            prop_assert!(part.total_bytes() <= regions.total_bytes());
            for region in part.iter().chain(&regions).take(40) {
                prop_assert!(region.end() <= regions.end_offset());
            }
        }
    }
}
