//! Attributes by mask, one file or a directory at a time: who does not ask for a size does not pay for it (statlite,
//! getdents_plus and getdents_plus_lite of the HEC extensions, paper 003 §3.4 and §3.5).
//!
//! ```text
//! a directory of n files on m iods         messages
//!   getdents_plus_lite without sizes       1                 names and attributes, from the manager
//!   getdents_plus                          1 + m at most     and sizes of files being written, from each iod once
//! ```

use pvfs_net::runtime::Runtime;
use pvfs_wire::attr::{Attr, Entry};
use pvfs_wire::ops::{Stat, Target};
use pvfs_wire::{Bytes, Errno, Handle};

use super::sizes::{needs_iods, with_data};
use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

pvfs_wire::bits! {
    /// The lazy attributes: those that cost messages or may be stale. All others always come, and are exact.
    pub struct LiteMask {
        /// The size.
        SIZE = 1,
        /// The time of the last access, which is kept lazily.
        ATIME = 2,
        /// The time of the last change of the data.
        MTIME = 4,
        /// The time of the last change of data or attributes.
        CTIME = 8,
    }
}

impl LiteMask {
    /// Every lazy attribute.
    pub const ALL: Self = Self::SIZE.with(Self::ATIME).with(Self::MTIME).with(Self::CTIME);

    /// Those of a file being written that only its iods know.
    const KEPT_BY_IODS: Self = Self::SIZE.with(Self::MTIME).with(Self::CTIME);
}

/// Attributes, and which of the lazy ones among them are exact.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LiteAttr {
    /// The attributes. Lazy ones that are not valid are the last the manager knew.
    pub attr: Attr,
    /// The lazy ones that are exact.
    pub valid: LiteMask,
}

/// A name in a directory with the attributes of what it names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlusEntry {
    /// The name.
    pub name: Bytes,
    /// Where to go on after this entry.
    pub cookie: u64,
    /// The object it names.
    pub handle: Handle,
    /// What that is.
    pub kind: pvfs_wire::attr::FileKind,
    /// Its attributes, or why they could not be had.
    pub attr: std::result::Result<LiteAttr, Errno>,
}

/// Part of a directory.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PlusListing {
    /// In the order of their cookies.
    pub entries: Vec<PlusEntry>,
    /// Whether these are the last.
    pub end: bool,
}

impl LiteAttr {
    /// As the manager told them.
    fn known(attr: Attr) -> Self {
        let valid = match needs_iods(&attr) {
            true => LiteMask::ATIME,
            false => LiteMask::ALL,
        };
        Self { attr, valid }
    }

    /// Whether something wanted is not valid yet.
    fn lacks(&self, wanted: LiteMask) -> bool {
        !self.valid.has(wanted)
    }
}

impl<R: Runtime> User<R> {
    /// Attributes of what `target` names; with `follow` of what a symlink points to (statlite), else of itself
    /// (lstatlite). One message, and one to each iod of the file if an attribute is `wanted` that only they
    /// know. Where an iod does not answer, that is not an error: what it would have told is not valid.
    pub async fn statlite(
        &self,
        target: Target,
        follow: bool,
        wanted: LiteMask,
    ) -> Result<LiteAttr> {
        let stated = self.ask(&Stat { target, follow, placement: false }).await?;
        let known = LiteAttr::known(stated.attr);
        match stated.placement {
            Some(placement) if known.lacks(wanted) => {
                let data = self.size_shown(stated.attr.handle, &placement).await;
                Ok(data.map_or(known, |data| LiteAttr {
                    attr: with_data(stated.attr, data, &placement),
                    valid: LiteMask::ALL,
                }))
            }
            _ => Ok(known),
        }
    }

    /// The like for an open file.
    pub async fn fstatlite(&self, file: &OpenFile, wanted: LiteMask) -> Result<LiteAttr> {
        self.statlite(Target::object(file.handle), false, wanted).await
    }

    /// The entries after `cookie` (0 to start), at most `entries_max`, each with all its attributes.
    pub async fn getdents_plus(
        &self,
        dir: Handle,
        cookie: u64,
        entries_max: u32,
    ) -> Result<PlusListing> {
        let mut listing = self.getdents_plus_lite(dir, cookie, entries_max, LiteMask::ALL).await?;
        for entry in &mut listing.entries {
            entry.attr = match entry.attr {
                Ok(lite) if lite.lacks(LiteMask::ALL) => Err(Errno::EIO),
                attr => attr,
            };
        }
        Ok(listing)
    }

    /// The like with the lazy attributes that are `wanted`; others are valid where they cost nothing.
    pub async fn getdents_plus_lite(
        &self,
        dir: Handle,
        cookie: u64,
        entries_max: u32,
        wanted: LiteMask,
    ) -> Result<PlusListing> {
        let mut listing = self.readdir_known(dir, cookie, entries_max, true).await?;
        if wanted.any(LiteMask::KEPT_BY_IODS) {
            // Of those that fail the entry keeps its placement, and so is seen to be incomplete.
            self.complete_entries(&mut listing.entries).await;
        }
        let entries = listing.entries.into_iter().map(PlusEntry::of).collect();
        Ok(PlusListing { entries, end: listing.end })
    }
}

impl PlusEntry {
    fn of(entry: Entry) -> Self {
        let Entry { name, cookie, handle, kind, attr, placement } = entry;
        // Whoever may not search the directory gets names only.
        let attr = attr.ok_or(Errno::EACCES).map(|attr| match placement {
            None => LiteAttr { attr, valid: LiteMask::ALL },
            Some(_) => LiteAttr::known(attr),
        });
        Self { name, cookie, handle, kind, attr }
    }
}
