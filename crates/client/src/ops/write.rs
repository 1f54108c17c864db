//! Writing: one request to each iod that holds part of the range, all at once.

use std::iter;
use std::ops::Range;

use pvfs_layout::{Distribution, Place};
use pvfs_net::call::Data;
use pvfs_net::lane::LentRange;
use pvfs_net::loan::is_in_one_page;
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::Errno;
use pvfs_wire::attr::Time;
use pvfs_wire::ops::{LoanFor, OpenFlags, Write};

use super::pieces::{Share, deal_ref, regions, windows};
use crate::error::Result;
use crate::file::OpenFile;
use crate::loans::Advice;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// Writes all of `buffer` at `offset`, or fails. `sync` waits for stable storage (O_SYNC).
    ///
    /// Through an open for appending it goes to the end of the file instead, whatever `offset` says, as pwrite(2)
    /// does on Linux: that other appenders never hit what is written holds for every write of such an open.
    ///
    /// After a failure in the middle of a long write the bytes before [`Self::write_at`]'s error may have been
    /// written; nothing beyond the range ever is.
    pub async fn write_at(
        &self,
        file: &OpenFile,
        offset: u64,
        buffer: &[u8],
        sync: bool,
    ) -> Result<()> {
        if file.flags.has(OpenFlags::APPEND) {
            return self.append(file, buffer, sync).await.map(|_| ());
        }
        self.write_in_place(file, offset, buffer, sync).await
    }

    /// The like, at `offset` also through an open for appending: pages of a mapping are written back so, which
    /// lie within the file. Beyond its end it would be in the way of appends.
    pub async fn write_in_place(
        &self,
        file: &OpenFile,
        offset: u64,
        buffer: &[u8],
        sync: bool,
    ) -> Result<()> {
        if !sync && self.write_at_once(file, offset, buffer)? {
            return Ok(());
        }
        let end = self.begin_write(file, offset, buffer)?;
        let mut rest = buffer;
        for window in
            windows(&file.placement.dist, offset..end, self.filesystem.options().request_bytes_max)
        {
            let (part, tail) = rest.split_at((window.end - window.start) as usize);
            rest = tail;
            let written = self.write_window(file, &window, part, sync).await;
            file.note_write(window, self.now(), written.is_err());
            written?;
        }
        file.progress().end();
        Ok(())
    }

    /// The like, if it can be done without waiting for anybody: false when not, and nothing was written then. For callers
    /// to whom making a future costs as much as a small write.
    pub fn write_at_once(&self, file: &OpenFile, offset: u64, buffer: &[u8]) -> Result<bool> {
        let end = self.begin_write(file, offset, buffer)?;
        let may_be_lent = !file.flags.has(OpenFlags::APPEND);
        let written = may_be_lent.then(|| self.write_strip_lent(file, offset, buffer)).flatten();
        let now = self.now();
        let mut changes = file.changes();
        if let Some((slot, boot)) = written {
            changes.note(iter::once(offset..end), now, false);
            changes.unsynced.wrote(slot, boot, false);
        }
        changes.ended();
        Ok(written.is_some())
    }

    /// Begins a write that may be done; says where it ends.
    fn begin_write(&self, file: &OpenFile, offset: u64, buffer: &[u8]) -> Result<u64> {
        if !file.flags.has(OpenFlags::WRITE) {
            return Err(Errno::EBADF.into());
        }
        self.filesystem.check_lock(file.handle)?;
        let end = offset.checked_add(buffer.len() as u64);
        let end = end.filter(|end| *end <= pvfs_layout::FILE_SIZE_MAX).ok_or(Errno::EFBIG)?;
        file.progress().begin();
        Ok(end)
    }

    async fn write_window(
        &self,
        file: &OpenFile,
        window: &Range<u64>,
        buffer: &[u8],
        sync: bool,
    ) -> Result<()> {
        loop {
            match self.write_shares(file, window, buffer, sync).await {
                Err(error) if error.errno() == Errno::EKEYEXPIRED => self.renew(file).await?,
                written => return written,
            }
        }
    }

    async fn write_shares(
        &self,
        file: &OpenFile,
        window: &Range<u64>,
        buffer: &[u8],
        sync: bool,
    ) -> Result<()> {
        let shares = deal_ref(&file.placement.dist, window.start, buffer);
        if let [share] = &shares[..] {
            return self.write_share(file, window, share, sync).await;
        }
        let writes = shares.iter().map(|share| self.write_share(file, window, share, sync));
        all(writes).await.into_iter().collect()
    }

    async fn write_share(
        &self,
        file: &OpenFile,
        window: &Range<u64>,
        share: &Share<&[u8]>,
        sync: bool,
    ) -> Result<()> {
        let slot = share.slot;
        let iod = self.filesystem.iod_of(&file.placement, slot)?;
        let local = file.placement.dist.local_range(slot, window.clone());
        let bytes = local.end - local.start;
        let advice = match sync {
            true => Advice::Ask,
            false => self.advise(file, iod, slot, LoanFor::Writing, bytes),
        };
        let (mut lent, mut staged) = (None, None);
        if let Advice::Borrowed(loan) = &advice {
            let begun = self.filesystem.runtime().now();
            let place = Place { slot, local: local.start };
            if !is_in_one_page(local.start, bytes as usize) {
                let staging = self.filesystem.staging();
                staged = staging.stage(self.filesystem.runtime(), &share.pieces);
                let (local, buffers) = (local.start, staging.buffers());
                lent = Some((LentRange { loan, local, buffers }, begun));
            } else if self.write_lent(file, loan, place, &share.pieces, begun).is_some() {
                file.changes().unsynced.wrote(slot, loan.boot, false);
                return Ok(());
            }
        }
        let regions = regions(window)?;
        let staged = staged.as_deref().map(|staged| [staged]);
        let out = staged.as_ref().map_or(&share.pieces[..], |staged| &staged[..]);
        let moved = self
            .transfer::<Write>(
                iod,
                &file.shown(),
                |access| Write { access, slot, regions: regions.clone(), sync },
                &mut Data { out, lent: lent.map(|lent| lent.0), ..Data::default() },
            )
            .await?;
        if let Some((_, begun)) = lent {
            self.rest_if_slow(file, slot, begun);
        }
        file.changes().unsynced.wrote(slot, moved.boot, sync);
        if let Advice::Borrow = advice {
            self.borrow(file, slot, iod, LoanFor::Writing).await;
        }
        Ok(())
    }

    /// The time to give a change of a file's data.
    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(self.filesystem.runtime().wall_ns())
    }
}
