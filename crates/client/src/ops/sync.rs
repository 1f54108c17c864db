//! fsync: everything written to the file is on stable storage of every iod that holds part of it, and so is
//! its name on the manager's.

use pvfs_net::call::Data;
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::Errno;
use pvfs_wire::ops::{Sync, SyncNames};

use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// Waits until all done writes of the file, by anyone, are on stable storage, and the names and
    /// attributes that lead to it.
    ///
    /// EIO, now and for ever after on this descriptor, when an iod lost power since something was written
    /// through it and not synced: what was written may be gone.
    pub async fn sync(&self, file: &OpenFile) -> Result<()> {
        self.sync_data(file).await?;
        file.changes().unsynced.check()?;
        self.sync_names().await
    }

    /// Waits until every change of names and attributes done so far is on stable storage (fsync of a
    /// directory).
    pub async fn sync_names(&self) -> Result<()> {
        self.ask(&SyncNames {}).await.map(|_| ())
    }

    async fn sync_data(&self, file: &OpenFile) -> Result<()> {
        loop {
            let slots = (0..file.slots()).map(|slot| self.sync_slot(file, slot));
            let synced: Result<()> = all(slots).await.into_iter().collect();
            match synced {
                Err(error) if error.errno() == Errno::EKEYEXPIRED => self.renew(file).await?,
                synced => return synced,
            }
        }
    }

    async fn sync_slot(&self, file: &OpenFile, slot: u32) -> Result<()> {
        let iod = self.filesystem.iod_of(&file.placement, slot)?;
        let make = |access| Sync { access };
        let (shown, count) = (file.shown(), file.changes().unsynced.count(slot));
        let data = &mut Data::default();
        let synced = self.transfer(iod, &shown, make, data).await?;
        file.changes().unsynced.synced(slot, count, synced.boot);
        Ok(())
    }
}
