//! Truncation: the manager orders it, every iod of the file cuts, the manager hears that it is done.

use pvfs_net::call::{Data, Shown};
use pvfs_net::runtime::{Runtime, all, sleep_until};
use pvfs_wire::attr::{Attr, Placement};
use pvfs_wire::ops::{Target, Truncate, TruncateObject, Truncated, Truncating};
use pvfs_wire::{Errno, Handle};

use super::cached::object;
use crate::cache::name_of;
use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

/// A truncation that the manager has let begin.
pub(crate) struct Cut<'a> {
    pub handle: Handle,
    /// The open that is to answer for it at its next fsync.
    pub file: Option<&'a OpenFile>,
    pub placement: &'a Placement,
    pub shown: &'a Shown,
    pub ticket: u64,
    pub size: u64,
}

impl<R: Runtime> User<R> {
    /// truncate(2).
    pub async fn truncate(&self, target: Target, follow: bool, size: u64) -> Result<Attr> {
        self.truncate_as(&Truncate { target, follow, size, open: None }, None).await
    }

    /// ftruncate(2): the open stands for the permission.
    pub async fn truncate_file(&self, file: &OpenFile, size: u64) -> Result<Attr> {
        // Through a shared open the user's own permission has to do.
        let open = file.own().ok();
        // It never ends: what was written may lie beyond the size from now on.
        file.progress().begin();
        let target = Target::object(file.handle);
        self.truncate_as(&Truncate { target, follow: false, size, open }, Some(file)).await
    }

    async fn truncate_as(&self, request: &Truncate, file: Option<&OpenFile>) -> Result<Attr> {
        let mut own = self.filesystem.cache().change([name_of(&request.target)]);
        let begun = self.begin_truncation(request).await?;
        own.touches(object(begun.attr.handle));
        let number = self.filesystem.next_number();
        let shown = Shown { number, version: 1, token: begun.capability };
        let cut = Cut {
            handle: begun.attr.handle,
            file,
            placement: &begun.placement,
            shown: &shown,
            ticket: begun.ticket,
            size: request.size,
        };
        self.cut(cut).await
    }

    /// Waits for its turn while another truncation of the same file is under way.
    async fn begin_truncation(&self, request: &Truncate) -> Result<Truncating> {
        let runtime = self.filesystem.runtime();
        let deadline = runtime.now().after(self.filesystem.options().metadata_timeout);
        loop {
            match self.ask(request).await {
                Err(error) if error.errno() == Errno::EAGAIN && runtime.now() < deadline => {
                    sleep_until(runtime, runtime.now().after(TURN_PAUSE)).await;
                }
                begun => return begun,
            }
        }
    }

    /// Cuts on all iods, and tells the manager how it went.
    pub(crate) async fn cut(&self, cut: Cut<'_>) -> Result<Attr> {
        let slots = (0..cut.placement.iods.len()).map(|slot| self.cut_slot(&cut, slot));
        let done: Result<Vec<u64>> = all(slots).await.into_iter().collect();
        let disk_bytes =
            done.as_ref().ok().map(|done| done.iter().copied().fold(0, u64::saturating_add));
        let size = disk_bytes.map(|_| cut.size);
        let own = self.filesystem.cache().change([object(cut.handle)]);
        let (handle, ticket) = (cut.handle, cut.ticket);
        let told = self.ask(&Truncated { handle, ticket, size, disk_bytes }).await;
        drop(own);
        done?;
        let stated = told?;
        if let Some(file) = cut.file {
            file.changes().holes.cut(cut.size, &stated.attr);
        }
        self.completed_patiently(stated.attr, stated.placement.as_ref()).await
    }

    /// Cuts one object; returns what it takes on its disk after that.
    async fn cut_slot(&self, cut: &Cut<'_>, slot: u32) -> Result<u64> {
        let iod = self.filesystem.iod_of(cut.placement, slot)?;
        let (caller, patience) = (self.filesystem.caller(), self.filesystem.data_patience());
        let make = |access| TruncateObject { access, slot, size: cut.size };
        let data = &mut Data::default();
        let done = caller.transfer(iod, &self.principal, cut.shown, make, data, patience).await?;
        if let Some(file) = cut.file {
            file.changes().unsynced.wrote(slot, done.boot, false);
        }
        Ok(done.reply.disk_bytes)
    }
}

/// Between asking again whether it is our turn.
const TURN_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);
