//! The distribution as inode records and capabilities hold it. Little-endian, first a kind byte:
//!
//! ```text
//! 1 simple_stripe   slots u32 | ssize u64
//! 2 varstrip        count u16 | count * (slot u32 | size u64)
//! 3 two_d           slots u32 | groups u32 | factor u32 | ssize u64
//! 4 basic
//! ```
//!
//! A kind never changes its meaning: another layout of the same parameters is another kind.

use super::{Dist, Distribution, Strip, VARSTRIP_STRIPS_MAX};
use crate::decode::{DecodeError, check_count, take_u8, take_u16, take_u32, take_u64};

const SIMPLE_STRIPE: u8 = 1;
const VARSTRIP: u8 = 2;
const TWO_D: u8 = 3;
const BASIC: u8 = 4;

impl Dist {
    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::SimpleStripe(dist) => {
                out.push(SIMPLE_STRIPE);
                out.extend(dist.slots().to_le_bytes());
                out.extend(dist.ssize().to_le_bytes());
            }
            Self::Varstrip(dist) => encode_strips(dist.strips(), out),
            Self::TwoD(dist) => {
                out.push(TWO_D);
                out.extend(dist.slots().to_le_bytes());
                out.extend(dist.groups().to_le_bytes());
                out.extend(dist.factor().to_le_bytes());
                out.extend(dist.ssize().to_le_bytes());
            }
            Self::Basic(_) => out.push(BASIC),
        }
    }

    /// Reads a distribution off the front of `bytes`; returns it with the bytes that follow.
    pub fn decode(mut bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let dist = match take_u8(&mut bytes)? {
            SIMPLE_STRIPE => {
                let slots = take_u32(&mut bytes)?;
                Self::simple_stripe(take_u64(&mut bytes)?, slots)?
            }
            VARSTRIP => Self::varstrip(decode_strips(&mut bytes)?)?,
            TWO_D => {
                let [slots, groups, factor] =
                    [take_u32(&mut bytes)?, take_u32(&mut bytes)?, take_u32(&mut bytes)?];
                Self::two_d(groups, factor, take_u64(&mut bytes)?, slots)?
            }
            BASIC => Self::basic(),
            kind => return Err(DecodeError::UnknownKind { what: "distribution", kind }),
        };
        Ok((dist, bytes))
    }
}

fn encode_strips(strips: &[Strip], out: &mut Vec<u8>) {
    out.push(VARSTRIP);
    let count = u16::try_from(strips.len()).expect("VARSTRIP_STRIPS_MAX fits in 16 bits");
    out.extend(count.to_le_bytes());
    for strip in strips {
        out.extend(strip.slot.to_le_bytes());
        out.extend(strip.size.to_le_bytes());
    }
}

fn decode_strips(bytes: &mut &[u8]) -> Result<Vec<Strip>, DecodeError> {
    let count = take_u16(bytes)?;
    check_count("strips", u64::from(count), VARSTRIP_STRIPS_MAX as u64, 12, bytes)?;
    (0..count).map(|_| Ok(Strip { slot: take_u32(bytes)?, size: take_u64(bytes)? })).collect()
}
