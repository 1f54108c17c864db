//! `simple_stripe`: strips of one size, dealt to all slots in turn (PVFS 1's only distribution).

use super::{DistError, Distribution, FILE_SIZE_MAX, Place, check_slots, within_file};

/// Strips of one size, dealt to all slots in turn.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SimpleStripe {
    ssize: u64,
    slots: u32,
}

impl SimpleStripe {
    /// Strips of `ssize` bytes dealt to `slots` slots.
    pub fn new(ssize: u64, slots: u32) -> Result<Self, DistError> {
        check_slots(slots)?;
        if ssize == 0 {
            return Err(DistError::EmptyStrip);
        }
        match ssize.checked_mul(u64::from(slots)) {
            Some(stripe) if stripe <= FILE_SIZE_MAX => Ok(Self { ssize, slots }),
            _ => Err(DistError::TooLong),
        }
    }

    /// Bytes in one strip.
    pub fn ssize(&self) -> u64 {
        self.ssize
    }

    fn stripe(&self) -> u64 {
        self.ssize * u64::from(self.slots)
    }

    fn own_start(&self, slot: u32) -> u64 {
        self.ssize * u64::from(slot)
    }
}

impl Distribution for SimpleStripe {
    fn slots(&self) -> u32 {
        self.slots
    }

    fn bytes_before(&self, slot: u32, offset: u64) -> u64 {
        if slot >= self.slots {
            return 0;
        }
        let whole_stripes = offset / self.stripe();
        let rest = offset % self.stripe();
        whole_stripes * self.ssize + rest.saturating_sub(self.own_start(slot)).min(self.ssize)
    }

    fn locate(&self, offset: u64) -> Place {
        let whole_stripes = offset / self.stripe();
        let rest = offset % self.stripe();
        let slot = (rest / self.ssize) as u32; // Below `slots`, since rest is below a stripe.
        Place { slot, local: whole_stripes * self.ssize + rest % self.ssize }
    }

    fn file_offset(&self, slot: u32, local: u64) -> Option<u64> {
        if slot >= self.slots {
            return None;
        }
        let stripe_start = (local / self.ssize).checked_mul(self.stripe())?;
        let in_stripe = self.own_start(slot) + local % self.ssize;
        stripe_start.checked_add(in_stripe).and_then(within_file)
    }

    fn contiguous_from(&self, _slot: u32, local: u64) -> u64 {
        match self.slots {
            1 => FILE_SIZE_MAX.saturating_sub(local).max(1),
            _ => self.ssize - local % self.ssize,
        }
    }
}
