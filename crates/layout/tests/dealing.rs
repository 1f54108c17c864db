//! Every distribution against dealing bytes one by one, and its laws at every magnitude.

mod dealer;

use dealer::{any_dist, any_size, deal, small_dist};
use proptest::prelude::*;
use pvfs_layout::{Dist, DistError, Distribution, FILE_SIZE_MAX, Place, SLOTS_MAX, Strip};

const BYTES: u64 = 96;

/// The offsets each slot holds of the first `file_size` bytes, in the order of its object.
fn objects(dist: &Dist, file_size: u64) -> Vec<Vec<u64>> {
    let mut objects = vec![Vec::new(); dist.slots() as usize];
    for (offset, slot) in (0..file_size).zip(deal(dist)) {
        objects[slot as usize].push(offset);
    }
    objects
}

fn assert_agrees_with_dealing(dist: &Dist) {
    let objects = objects(dist, BYTES);
    for (slot, offsets) in (0..).zip(&objects) {
        for (local, offset) in (0..).zip(offsets) {
            assert_eq!(dist.file_offset(slot, local), Some(*offset), "{dist:?} {slot} {local}");
            assert_eq!(dist.locate(*offset), Place { slot, local }, "{dist:?} {offset}");
            assert_runs_on(dist, slot, local, offsets);
        }
        for end in 0..=BYTES {
            let before = offsets.iter().filter(|offset| **offset < end).count() as u64;
            assert_eq!(dist.bytes_before(slot, end), before, "{dist:?} {slot} {end}");
            for start in 0..=end {
                let local = dist.local_range(slot, start..end);
                let held = &offsets[local.start as usize..local.end as usize];
                let in_range = |offset: &u64| (start..end).contains(offset);
                assert!(held.iter().all(in_range), "{dist:?} {slot} {start}..{end}");
                assert_eq!(held.len(), offsets.iter().filter(|offset| in_range(offset)).count());
            }
        }
    }
}

/// The run from `local` on, as far as the model has been dealt, is side by side in the file.
fn assert_runs_on(dist: &Dist, slot: u32, local: u64, offsets: &[u64]) {
    let run = dist.contiguous_from(slot, local);
    assert!(run > 0);
    let rest = &offsets[local as usize..];
    for (step, offset) in (0..run).zip(rest) {
        assert_eq!(*offset, rest[0] + step, "{dist:?} slot {slot} local {local} run {run}");
    }
}

#[test]
fn every_small_simple_stripe_agrees_with_dealing() {
    for (ssize, slots) in (1..=5).flat_map(|ssize| (1..=5).map(move |slots| (ssize, slots))) {
        assert_agrees_with_dealing(&Dist::simple_stripe(ssize, slots).unwrap());
    }
}

#[test]
fn every_small_two_d_agrees_with_dealing() {
    for slots in 1..=5 {
        for groups in 1..=slots {
            for (factor, ssize) in (1..=3).flat_map(|f| (1..=3).map(move |s| (f, s))) {
                assert_agrees_with_dealing(&Dist::two_d(groups, factor, ssize, slots).unwrap());
            }
        }
    }
}

/// All lists of up to three strips of 1 to 3 bytes on up to three slots.
#[test]
fn every_small_varstrip_agrees_with_dealing() {
    let strips: Vec<Strip> =
        (0..3).flat_map(|slot| (1..4).map(move |size| Strip { slot, size })).collect();
    let mut lists: Vec<Vec<Strip>> = vec![vec![]];
    for _ in 0..3 {
        let longer: Vec<Vec<Strip>> = lists
            .iter()
            .flat_map(|list| strips.iter().map(|strip| [&list[..], &[*strip]].concat()))
            .collect();
        longer
            .iter()
            .filter_map(|list| Dist::varstrip(list.iter().copied()).ok())
            .for_each(|dist| assert_agrees_with_dealing(&dist));
        lists = longer;
    }
}

#[test]
fn basic_agrees_with_dealing() {
    assert_agrees_with_dealing(&Dist::basic());
}

