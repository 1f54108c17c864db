//! When the kernel may answer a listing from what it keeps of a directory (`FOPEN_CACHE_DIR`).
//!
//! It keeps what it is told while one reads a directory to the end, and drops it for names that are made or removed through
//! this mount. Of all others the mount has to know, at each opening, whether it still holds:
//!
//! - the attributes of the directory were leased before it was read, so that every change since is recalled, or was this
//!   mount's own and ended the lease;
//! - nobody else had it open while it was read: the kernel adds up what several readers are told;
//! - it was told lately. What came with the names has half of its time left, or asking for each object would take longer than
//!   being told of all of them again.

use pvfs_client::cache::Mark;
use pvfs_net::runtime::Instant;

/// What the kernel may have of one directory.
#[derive(Clone, Debug, Default)]
pub struct Listings {
    open: u32,
    /// Of the one reader there is.
    reading: Option<Watched>,
    kept: Option<Watched>,
}

/// A listing every change of which is recalled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Watched {
    /// Since when.
    pub since: Mark,
    /// How long it is of use.
    pub until: Instant,
}

impl Listings {
    /// The directory is opened; says whether what the kernel has of it holds. `watched` is what a reading that begins now can
    /// count on; `holds` says whether nothing was recalled since.
    pub fn opened(
        &mut self,
        watched: Option<Watched>,
        now: Instant,
        holds: impl Fn(Mark) -> bool,
    ) -> bool {
        self.kept = self.kept.filter(|kept| now < kept.until && holds(kept.since));
        self.open += 1;
        if self.kept.is_none() {
            self.reading = watched.filter(|_| self.open == 1);
        }
        self.kept.is_some()
    }

    /// It is closed again.
    pub fn closed(&mut self) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 && self.kept.is_none() {
            self.kept = self.reading.take();
        }
    }

    /// Whether somebody has it open, and may read it again from the beginning.
    pub fn is_open(&self) -> bool {
        self.open > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_client::cache::Cache;

    fn watched(since_s: u64) -> Option<Watched> {
        Some(Watched { since: Cache::default().mark(at(since_s)), until: at(since_s + 2) })
    }

    fn at(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    #[test]
    fn what_one_reader_was_told_is_kept_for_its_time() {
        let mut listings = Listings::default();
        assert!(!listings.opened(watched(1), at(1), |_| true), "nothing was read");
        listings.closed();
        assert!(listings.opened(watched(2), at(2), |since| since == watched(1).unwrap().since));
        listings.closed();
        assert!(!listings.opened(watched(3), at(3), |_| true), "its time is over");
        listings.closed();
        assert!(listings.opened(watched(4), at(4), |_| true));
    }

    #[test]
    fn what_was_recalled_is_not() {
        let mut listings = Listings::default();
        listings.opened(watched(1), at(1), |_| true);
        listings.closed();
        assert!(!listings.opened(watched(1), at(1), |_| false));
        assert!(listings.is_open());
        listings.closed();
        assert!(!listings.is_open());
        assert!(listings.opened(watched(1), at(1), |_| true), "was read again");
    }

    #[test]
    fn nor_what_nobody_watches() {
        let mut listings = Listings::default();
        listings.opened(None, at(1), |_| true);
        listings.closed();
        assert!(!listings.opened(None, at(1), |_| true));
    }

    #[test]
    fn nor_what_two_have_read_at_a_time() {
        let mut listings = Listings::default();
        listings.opened(watched(1), at(1), |_| true);
        assert!(!listings.opened(watched(1), at(1), |_| true), "it is being read");
        listings.closed();
        listings.closed();
        assert!(!listings.opened(watched(1), at(1), |_| true));
        listings.closed();
        assert!(listings.opened(watched(1), at(1), |_| true), "by one alone");
        assert!(listings.opened(watched(1), at(1), |_| true), "and by others from what is kept");
    }
}
