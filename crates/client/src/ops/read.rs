//! Reading: one request to each iod that holds part of the range, all at once.

use std::ops::Range;

use pvfs_layout::Distribution;
use pvfs_net::call::{Data, Server};
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::Errno;
use pvfs_wire::ops::{LoanFor, OpenFlags, Read};

use super::pieces::{Share, deal_mut, regions, windows};
use crate::error::Result;
use crate::file::OpenFile;
use crate::loans::Advice;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// Reads from `offset` into `buffer`; returns how many bytes, fewer only at the end of the file.
    pub async fn read_at(&self, file: &OpenFile, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        if self.read_at_once(file, offset, buffer)? {
            return Ok(buffer.len());
        }
        let end = offset.saturating_add(buffer.len() as u64).min(pvfs_layout::FILE_SIZE_MAX);
        let mut rest = buffer;
        let mut done = 0;
        for window in
            windows(&file.placement.dist, offset..end, self.filesystem.options().request_bytes_max)
        {
            let (part, tail) = rest.split_at_mut((window.end - window.start) as usize);
            rest = tail;
            let wanted = part.len();
            let got = self.read_window(file, window, part).await?;
            done += got;
            if got < wanted {
                break;
            }
        }
        Ok(done)
    }

    /// Fills all of `buffer`, if that can be done without waiting for anybody: false when not, and then it holds anything. For
    /// callers to whom making a future costs as much as a small read.
    pub fn read_at_once(&self, file: &OpenFile, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        if !file.flags.any(OpenFlags::READ | OpenFlags::EXECUTE) {
            return Err(Errno::EBADF.into());
        }
        self.filesystem.check_lock(file.handle)?;
        let end = offset.checked_add(buffer.len() as u64);
        let is_within = end.is_some_and(|end| end <= pvfs_layout::FILE_SIZE_MAX);
        Ok(is_within && self.read_strip_lent(file, offset, buffer))
    }

    async fn read_window(
        &self,
        file: &OpenFile,
        window: Range<u64>,
        buffer: &mut [u8],
    ) -> Result<usize> {
        loop {
            match self.read_shares(file, &window, buffer).await {
                Err(error) if error.errno() == Errno::EKEYEXPIRED => self.renew(file).await?,
                Err(error) => return Err(error),
                Ok(ends) => {
                    let readable = self.readable(file, window.clone(), &ends).await?;
                    zero_holes(file, &window, &mut buffer[..readable], &ends);
                    return Ok(readable);
                }
            }
        }
    }

    /// Fills the buffer but for where nothing was ever written; returns what each slot told.
    async fn read_shares(
        &self,
        file: &OpenFile,
        window: &Range<u64>,
        buffer: &mut [u8],
    ) -> Result<Vec<SlotEnd>> {
        let mut shares = deal_mut(&file.placement.dist, window.start, buffer);
        if let [share] = &mut shares[..] {
            return Ok(vec![self.read_share(file, window, share).await?]);
        }
        let reads = shares.iter_mut().map(|share| self.read_share(file, window, share));
        all(reads).await.into_iter().collect()
    }

    async fn read_share(
        &self,
        file: &OpenFile,
        window: &Range<u64>,
        share: &mut Share<&mut [u8]>,
    ) -> Result<SlotEnd> {
        let slot = share.slot;
        let iod = self.filesystem.iod_of(&file.placement, slot)?;
        let bytes = share.pieces.iter().map(|piece| piece.len() as u64).sum();
        let advice = self.advise(file, iod, slot, LoanFor::Reading, bytes);
        if let Advice::Borrowed(loan) = &advice
            && let Some(end) = self.read_lent(file, loan, window, share)
        {
            return Ok(end);
        }
        let end = self.read_asked(file, iod, window, share).await?;
        if let Advice::Borrow = advice {
            self.borrow(file, slot, iod, LoanFor::Reading).await;
        }
        Ok(end)
    }

    async fn read_asked(
        &self,
        file: &OpenFile,
        iod: &Server<R>,
        window: &Range<u64>,
        share: &mut Share<&mut [u8]>,
    ) -> Result<SlotEnd> {
        let slot = share.slot;
        let regions = regions(window)?;
        let wanted: usize = share.pieces.iter().map(|piece| piece.len()).sum();
        let moved = self
            .transfer::<Read>(
                iod,
                &file.shown(),
                |access| Read { access, slot, regions: regions.clone() },
                &mut Data { into: &mut share.pieces, ..Data::default() },
            )
            .await?;
        let (local_size, short) = (moved.reply.local_size, moved.bytes < wanted);
        Ok(SlotEnd { slot, local_size, got: moved.bytes, short })
    }

    /// How much of the window is within the file: all of it, unless some slot came up short.
    async fn readable(
        &self,
        file: &OpenFile,
        window: Range<u64>,
        ends: &[SlotEnd],
    ) -> Result<usize> {
        let whole = (window.end - window.start) as usize;
        if ends.iter().all(|end| !end.short) {
            return Ok(whole);
        }
        let mut size = proven_size(file, ends);
        if size < window.end && (ends.len() as u32) < file.slots() {
            size = size.max(self.size_by_iods(file.handle, &file.placement).await?.size);
        }
        Ok(size.clamp(window.start, window.end).saturating_sub(window.start) as usize)
    }
}

/// What one slot's reply says of the end of the file.
pub(super) struct SlotEnd {
    pub(super) slot: u32,
    pub(super) local_size: u64,
    /// Bytes that came.
    pub(super) got: usize,
    /// Fewer than were asked for.
    pub(super) short: bool,
}

/// Zeros what lies within the file and did not come. What lies after its end is left as it was, as read(2) leaves it.
fn zero_holes(file: &OpenFile, window: &Range<u64>, readable: &mut [u8], ends: &[SlotEnd]) {
    if ends.iter().all(|end| !end.short) {
        return;
    }
    for mut share in deal_mut(&file.placement.dist, window.start, readable) {
        if let Some(end) = ends.iter().find(|end| end.slot == share.slot) {
            zero_after(&mut share.pieces, end.got);
        }
    }
}

fn proven_size(file: &OpenFile, ends: &[SlotEnd]) -> u64 {
    let prove = |end: &SlotEnd| file.placement.dist.file_end(end.slot, end.local_size).unwrap_or(0);
    ends.iter().map(prove).max().unwrap_or(0)
}

/// Zeros all bytes after the first `got`.
pub(super) fn zero_after(pieces: &mut [&mut [u8]], got: usize) {
    let mut filled = got;
    for piece in pieces {
        let keep = filled.min(piece.len());
        piece[keep..].fill(0);
        filled -= keep;
    }
}
