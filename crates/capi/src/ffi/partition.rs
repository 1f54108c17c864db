//! Partitions as C has them.

use pvfs_client::{Partition, View};
use pvfs_wire::Errno;

/// `struct fpart`
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fpart {
    offset: i64,
    gsize: i64,
    stride: i64,
    gstride: i64,
    ngroups: i64,
}

/// The partition, if it makes sense.
pub fn view_of(part: &Fpart) -> Result<View, Errno> {
    let number = |number: i64| u64::try_from(number).map_err(|_| Errno::EINVAL);
    View::new(Partition {
        offset: number(part.offset)?,
        gsize: number(part.gsize)?,
        stride: number(part.stride)?,
        gstride: number(part.gstride)?,
        ngroups: number(part.ngroups)?,
    })
    .map_err(|error| error.errno())
}

impl Fpart {
    /// As C has it; every number came from C.
    pub fn of(view: &View) -> Self {
        let Partition { offset, gsize, stride, gstride, ngroups } = view.partition();
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Self {
            offset: number(offset),
            gsize: number(gsize),
            stride: number(stride),
            gstride: number(gstride),
            ngroups: number(ngroups),
        }
    }
}
