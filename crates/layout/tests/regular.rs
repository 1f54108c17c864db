//! Regular lists are seen as what they are, and nothing else is.

use proptest::prelude::*;
use pvfs_layout::{FILE_SIZE_MAX, Level, Region, RegionError, Regions};

fn region(offset: u64, len: u64) -> Region {
    Region { offset, len }
}

/// The blocks of nested loops, none joined, the last `left_out` left out.
fn blocks(offset: u64, len: u64, levels: &[Level], left_out: usize) -> Vec<Region> {
    let mut blocks = vec![region(offset, len)];
    for level in levels {
        let inner = blocks.clone();
        let rounds = (0..level.count).flat_map(|round| {
            inner.iter().map(move |block| region(block.offset + round * level.stride, block.len))
        });
        blocks = rounds.collect();
    }
    blocks.truncate(blocks.len().saturating_sub(left_out).max(1));
    blocks
}

/// Strides so wide that no two blocks touch.
fn wide_levels() -> impl Strategy<Value = (u64, Vec<Level>)> {
    (1u64..9, prop::collection::vec((1u64..20, 2u64..5), 0..5)).prop_map(|(len, steps)| {
        let mut extent = len;
        let levels = steps.into_iter().map(|(gap, count)| {
            let stride = extent + gap;
            extent += stride * (count - 1);
            Level { stride, count }
        });
        (len, levels.collect())
    })
}

proptest! {
    #[test]
    fn what_is_said_shorter_is_the_same_regions_in_the_same_order(
        list in prop::collection::vec((0u64..60, 0u64..4), 0..12),
    ) {
        let list: Vec<Region> = list.into_iter().map(|(offset, len)| region(offset, len)).collect();
        if let Some(regular) = Regions::regular(&list).unwrap() {
            let listed = Regions::list(list.iter().copied()).unwrap();
            prop_assert_eq!(regular.iter().collect::<Vec<_>>(), listed.iter().collect::<Vec<_>>());
            prop_assert_eq!(regular.total_bytes(), listed.total_bytes());
            prop_assert_eq!(regular.end_offset(), listed.end_offset());
            prop_assert!(regular.as_list().is_none());
        }
    }

    #[test]
    fn four_nested_strides_are_seen_also_when_the_last_round_is_cut_short(
        (len, levels) in wide_levels(), offset in 0u64..100, left_out in 0usize..7,
    ) {
        let blocks = blocks(offset, len, &levels, left_out);
        let seen = Regions::regular(&blocks).unwrap();
        // Fewer are needed where a level folds into another.
        prop_assert!(seen.is_some() || levels.len() > 4, "{levels:?}");
        if let Some(seen) = seen {
            prop_assert_eq!(seen.iter().collect::<Vec<_>>(), blocks);
        }
    }
}

#[test]
fn a_column_of_a_large_array_is_a_few_words() {
    let column: Vec<Region> = (0..500_000).map(|row| region(row * 8192 + 640, 64)).collect();
    let seen = Regions::regular(&column).unwrap().unwrap();
    let mut words = Vec::new();
    seen.encode(&mut words);
    assert!(words.len() < 64, "{} bytes", words.len());
    assert_eq!(seen.total_bytes(), 64 * 500_000);
    assert!(seen.iter().eq(column));
}

#[test]
fn adjacent_pieces_of_any_sizes_are_one_region() {
    let pieces = [region(5, 3), region(8, 1), region(9, 0), region(9, 10)];
    let seen = Regions::regular(&pieces).unwrap().unwrap();
    assert_eq!(seen.as_contiguous(), Some(region(5, 14)));
    assert_eq!(Regions::regular(&[]).unwrap().unwrap().total_bytes(), 0);
}

#[test]
fn what_is_not_regular_stays_a_list() {
    let sizes = [region(0, 1), region(10, 2)];
    let backwards = [region(10, 1), region(0, 1)];
    let broken_round = [region(0, 1), region(10, 1), region(100, 1), region(107, 1)];
    for list in [&sizes[..], &backwards, &broken_round] {
        assert_eq!(Regions::regular(list).unwrap(), None);
        let listed = Regions::list(list.iter().copied()).unwrap();
        assert_eq!(listed.as_list(), Some(list));
    }
}

#[test]
fn regions_no_file_can_have_are_refused() {
    let far = [region(0, 1), region(FILE_SIZE_MAX, 1)];
    assert_eq!(Regions::regular(&far), Err(RegionError::TooFar));
    assert_eq!(Regions::regular(&[region(u64::MAX, 2)]), Err(RegionError::TooFar));
    let half = FILE_SIZE_MAX / 2 + 1;
    assert_eq!(Regions::regular(&[region(0, half), region(0, half)]), Err(RegionError::TooLong));
}
