//! What is known of the kernel's pages of one file, and what an open is to do with them.
//!
//! ```text
//!   a write through pages:    copied into the page ──── request on its way ──── done
//!   an open that drops them:                 dropped, read again: old, and stays so
//! ```
//!
//! The kernel does not hold a page while a write through it is on its way. So pages are not to be dropped while a
//! program of this mount may be writing through them, and mostly need not be: as long as others would have to
//! tell us before they write, all pages are as the file is. Else an open goes past them, and so does one that finds others
//! writing.
//! Pure: what was recalled is looked up by the caller.

use pvfs_client::cache::Mark;
use pvfs_wire::attr::{Attr, SizeState, Time};

/// What is known of the pages of a file.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// There may be some.
    any: bool,
    /// What they are of, if nobody was writing it then.
    version: Option<Version>,
    /// Since when nobody but this mount can have changed the file without our being told.
    alone: Option<Mark>,
    /// Opens that may write through them.
    writers: u32,
}

/// What changes whenever somebody has changed a file's data.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Version {
    size: u64,
    mtime: Time,
    change: u64,
}

/// An open, as far as pages go.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The version that is opened, if nobody was writing the file.
    pub version: Option<Version>,
    /// When this was asked for, if changes by others would have been recalled from then on, and none was.
    pub watched: Option<Mark>,
    /// What it has to do with pages.
    pub through: Through,
    /// Whether it can be sent past pages that are there.
    pub can_bypass: bool,
}

/// What an open has to do with pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Through {
    /// Nothing: it goes past them by itself.
    Not,
    /// It reads through them.
    Reading,
    /// It may also write through them.
    Writing,
}

/// What an open is to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Caching {
    /// Go through the pages that are there.
    Keep,
    /// Drop them first.
    Drop,
    /// Leave them, and go past them.
    Bypass,
}

impl Version {
    /// The version of a file that nobody is writing; else there is no saying.
    pub fn of(attr: &Attr) -> Option<Self> {
        let settled = attr.size_state == SizeState::Settled;
        settled.then_some(Self { size: attr.size, mtime: attr.mtime, change: attr.change })
    }
}

impl Pages {
    /// A file is opened. `holds` tells of [`Self::alone_since`] whether no change of the file was recalled since.
    pub fn opened(&mut self, opening: Opening, holds: impl Fn(Mark) -> bool) -> Caching {
        let Opening { version, watched, through, can_bypass } = opening;
        let alone = self.alone.filter(|mark| watched.is_some() && holds(*mark));
        let same = version.is_some() && version == self.version;
        let are_good = !self.any || same || alone.is_some();
        let others_write = version.is_none() && alone.is_none();
        self.any = true;
        let caching = match through {
            Through::Not => Caching::Bypass,
            _ if others_write && can_bypass => Caching::Bypass,
            _ if are_good => Caching::Keep,
            _ if self.are_written() && can_bypass => Caching::Bypass,
            _ => Caching::Drop,
        };
        if are_good || caching == Caching::Drop {
            self.version = version;
            self.alone = alone.or(watched.filter(|_| version.is_some()));
        } else {
            self.doubt();
        }
        let writes = through == Through::Writing && caching != Caching::Bypass;
        self.writers += u32::from(writes);
        caching
    }

    /// An open that was to write through pages is closed.
    pub fn writer_closed(&mut self) {
        self.writers = self.writers.saturating_sub(1);
    }

    /// Whether dropping pages now could leave an old one.
    pub fn are_written(&self) -> bool {
        self.writers > 0
    }

    /// Others change the file.
    pub fn recalled(&mut self) {
        self.alone = None;
    }

    /// Since when nobody but this mount can have changed the file, unless that was recalled.
    pub fn alone_since(&self) -> Option<Mark> {
        self.alone
    }

