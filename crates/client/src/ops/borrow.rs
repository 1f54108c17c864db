//! Reading and writing by loan: the bytes of one slot directly in the object, where its iod runs on this node and lends it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pvfs_layout::{Distribution, Intersection, Place, Regions};
use pvfs_net::call::{Data, Patience, Server};
use pvfs_net::loan::{Loan, WHOLE};
use pvfs_net::marked::MarkedFile;
use pvfs_net::runtime::{Instant, Runtime};
use pvfs_wire::Errno;
use pvfs_wire::ops::{Lend, LoanFor};

use super::pieces::Share;
use super::read::SlotEnd;
use crate::error::Result;
use crate::file::OpenFile;
use crate::loans::Advice;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// How so many bytes of a slot's object are to be had, or written.
    pub(super) fn advise(
        &self,
        file: &OpenFile,
        iod: &Server<R>,
        slot: u32,
        purpose: LoanFor,
        bytes: u64,
    ) -> Advice {
        if !self.filesystem.options().borrows || !iod.is_on_this_node() {
            return Advice::Ask;
        }
        file.loans().advise(slot, purpose, bytes, self.filesystem.runtime().now())
    }

    /// Reads a range that lies in one strip of an object on loan. False when it takes more than that: nothing was read then.
    pub(super) fn read_strip_lent(&self, file: &OpenFile, offset: u64, into: &mut [u8]) -> bool {
        let lent = self.strip_lent(file, LoanFor::Reading, offset, into.len());
        lent.is_some_and(|(loan, place, now)| loan.fill(place.local, into, now).is_some())
    }

    /// Writes a range that lies in one strip of an object on loan, and says of which slot and in which boot of its
    /// iod. `None` when it takes more than that.
    pub(super) fn write_strip_lent(
        &self,
        file: &OpenFile,
        offset: u64,
        from: &[u8],
    ) -> Option<(u32, u64)> {
        let (loan, place, now) = self.strip_lent(file, LoanFor::Writing, offset, from.len())?;
        self.write_lent(file, &loan, place, &[from], now)?;
        Some((place.slot, loan.boot))
    }

    fn strip_lent(
        &self,
        file: &OpenFile,
        purpose: LoanFor,
        offset: u64,
        bytes: usize,
    ) -> Option<(Arc<Loan>, Place, Instant)> {
        if bytes == 0 || bytes as u64 > STRIP_BYTES_MAX || !self.filesystem.options().borrows {
            return None;
        }
        let (dist, now) = (&file.placement.dist, self.filesystem.runtime().now_about());
        let place = dist.locate(offset);
        let loan = file.loans().borrowed(place.slot, purpose)?;
        let is_in_strip = dist.contiguous_from(place.slot, place.local) >= bytes as u64;
        is_in_strip.then_some((loan, place, now))
    }

    /// Writes into the object itself; `None` when the iod has to do it after all.
    pub(super) fn write_lent(
        &self,
        file: &OpenFile,
        loan: &Loan,
        place: Place,
        from: &[&[u8]],
        begun: Instant,
    ) -> Option<()> {
        // What was given up and can still land would land on top of this.
        let iod = self.filesystem.iod_of(&file.placement, place.slot).ok()?;
        let written = iod.is_whole().then(|| loan.write(place.local, from, begun))?;
        // This process may have been stopped in the middle.
        let done = self.rest_if_slow(file, place.slot, begun);
        written.filter(|()| done < loan.until)
    }

    /// After a write that had to wait its iod is asked for the next ones, which has the threads for that. Returns what
    /// time it is.
    pub(super) fn rest_if_slow(&self, file: &OpenFile, slot: u32, begun: Instant) -> Instant {
        let done = self.filesystem.runtime().now_about();
        if begun.until(done) > SLOW {
            file.loans().rest(slot, LoanFor::Writing, done);
        }
        done
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

    /// Borrows the object for what is to come. That the iod does not lend it is no failure.
    pub(super) async fn borrow(
        &self,
        file: &OpenFile,
        slot: u32,
        iod: &Server<R>,
        purpose: LoanFor,
    ) {
        match self.ask_for_loan(file, iod, purpose).await {
            Ok(loan) => file.loans().lent(slot, purpose, Arc::new(loan)),
            Err(error) => tracing::debug!(iod = iod.name(), %error, "object not lent"),
        }
    }

    async fn ask_for_loan(
        &self,
        file: &OpenFile,
        iod: &Server<R>,
        purpose: LoanFor,
    ) -> Result<Loan> {
        let caller = self.filesystem.caller();
        let (asked, shown) = (caller.runtime.now(), file.shown());
        let make = |access| Lend { access, purpose };
        let mut nothing = Data::default();
        let moved =
            caller.transfer(iod, &self.principal, &shown, make, &mut nothing, PATIENCE).await?;
        let (lent, files) = (moved.reply, <[_; 2]>::try_from(moved.files));
        let [object, words] = files.map_err(|_| Errno::EOPNOTSUPP)?;
        let words = self.filesystem.boards().words(lent.words, &words).ok_or(Errno::EOPNOTSUPP)?;
        let file = caller
            .runtime
            .keep(object)
            .and_then(|file| MarkedFile::new(file, caller.runtime.random()));
        Ok(Loan {
            file: file.ok_or(Errno::EMFILE)?,
            words,
            whole: (WHOLE, lent.whole),
            object: (lent.word, lent.value),
            in_memory: lent.in_memory,
            until: asked.after(Duration::from_millis(u64::from(lent.valid_ms))),
            boot: moved.boot,
            spoiled: AtomicBool::new(false),
        })
    }
}

/// Longer reads are in several strips mostly, and take the longer way without harm.
const STRIP_BYTES_MAX: u64 = 64 << 10;

/// A write that took so long had to wait for the disk, and not only for its turn on a busy processor.
const SLOW: Duration = Duration::from_millis(50);

/// An access that is done already waits this long, once, to make the next ones faster.
const PATIENCE: Patience = Patience { timeout: Duration::from_millis(500), insist: false };
