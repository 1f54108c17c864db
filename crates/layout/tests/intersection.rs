//! What client and iod walk, against looking up every byte of the stream by hand.

mod dealer;

use dealer::{Access, any_dist, any_size, deal, round_bytes, small_access, small_dist};
use proptest::prelude::*;
use pvfs_layout::{
    Dist, Distribution, FILE_SIZE_MAX, Intersection, Level, Piece, Regions, StreamPiece,
    StreamPieces, bytes_on_slot,
};

/// For every byte of the access that is on `slot`, in order: its place in the stream and in the
/// object.
fn by_hand(dist: &Dist, slot: u32, access: &Access) -> Vec<(u64, u64)> {
    let offsets = access.offsets();
    let file_size = offsets.iter().max().map_or(0, |offset| offset + 1);
    let owners: Vec<u32> = deal(dist).take(file_size as usize).collect();
    let mut next_local = vec![0; dist.slots() as usize];
    let places: Vec<(u32, u64)> = owners
        .iter()
        .map(|owner| {
            let next = &mut next_local[*owner as usize];
            *next += 1;
            (*owner, *next - 1)
        })
        .collect();
    (0..)
        .zip(&offsets)
        .map(|(position, offset)| (position, places[*offset as usize]))
        .filter(|(_, (owner, _))| *owner == slot)
        .map(|(position, (_, local))| (position, local))
        .collect()
}

/// Longest runs in which each number is one more than that before it.
fn runs(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((start, len)) if *start + *len == *number => *len += 1,
            _ => runs.push((*number, 1)),
        }
    }
    runs
}

fn assert_agrees_by_hand(dist: &Dist, access: &Access) {
    let regions = access.regions();
    for slot in 0..=dist.slots() {
        let (positions, locals): (Vec<u64>, Vec<u64>) =
            by_hand(dist, slot, access).into_iter().unzip();
        assert_eq!(bytes_on_slot(dist, slot, &regions), locals.len() as u64);

        let pieces: Vec<Piece> = Intersection::new(dist, slot, &regions).collect();
        let local_runs: Vec<(u64, u64)> =
            pieces.iter().map(|piece| (piece.local, piece.len)).collect();
        assert_eq!(local_runs, runs(&locals), "{dist:?} slot {slot} {access:?}");
        let mut index = 0;
        for piece in &pieces {
            assert_eq!(piece.position, positions[index], "{dist:?} slot {slot} {access:?}");
            index += piece.len as usize;
        }

        let stream: Vec<(u64, u64)> = StreamPieces::new(dist, slot, &regions)
            .map(|StreamPiece { position, len }| (position, len))
            .collect();
        assert_eq!(stream, runs(&positions), "{dist:?} slot {slot} {access:?}");
    }
}

fn every_small_dist() -> Vec<Dist> {
    let mut dists = vec![Dist::basic()];
    for slots in 1..=3 {
        dists.extend((1..=3).map(|ssize| Dist::simple_stripe(ssize, slots).unwrap()));
        for groups in 1..=slots {
            dists.push(Dist::two_d(groups, 2, 2, slots).unwrap());
        }
    }
    for text in ["varstrip:0=1,1=3,0=2", "varstrip:1=2,0=1,0=1,2=3"] {
        let scheme: pvfs_layout::Scheme = text.parse().unwrap();
        dists.push(scheme.over(3).unwrap());
    }
    dists
}

#[test]
fn every_small_contiguous_access() {
    for dist in every_small_dist() {
        for start in 0..13 {
            for len in 0..26 {
                assert_agrees_by_hand(&dist, &Access::Contiguous(start, len));
            }
        }
    }
}

#[test]
fn every_small_strided_access() {
    for dist in every_small_dist() {
        for (offset, block) in (0..5).flat_map(|offset| (1..4).map(move |block| (offset, block))) {
            for (stride, count) in (0..14).flat_map(|stride| (1..9).map(move |n| (stride, n))) {
                assert_agrees_by_hand(
                    &dist,
                    &Access::Strided(offset, block, vec![(stride, count)]),
                );
            }
        }
    }
}

