//! Directory entries: finding, listing and changing names.

use pvfs_wire::attr::FileKind;
use pvfs_wire::{Errno, NAME_BYTES_MAX};

use super::{INDEX_BITS, Node};
use crate::execute::Context;
use crate::keys;
use crate::record::{Dentry, Directory, Named, Record};
use crate::store::{KeyRange, View};

/// What is known of a name in a directory.
pub enum Lookup {
    /// It is there.
    Found(Found),
    /// It is not, and would go here.
    Absent(Slot),
}

/// A name that is there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Found {
    /// Where it is in listings.
    pub cookie: u64,
    /// What it names.
    pub object: u64,
    /// What that is.
    pub kind: FileKind,
    /// Whether names of the same hash may be behind it.
    more: bool,
}

/// Where a new name goes.
pub struct Slot {
    cookie: u64,
    /// A gap is there, with this to say of what is behind it.
    gap_more: bool,
    /// The entry before it, which has to learn that there is more.
    last: Option<(u64, Dentry)>,
}

impl Lookup {
    /// The name, or ENOENT.
    pub fn found(self) -> Result<Found, Errno> {
        match self {
            Self::Found(found) => Ok(found),
            Self::Absent(_) => Err(Errno::ENOENT),
        }
    }

    /// The place for the name, or EEXIST.
    pub fn absent(self) -> Result<Slot, Errno> {
        match self {
            Self::Found(_) => Err(Errno::EEXIST),
            Self::Absent(slot) => Ok(slot),
        }
    }
}

impl Context<'_, '_> {
    /// Looks a name up. ENAMETOOLONG comes from here, so after the directory's permissions.
    pub fn lookup(&self, dir: u64, name: &[u8]) -> Result<Lookup, Errno> {
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let first = self.fs.first_cookie(name);
        let (mut gap, mut last) = (None, None);
        for cookie in first..first + (1 << INDEX_BITS) {
            let Some(dentry) = self.dentry(dir, cookie)? else {
                let slot = gap.unwrap_or(Slot { cookie, gap_more: false, last });
                return Ok(Lookup::Absent(slot));
            };
            let more = dentry.more;
            match &dentry.named {
                Some(named) if named.name == name => {
                    let (object, kind) = (named.object, named.kind);
                    return Ok(Lookup::Found(Found { cookie, object, kind, more }));
                }
                None if gap.is_none() => gap = Some(Slot { cookie, gap_more: more, last: None }),
                _ => {}
            }
            if !more {
                let next =
                    Slot { cookie: cookie + 1, gap_more: false, last: Some((cookie, dentry)) };
                return self.next_slot(first, gap.unwrap_or(next));
            }
            last = Some((cookie, dentry));
        }
        gap.map(Lookup::Absent).ok_or(Errno::ENOSPC)
    }

    /// Nine names of one 60-bit hash: only a test with fewer bits will ever see that.
    fn next_slot(&self, first: u64, slot: Slot) -> Result<Lookup, Errno> {
        if slot.cookie >= first + (1 << INDEX_BITS) {
            return Err(Errno::ENOSPC);
        }
        Ok(Lookup::Absent(slot))
    }

    /// Puts a new name into a directory, whose inode the caller saves.
    pub fn insert(&mut self, dir: &mut Node, slot: Slot, name: &[u8], object: u64, kind: FileKind) {
        let named = Some(Named { object, kind, name: name.to_vec() });
        let dentry = Dentry { more: slot.gap_more, named };
        self.tx.put(keys::dentry(dir.object, slot.cookie), dentry.encode());
        let directory = dir.inode.as_directory_mut().expect("names are inserted into directories");
        directory.entries = directory.entries.saturating_add(1);
        if let Some((cookie, mut last)) = slot.last {
            directory.collided = true;
            last.more = true;
            self.tx.put(keys::dentry(dir.object, cookie), last.encode());
        }
    }

    /// Lets an existing name mean another object; its cookie stays.
    pub fn redirect(&mut self, dir: u64, found: Found, name: &[u8], object: u64, kind: FileKind) {
        let named = Some(Named { object, kind, name: name.to_vec() });
        let dentry = Dentry { more: found.more, named };
        self.tx.put(keys::dentry(dir, found.cookie), dentry.encode());
    }

    /// Takes a name out of a directory, whose inode the caller saves.
    pub fn remove(&mut self, dir: &mut Node, found: Found) {
        let directory = dir.inode.as_directory_mut().expect("names are removed from directories");
        directory.entries = directory.entries.saturating_sub(1);
        let key = keys::dentry(dir.object, found.cookie);
        match found.more {
            true => self.tx.put(key, Dentry { more: true, named: None }.encode()),
            false => self.tx.delete(key),
        }
    }

    /// Removes the gaps of a directory without entries.
    pub fn sweep(&mut self, object: u64, directory: &Directory) -> Result<(), Errno> {
        if directory.collided {
            for key in self.keys_below(&keys::dentries(object))? {
                self.tx.delete(key);
            }
        }
        Ok(())
    }

    /// Hands the entries after `cookie` to `each` until it wants no more. Says whether it wanted all.
    pub fn list(
        &self,
        dir: u64,
        cookie: u64,
        mut each: impl FnMut(u64, Named) -> Result<bool, Errno>,
    ) -> Result<bool, Errno> {
        let range = KeyRange::prefix(&keys::dentries(dir)).after(&keys::dentry(dir, cookie));
        for entry in self.tx.scan(&range) {
            let (key, value) = entry?;
            let cookie = keys::dentry_cookie(&key).ok_or_else(damaged)?;
            let dentry = decode::<Dentry>(&key, &value)?;
            let Some(named) = dentry.named else { continue };
            if !each(cookie, named)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn dentry(&self, dir: u64, cookie: u64) -> Result<Option<Dentry>, Errno> {
        self.record(&keys::dentry(dir, cookie))
    }

    /// The keys that begin with `prefix`.
    pub fn keys_below(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        self.tx.scan_prefix(prefix).map(|entry| Ok(entry?.0)).collect()
    }

    /// The record under `key`, if there is one.
    pub fn record<R: Record>(&self, key: &[u8]) -> Result<Option<R>, Errno> {
        self.tx.get(key)?.map(|bytes| decode(key, &bytes)).transpose()
    }
}

/// Decodes a record; one that is not understood fails this request only.
pub(super) fn decode<R: Record>(key: &[u8], bytes: &[u8]) -> Result<R, Errno> {
    R::decode(bytes).map_err(|error| {
        tracing::error!(key = %key.escape_ascii(), %error, "a stored record is not understood");
        Errno::EIO
    })
}

fn damaged() -> Errno {
    tracing::error!("a directory entry has a key that is none");
    Errno::EIO
}