#[test]
fn one_mebibyte_is_one_local_range_on_each_iod() {
    let dist = Dist::simple_stripe(64 << 10, 4).unwrap();
    for slot in 0..4 {
        let local = dist.local_range(slot, 4 << 20..5 << 20);
        assert_eq!(local, 1 << 20..(1 << 20) + (256 << 10));
    }
}

/// Table 1 and figure 1 of paper 000: three iods, 64 KiB.
#[test]
fn figure_1_of_the_pvfs_paper() {
    let dist = Dist::simple_stripe(65536, 3).unwrap();
    let slots: Vec<u32> = (0..7).map(|strip| dist.locate(strip * 65536).slot).collect();
    assert_eq!(slots, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn refuses_what_it_could_not_place() {
    assert_eq!(Dist::simple_stripe(0, 4), Err(DistError::EmptyStrip));
    assert_eq!(Dist::simple_stripe(4, 0), Err(DistError::NoSlots));
    assert_eq!(Dist::simple_stripe(1 << 62, 4), Err(DistError::TooLong));
    assert_eq!(Dist::simple_stripe(1, SLOTS_MAX + 1), Err(DistError::TooManySlots(65536)));
    assert_eq!(Dist::two_d(0, 1, 1, 1), Err(DistError::NoSlots));
    assert_eq!(Dist::two_d(1, 0, 1, 1), Err(DistError::EmptyStrip));
    assert_eq!(Dist::two_d(1, 1, 0, 1), Err(DistError::EmptyStrip));
    assert_eq!(Dist::two_d(1, u32::MAX, 1 << 40, 1), Err(DistError::TooLong));
    assert_eq!(Dist::two_d(3, 1, 1, 2), Err(DistError::TooManyGroups { groups: 3, slots: 2 }));
    let varstrip = |strips: &[(u32, u64)]| {
        Dist::varstrip(strips.iter().map(|(slot, size)| Strip { slot: *slot, size: *size }))
    };
    assert_eq!(varstrip(&[]), Err(DistError::NoSlots));
    assert_eq!(varstrip(&[(0, 1), (1, 0)]), Err(DistError::EmptyStrip));
    assert_eq!(varstrip(&[(0, 1), (2, 1)]), Err(DistError::SlotUnused(1)));
    assert_eq!(varstrip(&[(u32::MAX, 1)]), Err(DistError::SlotUnused(0)));
    assert_eq!(varstrip(&[(0, 1 << 62), (0, 1 << 62)]), Err(DistError::TooLong));
    assert_eq!(varstrip(&[(0, 1); 1025]), Err(DistError::TooManyStrips(1025)));
}

#[test]
fn a_slot_the_file_does_not_have_holds_nothing() {
    for dist in [
        Dist::simple_stripe(4, 3).unwrap(),
        Dist::two_d(2, 2, 4, 3).unwrap(),
        Dist::varstrip((0..3).map(|slot| Strip { slot, size: 4 })).unwrap(),
        Dist::basic(),
    ] {
        for slot in [3, 4, u32::MAX] {
            assert_eq!(dist.bytes_before(slot, 1000), 0);
            assert_eq!(dist.file_offset(slot, 0), None);
            assert_eq!(dist.file_end(slot, 1), None);
            assert!(dist.contiguous_from(slot, 5) > 0);
        }
    }
}

#[test]
fn an_impossible_local_size_is_said_to_be_so() {
    let dist = Dist::simple_stripe(1 << 20, 4).unwrap();
    assert_eq!(dist.file_size(&[1, u64::MAX, 0, 0]), None);
    assert_eq!(dist.file_size(&[0, 0, 0, 0, 1]), None);
    assert_eq!(dist.file_size(&[0, 0, 0, 0, 0]), Some(0));
    assert_eq!(dist.file_size(&[]), Some(0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_small_distributions_agree_with_dealing(dist in small_dist()) {
        assert_agrees_with_dealing(&dist);
    }

    /// A write that another iod has not seen yet leaves its object short.
    #[test]
    fn the_furthest_byte_decides_the_size(
        dist in small_dist(),
        written in prop::collection::vec(0..BYTES, 0..6),
    ) {
        let mut sizes = vec![0; dist.slots() as usize];
        for offset in &written {
            let Place { slot, local } = dist.locate(*offset);
            let size = &mut sizes[slot as usize];
            *size = local.max(*size - u64::from(*size > 0)) + 1;
        }
        let expected = written.iter().max().map_or(0, |offset| offset + 1);
        prop_assert_eq!(dist.file_size(&sizes), Some(expected));
    }

    /// Truncate cuts objects, growth only lengthens them (with zeros): the size is always the last
    /// one set, and what was cut is not where the grown file looks for old bytes.
    #[test]
    fn truncation_and_growth_give_the_size_asked_for(
        dist in any_dist(),
        sizes in prop::collection::vec(any_size().prop_map(|size| size.min(FILE_SIZE_MAX)), 1..6),
    ) {
        prop_assume!(dist.slots() <= 64);
        let mut before: Option<Vec<u64>> = None;
        let mut size_before = 0;
        for size in sizes {
            let locals: Vec<u64> =
                (0..dist.slots()).map(|slot| dist.local_size(slot, size)).collect();
            prop_assert_eq!(dist.file_size(&locals), Some(size));
            prop_assert_eq!(locals.iter().sum::<u64>(), size);
            for (now, then) in locals.iter().zip(before.iter().flatten()) {
                prop_assert!(now >= then || size < size_before);
            }
            (before, size_before) = (Some(locals), size);
        }
    }

    /// The laws that hold at any offset of any distribution.
    #[test]
    fn laws_hold_at_every_magnitude(dist in any_dist(), offset in any_size()) {
        let offset = offset.min(FILE_SIZE_MAX - 1);
        let Place { slot, local } = dist.locate(offset);
        prop_assert!(slot < dist.slots());
        prop_assert_eq!(dist.file_offset(slot, local), Some(offset));
        prop_assert_eq!(dist.local_range(slot, offset..offset + 1), local..local + 1);
        prop_assert_eq!(dist.file_end(slot, local + 1), Some(offset + 1));
        for other in (0..dist.slots()).rev().take(9).filter(|other| *other != slot) {
            prop_assert!(dist.local_range(other, offset..offset + 1).is_empty());
        }
        let run = dist.contiguous_from(slot, local).min(FILE_SIZE_MAX - offset);
        prop_assert!(run > 0);
        prop_assert_eq!(dist.file_offset(slot, local + run - 1), Some(offset + run - 1));
    }

    /// Whatever arrives from network or disk, nothing overflows (this build checks).
    #[test]
    fn no_argument_overflows(
        dist in any_dist(),
        slot in any::<u32>(),
        number in any_size(),
        other in any_size(),
    ) {
        for slot in [slot, slot % dist.slots(), dist.slots() - 1] {
            prop_assert!(dist.bytes_before(slot, number) <= number);
            prop_assert!(dist.file_offset(slot, number).is_none_or(|at| at < FILE_SIZE_MAX));
            prop_assert!(dist.file_end(slot, number).is_none_or(|at| at <= FILE_SIZE_MAX));
            prop_assert!(dist.contiguous_from(slot, number) > 0);
            dist.local_range(slot, number..other);
        }
        dist.locate(number);
    }

    #[test]
    fn slots_in_names_those_that_hold_something_once(
        dist in any_dist(),
        start in any_size(),
        len in any_size(),
    ) {
        prop_assume!(dist.slots() <= 64);
        let start = start.min(FILE_SIZE_MAX);
        let range = start..start.saturating_add(len).min(FILE_SIZE_MAX);
        let mut named: Vec<u32> = dist.slots_in(range.clone()).collect();
        if !range.is_empty() {
            prop_assert_eq!(named[0], dist.locate(start).slot);
        }
        named.sort_unstable();
        let expected: Vec<u32> = (0..dist.slots())
            .filter(|slot| !dist.local_range(*slot, range.clone()).is_empty())
            .collect();
        prop_assert_eq!(named, expected);
    }
}
