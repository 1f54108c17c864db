//! How the bytes of one file are dealt to slots, and file sizes recovered from local sizes.
//!
//! A file is cut into *strips*, which are dealt to its slots like cards; one round of dealing is a
//! *stripe*. Each slot keeps its strips back to back in one object:
//!
//! ```text
//! file     | 0 | 1 | 2 | 3 | 4 | 5 | 6 |     strips; simple_stripe over 3 slots
//! slot 0   | 0 | 3 | 6 |
//! slot 1   | 1 | 4 |
//! slot 2   | 2 | 5 |
//! ```
//!
//! The distributions differ in whose turn it is, but all deal in the order of the file. So a
//! contiguous range of the file is one contiguous range of each object, and all follows from
//! [`Distribution::bytes_before`]: of the first `offset` bytes of the file, how many live here?

mod basic;
mod binary;
mod simple_stripe;
mod text;
mod two_d;
mod varstrip;

pub use basic::Basic;
pub use simple_stripe::SimpleStripe;
pub use text::{ParseError, Scheme, parse_bytes};
pub use two_d::TwoD;
pub use varstrip::{Strip, VARSTRIP_STRIPS_MAX, Varstrip};

use std::ops::Range;

/// Offsets travel as `off_t` in every interface above us: the last byte is at `FILE_SIZE_MAX - 1`.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;

/// Strip size in bytes where nobody chose one, as in PVFS 1.
pub const SSIZE_DEFAULT: u64 = 64 << 10;

/// A file is dealt to at most so many slots, so that counts of iods fit in 16 bits.
pub const SLOTS_MAX: u32 = u16::MAX as u32;

/// One byte of a file, as the iods know it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Place {
    /// Which slot holds the byte.
    pub slot: u32,
    /// Where in that slot's object.
    pub local: u64,
}

/// The arithmetic every way of dealing offers. All methods are total: a slot the file does not have
/// holds no bytes, and offsets above [`FILE_SIZE_MAX`] cannot overflow.
pub trait Distribution {
    /// How many slots the file has, numbered from 0.
    fn slots(&self) -> u32;

    /// Of the first `offset` bytes of the file, how many live on `slot`. Never falls as `offset`
    /// rises; the sum over all slots is `offset`.
    fn bytes_before(&self, slot: u32, offset: u64) -> u64;

    /// Which slot holds the byte at `offset`, and where.
    fn locate(&self, offset: u64) -> Place;

    /// Where in the file byte `local` of a slot's object is. `None` when the slot does not exist or
    /// the byte would be beyond the largest file.
    fn file_offset(&self, slot: u32, local: u64) -> Option<u64>;

    /// How many bytes from `local` on are side by side in the file too: at least 1, often what is
    /// left of the strip. Two such runs may still touch.
    fn contiguous_from(&self, slot: u32, local: u64) -> u64;

    /// The part of a slot's object that holds the bytes `range` of the file; empty (but placed where
    /// they would go) when it holds none.
    fn local_range(&self, slot: u32, range: Range<u64>) -> Range<u64> {
        self.bytes_before(slot, range.start)..self.bytes_before(slot, range.end)
    }

    /// The size of a slot's object when the file has exactly `file_size` bytes: what truncate sets.
    fn local_size(&self, slot: u32, file_size: u64) -> u64 {
        self.bytes_before(slot, file_size)
    }

    /// The least file size that an object of `local_size` bytes proves. `None` when no file of this
    /// distribution can have such an object.
    fn file_end(&self, slot: u32, local_size: u64) -> Option<u64> {
        match local_size.checked_sub(1) {
            None => Some(0),
            Some(last) => self.file_offset(slot, last).map(|offset| offset + 1),
        }
    }

    /// The size of the file whose objects have these sizes, in slot order; slots left out are empty.
    ///
    /// Objects may be short or absent (a hole, or a write still under way elsewhere): the byte
    /// furthest in the file decides. `None` when one of the sizes is impossible.
    fn file_size(&self, local_sizes: &[u64]) -> Option<u64> {
        (0..).zip(local_sizes).try_fold(0, |end, (slot, local_size)| {
            self.file_end(slot, *local_size).map(|here| here.max(end))
        })
    }
}

/// A distribution with its parameters and number of slots, checked. Chosen when a file is created
/// and never changed: data already on disk is found by it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Dist {
    /// Strips of one size dealt to all slots in turn.
    SimpleStripe(SimpleStripe),
    /// Strips of given sizes dealt to given slots.
    Varstrip(Varstrip),
    /// Slots in groups, several strips for each before the next group's turn.
    TwoD(TwoD),
    /// The whole file on slot 0.
    Basic(Basic),
}

