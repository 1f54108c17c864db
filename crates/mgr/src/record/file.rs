//! A regular file as the manager knows it: where its data lie, its size, and who may be changing it.
//!
//! ```text
//!             open for writing               the last writer closes, all was reported
//!  settled ------------------------> unsettled ------------------------------------> settled
//!      ^                                 |  some end is unknown
//!      |  settle(), exact truncation     v
//!      +--------------------------- unsettled, though nobody writes
//! ```
//!
//! All of it is decided here, without store or clock. While the size is unsettled, `size` is the
//! last settled one, and readers ask the iods.

use pvfs_layout::FILE_SIZE_MAX;
use pvfs_wire::DecodeError;
use pvfs_wire::attr::{Placement, SizeState, Time};
use pvfs_wire::codec::{Reader, Wire};
use pvfs_wire::ops::Truncated;
use pvfs_wire::record;

use super::OpenFile;

/// A regular file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RegularFile {
    /// Bytes, as last settled.
    pub size: u64,
    /// Bytes of disk, as of the same time, where the size does not tell them ([`Placement::disk_figure`]).
    pub disk_bytes: Option<u64>,
    /// The end of some write is unknown: the iods must be asked even when nobody writes.
    pub unsettled: bool,
    /// The iods may hold objects of it.
    pub stored: bool,
    /// It was made without a name, and may be given one still.
    pub linkable: bool,
    /// Grows when the placement changes, so that capabilities for the old one are refused.
    pub layout_epoch: u32,
    /// Where the data lie.
    pub placement: Placement,
    /// Who has it open. All zero, and then not stored, for most files at most times.
    pub writing: Writing,
}

record! {
    /// Who has a file open, and what they have reported.
    #[derive(Copy, Default)]
    pub struct Writing {
        /// Opens of every sort.
        pub opens: u32,
        /// Those that may write.
        pub writers: u32,
        /// Those that may write at the end only.
        pub appenders: u32,
        /// The largest end that a closed writer reported.
        pub end: u64,
        /// When the user chose a modification time during the writing; only later writes change it.
        pub mtime_chosen: Time,
        /// Where the next append goes, as far as reserved.
        pub append_end: u64,
        /// Whether that is the end of the file for certain.
        pub append_exact: bool,
        /// Several had it open for writing at the same time, since it was last settled.
        pub shared: bool,
        /// The truncation under way.
        pub truncation: Option<Truncation>,
    }
}

record! {
    /// A truncation between its ticket and the report that all iods have cut.
    #[derive(Copy)]
    pub struct Truncation {
        /// The ticket.
        pub ticket: u64,
        /// Who holds it.
        pub client: u64,
        /// The open it belongs to, and ends with.
        pub open: Option<u64>,
        /// The size to be.
        pub size: u64,
        /// When it began, by the manager's clock.
        pub began: Time,
        /// Others were or became able to write meanwhile, so the size to be proves nothing.
        pub disturbed: bool,
    }
}

/// What was written through an open that ends.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// The largest end of a write. Space that was set aside may have none.
    pub end: u64,
    /// Whether that is all.
    pub certain: bool,
    /// Bytes of disk that the file takes since, if that was asked.
    pub disk_bytes: Option<u64>,
}

impl RegularFile {
    /// An empty file that no iod has heard of.
    pub fn new(placement: Placement) -> Self {
        Self {
            size: 0,
            disk_bytes: None,
            unsettled: false,
            stored: false,
            linkable: false,
            layout_epoch: 0,
            placement,
            writing: Writing::default(),
        }
    }

    /// Whether the size is the file's, or the iods must be asked.
    pub fn size_state(&self) -> SizeState {
        let quiet = self.writing.writers == 0 && self.writing.truncation.is_none();
        match (quiet, self.unsettled) {
            (true, false) => SizeState::Settled,
            (true, true) => SizeState::Abandoned,
            (false, false) if self.has_one_writer() => SizeState::Alone,
            (false, _) => SizeState::Unsettled,
        }
    }

    /// Whether there is one open for writing, and was no other since the size was last known.
    fn has_one_writer(&self) -> bool {
        let Writing { writers, shared, truncation, .. } = self.writing;
        writers == 1 && !shared && truncation.is_none()
    }

