//! The manager's machine: a store that survives, and a daemon that comes and goes.

use std::sync::Arc;
use std::time::Duration;

use pvfs_config::Cluster;
use pvfs_layout::{IodId, Scheme};
use pvfs_mgr::clients::Terms;
use pvfs_mgr::execute::Policy;
use pvfs_mgr::manager::{Manager, Options, format};
use pvfs_mgr::namespace::{FormatOptions, Violation, check};
use pvfs_mgr::store::Store;
use pvfs_net::buffer::Pool;
use pvfs_net::memory::{Chance, Crash, MemoryDaemon};
use pvfs_net::runtime::Instant;
use pvfs_wire::ops::{ClusterMap, MapIod};

use crate::clock::HostClock;
use crate::purging::Purging;
use crate::store::SimulatedStore;
use crate::world::{Ground, Loss};

/// What a loss of power at the manager may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Durability {
    /// The last second.
    Local,
    /// Nothing that was answered.
    Strict,
}

/// The machine.
pub struct ManagerHost {
    store: Arc<SimulatedStore>,
    ssize: u64,
    running: Option<Running>,
    sync_at: Instant,
}

struct Running {
    daemon: MemoryDaemon,
    manager: Arc<Manager>,
    purging: Purging,
}

impl ManagerHost {
    /// A machine with a new file system, running.
    pub fn new(ground: &Ground, chance: &mut Chance, durability: Durability, ssize: u64) -> Self {
        let store = Arc::new(SimulatedStore::new(durability == Durability::Strict));
        let mut hash_key = [0; 16];
        hash_key.fill_with(|| chance.any() as u8);
        let wishes = FormatOptions {
            mode: 0o777,
            ..FormatOptions::new(ground.cluster.filesystems[0].id, 1, hash_key)
        };
        let clock = HostClock::new(&ground.network, MANAGER);
        format(&*store, &wishes, &clock).expect("an empty store can be formatted");
        let mut host = Self { store, ssize, running: None, sync_at: Instant(0) };
        host.start(ground, chance);
        host
    }

    /// Starts the daemon, if it is not running.
    pub fn start(&mut self, ground: &Ground, chance: &mut Chance) {
        if self.running.is_some() {
            return;
        }
        ground.reset_connections(MANAGER);
        let options = Options {
            name: MANAGER.into(),
            terms: Terms::default(),
            policy: policy(&ground.cluster, self.ssize),
            clock: Arc::new(HostClock::new(&ground.network, MANAGER)),
            on_order: Box::new(|_| {}),
        };
        let (store, ring) = (self.store.clone(), ground.ring.clone());
        let manager = Manager::with_seed(options, store, ring, chance.any());
        let manager = Arc::new(manager.expect("what a manager wrote the next one reads"));
        let doorman = ground.doorman(MANAGER, chance.any(), chance);
        let daemon =
            MemoryDaemon::start(&ground.network, MANAGER, manager.clone(), doorman, Pool::new());
        let purging = Purging::new(ground);
        self.running = Some(Running { daemon, manager, purging });
    }

    /// Ends the daemon's process, or its machine's power.
    pub fn stop(&mut self, ground: &Ground, chance: &mut Chance, loss: Loss) {
        if self.running.is_some() {
            ground.network.crash(MANAGER, loss.seen_by_peers());
            self.running = None;
        }
        if loss == Loss::Power {
            self.store.lose_power(chance.any());
        }
    }

    /// What is wrong in the store.
    pub fn violations(&self) -> Vec<Violation> {
        check(&*self.store.snapshot()).expect("memory can be read")
    }

    /// See [`MemoryDaemon::run_ready`].
    pub fn run_ready(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        let is_busy = running.daemon.run_ready();
        running.purging.poll() || is_busy
    }

    /// Requests served since the daemon started; greetings are not counted.
    pub fn requests(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.daemon.figures().requests_count.get())
    }

    /// What the machine does by the clock: syncs, purges.
    pub fn look_at_the_clock(&mut self, ground: &Ground) {
        let now = ground.network.now();
        if self.sync_at <= now {
            self.store.sync().expect("memory can be synced");
            self.sync_at = now.after(SYNC_EVERY);
            ground.network.wake_at(self.sync_at);
        }
        if let Some(running) = &mut self.running {
            running.purging.look_at_the_clock(&running.manager, ground);
        }
    }
}

fn policy(cluster: &Cluster, ssize: u64) -> Policy {
    let iods = cluster.iods.len();
    let described = cluster.iods.iter().map(|iod| MapIod {
        name: iod.name.clone(),
        endpoints: iod.listen.iter().map(ToString::to_string).collect(),
    });
    Policy {
        scheme: Scheme::SimpleStripe { ssize },
        pcount: None,
        iods: (0..iods as u32).map(IodId).collect(),
        free_bytes: vec![1; iods],
        capability_lifetime_s: 600,
        objects_free: u64::from(u32::MAX),
        map: ClusterMap {
            version: cluster.map_version(),
            filesystem: cluster.filesystems[0].name.clone(),
            iods: described.collect(),
            dist: "simple_stripe".into(),
            pcount: iods as u32,
            ssize,
        },
    }
}

impl Loss {
    /// A machine without power tells nobody that its connections are gone.
    pub fn seen_by_peers(self) -> Crash {
        match self {
            Self::Process => Crash::Killed,
            Self::Power => Crash::Silent,
        }
    }
}

/// The manager's host.
pub const MANAGER: &str = "mgr0";

/// A store that is not strict syncs after at most a second.
const SYNC_EVERY: Duration = Duration::from_millis(900);
