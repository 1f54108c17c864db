//! A client process: the library over the simulated network.

use std::time::Duration;

use pvfs_client::{Filesystem, Options, User};
use pvfs_net::memory::{MemoryNetwork, MemoryRuntime};
use pvfs_net::runtime::{Instant, Runtime, sleep_until};
use pvfs_wire::token::SessionRights;

use crate::world::Ground;

/// A user of the simulated file system.
pub type ClientUser = User<MemoryRuntime>;

/// A client process, to be used from a future that [`crate::World::spawn`] runs on the same host.
#[derive(Clone)]
pub struct Client {
    /// Its operations.
    pub user: ClientUser,
    /// Its host.
    pub host: String,
}

/// How long its operations may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Data.
    pub data: Duration,
    /// Metadata.
    pub metadata: Duration,
    /// Sizes and space.
    pub status: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self { data: seconds(30), metadata: seconds(10), status: seconds(3) }
    }
}

impl Client {
    /// A new process on `host`.
    pub(crate) fn new(ground: &Ground, host: &str, patience: Patience) -> Self {
        Self::with_rights(ground, host, patience, SessionRights::NONE)
    }

    /// The like, with other rights than a user's.
    pub(crate) fn with_rights(
        ground: &Ground,
        host: &str,
        patience: Patience,
        rights: SessionRights,
    ) -> Self {
        let runtime = MemoryRuntime::new(&ground.network, host);
        let options = Options {
            data_timeout: patience.data,
            metadata_timeout: patience.metadata,
            status_timeout: patience.status,
            ..Options::of(&ground.cluster)
        };
        let filesystem = Filesystem::new(runtime, &ground.cluster, options);
        let filesystem = filesystem.expect("the simulated cluster is described well");
        let principal = ground.principal(host, rights);
        Self { user: User::new(filesystem, principal), host: host.to_owned() }
    }

    /// The network.
    pub fn network(&self) -> &MemoryNetwork {
        self.runtime().network()
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.runtime().now()
    }

    /// Does nothing for a time.
    pub async fn sleep(&self, time: Duration) {
        sleep_until(self.runtime(), self.now().after(time)).await;
    }

    /// The process's world.
    pub fn runtime(&self) -> &MemoryRuntime {
        self.user.filesystem().runtime()
    }
}
