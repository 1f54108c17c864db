//! A noncontiguous access and the caller's memory, dealt to slots together, in parts of bounded size.
//!
//! ```text
//! access    | aaaa  bbbb  cccc |        regions in the order of the stream
//! file      |0000111122220000111|       whose byte each is
//! memory    [m1..][m2.........]         any slices, as long in all
//!
//! slot 0    regions a, c; pieces m1, m2      one request
//! slot 1    regions a, b; pieces m1          one request
//! ```
//!
//! One pass over the regions, which looks at each strip once. A part ends where some slot has as many bytes or
//! regions as one request carries, so that an access takes one request per iod unless it is longer than that.

use std::iter;
use std::ops::Range;

use pvfs_layout::{Dist, Distribution, Region, Regions};

use super::access::{Access, Walk};
use super::memory::Memory;

/// What one request carries at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of data.
    pub bytes_max: u64,
    /// Regions.
    pub regions_max: usize,
}

/// Deals an access part by part.
pub struct Dealer<'a, M> {
    dist: &'a Dist,
    access: &'a Access<'a>,
    walk: Walk<'a>,
    /// Bytes of the stream behind us.
    position: u64,
    memory: M,
    limits: Limits,
    /// The share of each slot in the part under way.
    places: Vec<Option<usize>>,
}

/// Part of an access: one request for each of its shares.
pub struct Part<'a, P> {
    /// What each slot holds of it.
    pub shares: Vec<Share<P>>,
    /// Bytes in all.
    pub bytes: u64,
    /// The first offset of the file after all bytes.
    pub end: u64,
    /// Where the part begins.
    start: Walk<'a>,
}

/// What one slot holds of a part.
pub struct Share<P> {
    /// The slot.
    pub slot: u32,
    /// The regions to tell its iod.
    pub regions: Regions,
    /// The memory, in the order of the stream.
    pub pieces: Vec<P>,
    /// Bytes in all.
    pub bytes: u64,
    /// The regions so far, where they are to be listed; each from this slot's first byte to its last.
    listed: Vec<Region>,
    /// The number of the region that the last one listed is of.
    last_region: u64,
}

/// Bytes of the stream that go to one share, not yet cut from memory: as few pieces as possible.
#[derive(Default)]
struct Run {
    share: usize,
    bytes: u64,
}

impl<'a, M: Memory> Dealer<'a, M> {
    /// `memory` must be as long as the access.
    pub fn new(dist: &'a Dist, access: &'a Access<'a>, memory: M, limits: Limits) -> Self {
        let places = vec![None; dist.slots() as usize];
        Self { dist, access, walk: access.walk(), position: 0, memory, limits, places }
    }

    /// The next part; none when all is dealt.
    pub fn next_part(&mut self) -> Option<Part<'a, M::Piece>> {
        self.walk.current()?;
        let mut part = Part { shares: Vec::new(), bytes: 0, end: 0, start: self.walk.clone() };
        let mut run = Run::default();
        let mut regions = 0;
        while let Some(region) = self.walk.current() {
            regions += 1;
            if self.is_regular() && regions > self.limits.regions_max as u64 {
                break;
            }
            let dealt = self.deal_region(region, regions, &mut part, &mut run);
            self.walk.advance(dealt);
            part.bytes += dealt;
            part.end = part.end.max(region.offset + dealt);
            if dealt < region.len {
                break;
            }
        }
        self.cut(&mut part, run);
        self.describe(&mut part);
        self.position += part.bytes;
        Some(part)
    }

    fn is_regular(&self) -> bool {
        matches!(self.access, Access::Regular(_))
    }

    /// Deals a region strip by strip, as far as there is room; returns how far that was.
    fn deal_region(
        &mut self,
        region: Region,
        number: u64,
        part: &mut Part<'a, M::Piece>,
        run: &mut Run,
    ) -> u64 {
        let mut dealt = 0;
        while dealt < region.len {
            let offset = region.offset + dealt;
            let place = self.dist.locate(offset);
            let strip = self.dist.contiguous_from(place.slot, place.local).min(region.len - dealt);
            let at = self.share_of(place.slot, part);
            let share = &mut part.shares[at];
            let taken = strip.min(self.limits.bytes_max - share.bytes);
            if taken == 0 || !self.list(share, number, Region { offset, len: taken }) {
                break;
            }
            share.bytes += taken;
            if run.share != at {
                let before = std::mem::replace(run, Run { share: at, bytes: 0 });
                self.cut(part, before);
            }
            run.bytes += taken;
            dealt += taken;
            if taken < strip {
                break;
            }
        }
        dealt
    }

    /// Notes the bytes of a region for the share's list; false when that is full.
    fn list(&self, share: &mut Share<M::Piece>, number: u64, bytes: Region) -> bool {
        if self.is_regular() {
            return true;
        }
        let full = share.listed.len() == self.limits.regions_max;
        match share.listed.last_mut() {
            Some(last) if share.last_region == number => last.len = bytes.end() - last.offset,
            _ if full => return false,
            _ => share.listed.push(bytes),
        }
        share.last_region = number;
        true
    }

    fn share_of(&mut self, slot: u32, part: &mut Part<'a, M::Piece>) -> usize {
        *self.places[slot as usize].get_or_insert_with(|| {
            part.shares.push(Share::new(slot));
            part.shares.len() - 1
        })
    }

    fn cut(&mut self, part: &mut Part<'a, M::Piece>, run: Run) {
        if run.bytes > 0 {
            self.memory.take(run.bytes, &mut part.shares[run.share].pieces);
        }
    }

    /// Says the regions of each share, and makes ready for the next part.
    fn describe(&mut self, part: &mut Part<'a, M::Piece>) {
        // A share may have been found full before it got anything.
        part.shares.iter().for_each(|share| self.places[share.slot as usize] = None);
        part.shares.retain(|share| share.bytes > 0);
        for share in &mut part.shares {
            share.regions = match self.access {
                Access::Regular(regions) => {
                    regions.slice(self.position..self.position + part.bytes)
                }
                Access::List(_) => Regions::list(std::mem::take(&mut share.listed))
                    .expect("parts of a checked access"),
            };
        }
    }
}

