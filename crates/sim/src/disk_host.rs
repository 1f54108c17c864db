//! An I/O daemon's machine: a disk that survives, and a daemon that comes and goes.

use std::collections::BTreeSet;
use std::sync::Arc;

use pvfs_iod::{Config, Disk, Iod, MemoryDisk};
use pvfs_net::buffer::Pool;
use pvfs_net::memory::{Chance, MemoryDaemon};
use pvfs_wire::Handle;

use crate::clock::HostClock;
use crate::world::{Ground, Loss};

/// The machine.
pub struct DiskHost {
    name: String,
    disk: MemoryDisk,
    running: Option<MemoryDaemon>,
}

impl DiskHost {
    /// A machine with an empty disk, running.
    pub fn new(ground: &Ground, chance: &mut Chance, name: String) -> Self {
        let disk = MemoryDisk::new(chance.any());
        let mut host = Self { name, disk, running: None };
        host.start(ground, chance);
        host
    }

    /// Starts the daemon, if it is not running.
    pub fn start(&mut self, ground: &Ground, chance: &mut Chance) {
        if self.running.is_some() {
            return;
        }
        ground.reset_connections(&self.name);
        let config = Config {
            workers: 0,
            filesystems: vec![ground.cluster.filesystems[0].id],
            map_version: ground.cluster.map_version(),
            clock: Arc::new(HostClock::new(&ground.network, &self.name)),
            ..Config::new(self.name.clone())
        };
        let (disk, pool) = (Arc::new(self.disk.clone()), Pool::new());
        let iod = Arc::new(Iod::new(config, disk, ground.ring.clone(), pool.clone()));
        let doorman = ground.doorman(&self.name, iod.boot(), chance);
        let daemon = MemoryDaemon::start(&ground.network, &self.name, iod, doorman, pool);
        self.running = Some(daemon);
    }

    /// Ends the daemon's process, or its machine's power.
    pub fn stop(&mut self, ground: &Ground, loss: Loss) {
        if self.running.is_some() {
            ground.network.crash(&self.name, loss.seen_by_peers());
            self.running = None;
        }
        if loss == Loss::Power {
            self.disk.crash();
        }
    }

    /// See [`MemoryDaemon::run_ready`].
    pub fn run_ready(&mut self) -> bool {
        self.running.as_mut().is_some_and(MemoryDaemon::run_ready)
    }

    /// Requests served since the daemon started; greetings are not counted.
    pub fn requests(&self) -> u64 {
        self.running.as_ref().map_or(0, |daemon| daemon.figures().requests_count.get())
    }

    /// The host's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The disk, to make it fail.
    pub fn disk(&self) -> &MemoryDisk {
        &self.disk
    }

    /// What lies on the disk.
    pub fn objects(&self, fsid: u32) -> BTreeSet<Handle> {
        let mut found = BTreeSet::new();
        let mut note = |handle, _| {
            found.insert(handle);
        };
        self.disk.list(fsid, &mut note).expect("a disk in memory can be listed");
        found
    }
}
