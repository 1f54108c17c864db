//! Which iods a file lies on: the user's `{base, pcount, ssize}` and the explicit list made of it.
//!
//! ```text
//! cluster, in order   io0  io1  io2  io3  io4  io5
//! base 4, pcount 3    slot 2              slot 0  slot 1      list: (4, 2), (0, 1)
//! ```
//!
//! The parameters are those of PVFS 1. They are resolved once, when the file is created; the file
//! then keeps the list, so that iods which join later change nothing for it.

mod base;
mod iod_list;

pub use base::choose_base;
pub use iod_list::{IodId, IodList, IodListError};

use crate::distribution::{Dist, DistError, Distribution, Scheme};

/// PVFS 1's parameters of a file. `None` stands for its -1: the default.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub struct Placement {
    /// Where slot 0 is, as a position in the cluster's order of iods. Default: chosen by free space.
    pub base: Option<u32>,
    /// Number of iods. Default: all.
    pub pcount: Option<u32>,
    /// Strip size in bytes. Default: that of the scheme.
    pub ssize: Option<u64>,
}

/// Why a placement was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum PlacementError {
    /// Below -1, or beyond the range of the parameter.
    #[error("{name} must be -1 (the default) or a number in range, not {value}")]
    OutOfRange {
        /// Which parameter.
        name: &'static str,
        /// What was given.
        value: i64,
    },
    /// No iod is at the position `base`.
    #[error("base {base} does not exist: the file system has iods 0 to {}", iods.saturating_sub(1))]
    NoSuchBase {
        /// The base asked for.
        base: u32,
        /// How many iods there are.
        iods: u32,
    },
    /// More iods than the cluster has.
    #[error("pcount {pcount} is more than the {iods} iods of the file system")]
    TooManyIods {
        /// Iods asked for.
        pcount: u32,
        /// How many iods there are.
        iods: u32,
    },
    /// The cluster has no iods, or pcount is 0.
    #[error("a file needs at least one iod")]
    NoIods,
    /// The scheme does not fit on these iods.
    #[error(transparent)]
    Dist(#[from] DistError),
    /// The cluster's order of iods is not usable.
    #[error(transparent)]
    IodList(#[from] IodListError),
}

impl Placement {
    /// From PVFS 1's integers, where -1 means the default.
    pub fn from_pvfs1(base: i64, pcount: i64, ssize: i64) -> Result<Self, PlacementError> {
        Ok(Self {
            base: or_default("base", base)?,
            pcount: or_default("pcount", pcount)?,
            ssize: or_default("ssize", ssize)?,
        })
    }

    /// The iods of a new file in slot order, from the cluster's `iods` in their order.
    /// `default_base` (see [`choose_base`]) is used when the user chose none.
    pub fn resolve(&self, iods: &[IodId], default_base: u32) -> Result<IodList, PlacementError> {
        let count = u32::try_from(iods.len()).unwrap_or(u32::MAX);
        let pcount = self.pcount.unwrap_or(count);
        if count == 0 || pcount == 0 {
            return Err(PlacementError::NoIods);
        }
        if pcount > count {
            return Err(PlacementError::TooManyIods { pcount, iods: count });
        }
        let base = self.base.unwrap_or(default_base);
        if base >= count {
            return Err(PlacementError::NoSuchBase { base, iods: count });
        }
        let (before, after) = iods.split_at(base as usize);
        Ok(IodList::new(after.iter().chain(before).copied().take(pcount as usize))?)
    }

    /// The distribution and the iods of a new file: as many iods as the distribution has slots.
    pub fn place(
        &self,
        scheme: &Scheme,
        iods: &[IodId],
        default_base: u32,
    ) -> Result<(Dist, IodList), PlacementError> {
        let mut list = self.resolve(iods, default_base)?;
        let dist = match self.ssize {
            Some(ssize) => scheme.clone().with_ssize(ssize).over(list.len())?,
            None => scheme.over(list.len())?,
        };
        list.truncate(dist.slots());
        Ok((dist, list))
    }
}

fn or_default<T: TryFrom<i64>>(
    name: &'static str,
    value: i64,
) -> Result<Option<T>, PlacementError> {
    if value == -1 {
        return Ok(None);
    }
    T::try_from(value).map(Some).map_err(|_| PlacementError::OutOfRange { name, value })
}