impl<'a, P> Part<'a, P> {
    /// The ranges of the file that it is made of, in the order of the stream.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + use<'a, P> {
        let (mut walk, mut rest) = (self.start.clone(), self.bytes);
        iter::from_fn(move || {
            let region = walk.current().filter(|_| rest > 0)?;
            let bytes = region.len.min(rest);
            walk.advance(bytes);
            rest -= bytes;
            Some(region.offset..region.offset + bytes)
        })
    }

    /// How many bytes lie before the end of a file of `size` bytes.
    pub fn bytes_before(&self, size: u64) -> u64 {
        self.start.clone().bytes_before(size, self.bytes)
    }
}

impl<P> Share<P> {
    fn new(slot: u32) -> Self {
        let regions = Regions::contiguous(0, 0).expect("no bytes are in every file");
        let (pieces, listed) = (Vec::new(), Vec::new());
        Self { slot, regions, pieces, bytes: 0, listed, last_region: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::memory::{Sources, Targets};
    use proptest::prelude::*;
    use pvfs_layout::Level;

    const SIZE: u64 = 400;

    /// What one slot is told and given, byte by byte: where in the file, where in the stream.
    type Dealt = Vec<(u64, usize)>;

    fn dists() -> impl Strategy<Value = Dist> {
        prop_oneof![
            (1u64..30, 1u32..6).prop_map(|(ssize, slots)| Dist::simple_stripe(ssize, slots)),
            (1u32..3, 1u32..4, 1u64..9).prop_map(|(groups, factor, ssize)| {
                Dist::two_d(groups, factor, ssize, groups * 2)
            }),
            Just(Ok(Dist::basic())),
        ]
        .prop_map(|dist| dist.unwrap())
    }

    fn lists() -> impl Strategy<Value = Vec<Region>> {
        let region = (0..SIZE, 0u64..40).prop_map(|(offset, len)| Region { offset, len });
        let any = prop::collection::vec(region, 0..12);
        let strided =
            (0..50u64, 1..9u64, 1..20u64, 1..20u64).prop_map(|(offset, len, step, count)| {
                (0..count).map(|at| Region { offset: offset + at * step, len }).collect()
            });
        prop_oneof![any, strided]
    }

    /// Slices whose lengths repeat these, as long in all as `bytes`.
    fn cuts(lengths: &[usize], bytes: usize) -> Vec<usize> {
        let mut left = bytes;
        let cut = |length: &usize| {
            let cut = left.min(*length);
            left -= cut;
            cut
        };
        let mut cuts: Vec<usize> = lengths.iter().map(cut).collect();
        cuts.push(left);
        cuts
    }

    fn offsets(list: &[Region]) -> Vec<u64> {
        list.iter().flat_map(|region| region.offset..region.end()).collect()
    }

    /// Where in `stream` the memory of a share lies: told by addresses, so that it must be the caller's.
    fn positions(stream: &[u8], share: &Share<&[u8]>) -> Vec<usize> {
        let start = stream.as_ptr() as usize;
        let place = |piece: &&[u8]| piece.as_ptr() as usize - start;
        share.pieces.iter().flat_map(|piece| place(piece)..place(piece) + piece.len()).collect()
    }

    fn dealt(dist: &Dist, access: &Access<'_>, lengths: &[usize], limits: Limits) -> Vec<Dealt> {
        let stream = vec![0; access.total_bytes() as usize];
        let mut rest = &stream[..];
        let slices: Vec<&[u8]> = cuts(lengths, stream.len())
            .into_iter()
            .map(|cut| rest.split_off(..cut).unwrap())
            .collect();
        let mut dealer = Dealer::new(dist, access, Sources::new(&slices), limits);
        let mut all = vec![Dealt::new(); dist.slots() as usize];
        while let Some(part) = dealer.next_part() {
            assert!(part.bytes > 0);
            for share in &part.shares {
                assert!(share.bytes <= limits.bytes_max);
                assert!(share.regions.iter().count() <= limits.regions_max);
                let told = share.regions.iter().flat_map(|region| region.offset..region.end());
                let told = told.filter(|offset| dist.locate(*offset).slot == share.slot);
                let given = positions(&stream, share);
                assert_eq!(share.bytes, given.len() as u64);
                all[share.slot as usize].extend(told.zip(given));
            }
        }
        all
    }

    proptest! {
        #[test]
        fn every_byte_is_dealt_once_to_its_slot_in_the_order_of_the_stream(
            dist in dists(), list in lists(), lengths in prop::collection::vec(0usize..50, 0..9),
            bytes_max in 1u64..200, regions_max in 1usize..9, as_list: bool,
        ) {
            let limits = Limits { bytes_max, regions_max };
            let access = if as_list { Access::List(&list) } else { Access::of_list(&list).unwrap() };
            let dealt = dealt(&dist, &access, &lengths, limits);
            for (slot, dealt) in dealt.iter().enumerate() {
                let own = |(_, offset): &(usize, u64)| dist.locate(*offset).slot == slot as u32;
                let expected: Dealt = offsets(&list)
                    .into_iter()
                    .enumerate()
                    .filter(own)
                    .map(|(position, offset)| (offset, position))
                    .collect();
                prop_assert_eq!(dealt, &expected);
            }
        }

        #[test]
        fn bytes_before_an_end_are_counted_as_one_by_one(
            dist in dists(), list in lists(), size in 0..SIZE + 50, bytes_max in 1u64..200,
        ) {
            let access = Access::of_list(&list).unwrap();
            let mut memory = vec![0; access.total_bytes() as usize];
            let slices = &mut [&mut memory[..]];
            let limits = Limits { bytes_max, regions_max: 5 };
            let mut dealer = Dealer::new(&dist, &access, Targets::new(slices), limits);
            let (mut before, mut end) = (0, 0);
            while let Some(part) = dealer.next_part() {
                before += part.bytes_before(size);
                end = end.max(part.end);
            }
            let offsets = offsets(&list);
            prop_assert_eq!(before, offsets.iter().filter(|offset| **offset < size).count() as u64);
            prop_assert_eq!(end, offsets.iter().max().map_or(0, |last| last + 1));
        }
    }

    #[test]
    fn an_access_that_fits_is_one_request_to_each_slot() {
        let dist = Dist::simple_stripe(64 << 10, 4).unwrap();
        let scattered: Vec<Region> =
            (0..30_000).map(|at| Region { offset: at * at * 37 % (1 << 30), len: 8 }).collect();
        let column = Level { stride: 72 << 10, count: 30_000 };
        let column = Regions::strided(8, 64, &[column]).unwrap();
        for access in [Access::of_list(&scattered).unwrap(), Access::of(&column)] {
            let memory = vec![0; access.total_bytes() as usize];
            let slices = [&memory[..]];
            let limits = Limits { bytes_max: 1 << 20, regions_max: 32 << 10 };
            let mut dealer = Dealer::new(&dist, &access, Sources::new(&slices), limits);
            assert_eq!(dealer.next_part().unwrap().shares.len(), 4);
            assert!(dealer.next_part().is_none());
        }
    }

    /// Blocks that follow one another in memory and lie on one slot are one piece for the kernel.
    #[test]
    fn memory_is_cut_no_finer_than_it_must_be() {
        let dist = Dist::simple_stripe(64 << 10, 2).unwrap();
        let rows = Level { stride: 128 << 10, count: 1000 };
        let column = Regions::strided(0, 64, &[rows]).unwrap();
        let column = Access::of(&column);
        let memory = vec![0; 64_000];
        let slices = [&memory[..]];
        let limits = Limits { bytes_max: 1 << 20, regions_max: 32 << 10 };
        let part = Dealer::new(&dist, &column, Sources::new(&slices), limits).next_part().unwrap();
        assert_eq!(part.shares.iter().map(|share| share.pieces.len()).collect::<Vec<_>>(), [1]);
    }
}
