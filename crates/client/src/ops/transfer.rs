//! Moving data to and from one iod: alone on a connection, or together with others.

use pvfs_layout::Regions;
use pvfs_net::call::{Data, Moved, Pipelined, Server, Shown};
use pvfs_net::runtime::Runtime;
use pvfs_wire::Operation;
use pvfs_wire::ops::Access;

use crate::error::Result;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// This user for a request that names `regions`: one with a long list shares no connection.
    pub(super) fn carrying(&self, regions: &Regions) -> Self {
        let is_long = regions.as_list().is_some_and(|list| list.len() > LISTED_TOGETHER_MAX);
        let together = self.together.filter(|_| !is_long);
        Self { together, ..self.clone() }
    }

    /// Moves data under a capability. `make` builds the request, which is short, around the access it is given.
    pub(super) async fn transfer<O: Operation>(
        &self,
        iod: &Server<R>,
        shown: &Shown,
        make: impl Fn(Access) -> O,
        data: &mut Data<'_, '_>,
    ) -> Result<Moved<O::Reply>> {
        let (caller, patience) = (self.filesystem.caller(), self.filesystem.data_patience());
        let moved = match self.together {
            None => caller.transfer(iod, &self.principal, shown, make, data, patience).await,
            Some(together) => {
                let how = Pipelined { patience, together };
                caller.transfer_pipelined(iod, &self.principal, shown, make, data, how).await
            }
        };
        Ok(moved?)
    }
}

/// 16 bytes each in the request.
const LISTED_TOGETHER_MAX: usize = 1024;
