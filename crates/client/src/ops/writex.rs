//! Noncontiguous writes: any slices of memory to any regions of the file, one request to each iod.

use pvfs_layout::{Region, Regions};
use pvfs_net::call::Data;
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::Errno;
use pvfs_wire::ops::{OpenFlags, Write};

use super::access::Access;
use super::dealing::{Dealer, Part, Share};
use super::memory::Sources;
use super::staging;
use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// Writes all of `memory`, in order, to `regions` of the file (writex of the HEC extensions). How many there
    /// are of each is independent; they must be as long in all, else EINVAL and nothing is written. `sync`
    /// waits for stable storage. EINVAL through an open for appending too: regions have places of their own.
    ///
    /// EINVAL for a file opened for appending: its writes have one place to go.
    ///
    /// Where regions overlap, the file then holds the bytes of the last of them in the order given. Returns the
    /// bytes written, which are all; after an error any of them may have been.
    pub async fn writex(
        &self,
        file: &OpenFile,
        memory: &[&[u8]],
        regions: &[Region],
        sync: bool,
    ) -> Result<u64> {
        self.write_access(file, memory, &Access::of_list(regions)?, sync).await
    }

    /// The like for regions that are described in a few words.
    pub async fn write_regions(
        &self,
        file: &OpenFile,
        memory: &[&[u8]],
        regions: &Regions,
        sync: bool,
    ) -> Result<u64> {
        self.write_access(file, memory, &Access::of(regions), sync).await
    }

    async fn write_access(
        &self,
        file: &OpenFile,
        memory: &[&[u8]],
        access: &Access<'_>,
        sync: bool,
    ) -> Result<u64> {
        if !file.flags.has(OpenFlags::WRITE) {
            return Err(Errno::EBADF.into());
        }
        if file.flags.has(OpenFlags::APPEND) {
            return Err(Errno::EINVAL.into());
        }
        if file.flags.has(OpenFlags::APPEND) {
            return Err(Errno::EINVAL.into());
        }
        let bytes = memory.iter().map(|slice| slice.len() as u64).sum();
        if access.total_bytes() != bytes {
            return Err(Errno::EINVAL.into());
        }
        self.filesystem.check_lock(file.handle)?;
        file.progress().begin();
        let limits = self.filesystem.request_limits();
        let mut dealer = Dealer::new(&file.placement.dist, access, Sources::new(memory), limits);
        while let Some(part) = dealer.next_part() {
            let written = self.write_part(file, &part, sync).await;
            file.changes().note(part.ranges(), self.now(), written.is_err());
            written?;
        }
        file.progress().end();
        Ok(bytes)
    }

    async fn write_part(&self, file: &OpenFile, part: &Part<'_, &[u8]>, sync: bool) -> Result<()> {
        loop {
            let writes = part.shares.iter().map(|share| self.write_regions_of(file, share, sync));
            let written: Result<()> = all(writes).await.into_iter().collect();
            match written {
                Err(error) if error.errno() == Errno::EKEYEXPIRED => self.renew(file).await?,
                written => return written,
            }
        }
    }

    async fn write_regions_of(
        &self,
        file: &OpenFile,
        share: &Share<&[u8]>,
        sync: bool,
    ) -> Result<()> {
        let slot = share.slot;
        let iod = self.filesystem.iod_of(&file.placement, slot)?;
        let staged = staging::is_cheaper(&share.pieces[..]).then(|| staging::gather(&share.pieces));
        let whole = staged.as_deref().map(|staged| [staged]);
        let out = whole.as_ref().map_or(&share.pieces[..], |whole| &whole[..]);
        let moved = self
            .carrying(&share.regions)
            .transfer::<Write>(
                iod,
                &file.shown(),
                |access| Write { access, slot, regions: share.regions.clone(), sync },
                &mut Data { out, ..Data::default() },
            )
            .await?;
        file.changes().unsynced.wrote(slot, moved.boot, sync);
        Ok(())
    }
}
