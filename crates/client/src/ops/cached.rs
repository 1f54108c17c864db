//! Names and attributes from the cache, and from the manager when it has none. Nobody's permissions are
//! checked when nobody is asked: these are for those who check them by what they are told, as the kernel does.

use pvfs_net::call::Patience;
use pvfs_net::runtime::{Instant, Runtime};
use pvfs_wire::attr::{Attr, Placement};
use pvfs_wire::ops::{Listing, Readdir, Stat, Target};
use pvfs_wire::{Errno, Handle};

use super::sizes::Known;
use crate::cache::{Key, Named};
use crate::error::Result;
use crate::user::User;

/// What a name means.
#[derive(Clone, Debug)]
pub struct Looked {
    /// The object's attributes as the manager knows them, and where to ask for the size if it does not;
    /// nothing when there is no such name.
    pub found: Option<(Attr, Option<Placement>)>,
    /// Until when the name means that.
    pub name_until: Instant,
    /// Until when the attributes hold.
    pub attr_until: Instant,
}

impl<R: Runtime> User<R> {
    /// What a name in a directory means.
    pub async fn lookup(&self, dir: Handle, name: &[u8]) -> Result<Looked> {
        let (cache, now) = (self.filesystem.cache(), self.filesystem.runtime().now());
        match cache.name(dir.object, name, now) {
            Some((Named::Absent, until)) => {
                return Ok(Looked { found: None, name_until: until, attr_until: Instant(0) });
            }
            Some((Named::Object(object), name_until)) => {
                if let Some((attr, attr_until)) = cache.attributes(object, now) {
                    return Ok(Looked { found: Some((attr, None)), name_until, attr_until });
                }
            }
            None if cache.is_absent(dir.object, name, now) => {
                return Ok(Looked { found: None, name_until: Instant(0), attr_until: Instant(0) });
            }
            None => {}
        }
        self.ask_for_name(dir, name).await
    }

    async fn ask_for_name(&self, dir: Handle, name: &[u8]) -> Result<Looked> {
        let cache = self.filesystem.cache();
        let mark = cache.mark(self.filesystem.runtime().now());
        let (target, asked) = (Target::below(dir, name), self.filesystem.writers().ask());
        let request = Stat { target, follow: false, placement: false };
        let told = self.filesystem.ask_told(&self.principal, &request).await?;
        let keep = |named| cache.keep_name(mark, dir.object, name, named, told.leased_ms);
        match told.outcome {
            Ok(stated) => {
                let Known { attr, placement, progress } = self.known(stated, asked);
                let name_until = keep(Named::Object(attr.handle.object));
                let attr_until = cache.keep_known(mark, &attr, progress, told.leased_ms);
                Ok(Looked { found: Some((attr, placement)), name_until, attr_until })
            }
            Err(Errno::ENOENT) => {
                let name_until = keep(Named::Absent);
                Ok(Looked { found: None, name_until, attr_until: Instant(0) })
            }
            Err(status) => Err(status.into()),
        }
    }

    /// The attributes of an object as the manager knows them, where to ask for the size if it does not, and
    /// until when they hold.
    pub async fn attributes(&self, handle: Handle) -> Result<(Attr, Option<Placement>, Instant)> {
        self.attributes_within(handle, self.filesystem.metadata_patience()).await
    }

    /// The like for who does without when no manager answers within the time for status, and does not wait for one to be
    /// started.
    pub async fn attributes_now(
        &self,
        handle: Handle,
    ) -> Result<(Attr, Option<Placement>, Instant)> {
        self.attributes_within(handle, self.filesystem.status_patience()).await
    }

    async fn attributes_within(
        &self,
        handle: Handle,
        patience: Patience,
    ) -> Result<(Attr, Option<Placement>, Instant)> {
        let cache = self.filesystem.cache();
        let now = self.filesystem.runtime().now();
        if let Some((attr, until)) = cache.attributes(handle.object, now) {
            return Ok((attr, None, until));
        }
        let mark = cache.mark(now);
        let request = Stat { target: Target::object(handle), follow: false, placement: false };
        let (caller, manager) = (self.filesystem.caller(), self.filesystem.manager());
        let asked = self.filesystem.writers().ask();
        let told = caller.call_told(manager, &self.principal, &request, patience).await?;
        let Known { attr, placement, progress } = self.known(told.outcome?, asked);
        Ok((attr, placement, cache.keep_known(mark, &attr, progress, told.leased_ms)))
    }

    /// Part of a directory, with attributes as the manager knows them, or none where those of an earlier answer
    /// do not hold any more.
    pub async fn readdir_cached(
        &self,
        dir: Handle,
        cookie: u64,
        entries_max: u32,
    ) -> Result<Listing> {
        let cache = self.filesystem.cache();
        let now = self.filesystem.runtime().now();
        let asked = (cookie, entries_max);
        if let Some(listing) = cache.page(dir.object, asked, now) {
            return Ok(listing);
        }
        let mark = cache.mark(now);
        let request = Readdir { dir, cookie, entries_max, attributes: true };
        let told = self.filesystem.ask_told(&self.principal, &request).await?;
        let listing = told.outcome?;
        cache.keep_page(mark, dir.object, asked, &listing, told.leased_ms);
        Ok(listing)
    }
}

/// The object itself.
pub(super) fn object(handle: Handle) -> Key {
    Key::Object(handle.object)
}
