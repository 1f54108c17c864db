//! A host's clocks, as its daemon reads them: the network's virtual time, with the host's own error.

use std::time::Duration;

use pvfs_net::memory::MemoryNetwork;
use pvfs_wire::attr::Time;

/// The clocks of one host.
pub struct HostClock {
    network: MemoryNetwork,
    host: String,
}

impl HostClock {
    /// Of this host.
    pub fn new(network: &MemoryNetwork, host: &str) -> Self {
        Self { network: network.clone(), host: host.to_owned() }
    }

    fn wall_ns(&self) -> i64 {
        self.network.wall_ns(&self.host)
    }
}

impl pvfs_mgr::manager::Clock for HostClock {
    fn monotonic_ns(&self) -> u64 {
        self.network.now().0
    }

    fn wall(&self) -> Time {
        Time::from_nanos(self.wall_ns())
    }
}

impl pvfs_iod::clock::Clock for HostClock {
    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.network.now().0)
    }

    fn unix(&self) -> Duration {
        Duration::from_nanos(u64::try_from(self.wall_ns()).unwrap_or(0))
    }
}