    /// Whether the size is known.
    pub fn is_settled(&self) -> bool {
        self.size_state() == SizeState::Settled
    }

    /// Whether no iod can hold a byte of it, nor anybody write one.
    pub fn is_blank(&self) -> bool {
        self.size == 0 && !self.stored && self.is_settled() && self.writing.opens == 0
    }

    /// One more open. Comes before [`Self::begin_truncation`] of an open that also cuts.
    pub fn begin_open(&mut self, open: &OpenFile) {
        let settled = self.is_settled();
        self.writing.opens = self.writing.opens.saturating_add(1);
        if !open.writes() {
            return;
        }
        self.disturb();
        self.writing.shared = !settled;
        if settled {
            self.writing.end = 0;
            self.writing.append_end = self.size;
        }
        let was_exact = settled || self.writing.append_exact;
        self.writing.append_exact = was_exact && open.appends();
        self.writing.writers = self.writing.writers.saturating_add(1);
        let appends = u32::from(open.appends());
        self.writing.appenders = self.writing.appenders.saturating_add(appends);
    }

    /// One open less. `written` is what is known of writes through it, if there were any.
    pub fn end_open(&mut self, open: &OpenFile, written: Option<Written>) {
        self.writing.opens = self.writing.opens.saturating_sub(1);
        if !open.writes() {
            return;
        }
        self.writing.writers = self.writing.writers.saturating_sub(1);
        self.writing.appenders -= u32::from(open.appends()).min(self.writing.appenders);
        let Written { end, certain, disk_bytes } = written.unwrap_or(NOTHING);
        // Where there are several, what the iods told one of them may be old when the last one closes.
        let outdated = disk_bytes.is_some() && self.writing.shared;
        self.writing.end = self.writing.end.max(end.min(FILE_SIZE_MAX));
        self.unsettled |= !certain || outdated || end > FILE_SIZE_MAX;
        self.stored |= written.is_some();
        if self.writing.writers == 0 {
            self.end_writing();
        }
        if let Some(disk_bytes) = disk_bytes.filter(|_| !outdated) {
            self.note_disk(disk_bytes);
        }
    }

    /// What the iods told of the disk it takes at its size.
    fn note_disk(&mut self, disk_bytes: u64) {
        self.disk_bytes = self.placement.disk_figure(self.size, disk_bytes);
    }

    /// Whether the truncation under way, if any, has taken so long that its client must have given
    /// up, and forgotten to say so; requests to iods do not live as long.
    pub fn truncation_is_over(&self, now: Time) -> bool {
        self.writing.truncation.is_none_or(|truncation| {
            now.seconds.abs_diff(truncation.began.seconds) > TRUNCATION_S_MAX
        })
    }

    /// Gives out the right to cut or extend the file to `size` bytes.
    pub fn begin_truncation(&mut self, mut truncation: Truncation, opens_for_it: u32) {
        let others = self.writing.writers > opens_for_it || self.writing.truncation.is_some();
        truncation.disturbed = others;
        self.stored = true;
        self.writing.truncation = Some(truncation);
    }

    /// The truncation that has ended has reached its size, or failed. Says whether that size now is the file's;
    /// `None` when no such truncation is under way.
    pub fn end_truncation(&mut self, client: u64, ended: &Truncated) -> Option<bool> {
        let under_way = self.writing.truncation?;
        if (under_way.ticket, under_way.client) != (ended.ticket, client) {
            return None;
        }
        self.writing.truncation = None;
        let reached = ended.size == Some(under_way.size);
        if reached {
            self.size = under_way.size;
            self.disk_bytes = None;
            ended.disk_bytes.into_iter().for_each(|told| self.note_disk(told));
            self.writing.append_end = under_way.size;
        }
        self.unsettled = !reached || under_way.disturbed;
        // While it was cut exactly, nobody else could write.
        self.writing.shared = self.unsettled;
        self.writing.append_exact =
            !self.unsettled && self.writing.appenders == self.writing.writers;
        Some(!self.unsettled)
    }

    /// The truncation ends without a word: its client is gone or has closed.
    pub fn drop_truncation(&mut self) {
        if self.writing.truncation.take().is_some() {
            self.unsettled = true;
            self.writing.append_exact = false;
        }
    }

