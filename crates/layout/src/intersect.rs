//! Where an access meets a slot: which bytes of the object, and which bytes of the caller's memory.
//!
//! Client and iod walk the same bytes in the same order, that of the stream, and so need say nothing
//! about them but the access itself (paper 000, figure 2):
//!
//! ```text
//! access      |  ########    ########  |      stream positions 0..8, 8..16
//! file        |000011112222000011112222|      whose byte: 3 slots, strips of 4
//! slot 1             ^^^^    ^^^^
//!
//! iod:    Intersection   local 0..8                       one read of the object
//! client: StreamPieces   positions 2..6, 10..14           scattered to two places in memory
//! ```
//!
//! The k-th byte the one names is the k-th byte the other names; the data between them is just
//! those bytes.

use crate::distribution::{Dist, Distribution};
use crate::join::{Join, Joined};
use crate::region::{Cursor, Region, Regions};
use std::borrow::Borrow;
use std::ops::Range;

/// Bytes of one object that an access touches one after the other.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Piece {
    /// Where in the object.
    pub local: u64,
    /// How many bytes.
    pub len: u64,
    /// Where in the stream its first byte is. The others follow in order, though not side by side
    /// where the piece is of several strips or regions.
    pub position: u64,
}

/// Bytes of the stream, side by side, that one slot holds.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct StreamPiece {
    /// Where in the stream, which is where in the caller's memory.
    pub position: u64,
    /// How many bytes.
    pub len: u64,
}

/// For the iod: the pieces of a slot's object that an access touches, in the order of the stream,
/// joined where one continues the other. One piece at most for a contiguous access.
///
/// The work is in proportion to the regions, not to the strips; runs of small strided blocks on
/// other slots are skipped. Takes no memory. May own the access or borrow it.
///
/// One call of `next` may look at every region, when none is here or all of them join; a server
/// bounds that by the `regions_max` of [`Regions::decode`].
#[derive(Clone, Debug)]
pub struct Intersection<D: Borrow<Dist>, R: Borrow<Regions>>(Joined<LocalPieces<D, R>>);

/// For the client: the pieces of the stream that a slot holds, in order, joined where they touch.
///
/// The work is in proportion to the strips and regions. Takes no memory.
#[derive(Clone, Debug)]
pub struct StreamPieces<D: Borrow<Dist>, R: Borrow<Regions>>(Joined<StripPieces<D, R>>);

impl<D: Borrow<Dist>, R: Borrow<Regions>> Intersection<D, R> {
    /// What `slot` holds of the access `regions` of a file dealt by `dist`. Nothing, when the file
    /// has no such slot.
    pub fn new(dist: D, slot: u32, regions: R) -> Self {
        Self(Joined::new(LocalPieces(Walk::new(dist, slot, regions))))
    }
}

impl<D: Borrow<Dist>, R: Borrow<Regions>> StreamPieces<D, R> {
    /// What `slot` holds of the access `regions` of a file dealt by `dist`. Nothing, when the file
    /// has no such slot.
    pub fn new(dist: D, slot: u32, regions: R) -> Self {
        Self(Joined::new(StripPieces { walk: Walk::new(dist, slot, regions), held: None }))
    }
}

/// How many bytes of the access `regions` are on `slot`. For a contiguous access this is at once
/// known; otherwise the work is that of an [`Intersection`].
pub fn bytes_on_slot(dist: &Dist, slot: u32, regions: &Regions) -> u64 {
    Walk::new(dist, slot, regions).map(|held| held.local.end - held.local.start).sum()
}

impl<D: Borrow<Dist>, R: Borrow<Regions>> Iterator for Intersection<D, R> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        self.0.next()
    }
}

impl<D: Borrow<Dist>, R: Borrow<Regions>> Iterator for StreamPieces<D, R> {
    type Item = StreamPiece;

    fn next(&mut self) -> Option<StreamPiece> {
        self.0.next()
    }
}

/// The regions of which the slot holds something.
#[derive(Clone, Debug)]
struct Walk<D, R> {
    dist: D,
    slot: u32,
    regions: R,
    cursor: Cursor,
}

/// One region, what the slot holds of it (not empty), and its position in the stream.
#[derive(Clone, Debug)]
struct Held {
    region: Region,
    local: Range<u64>,
    position: u64,
}

#[derive(Clone, Debug)]
struct LocalPieces<D, R>(Walk<D, R>);

#[derive(Clone, Debug)]
struct StripPieces<D, R> {
    walk: Walk<D, R>,
    held: Option<Held>,
}

impl<D: Borrow<Dist>, R: Borrow<Regions>> Walk<D, R> {
    fn new(dist: D, slot: u32, regions: R) -> Self {
        Self { dist, slot, regions, cursor: Cursor::default() }
    }

    /// Where in the stream byte `local` is, which is in the region held.
    fn position_of(&self, held: &Held, local: u64) -> u64 {
        let offset = self.dist.borrow().file_offset(self.slot, local);
        held.position + offset.expect("regions end within the largest file") - held.region.offset
    }
}

impl<D: Borrow<Dist>, R: Borrow<Regions>> Iterator for Walk<D, R> {
    type Item = Held;

    fn next(&mut self) -> Option<Held> {
        let (dist, regions) = (self.dist.borrow(), self.regions.borrow());
        while let Some((position, region)) = self.cursor.next(regions) {
            let local = dist.local_range(self.slot, region.offset..region.end());
            if !local.is_empty() {
                return Some(Held { region, local, position });
            }
            // No byte of this slot from the region up to the slot's next byte.
            let next_held = dist.file_offset(self.slot, local.start).unwrap_or(u64::MAX);
            self.cursor.skip_below(regions, next_held);
        }
        None
    }
}

impl<D: Borrow<Dist>, R: Borrow<Regions>> Iterator for LocalPieces<D, R> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let held = self.0.next()?;
        let Range { start, end } = held.local;
        Some(Piece { local: start, len: end - start, position: self.0.position_of(&held, start) })
    }
}

impl<D: Borrow<Dist>, R: Borrow<Regions>> Iterator for StripPieces<D, R> {
    type Item = StreamPiece;

    fn next(&mut self) -> Option<StreamPiece> {
        let mut held = self.held.take().or_else(|| self.walk.next())?;
        let Range { start, end } = held.local;
        let position = self.walk.position_of(&held, start);
        let len = self.walk.dist.borrow().contiguous_from(self.walk.slot, start).min(end - start);
        held.local.start += len;
        self.held = (start + len < end).then_some(held);
        Some(StreamPiece { position, len })
    }
}

impl Join for Piece {
    fn join(&mut self, next: &Self) -> bool {
        let continues = self.local + self.len == next.local;
        if continues {
            self.len += next.len;
        }
        continues
    }
}

impl Join for StreamPiece {
    fn join(&mut self, next: &Self) -> bool {
        let continues = self.position + self.len == next.position;
        if continues {
            self.len += next.len;
        }
        continues
    }
}
