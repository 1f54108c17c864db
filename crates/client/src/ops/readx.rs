//! Noncontiguous reads: any regions of the file into any slices of memory, one request to each iod.

use pvfs_layout::{Distribution, Region, Regions};
use pvfs_net::call::Data;
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::Errno;
use pvfs_wire::ops::{LoanFor, OpenFlags, Read};

use super::access::Access;
use super::dealing::{Dealer, Part, Share};
use super::memory::Targets;
use super::staging;
use crate::error::Result;
use crate::file::OpenFile;
use crate::loans::Advice;
use crate::user::User;

/// What one slot's reply says of the end of the file.
struct SlotEnd {
    slot: u32,
    local_size: u64,
}

impl<R: Runtime> User<R> {
    /// Reads `regions` of the file, in this order, into `memory` (readx of the HEC extensions). How many there
    /// are of each is independent; they must be as long in all, else EINVAL.
    ///
    /// Returns how many of the bytes lie before the end of the file; the memory of others is zeroed.
    pub async fn readx(
        &self,
        file: &OpenFile,
        memory: &mut [&mut [u8]],
        regions: &[Region],
    ) -> Result<u64> {
        self.read_access(file, &Access::of_list(regions)?, memory).await
    }

    /// The like for regions that are described in a few words.
    pub async fn read_regions(
        &self,
        file: &OpenFile,
        memory: &mut [&mut [u8]],
        regions: &Regions,
    ) -> Result<u64> {
        self.read_access(file, &Access::of(regions), memory).await
    }

    async fn read_access(
        &self,
        file: &OpenFile,
        access: &Access<'_>,
        memory: &mut [&mut [u8]],
    ) -> Result<u64> {
        if !file.flags.any(OpenFlags::READ | OpenFlags::EXECUTE) {
            return Err(Errno::EBADF.into());
        }
        let room = memory.iter().map(|slice| slice.len() as u64).sum();
        if access.total_bytes() != room {
            return Err(Errno::EINVAL.into());
        }
        self.filesystem.check_lock(file.handle)?;
        let limits = self.filesystem.request_limits();
        let mut dealer = Dealer::new(&file.placement.dist, access, Targets::new(memory), limits);
        let mut done = 0;
        while let Some(mut part) = dealer.next_part() {
            done += self.read_part(file, &mut part).await?;
        }
        Ok(done)
    }

    /// Reads all shares at once; returns how many bytes lie before the end of the file.
    async fn read_part(&self, file: &OpenFile, part: &mut Part<'_, &mut [u8]>) -> Result<u64> {
        let ends = loop {
            let reads = part.shares.iter_mut().map(|share| self.read_regions_of(file, share));
            let ends: Result<Vec<SlotEnd>> = all(reads).await.into_iter().collect();
            match ends {
                Err(error) if error.errno() == Errno::EKEYEXPIRED => self.renew(file).await?,
                ends => break ends?,
            }
        };
        let mut size = proven_size(file, &ends);
        if size < part.end && (ends.len() as u32) < file.slots() {
            size = size.max(self.size_by_iods(file.handle, &file.placement).await?.size);
        }
        Ok(if size < part.end { part.bytes_before(size) } else { part.bytes })
    }

    async fn read_regions_of(
        &self,
        file: &OpenFile,
        share: &mut Share<&mut [u8]>,
    ) -> Result<SlotEnd> {
        if !staging::is_cheaper(&share.pieces[..]) {
            let Share { slot, regions, pieces, .. } = share;
            return self.read_pieces(file, *slot, regions, pieces).await;
        }
        let mut staged = vec![0; share.bytes as usize];
        let whole = &mut [&mut staged[..]];
        let end = self.read_pieces(file, share.slot, &share.regions, whole).await?;
        staging::scatter(&staged, &mut share.pieces);
        Ok(end)
    }

    async fn read_pieces(
        &self,
        file: &OpenFile,
        slot: u32,
        regions: &Regions,
        pieces: &mut [&mut [u8]],
    ) -> Result<SlotEnd> {
        let iod = self.filesystem.iod_of(&file.placement, slot)?;
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let advice = self.advise(file, iod, slot, LoanFor::Reading, bytes);
        if let Advice::Borrowed(loan) = &advice
            && let Some(local_size) = self.read_regions_lent(file, loan, slot, regions, pieces)
        {
            return Ok(SlotEnd { slot, local_size });
        }
        let moved = self
            .carrying(regions)
            .transfer::<Read>(
                iod,
                &file.shown(),
                |access| Read { access, slot, regions: regions.clone() },
                &mut Data { into: pieces, ..Data::default() },
            )
            .await?;
        super::read::zero_after(pieces, moved.bytes);
        if let Advice::Borrow = advice {
            self.borrow(file, slot, iod, LoanFor::Reading).await;
        }
        Ok(SlotEnd { slot, local_size: moved.reply.local_size })
    }
}

fn proven_size(file: &OpenFile, ends: &[SlotEnd]) -> u64 {
    let prove = |end: &SlotEnd| file.placement.dist.file_end(end.slot, end.local_size).unwrap_or(0);
    ends.iter().map(prove).max().unwrap_or(0)
}
