//! The manager's view of the iods: it removes objects and looks at space, over the same calls as any client.

use std::sync::Arc;
use std::time::Duration;

use pvfs_client::credentials::{Identity, Issuer, connector};
use pvfs_client::{Blocking, block_on};
use pvfs_config::Cluster;
use pvfs_layout::IodId;
use pvfs_mgr::iods::Iods;
use pvfs_net::call::{Caller, Patience, Principal, Server};
use pvfs_wire::ops::{RemoveObjects, StatStore, StoreStat};
use pvfs_wire::token::SessionRights;
use pvfs_wire::{Errno, Handle, Operation};

use crate::cli::exit::{Exit, Failure};

/// The iods of a cluster.
pub struct RemoteIods {
    caller: Caller<Blocking>,
    principal: Arc<Principal>,
    servers: Vec<Server<Blocking>>,
}

impl RemoteIods {
    /// Gets ready; contacts nobody yet.
    pub fn new(cluster: &Cluster) -> Result<Self, Failure> {
        let principal = Issuer::of(cluster)
            .and_then(|issuer| issuer.principal(Identity::of_process(), SessionRights::DAEMON))
            .map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        let servers = cluster.iods.iter();
        let servers =
            servers.map(|iod| Server::new(iod.name.clone(), iod.listen.clone())).collect();
        let tls =
            connector(cluster).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
        let caller =
            Caller::new(Blocking, cluster.filesystem().id, "pvfs mgr", false).over_tls(tls);
        Ok(Self { caller, principal, servers })
    }

    fn ask<O: Operation>(&self, iod: IodId, request: &O) -> Result<O::Reply, Errno> {
        let server = self.servers.get(iod.0 as usize).ok_or(Errno::ENODEV)?;
        let call = self.caller.call(server, &self.principal, request, PATIENCE);
        block_on(call).map_err(|error| error.errno())
    }
}

impl Iods for RemoteIods {
    fn remove(&self, iod: IodId, handles: &[Handle]) -> Result<(), Errno> {
        self.ask(iod, &RemoveObjects { handles: handles.to_vec() }).map(|_| ())
    }

    fn stat_store(&self, iod: IodId) -> Result<StoreStat, Errno> {
        self.ask(iod, &StatStore {})
    }
}

/// The background may wait, but not for ever: an iod that is down is asked again later.
const PATIENCE: Patience = Patience { timeout: Duration::from_secs(5), insist: false };
