//! `varstrip` (PVFS2's varstrip_dist): a list of strips, each with its slot and size, dealt again
//! and again.
//!
//! ```text
//! varstrip:0=1,1=3,0=2     one stripe is 6 bytes, 3 on each slot
//! file     |a|bcd|ef|g|hij|kl|
//! slot 0   |a|ef|g|kl|
//! slot 1   |bcd|hij|
//! ```

use super::{DistError, Distribution, FILE_SIZE_MAX, Place, within_file};
use std::sync::Arc;

/// Strips in one list: every look-up walks it, and a record of it must stay small.
pub const VARSTRIP_STRIPS_MAX: usize = 1024;

/// One entry of the list.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Strip {
    /// Whose turn it is.
    pub slot: u32,
    /// How many bytes it gets.
    pub size: u64,
}

/// Strips of given sizes, dealt to given slots. Cheap to clone.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Varstrip {
    strips: Arc<[Strip]>,
    stripe: u64,
    slots: u32,
}

/// A strip with what lies before it in its stripe.
struct Dealt {
    strip: Strip,
    /// Bytes of the stripe before this strip.
    start: u64,
    /// Bytes of the stripe on the slot in question before this strip.
    local_start: u64,
}

impl Varstrip {
    /// The listed strips in this order. Every slot from 0 to the highest must be listed.
    pub fn new(strips: impl IntoIterator<Item = Strip>) -> Result<Self, DistError> {
        let strips: Arc<[Strip]> = strips.into_iter().take(VARSTRIP_STRIPS_MAX + 1).collect();
        if strips.len() > VARSTRIP_STRIPS_MAX {
            return Err(DistError::TooManyStrips(strips.len() as u64));
        }
        let stripe = stripe_size(&strips)?;
        let slots = slot_count(&strips)?;
        Ok(Self { strips, stripe, slots })
    }

    /// The list.
    pub fn strips(&self) -> &[Strip] {
        &self.strips
    }

    /// The strips of one slot in one stripe.
    fn dealt_to(&self, slot: u32) -> impl Iterator<Item = Dealt> + '_ {
        let mut start = 0;
        let mut local_start = 0;
        self.strips.iter().filter_map(move |strip| {
            let dealt = Dealt { strip: *strip, start, local_start };
            start += strip.size;
            (strip.slot == slot).then(|| {
                local_start += strip.size;
                dealt
            })
        })
    }

    /// Bytes a slot gets of one stripe.
    fn share(&self, slot: u32) -> u64 {
        self.dealt_to(slot).map(|dealt| dealt.strip.size).sum()
    }

    /// The strip that byte `local` of an object is in, the number of its stripe, and the place of
    /// the byte in the strip. `None` for a slot the file does not have.
    fn strip_at(&self, slot: u32, local: u64) -> Option<(Dealt, u64, u64)> {
        let share = self.share(slot);
        let rest = local.checked_rem(share)?;
        let dealt = self.dealt_to(slot).find(|d| rest - d.local_start < d.strip.size)?;
        let in_strip = rest - dealt.local_start;
        Some((dealt, local / share, in_strip))
    }
}

impl Distribution for Varstrip {
    fn slots(&self) -> u32 {
        self.slots
    }

    fn bytes_before(&self, slot: u32, offset: u64) -> u64 {
        let rest = offset % self.stripe;
        let (mut share, mut in_stripe) = (0, 0);
        for dealt in self.dealt_to(slot) {
            share += dealt.strip.size;
            in_stripe += rest.saturating_sub(dealt.start).min(dealt.strip.size);
        }
        offset / self.stripe * share + in_stripe
    }

    fn locate(&self, offset: u64) -> Place {
        let rest = offset % self.stripe;
        let mut start = 0;
        let strip = self.strips.iter().find(|strip| {
            start += strip.size;
            rest < start
        });
        let slot = strip.expect("the strips fill the stripe").slot;
        Place { slot, local: self.bytes_before(slot, offset) }
    }

    fn file_offset(&self, slot: u32, local: u64) -> Option<u64> {
        let (dealt, stripes, in_strip) = self.strip_at(slot, local)?;
        let stripe_start = stripes.checked_mul(self.stripe)?;
        stripe_start.checked_add(dealt.start + in_strip).and_then(within_file)
    }

    fn contiguous_from(&self, slot: u32, local: u64) -> u64 {
        match self.strip_at(slot, local) {
            Some((dealt, _, in_strip)) if self.slots > 1 => dealt.strip.size - in_strip,
            _ => FILE_SIZE_MAX.saturating_sub(local).max(1),
        }
    }
}

fn stripe_size(strips: &[Strip]) -> Result<u64, DistError> {
    if strips.iter().any(|strip| strip.size == 0) {
        return Err(DistError::EmptyStrip);
    }
    strips
        .iter()
        .try_fold(0u64, |sum, strip| sum.checked_add(strip.size))
        .filter(|stripe| *stripe <= FILE_SIZE_MAX)
        .ok_or(DistError::TooLong)
}

/// Since each slot needs a strip, no list has more slots than strips.
fn slot_count(strips: &[Strip]) -> Result<u32, DistError> {
    let highest = strips.iter().map(|strip| strip.slot).max().ok_or(DistError::NoSlots)?;
    let mut used = [false; VARSTRIP_STRIPS_MAX];
    for strip in strips {
        if let Some(slot_used) = used.get_mut(strip.slot as usize) {
            *slot_used = true;
        }
    }
    match (0..).zip(used).find(|(_, slot_used)| !slot_used) {
        Some((slot, _)) if slot < highest => Err(DistError::SlotUnused(slot)),
        _ if highest as usize >= VARSTRIP_STRIPS_MAX => {
            Err(DistError::SlotUnused(VARSTRIP_STRIPS_MAX as u32))
        }
        _ => Ok(highest + 1),
    }
}
