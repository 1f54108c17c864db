//! Listing: pages of names from the manager, and with attributes one message to each iod for the
//! files of a page that somebody is writing (listattr in two phases, 003 §3.5).

use pvfs_net::runtime::Runtime;
use pvfs_wire::Handle;
use pvfs_wire::attr::Entry;
use pvfs_wire::ops::{Listing, Readdir};

use super::sizes::{needs_iods, with_data};
use crate::error::{Error, Result};
use crate::user::User;

/// Part of a directory.
pub type Directory = Listing;

impl<R: Runtime> User<R> {
    /// The entries after `cookie` (0 to start), at most `entries_max`. With `attributes`, sizes of files
    /// being written are asked from the iods; where an iod does not answer the last known size stays.
    pub async fn readdir(
        &self,
        dir: Handle,
        cookie: u64,
        entries_max: u32,
        attributes: bool,
    ) -> Result<Directory> {
        let mut listing = self.readdir_known(dir, cookie, entries_max, attributes).await?;
        if attributes {
            self.complete_entries(&mut listing.entries).await;
        }
        Ok(listing)
    }

    /// The like, with attributes as the manager knows them.
    pub async fn readdir_known(
        &self,
        dir: Handle,
        cookie: u64,
        entries_max: u32,
        attributes: bool,
    ) -> Result<Directory> {
        self.ask(&Readdir { dir, cookie, entries_max, attributes }).await
    }

    /// All entries.
    pub async fn list(&self, dir: Handle, attributes: bool) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut cookie = 0;
        loop {
            let page = self.readdir(dir, cookie, PAGE_ENTRIES, attributes).await?;
            let last = page.entries.last().map(|entry| entry.cookie);
            entries.extend(page.entries);
            match last {
                Some(last) if !page.end => cookie = last,
                _ => return Ok(entries),
            }
        }
    }

    /// Completes the attributes of entries that tell where to ask (their `placement`, which is taken when
    /// that is done); says why some could not be.
    pub async fn complete_entries(&self, entries: &mut [Entry]) -> Option<Error> {
        let unsettled: Vec<usize> =
            (0..entries.len()).filter(|at| is_unsettled(&entries[*at])).collect();
        if unsettled.is_empty() {
            return None;
        }
        let files: Vec<_> = unsettled
            .iter()
            .filter_map(|at| Some((entries[*at].handle, entries[*at].placement.as_ref()?)))
            .collect();
        let sizes = self.sizes_by_iods(&files).await;
        let mut failure = None;
        for (at, size) in unsettled.into_iter().zip(sizes) {
            let entry = &mut entries[at];
            match (&mut entry.attr, &entry.placement, size) {
                (Some(attr), Some(placement), Ok(data)) => {
                    *attr = with_data(*attr, data, placement);
                    entry.placement = None;
                }
                (_, _, size) => failure = failure.or(size.err()),
            }
        }
        failure
    }
}

fn is_unsettled(entry: &Entry) -> bool {
    entry.placement.is_some() && entry.attr.as_ref().is_some_and(needs_iods)
}

/// Entries asked for at once when the whole directory is wanted.
const PAGE_ENTRIES: u32 = 8192;
