//! Reading the binary forms: little-endian, every length checked before it is believed.

use crate::distribution::DistError;
use crate::placement::IodListError;
use crate::region::RegionError;

/// Why bytes were refused. None of them was acted upon.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end within a value.
    #[error("the record ends within a value")]
    Truncated,
    /// The kind byte is none this version knows.
    #[error("unknown {what} kind {kind}; written by a newer version?")]
    UnknownKind {
        /// What was being read.
        what: &'static str,
        /// The byte found.
        kind: u8,
    },
    /// More entries than the caller allows.
    #[error("{count} {what} where at most {max} are allowed")]
    TooMany {
        /// What is being counted.
        what: &'static str,
        /// How many the bytes announce.
        count: u64,
        /// How many the caller allows.
        max: u64,
    },
    /// The parameters of a distribution are out of range.
    #[error(transparent)]
    Dist(#[from] DistError),
    /// The list of iods is out of range.
    #[error(transparent)]
    IodList(#[from] IodListError),
    /// The regions are out of range.
    #[error(transparent)]
    Regions(#[from] RegionError),
}

/// Takes one byte off the front.
pub(crate) fn take_u8(bytes: &mut &[u8]) -> Result<u8, DecodeError> {
    take::<1>(bytes).map(u8::from_le_bytes)
}

/// Takes two bytes off the front.
pub(crate) fn take_u16(bytes: &mut &[u8]) -> Result<u16, DecodeError> {
    take::<2>(bytes).map(u16::from_le_bytes)
}

/// Takes four bytes off the front.
pub(crate) fn take_u32(bytes: &mut &[u8]) -> Result<u32, DecodeError> {
    take::<4>(bytes).map(u32::from_le_bytes)
}

/// Takes eight bytes off the front.
pub(crate) fn take_u64(bytes: &mut &[u8]) -> Result<u64, DecodeError> {
    take::<8>(bytes).map(u64::from_le_bytes)
}

/// Refuses a count above its limit, or one that the bytes left cannot hold, before any allocation.
pub(crate) fn check_count(
    what: &'static str,
    count: u64,
    max: u64,
    entry_bytes: u64,
    bytes: &[u8],
) -> Result<(), DecodeError> {
    if count > max {
        return Err(DecodeError::TooMany { what, count, max });
    }
    if count > bytes.len() as u64 / entry_bytes {
        return Err(DecodeError::Truncated);
    }
    Ok(())
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], DecodeError> {
    let (value, rest) = bytes.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
    *bytes = rest;
    Ok(*value)
}
