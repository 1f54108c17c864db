//! A caller's buffer, dealt to slots as the file is: where each piece goes or comes from, without copying.

use std::ops::Range;

use pvfs_layout::{Dist, Distribution, Regions};
use pvfs_wire::Errno;

/// The pieces of a buffer that belong to one slot, in logical order.
pub struct Share<P> {
    /// The slot.
    pub slot: u32,
    /// Its pieces.
    pub pieces: Vec<P>,
}

/// Deals a buffer to be read into: the bytes of the file from `offset` on.
pub fn deal_mut<'a>(dist: &Dist, offset: u64, buffer: &'a mut [u8]) -> Vec<Share<&'a mut [u8]>> {
    let mut rest = buffer;
    deal(dist, offset, rest.len() as u64, |length| {
        let (piece, tail) = std::mem::take(&mut rest).split_at_mut(length);
        rest = tail;
        piece
    })
}

/// Deals a buffer to be written.
pub fn deal_ref<'a>(dist: &Dist, offset: u64, buffer: &'a [u8]) -> Vec<Share<&'a [u8]>> {
    let mut rest = buffer;
    deal(dist, offset, rest.len() as u64, |length| {
        let (piece, tail) = rest.split_at(length);
        rest = tail;
        piece
    })
}

fn deal<P>(
    dist: &Dist,
    mut offset: u64,
    bytes: u64,
    mut cut: impl FnMut(usize) -> P,
) -> Vec<Share<P>> {
    let mut shares: Vec<Share<P>> = Vec::new();
    let end = offset + bytes;
    while offset < end {
        let place = dist.locate(offset);
        let length = dist.contiguous_from(place.slot, place.local).min(end - offset);
        let piece = cut(length as usize);
        match shares.iter_mut().find(|share| share.slot == place.slot) {
            Some(share) => share.pieces.push(piece),
            None => shares.push(Share { slot: place.slot, pieces: vec![piece] }),
        }
        offset += length;
    }
    shares
}

/// Cuts a range of the file so that no slot has more than `bytes_max` bytes of a part.
pub fn windows(
    dist: &Dist,
    range: Range<u64>,
    bytes_max: u64,
) -> impl Iterator<Item = Range<u64>> + '_ {
    let mut start = range.start;
    std::iter::from_fn(move || {
        if start >= range.end {
            return None;
        }
        let window = start..window_end(dist, start, range.end, bytes_max);
        start = window.end;
        Some(window)
    })
}

fn window_end(dist: &Dist, start: u64, end: u64, bytes_max: u64) -> u64 {
    let widest = bytes_max.saturating_mul(u64::from(dist.slots()));
    let mut length = (end - start).min(widest);
    while length > bytes_max && largest_share(dist, start..start + length) > bytes_max {
        length /= 2;
    }
    start + length
}

fn largest_share(dist: &Dist, range: Range<u64>) -> u64 {
    let share = |slot| {
        let local = dist.local_range(slot, range.clone());
        local.end - local.start
    };
    dist.slots_in(range.clone()).map(share).max().unwrap_or(0)
}

/// The whole range as a request names it; EFBIG beyond what a file can be.
pub fn regions(range: &Range<u64>) -> Result<Regions, Errno> {
    Regions::contiguous(range.start, range.end - range.start).map_err(|_| Errno::EFBIG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_goes_to_its_slot_in_order() {
        let dist = Dist::simple_stripe(3, 4).unwrap();
        let buffer: Vec<u8> = (0..100).collect();
        for offset in 0..30u64 {
            for share in deal_ref(&dist, offset, &buffer) {
                let bytes: Vec<u8> = share.pieces.concat();
                let expected: Vec<u8> = (0..100u64)
                    .filter(|at| dist.locate(offset + at).slot == share.slot)
                    .map(|at| at as u8)
                    .collect();
                assert_eq!(bytes, expected, "offset {offset} slot {}", share.slot);
            }
        }
    }

    #[test]
    fn windows_cover_the_range_and_respect_the_limit() {
        let dist = Dist::simple_stripe(64, 3).unwrap();
        for (start, end) in [(0, 1000), (17, 5000), (63, 65), (5, 5)] {
            let cut: Vec<_> = windows(&dist, start..end, 100).collect();
            let mut at = start;
            for window in &cut {
                assert_eq!(window.start, at);
                assert!(largest_share(&dist, window.clone()) <= 100);
                at = window.end;
            }
            assert_eq!(at.max(start), end);
        }
    }
}
