//! Reading by loan: the bytes of one slot directly from the object, where its iod runs on this node and lends it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use pvfs_layout::{Distribution, Intersection, Regions};
use pvfs_net::call::{Data, Patience, Server};
use pvfs_net::loan::{Loan, WHOLE};
use pvfs_net::runtime::Runtime;
use pvfs_wire::Errno;
use pvfs_wire::ops::Lend;

use super::pieces::Share;
use super::read::SlotEnd;
use crate::error::Result;
use crate::file::OpenFile;
use crate::loans::Advice;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// How so many bytes of a slot are to be had.
    pub(super) fn advise(&self, file: &OpenFile, iod: &Server<R>, slot: u32, bytes: u64) -> Advice {
        if !self.filesystem.options().borrows || !iod.is_on_this_node() {
            return Advice::Ask;
        }
        file.loans().advise(slot, bytes, self.filesystem.runtime().now())
    }

    /// Reads a share from the object itself; `None` when the iod has to be asked after all.
    pub(super) fn read_lent(
        &self,
        file: &OpenFile,
        loan: &Loan,
        window: &Range<u64>,
        share: &mut Share<&mut [u8]>,
    ) -> Option<SlotEnd> {
        let slot = share.slot;
        let local = file.placement.dist.local_range(slot, window.clone());
        let now = self.filesystem.runtime().now();
        let read = loan.read(local.start, &mut share.pieces, now)?;
        let short = (read.bytes as u64) < local.end - local.start;
        Some(SlotEnd { slot, local_size: read.local_size, got: read.bytes, short })
    }

    /// Reads what a slot holds of these regions from the object itself; returns the object's size.
    pub(super) fn read_regions_lent(
        &self,
        file: &OpenFile,
        loan: &Loan,
        slot: u32,
        regions: &Regions,
        pieces: &mut [&mut [u8]],
    ) -> Option<u64> {
        let held = Intersection::new(&file.placement.dist, slot, regions);
        let ranges = held.map(|piece| piece.local..piece.local + piece.len);
        loan.read_ranges(ranges, pieces, self.filesystem.runtime().now())
    }

    /// Borrows the object for the reads to come. That the iod does not lend it is no failure.
    pub(super) async fn borrow(&self, file: &OpenFile, slot: u32, iod: &Server<R>) {
        match self.ask_for_loan(file, iod).await {
            Ok(loan) => file.loans().lent(slot, Arc::new(loan)),
            Err(error) => tracing::debug!(iod = iod.name(), %error, "object not lent"),
        }
    }

    async fn ask_for_loan(&self, file: &OpenFile, iod: &Server<R>) -> Result<Loan> {
        let caller = self.filesystem.caller();
        let (asked, shown) = (caller.runtime.now(), file.shown());
        let make = |access| Lend { access };
        let mut nothing = Data::default();
        let moved =
            caller.transfer(iod, &self.principal, &shown, make, &mut nothing, PATIENCE).await?;
        let (lent, files) = (moved.reply, <[_; 2]>::try_from(moved.files));
        let [object, words] = files.map_err(|_| Errno::EOPNOTSUPP)?;
        let words = self.filesystem.boards().words(lent.words, &words).ok_or(Errno::EOPNOTSUPP)?;
        Ok(Loan {
            file: caller.runtime.keep(object).ok_or(Errno::EMFILE)?,
            words,
            whole: (WHOLE, lent.whole),
            object: (lent.word, lent.value),
            in_memory: lent.in_memory,
            until: asked.after(Duration::from_millis(u64::from(lent.valid_ms))),
        })
    }
}

/// A read that is done already waits this long, once, to make the next ones faster.
const PATIENCE: Patience = Patience { timeout: Duration::from_millis(500), insist: false };