    /// Others may have changed the file, or something of this mount's own may not be in the pages.
    pub fn doubt(&mut self) {
        (self.version, self.alone) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::tests::attr;
    use pvfs_client::cache::Cache;
    use pvfs_net::runtime::Instant;

    /// Some time, and whether nothing was recalled since is up to the test.
    fn mark() -> Mark {
        Cache::default().mark(Instant(1))
    }

    fn reading(version: Option<Version>) -> Opening {
        Opening { version, watched: None, through: Through::Reading, can_bypass: true }
    }

    fn writing(version: Option<Version>, watched: bool) -> Opening {
        let watched = watched.then(mark);
        Opening { version, watched, through: Through::Writing, can_bypass: true }
    }

    fn quiet() -> Option<Version> {
        Version::of(&attr(9))
    }

    /// A file that is being written.
    const BUSY: Option<Version> = None;

    #[test]
    fn what_was_never_opened_has_no_pages_to_drop() {
        assert_eq!(Pages::default().opened(reading(quiet()), |_| true), Caching::Keep);
        let opening = Opening { can_bypass: false, ..reading(BUSY) };
        assert_eq!(Pages::default().opened(opening, |_| true), Caching::Keep);
    }

    #[test]
    fn whoever_finds_others_writing_goes_past_pages() {
        assert_eq!(Pages::default().opened(reading(BUSY), |_| true), Caching::Bypass);
        let mut pages = Pages::default();
        pages.opened(reading(quiet()), |_| true);
        assert_eq!(pages.opened(writing(BUSY, true), |_| true), Caching::Bypass);
        assert!(!pages.are_written());
        assert_eq!(pages.opened(reading(quiet()), |_| true), Caching::Drop, "written in between");
    }

    #[test]
    fn without_a_lease_pages_are_kept_only_while_nothing_has_changed() {
        let mut pages = Pages::default();
        let first = attr(9);
        pages.opened(reading(quiet()), |_| true);
        assert_eq!(pages.opened(reading(quiet()), |_| true), Caching::Keep);
        for changed in [
            Attr { size: 11, ..first },
            Attr { mtime: Time { seconds: 5, nanos: 1 }, ..first },
            Attr { change: 8, ..first },
        ] {
            let opened = pages.opened(reading(Version::of(&changed)), |_| true);
            assert_eq!(opened, Caching::Drop, "{changed:?}");
            let opened = pages.opened(reading(quiet()), |_| true);
            assert_eq!(opened, Caching::Drop, "and back again is a change too");
        }
        let busy = Opening { can_bypass: false, ..reading(BUSY) };
        assert_eq!(pages.opened(busy, |_| true), Caching::Drop);
        assert_eq!(pages.opened(busy, |_| true), Caching::Drop);
        assert_eq!(pages.opened(reading(quiet()), |_| true), Caching::Drop, "written in between");
    }

    #[test]
    fn pages_are_kept_while_only_this_mount_writes() {
        let mut pages = Pages::default();
        assert_eq!(pages.opened(writing(quiet(), true), |_| true), Caching::Keep);
        for _ in 0..3 {
            assert_eq!(pages.opened(writing(BUSY, true), |_| true), Caching::Keep);
        }
        let after = Version::of(&Attr { change: 9, ..attr(9) });
        assert_eq!(pages.opened(writing(after, true), |_| true), Caching::Keep, "own writes");
    }

    #[test]
    fn pages_are_never_dropped_under_a_writer_when_others_write_too() {
        let mut pages = Pages::default();
        pages.opened(writing(quiet(), true), |_| true);
        pages.recalled();
        assert_eq!(pages.opened(writing(BUSY, true), |_| true), Caching::Bypass);
        assert_eq!(pages.opened(reading(BUSY), |_| true), Caching::Bypass);
        // Nor are they good again because nothing was recalled after that.
        assert_eq!(pages.opened(writing(BUSY, true), |_| true), Caching::Bypass);
        pages.writer_closed();
        assert_eq!(pages.opened(writing(quiet(), true), |_| true), Caching::Drop);
    }

    #[test]
    fn a_recall_that_is_not_told_yet_counts() {
        let mut pages = Pages::default();
        pages.opened(writing(quiet(), true), |_| true);
        pages.writer_closed();
        assert_eq!(pages.opened(writing(BUSY, true), |_| false), Caching::Bypass);
        assert_eq!(pages.alone_since(), None);
    }

    #[test]
    fn whoever_finds_others_writing_is_not_alone_before_a_quiet_open() {
        let mut pages = Pages::default();
        pages.opened(writing(BUSY, true), |_| true);
        assert_eq!(pages.alone_since(), None);
        pages.writer_closed();
        assert_eq!(pages.opened(writing(quiet(), false), |_| true), Caching::Drop);
        assert_eq!(pages.alone_since(), None, "without a lease nobody tells us");
        pages.writer_closed();
        assert_eq!(pages.opened(writing(quiet(), true), |_| true), Caching::Keep);
        assert!(pages.alone_since().is_some());
    }

    #[test]
    fn an_open_that_passes_by_leaves_old_pages_to_be_dropped_later() {
        let mut pages = Pages::default();
        pages.opened(reading(quiet()), |_| true);
        let changed = Version::of(&Attr { change: 8, ..attr(9) });
        let past = Opening { through: Through::Not, ..reading(changed) };
        assert_eq!(pages.opened(past, |_| true), Caching::Bypass);
        assert_eq!(pages.opened(reading(changed), |_| true), Caching::Drop);
    }

    #[test]
    fn what_cannot_be_passed_by_is_dropped() {
        let mut pages = Pages::default();
        pages.opened(writing(quiet(), false), |_| true);
        let opening = Opening { can_bypass: false, ..writing(BUSY, false) };
        assert_eq!(pages.opened(opening, |_| true), Caching::Drop);
    }
}