    /// What the iods say, when that is still news.
    pub fn settle(&mut self, size: u64, disk_bytes: u64) -> bool {
        let quiet = self.writing.writers == 0 && self.writing.truncation.is_none();
        if !quiet || !self.unsettled || size > FILE_SIZE_MAX {
            return false;
        }
        self.size = size;
        self.note_disk(disk_bytes);
        self.unsettled = false;
        self.writing.mtime_chosen = Time::default();
        true
    }

    /// Reserves `bytes` at the end, which is `end` by the iods. `None` when they must be asked first.
    pub fn reserve(&mut self, bytes: u64, end: Option<u64>) -> Option<u64> {
        if !self.writing.append_exact && end.is_none() {
            return None;
        }
        // What others have reserved may not have been written when the iods were asked.
        let reserved = self.writing.append_end;
        let offset = if self.writing.append_exact { reserved } else { reserved.max(end?) };
        self.writing.append_end = offset.saturating_add(bytes);
        self.stored = true;
        Some(offset)
    }

    /// The modification time after a write at `written`, when it was `mtime` before.
    pub fn mtime_after(&mut self, mtime: Time, written: Time) -> Time {
        let chosen = self.writing.mtime_chosen;
        if chosen == Time::default() {
            return mtime.max(written);
        }
        // The writer's clock may be ahead of ours, and `cp -p` chooses right after its last write.
        if written.as_nanos() <= chosen.as_nanos().saturating_add(CLOCKS_DIFFER_NS) {
            return mtime;
        }
        self.writing.mtime_chosen = Time::default();
        written
    }

    /// The user chose a modification time: what was written before but is reported later must not
    /// change it.
    pub fn choose_mtime(&mut self, now: Time) {
        if !self.is_settled() {
            self.writing.mtime_chosen = now;
        }
    }

    /// Whoever cuts now can no longer say what the size will be.
    fn disturb(&mut self) {
        if let Some(truncation) = &mut self.writing.truncation {
            truncation.disturbed = true;
        }
    }

    fn end_writing(&mut self) {
        // A truncation under way may have cut what was reported, or not yet.
        if self.writing.truncation.is_none() && !self.unsettled {
            self.size = self.size.max(self.writing.end);
            self.writing.mtime_chosen = Time::default();
        }
        self.writing.end = 0;
        self.writing.append_end = 0;
        self.writing.append_exact = false;
        self.writing.shared = false;
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let open = self.writing != Writing::default();
        let flags = [
            (self.unsettled, UNSETTLED),
            (self.stored, STORED),
            (open, OPEN),
            (self.linkable, LINKABLE),
            (self.disk_bytes.is_some(), SPARSE),
        ];
        out.push(flags.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum());
        self.size.put(out);
        if let Some(disk_bytes) = self.disk_bytes {
            disk_bytes.put(out);
        }
        self.layout_epoch.put(out);
        self.placement.put(out);
        if open {
            self.writing.put(out);
        }
    }

    pub(super) fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let flags = u8::get(from)?;
        if flags & !(UNSETTLED | STORED | OPEN | LINKABLE | SPARSE) != 0 {
            return Err(DecodeError::Value);
        }
        Ok(Self {
            unsettled: flags & UNSETTLED != 0,
            stored: flags & STORED != 0,
            linkable: flags & LINKABLE != 0,
            size: Wire::get(from)?,
            disk_bytes: if flags & SPARSE != 0 { Some(Wire::get(from)?) } else { None },
            layout_epoch: Wire::get(from)?,
            placement: Wire::get(from)?,
            writing: if flags & OPEN != 0 { Wire::get(from)? } else { Writing::default() },
        })
    }
}

const NOTHING: Written = Written { end: 0, certain: true, disk_bytes: None };

/// Twice the deadline of data requests (contract.md, F5).
const TRUNCATION_S_MAX: u64 = 60;

/// Within this time a write counts as one before the user's choice; contract.md lets mtime lag so long.
const CLOCKS_DIFFER_NS: i64 = 1_000_000_000;

const UNSETTLED: u8 = 1;
const STORED: u8 = 2;
const OPEN: u8 = 4;
const LINKABLE: u8 = 8;
const SPARSE: u8 = 16;
