//! An access as requests carry it. Little-endian, first a kind byte:
//!
//! ```text
//! 1 contiguous   offset u64 | len u64
//! 2 strided      offset u64 | block u64 | start u64 | end u64 | depth u8 | depth * (stride u64 | count u64)
//! 3 list         count u32 | count * (offset u64 | len u64)
//! ```
//!
//! `start` and `end` say which bytes of the strided stream are meant; levels come innermost first.

use super::{LEVELS_MAX, Level, List, Region, RegionError, Regions, Shape, Strided};
use crate::decode::{DecodeError, check_count, take_u8, take_u32, take_u64};

const CONTIGUOUS: u8 = 1;
const STRIDED: u8 = 2;
const LIST: u8 = 3;

impl Regions {
    /// Appends the binary form.
    ///
    /// # Panics
    /// When a list has 2^32 regions or more: cut it with [`Regions::slice`] long before.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match &self.0 {
            Shape::Contiguous(region) => {
                out.push(CONTIGUOUS);
                push_all(out, [region.offset, region.len]);
            }
            Shape::Strided(strided) => encode_strided(strided, out),
            Shape::List(list) => encode_list(list, out),
        }
    }

    /// Reads an access off the front of `bytes`; returns it with the bytes that follow. One of more
    /// than `regions_max` regions is refused, be they listed or described, so that the caller knows
    /// how much work it can be.
    pub fn decode(mut bytes: &[u8], regions_max: u64) -> Result<(Self, &[u8]), DecodeError> {
        let regions = match take_u8(&mut bytes)? {
            CONTIGUOUS => Self::contiguous(take_u64(&mut bytes)?, take_u64(&mut bytes)?)?,
            STRIDED => decode_strided(&mut bytes)?,
            LIST => decode_list(&mut bytes, regions_max)?,
            kind => return Err(DecodeError::UnknownKind { what: "access", kind }),
        };
        match regions.region_count_max() {
            count if count > regions_max => {
                Err(DecodeError::TooMany { what: "regions", count, max: regions_max })
            }
            _ => Ok((regions, bytes)),
        }
    }
}

fn push_all<const N: usize>(out: &mut Vec<u8>, values: [u64; N]) {
    values.iter().for_each(|value| out.extend(value.to_le_bytes()));
}

fn encode_strided(strided: &Strided, out: &mut Vec<u8>) {
    out.push(STRIDED);
    push_all(out, [strided.offset, strided.block, strided.start, strided.end]);
    out.push(strided.levels().len() as u8); // At most LEVELS_MAX.
    for level in strided.levels() {
        push_all(out, [level.stride, level.count]);
    }
}

fn decode_strided(bytes: &mut &[u8]) -> Result<Regions, DecodeError> {
    let [offset, block, start, end] =
        [take_u64(bytes)?, take_u64(bytes)?, take_u64(bytes)?, take_u64(bytes)?];
    let depth = usize::from(take_u8(bytes)?);
    let mut levels = [Level::default(); LEVELS_MAX];
    let used = levels.get_mut(..depth).ok_or(RegionError::TooDeep(depth))?;
    for level in used.iter_mut() {
        *level = Level { stride: take_u64(bytes)?, count: take_u64(bytes)? };
    }
    Ok(Regions::strided_part(offset, block, used, start..end)?)
}

fn encode_list(list: &List, out: &mut Vec<u8>) {
    out.push(LIST);
    let count = u32::try_from(list.regions.len()).expect("lists are cut before they are sent");
    out.extend(count.to_le_bytes());
    for region in &list.regions {
        push_all(out, [region.offset, region.len]);
    }
}

fn decode_list(bytes: &mut &[u8], regions_max: u64) -> Result<Regions, DecodeError> {
    let count = take_u32(bytes)?;
    check_count("regions", u64::from(count), regions_max, 16, bytes)?;
    let regions = (0..count)
        .map(|_| Ok(Region { offset: take_u64(bytes)?, len: take_u64(bytes)? }))
        .collect::<Result<Vec<Region>, DecodeError>>()?;
    Ok(Regions::list(regions)?)
}
