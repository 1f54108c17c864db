//! An open file: what it takes to talk to its iods, and what has been written through it.

use std::iter;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

use pvfs_layout::Distribution;
use pvfs_net::call::Shown;
use pvfs_wire::attr::{Attr, Placement, Time};
use pvfs_wire::ops::{OpenFlags, SHARED_OPEN_NUMBER, Wrote};
use pvfs_wire::{Bytes, Errno, Handle};

use crate::loans::Loans;
use crate::progress::{Changes, Progress};

/// A regular file that is open. Positions are the caller's business.
///
/// Closing is explicit ([`crate::User::close`]): a file that is merely dropped stays open at the manager until
/// this client's lease ends.
#[derive(Debug)]
pub struct OpenFile {
    /// The file.
    pub handle: Handle,
    /// How it was opened.
    pub flags: OpenFlags,
    /// Where its data lie.
    pub placement: Placement,
    pub(crate) registration: Registration,
    shown: Mutex<Shown>,
    loans: Mutex<Loans>,
    progress: Progress,
}

/// How the manager knows of an open.
#[derive(Clone, Debug)]
pub(crate) enum Registration {
    /// This client opened it, under this number.
    Own(u64),
    /// It is a shared open, with this group handle and this number.
    Shared(Bytes, u64),
}

impl OpenFile {
    pub(crate) fn new(
        attr: &Attr,
        flags: OpenFlags,
        placement: Placement,
        registration: Registration,
        shown: Shown,
    ) -> Self {
        let handle = attr.handle;
        let (shown, loans) = (Mutex::new(shown), Mutex::default());
        let progress = Progress::new(attr);
        Self { handle, flags, placement, registration, shown, loans, progress }
    }

    /// Whoever changes the file through this open begins before that, and ends when all is noted.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The number of this client's own open; EINVAL for one that was shared by others.
    pub(crate) fn own(&self) -> Result<u64, Errno> {
        match self.registration {
            Registration::Own(open) => Ok(open),
            Registration::Shared(..) => Err(Errno::EINVAL),
        }
    }

    /// The client, real or not, that the manager knows as the opener, and its number for the open.
    pub(crate) fn registered(&self, own_client: u64) -> (u64, u64) {
        match self.registration {
            Registration::Own(open) => (own_client, open),
            Registration::Shared(_, number) => (number, SHARED_OPEN_NUMBER),
        }
    }

    /// How many iods hold the file.
    pub fn slots(&self) -> u32 {
        self.placement.dist.slots()
    }

    pub(crate) fn shown(&self) -> Shown {
        self.shown.lock().expect(NO_PANIC).clone()
    }

    /// Takes a renewed capability into use.
    pub(crate) fn renewed(&self, token: Bytes) {
        let mut shown = self.shown.lock().expect(NO_PANIC);
        shown.version += 1;
        shown.token = token;
    }

    /// Notes a write that is done, or (`uncertain`) one whose fate is not known.
    pub(crate) fn note_write(&self, range: Range<u64>, mtime: Time, uncertain: bool) {
        self.changes().note(iter::once(range), mtime, uncertain);
    }

    /// Notes that somebody stopped waiting for a write that would have ended at `end`: its fate is not known.
    pub fn abandoned_write(&self, end: u64, mtime: Time) {
        self.note_write(end..end, mtime, true);
    }

    /// When the last write through this open was done, by this client's clock. The file has this modification
    /// time once it is closed.
    pub fn last_write(&self) -> Option<Time> {
        self.wrote().map(|wrote| wrote.mtime)
    }

    /// What iods of this node have lent of the file.
    pub(crate) fn loans(&self) -> MutexGuard<'_, Loans> {
        self.loans.lock().expect(NO_PANIC)
    }

    /// What was done to it so far.
    pub(crate) fn changes(&self) -> MutexGuard<'_, Changes> {
        self.progress.changes()
    }

    /// What was written so far.
    pub(crate) fn wrote(&self) -> Option<Wrote> {
        self.changes().wrote
    }
}

const NO_PANIC: &str = "no code panics while it holds this";