/// Why a distribution was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DistError {
    /// A strip size, or the number of strips per slot, was zero.
    #[error("strips must have at least one byte")]
    EmptyStrip,
    /// No slots, no groups, or an empty list of strips.
    #[error("a file needs at least one iod")]
    NoSlots,
    /// More slots than [`SLOTS_MAX`].
    #[error("a file can be striped over at most {SLOTS_MAX} iods, not {0}")]
    TooManySlots(u64),
    /// More strips listed than [`VARSTRIP_STRIPS_MAX`].
    #[error("varstrip lists at most {VARSTRIP_STRIPS_MAX} strips, not {0}")]
    TooManyStrips(u64),
    /// One stripe would be longer than a file can be.
    #[error("one stripe would be longer than the largest file")]
    TooLong,
    /// More groups than slots to put in them.
    #[error("{groups} groups cannot be made of {slots} iods")]
    TooManyGroups {
        /// Groups asked for.
        groups: u32,
        /// Slots there are.
        slots: u32,
    },
    /// Slots must be numbered from 0 without gaps; this one gets no strip.
    #[error("varstrip gives no strip to slot {0}")]
    SlotUnused(u32),
    /// The strips name more slots than there are iods.
    #[error("varstrip needs {needed} iods, not {slots}")]
    TooFewSlots {
        /// Slots the strips name.
        needed: u32,
        /// Slots there are.
        slots: u32,
    },
}

impl Dist {
    /// Strips of `ssize` bytes dealt to `slots` slots in turn: the default.
    pub fn simple_stripe(ssize: u64, slots: u32) -> Result<Self, DistError> {
        SimpleStripe::new(ssize, slots).map(Self::SimpleStripe)
    }

    /// The listed strips dealt in this order, again and again. A slot may be listed more than once.
    pub fn varstrip(strips: impl IntoIterator<Item = Strip>) -> Result<Self, DistError> {
        Varstrip::new(strips).map(Self::Varstrip)
    }

    /// Slots in `groups` groups; a group deals `factor` strips of `ssize` bytes to each of its slots
    /// before it is the next group's turn.
    pub fn two_d(groups: u32, factor: u32, ssize: u64, slots: u32) -> Result<Self, DistError> {
        TwoD::new(groups, factor, ssize, slots).map(Self::TwoD)
    }

    /// The whole file on slot 0.
    pub fn basic() -> Self {
        Self::Basic(Basic)
    }

    /// The slots that hold at least one byte of `range`, each once, beginning with the slot of its
    /// first byte. For the usual distributions the work is in proportion to the slots named, not
    /// to those the file has.
    pub fn slots_in(&self, range: Range<u64>) -> impl Iterator<Item = u32> + '_ {
        let first = self.locate(range.start).slot;
        let mut bytes_left = range.end.saturating_sub(range.start);
        let mut turns = (first..self.slots()).chain(0..first);
        std::iter::from_fn(move || {
            while bytes_left > 0 {
                let slot = turns.next()?;
                let local = self.local_range(slot, range.clone());
                if !local.is_empty() {
                    bytes_left -= local.end - local.start;
                    return Some(slot);
                }
            }
            None
        })
    }
}

/// Runs one expression on whichever distribution it is.
macro_rules! each {
    ($dist:expr, $inner:ident => $value:expr) => {
        match $dist {
            Dist::SimpleStripe($inner) => $value,
            Dist::Varstrip($inner) => $value,
            Dist::TwoD($inner) => $value,
            Dist::Basic($inner) => $value,
        }
    };
}

impl Distribution for Dist {
    fn slots(&self) -> u32 {
        each!(self, inner => inner.slots())
    }

    fn bytes_before(&self, slot: u32, offset: u64) -> u64 {
        each!(self, inner => inner.bytes_before(slot, offset))
    }

    fn locate(&self, offset: u64) -> Place {
        each!(self, inner => inner.locate(offset))
    }

    fn file_offset(&self, slot: u32, local: u64) -> Option<u64> {
        each!(self, inner => inner.file_offset(slot, local))
    }

    fn contiguous_from(&self, slot: u32, local: u64) -> u64 {
        each!(self, inner => inner.contiguous_from(slot, local))
    }
}

/// Checks a number of slots.
fn check_slots(slots: u32) -> Result<(), DistError> {
    match slots {
        0 => Err(DistError::NoSlots),
        1..=SLOTS_MAX => Ok(()),
        _ => Err(DistError::TooManySlots(u64::from(slots))),
    }
}

/// Keeps an offset only when a file can have a byte there.
fn within_file(offset: u64) -> Option<u64> {
    (offset < FILE_SIZE_MAX).then_some(offset)
}
