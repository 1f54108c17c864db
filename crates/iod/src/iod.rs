//! The daemon, as the network and its owner see it.

use std::sync::Arc;
use std::time::Duration;

use pvfs_net::buffer::Pool;
use pvfs_net::service::{Departure, Peer, Reception, Request, Service};
use pvfs_wire::Errno;
use pvfs_wire::ops::{DaemonState, Hello, Order};
use pvfs_wire::token::KeyRing;

use crate::clock::{Clock, SystemClock};
use crate::disk::Disk;
use crate::queue::Bounds;
use crate::shared::{Job, Shared};
use crate::worker::Workers;

/// What an I/O daemon is told at start.
#[derive(Clone)]
pub struct Config {
    /// Its name in the cluster file.
    pub name: String,
    /// The ids of the file systems it serves; empty for any.
    pub filesystems: Vec<u32>,
    /// The version of the cluster map.
    pub map_version: u32,
    /// Threads for what may block. With none everything is done at once (simulation).
    pub workers: usize,
    /// How often everything is brought to stable storage.
    pub commit_interval: Duration,
    /// Refuses all changes.
    pub read_only: bool,
    /// Longer writes are left to workers.
    pub write_at_once_bytes_max: usize,
    /// Requests that may wait for a worker.
    pub pending_max: usize,
    /// Memory that waiting requests may hold.
    pub pending_bytes_max: usize,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Random, new with each start.
    pub start: u64,
}

impl Config {
    /// The defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            filesystems: Vec::new(),
            map_version: 0,
            workers: WORKERS,
            commit_interval: COMMIT_INTERVAL,
            read_only: false,
            write_at_once_bytes_max: WRITE_AT_ONCE_BYTES_MAX,
            pending_max: PENDING_MAX,
            pending_bytes_max: PENDING_BYTES_MAX,
            clock: SystemClock::shared(),
            start: getrandom::u64().expect("the kernel gives random bytes"),
        }
    }

    /// A client may have three quarters of the workers and a quarter of the places.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            pending_max: self.pending_max,
            client_pending_max: self.pending_max.div_ceil(4),
            pending_bytes_max: self.pending_bytes_max,
            client_active_max: (self.workers * 3 / 4).max(1),
        }
    }
}

/// An I/O daemon.
pub struct Iod {
    shared: Arc<Shared>,
    _workers: Workers<Job>,
}

impl Iod {
    /// A daemon for the objects on `disk`. Capabilities and orders must be signed with a key of `ring`;
    /// data for replies come from `pool`.
    pub fn new(config: Config, disk: Arc<dyn Disk>, ring: KeyRing, pool: Pool) -> Self {
        let workers = config.workers;
        let shared = Shared::new(config, disk, ring, pool);
        let runner = Arc::clone(&shared);
        let workers = Workers::start(shared.board(), workers, move |job| runner.run(job));
        Self { shared, _workers: workers }
    }

    /// Shows these figures too when it is asked for its status: those of the network. Once.
    pub fn show_also(&self, figures: impl Fn() -> Vec<(String, u64)> + Send + Sync + 'static) {
        self.shared.show_also(Box::new(figures));
    }

    /// Calls this after each order that was carried out, before the order is answered. Once.
    pub fn on_order(&self, hook: impl Fn(&Order) + Send + Sync + 'static) {
        self.shared.on_order(Box::new(hook));
    }

    /// Goes by these keys from now on.
    pub fn accept_keys(&self, ring: KeyRing) {
        self.shared.accept_keys(ring);
    }

    /// Whether an order to stop has come: finish, [`Self::drain`], exit.
    pub fn stop_wanted(&self) -> bool {
        self.shared.stop_wanted()
    }

    /// The boot of its store, for the welcomes.
    pub fn boot(&self) -> u64 {
        self.shared.engine.disk().boot()
    }

    /// How it is.
    pub fn state(&self) -> DaemonState {
        self.shared.health.state()
    }

    /// Counters and gauges: (name with unit, value).
    pub fn figures(&self) -> Vec<(String, u64)> {
        self.shared.figures()
    }

    /// Waits for the requests under way, then brings everything to stable storage. ETIMEDOUT when
    /// requests were still under way after `patience`; everything else is on stable storage even then.
    /// The last call: nothing may be asked of it any more.
    pub fn drain(&self, patience: Duration) -> Result<(), Errno> {
        let idle = self.shared.board().wait_until_idle(patience);
        self.shared.engine.end_loans();
        self.shared.engine.commit()?;
        if !idle {
            return Err(Errno::ETIMEDOUT);
        }
        self.shared.engine.disk().keep_boot()
    }

    /// Drops everything that waits and fails everything to come, as an estop order does.
    pub fn estop(&self) {
        self.shared.estop();
    }
}

impl Service for Iod {
    fn arrived(&self, peer: &Arc<Peer>, hello: &Hello) -> Result<Reception, Errno> {
        if hello.fsid != 0 && !self.shared.serves(hello.fsid) {
            return Err(Errno::ENODEV);
        }
        self.shared.connections.add(peer.connection);
        let map_version = self.shared.map_version;
        Ok(Reception { lease_kept: true, map_version, ..Reception::default() })
    }

    fn departed(&self, peer: &Arc<Peer>, _: Departure) {
        self.shared.forget(peer);
    }

    fn serve(&self, round: Vec<Request<'_>>) {
        let now = self.shared.clock.monotonic();
        for request in round {
            self.shared.serve(request, now);
        }
    }

    fn redo(&self, request: Request<'_>) {
        self.shared.redo(request);
    }

    fn tick(&self) {
        self.shared.commit_if_due();
    }
}

/// Enough to keep a disk array busy; more only wait for one another.
const WORKERS: usize = 8;
/// Power loss loses what was written in this time and not fsynced.
const COMMIT_INTERVAL: Duration = Duration::from_secs(5);
/// A worker costs some ten to fifteen microseconds and a colder cache, but a reactor should not be kept
/// longer than the others wait gladly (docs/design/iod.md).
const WRITE_AT_ONCE_BYTES_MAX: usize = 1 << 20;
const PENDING_MAX: usize = 16 << 10;
const PENDING_BYTES_MAX: usize = 256 << 20;
