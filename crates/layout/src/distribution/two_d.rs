//! `two_d` (PVFS2's twod_stripe): slots in groups, striped within a group for a while, then the next.
//!
//! ```text
//! two_d:groups=2,factor=2 over 4 slots     group 0 = slots 0, 1    group 1 = slots 2, 3
//! file     | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |
//! slot 0   | 0 | 2 | 8 |       slot 2   | 4 | 6 |
//! slot 1   | 1 | 3 |           slot 3   | 5 | 7 |
//! ```
//!
//! Streams of neighbouring clients thus meet fewer iods at a time, and fewer streams share one.
//! As in PVFS2 the last group takes the slots that do not divide evenly.

use super::{
    DistError, Distribution, FILE_SIZE_MAX, Place, SimpleStripe, check_slots, within_file,
};

/// Slots in groups, several strips for each slot of a group before it is the next group's turn.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct TwoD {
    groups: u32,
    factor: u32,
    ssize: u64,
    slots: u32,
}

/// The group a slot is in: the slots from `first` on, as one simple stripe.
struct Group {
    first: u32,
    stripe: SimpleStripe,
}

impl TwoD {
    /// `slots` slots in `groups` groups, `factor` strips of `ssize` bytes per slot and turn.
    pub fn new(groups: u32, factor: u32, ssize: u64, slots: u32) -> Result<Self, DistError> {
        check_slots(slots)?;
        if groups == 0 {
            return Err(DistError::NoSlots);
        }
        if groups > slots {
            return Err(DistError::TooManyGroups { groups, slots });
        }
        let turn = ssize.checked_mul(u64::from(factor)).ok_or(DistError::TooLong)?;
        SimpleStripe::new(turn, slots)?;
        Ok(Self { groups, factor, ssize, slots })
    }

    /// Number of groups.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// Strips per slot before it is the next group's turn.
    pub fn factor(&self) -> u32 {
        self.factor
    }

    /// Bytes in one strip.
    pub fn ssize(&self) -> u64 {
        self.ssize
    }

    /// Bytes one slot gets in one round over all groups.
    fn turn(&self) -> u64 {
        self.ssize * u64::from(self.factor)
    }

    /// Bytes of one round over all groups.
    fn round(&self) -> u64 {
        self.turn() * u64::from(self.slots)
    }

    /// Where in a round a group's turn begins.
    fn group_start(&self, group: &Group) -> u64 {
        self.turn() * u64::from(group.first)
    }

    fn group_of(&self, slot: u32) -> Group {
        let size = self.slots / self.groups;
        let last_first = size * (self.groups - 1);
        let (first, slots) = if slot < last_first {
            (slot / size * size, size)
        } else {
            (last_first, self.slots - last_first)
        };
        let stripe = SimpleStripe::new(self.ssize, slots).expect("part of a checked stripe");
        Group { first, stripe }
    }
}

impl Distribution for TwoD {
    fn slots(&self) -> u32 {
        self.slots
    }

    fn bytes_before(&self, slot: u32, offset: u64) -> u64 {
        if slot >= self.slots {
            return 0;
        }
        let group = self.group_of(slot);
        let rounds = offset / self.round();
        let in_group = (offset % self.round())
            .saturating_sub(self.group_start(&group))
            .min(self.turn() * u64::from(group.stripe.slots()));
        rounds * self.turn() + group.stripe.bytes_before(slot - group.first, in_group)
    }

    fn locate(&self, offset: u64) -> Place {
        let rounds = offset / self.round();
        let rest = offset % self.round();
        let group = self.group_of((rest / self.turn()) as u32); // Below `slots`: rest is below a round.
        let place = group.stripe.locate(rest - self.group_start(&group));
        Place { slot: group.first + place.slot, local: rounds * self.turn() + place.local }
    }

    fn file_offset(&self, slot: u32, local: u64) -> Option<u64> {
        if slot >= self.slots {
            return None;
        }
        let group = self.group_of(slot);
        let round_start = (local / self.turn()).checked_mul(self.round())?;
        let in_group = group.stripe.file_offset(slot - group.first, local % self.turn())?;
        round_start.checked_add(self.group_start(&group) + in_group).and_then(within_file)
    }

    fn contiguous_from(&self, slot: u32, local: u64) -> u64 {
        if self.slots == 1 {
            return FILE_SIZE_MAX.saturating_sub(local).max(1);
        }
        match self.group_of(slot).stripe.slots() {
            1 => self.turn() - local % self.turn(),
            _ => self.ssize - local % self.ssize,
        }
    }
}
