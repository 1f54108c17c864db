//! A partition of a file, read and written as if it were all there is (PVFS 1, paper 000 §3.3).
//!
//! ```text
//! file       |..####....####....####..|     offset 2, gsize 4, stride 8
//! view         |####    ####    ####        positions 0..4, 4..8, 8..12
//! ```

use pvfs_layout::{Partition, Regions};
use pvfs_net::runtime::Runtime;
use pvfs_wire::Errno;

use crate::error::Result;
use crate::file::OpenFile;
use crate::ops::access::refusal;
use crate::user::User;

/// A partition that makes sense: its groups follow one another in the file. It is local to whoever made it; any
/// number of views of one open file can be used side by side.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct View(Partition);

impl View {
    /// The bytes of the file that `partition` names. With a `gsize` of 0 that is the whole file from `offset`
    /// on; with a `gstride` and `ngroups` of 0 the groups are not nested.
    ///
    /// # Errors
    /// EINVAL when groups would overlap or go backwards.
    pub fn new(partition: Partition) -> Result<Self> {
        let Partition { gsize, stride, gstride, ngroups, .. } = partition;
        let nested = ngroups > 0 || gstride > 0;
        let groups_apart = gsize == 0 || stride >= gsize || ngroups == 1;
        let set_bytes =
            ngroups.checked_sub(1).and_then(|more| more.checked_mul(stride)?.checked_add(gsize));
        let sets_apart = gsize == 0 || !nested || set_bytes.is_some_and(|bytes| gstride >= bytes);
        if groups_apart && sets_apart { Ok(Self(partition)) } else { Err(Errno::EINVAL.into()) }
    }

    /// The whole file.
    pub fn whole() -> Self {
        Self(Partition::default())
    }

    /// What it was made from.
    pub fn partition(&self) -> Partition {
        self.0
    }

    /// How many bytes of the view lie before the end of a file of this size.
    pub fn bytes_before(&self, size: u64) -> u64 {
        let Partition { offset, gsize, stride, gstride, ngroups } = self.0;
        let beyond = size.saturating_sub(offset);
        // Of `bytes` of the file from the first of groups on; at most `groups` of them.
        let of_groups = |bytes: u64, groups: u64| {
            let whole = bytes.checked_div(stride).unwrap_or(0).min(groups);
            let rest = if whole < groups { bytes - whole * stride } else { 0 };
            whole * gsize + rest.min(gsize)
        };
        match (gsize, ngroups) {
            (0, _) => beyond,
            (_, 0) => of_groups(beyond, u64::MAX),
            _ => {
                let (sets, rest) = (beyond / gstride, beyond % gstride);
                sets * ngroups * gsize + of_groups(rest, ngroups)
            }
        }
    }

    /// Where in the file `len` bytes from `position` on are.
    pub fn regions(&self, position: u64, len: u64) -> Result<Regions> {
        let regions = match self.0.gsize {
            0 => match self.0.offset.checked_add(position) {
                Some(offset) => Regions::contiguous(offset, len),
                None => return Err(Errno::EFBIG.into()),
            },
            _ => Regions::partition(&self.0, position, len),
        };
        Ok(regions.map_err(refusal)?)
    }
}

impl<R: Runtime> User<R> {
    /// Reads from `position` of the view into `buffer`, as one request to each iod; returns how many bytes, fewer
    /// only at the end of the file.
    pub async fn read_view(
        &self,
        file: &OpenFile,
        view: &View,
        position: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let regions = view.regions(position, buffer.len() as u64)?;
        Ok(self.read_regions(file, &mut [buffer], &regions).await? as usize)
    }

    /// Writes all of `buffer` at `position` of the view, as one request to each iod.
    pub async fn write_view(
        &self,
        file: &OpenFile,
        view: &View,
        position: u64,
        buffer: &[u8],
        sync: bool,
    ) -> Result<()> {
        let regions = view.regions(position, buffer.len() as u64)?;
        self.write_regions(file, &[buffer], &regions, sync).await.map(|_| ())
    }
}