/// The drawing at the head of the module.
#[test]
fn one_read_of_the_object_is_scattered_to_two_places_in_memory() {
    let dist = Dist::simple_stripe(4, 3).unwrap();
    let regions = Regions::strided(2, 8, &[Level { stride: 12, count: 2 }]).unwrap();
    let pieces: Vec<Piece> = Intersection::new(&dist, 1, &regions).collect();
    assert_eq!(pieces, [Piece { local: 0, len: 8, position: 2 }]);
    let stream: Vec<StreamPiece> = StreamPieces::new(&dist, 1, &regions).collect();
    let piece = |position| StreamPiece { position, len: 4 };
    assert_eq!(stream, [piece(2), piece(10)]);
}

#[test]
fn a_contiguous_access_is_one_piece_however_long() {
    let dist = Dist::simple_stripe(1, 3).unwrap();
    let regions = Regions::contiguous(1, FILE_SIZE_MAX - 1).unwrap();
    let pieces: Vec<Piece> = Intersection::new(&dist, 0, &regions).collect();
    assert_eq!(pieces, [Piece { local: 1, len: (FILE_SIZE_MAX - 1) / 3, position: 2 }]);
}

/// 2^40 blocks of 8 bytes every 16: a strip holds 2^26 of them, and the strips of the other
/// slots are jumped over. Without jumping this test would not end.
#[test]
fn small_blocks_on_other_slots_are_skipped() {
    let dist = Dist::simple_stripe(1 << 30, 1000).unwrap();
    let regions = Regions::strided(0, 8, &[Level { stride: 16, count: 1 << 40 }]).unwrap();
    let first = Intersection::new(&dist, 999, &regions).next().unwrap();
    assert_eq!(first, Piece { local: 0, len: 8, position: 999 << 29 });
    assert_eq!(Intersection::new(&dist, 1000, &regions).next(), None);
}

#[test]
fn a_request_may_own_its_iterator() {
    let dist = Dist::simple_stripe(4, 2).unwrap();
    let regions = Regions::contiguous(0, 8).unwrap();
    let owned: Intersection<Dist, Regions> = Intersection::new(dist, 1, regions);
    assert_eq!(owned.map(|piece| piece.len).sum::<u64>(), 4);
}

/// As at the boundary of two slots at the very end of the largest file.
#[test]
fn the_last_bytes_of_the_largest_file_are_found() {
    for slots in 1..=7 {
        let dist = Dist::simple_stripe(3, slots).unwrap();
        let regions = Regions::contiguous(FILE_SIZE_MAX - 10, 10).unwrap();
        let bytes: u64 = (0..slots).map(|slot| bytes_on_slot(&dist, slot, &regions)).sum();
        assert_eq!(bytes, 10);
        for slot in 0..slots {
            for piece in Intersection::new(&dist, slot, &regions) {
                let offset = dist.file_offset(slot, piece.local).unwrap();
                assert_eq!(offset, FILE_SIZE_MAX - 10 + piece.position);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn random_accesses_agree_with_looking_up_every_byte(
        dist in small_dist(),
        access in small_access(),
    ) {
        assert_agrees_by_hand(&dist, &access);
    }

    /// Moving an access by whole rounds of dealing moves its pieces and changes nothing else, up to
    /// the end of the largest file.
    #[test]
    fn huge_offsets_are_as_small_ones(
        dist in small_dist(),
        access in small_access(),
        far in any_size(),
    ) {
        let room = FILE_SIZE_MAX - access.end();
        let round = round_bytes(&dist);
        let rounds = far.min(room) / round;
        let moved = access.moved(rounds * round).regions();
        for slot in 0..dist.slots() {
            let by = rounds * dist.bytes_before(slot, round);
            let expected: Vec<Piece> = Intersection::new(&dist, slot, &access.regions())
                .map(|piece| Piece { local: piece.local + by, ..piece })
                .collect();
            let actual: Vec<Piece> = Intersection::new(&dist, slot, &moved).collect();
            prop_assert_eq!(actual, expected);
        }
    }

    /// The slots share every access among them; nothing is lost or held twice.
    #[test]
    fn slots_share_all_bytes(dist in any_dist(), offset in any_size(), len in any_size()) {
        prop_assume!(dist.slots() <= 64);
        let offset = offset.min(FILE_SIZE_MAX);
        let regions = Regions::contiguous(offset, len.min(FILE_SIZE_MAX - offset)).unwrap();
        let bytes: u64 = (0..dist.slots()).map(|slot| bytes_on_slot(&dist, slot, &regions)).sum();
        prop_assert_eq!(bytes, regions.total_bytes());
    }
}
