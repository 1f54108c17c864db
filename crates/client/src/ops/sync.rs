//! fsync: everything written to the file is on stable storage of every iod that holds part of it.

use pvfs_net::call::Data;
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::Errno;
use pvfs_wire::ops::Sync;

use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// Waits until all done writes of the file, by anyone, are on stable storage.
    pub async fn sync(&self, file: &OpenFile) -> Result<()> {
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
        let (caller, patience) = (self.filesystem.caller(), self.filesystem.data_patience());
        let make = |access| Sync { access };
        let shown = file.shown();
        caller.transfer(iod, &self.principal, &shown, make, &mut Data::default(), patience).await?;
        Ok(())
    }
}
