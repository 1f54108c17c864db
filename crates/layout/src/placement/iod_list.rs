//! The explicit list of a file's iods, kept as runs: a thousand iods in a row cost eight bytes.
//!
//! ```text
//! binary form, little-endian: count u16 | count * (start u32 | length u32)
//! ```
//!
//! Runs are as long as possible and not empty, so one list has exactly one binary form and a MAC
//! over it means the list.

use crate::decode::{DecodeError, check_count, take_u16, take_u32};
use crate::distribution::SLOTS_MAX;
use std::fmt;

/// The number by which the cluster knows an iod; never used again for another one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct IodId(pub u32);

/// The iods of one file; a slot is a position in it. Never empty, no iod twice, at most
/// [`SLOTS_MAX`] long.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct IodList {
    runs: Vec<Run>,
    len: u32,
}

/// Iods with consecutive ids.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Run {
    start: u32,
    count: u32,
}

/// Why a list was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IodListError {
    /// No iods.
    #[error("the list of iods is empty")]
    Empty,
    /// More than the limit.
    #[error("a file can be striped over at most {max} iods, not {count}")]
    TooMany {
        /// Iods in the list, as far as counted.
        count: u64,
        /// The limit.
        max: u32,
    },
    /// An iod twice: two slots would share one object.
    #[error("iod {0} is listed twice")]
    Repeated(IodId),
    /// Ids beyond 32 bits, an empty run, or two runs that should be one.
    #[error("the runs of the list of iods are not in their one right form")]
    NotCanonical,
}

impl fmt::Display for IodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl IodList {
    /// The list of these iods, in slot order.
    pub fn new(iods: impl IntoIterator<Item = IodId>) -> Result<Self, IodListError> {
        let mut runs: Vec<Run> = Vec::new();
        for (index, IodId(id)) in iods.into_iter().enumerate() {
            if index >= SLOTS_MAX as usize {
                return Err(IodListError::TooMany { count: index as u64 + 1, max: SLOTS_MAX });
            }
            match runs.last_mut() {
                Some(run) if run.start.checked_add(run.count) == Some(id) => run.count += 1,
                _ => runs.push(Run { start: id, count: 1 }),
            }
        }
        Self::from_runs(runs, SLOTS_MAX)
    }

    /// Number of iods, which is the number of slots.
    // Never 0, so that `is_empty` would only mislead.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The iod of a slot. The work is in proportion to the runs, of which a file has one or two.
    pub fn get(&self, slot: u32) -> Option<IodId> {
        let mut rest = slot;
        for run in &self.runs {
            if rest < run.count {
                return Some(IodId(run.start + rest));
            }
            rest -= run.count;
        }
        None
    }

    /// Which slot an iod has.
    pub fn slot_of(&self, iod: IodId) -> Option<u32> {
        let mut first = 0;
        for run in &self.runs {
            match iod.0.checked_sub(run.start) {
                Some(rest) if rest < run.count => return Some(first + rest),
                _ => first += run.count,
            }
        }
        None
    }

    /// The iods in slot order.
    pub fn iter(&self) -> impl Iterator<Item = IodId> + '_ {
        self.runs.iter().flat_map(|run| (0..run.count).map(|index| IodId(run.start + index)))
    }

    /// Appends the binary form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let count = u16::try_from(self.runs.len()).expect("no more runs than SLOTS_MAX");
        out.extend(count.to_le_bytes());
        for run in &self.runs {
            out.extend(run.start.to_le_bytes());
            out.extend(run.count.to_le_bytes());
        }
    }

    /// Reads a list of at most `iods_max` iods off the front of `bytes`; returns it with the bytes
    /// that follow.
    pub fn decode(mut bytes: &[u8], iods_max: u32) -> Result<(Self, &[u8]), DecodeError> {
        let count = take_u16(&mut bytes)?;
        check_count("runs of iods", u64::from(count), u64::from(iods_max), 8, bytes)?;
        let runs = (0..count)
            .map(|_| Ok(Run { start: take_u32(&mut bytes)?, count: take_u32(&mut bytes)? }))
            .collect::<Result<Vec<Run>, DecodeError>>()?;
        Ok((Self::from_runs(runs, iods_max.min(SLOTS_MAX))?, bytes))
    }

    /// Keeps the first `len` iods; at least one stays.
    pub(super) fn truncate(&mut self, len: u32) {
        let mut left = len.clamp(1, self.len);
        self.len = left;
        self.runs.retain_mut(|run| {
            run.count = run.count.min(left);
            left -= run.count;
            run.count > 0
        });
    }

    fn from_runs(runs: Vec<Run>, iods_max: u32) -> Result<Self, IodListError> {
        if runs.is_empty() {
            return Err(IodListError::Empty);
        }
        check_canonical(&runs)?;
        let count: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
        if count > u64::from(iods_max) {
            return Err(IodListError::TooMany { count, max: iods_max });
        }
        check_distinct(&runs)?;
        Ok(Self { runs, len: count as u32 })
    }
}

/// The last id of a run, where it is a run.
fn last_id(run: &Run) -> Option<u32> {
    run.start.checked_add(run.count.checked_sub(1)?)
}

fn check_canonical(runs: &[Run]) -> Result<(), IodListError> {
    let ends_exist = runs.iter().all(|run| last_id(run).is_some());
    let meet = |pair: &[Run]| pair[0].start.checked_add(pair[0].count) == Some(pair[1].start);
    if ends_exist && !runs.windows(2).any(meet) { Ok(()) } else { Err(IodListError::NotCanonical) }
}

fn check_distinct(runs: &[Run]) -> Result<(), IodListError> {
    if runs.len() == 1 {
        return Ok(());
    }
    let mut sorted = runs.to_vec();
    sorted.sort_unstable_by_key(|run| run.start);
    match sorted.windows(2).find(|pair| last_id(&pair[0]) >= Some(pair[1].start)) {
        Some(pair) => Err(IodListError::Repeated(IodId(pair[1].start))),
        None => Ok(()),
    }
}
