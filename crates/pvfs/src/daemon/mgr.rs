//! `pvfs mgr` as a process.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pvfs_client::credentials::key_ring;
use pvfs_config::Cluster;
use pvfs_layout::IodId;
use pvfs_mgr::clients::Terms;
use pvfs_mgr::execute::Policy;
use pvfs_mgr::iods::Iods;
use pvfs_mgr::manager::{Background, Manager, Options, SystemClock, format};
use pvfs_mgr::namespace::FormatOptions;
use pvfs_mgr::store::{DiskStore, Durability, Store, StoreOptions};
use pvfs_net::buffer::Pool;
use pvfs_net::service::Service;
use pvfs_wire::ops::{ClusterMap, MapIod, OrderKind};

use super::iods::RemoteIods;
use super::network::Network;
use super::{Make, Process, Role, make_directory, run, start_logging};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};

struct Running {
    manager: Arc<Manager>,
    store: Arc<DiskStore>,
    /// An order to stop has come over the network.
    stop_ordered: Arc<AtomicBool>,
    /// Takes part in orders, once there is one.
    network: Arc<OnceLock<Arc<Network>>>,
}

impl Role for Running {
    fn service(&self) -> Arc<dyn Service> {
        self.manager.clone()
    }

    fn stop_wanted(&self) -> bool {
        self.stop_ordered.load(Ordering::SeqCst)
    }

    fn join_network(&self, network: Network) {
        let network = Arc::new(network);
        let counters = network.clone();
        self.manager.show_also(move || counters.list_figures());
        let _ = self.network.set(network);
    }

    fn begin_stop(&self) {
        self.manager.order(OrderKind::Stop);
        let end = Instant::now() + LET_GO_TIME;
        while !self.manager.is_uncached() && Instant::now() < end {
            std::thread::sleep(LET_GO_PAUSE);
        }
    }

    fn reload(&self, cluster: &Cluster) {
        self.manager.set_cache_lease(cluster.defaults.cache_lease);
        let fresh = policy(cluster);
        self.manager.change_policy(|policy| {
            // What the iods told of their space stays.
            let free_bytes = std::mem::take(&mut policy.free_bytes);
            *policy = Policy { free_bytes, ..fresh };
        });
        if let Ok(ring) = key_ring(cluster) {
            self.manager.set_keys(ring);
        }
    }

    fn finish(&self, _: Duration) -> Result<(), String> {
        self.store.sync().map_err(|error| error.to_string())
    }
}

/// Runs the manager called `name` until it is told to stop.
pub fn serve(
    cluster: Cluster,
    name: &str,
    make: Make,
    threads: usize,
    context: &Context,
) -> Result<(), Failure> {
    start_logging(&cluster, context);
    let described = cluster.manager(name)?.clone();
    let store = open_store(&cluster, &described.store, make != Make::No)?;
    if make == Make::Only {
        return Ok(());
    }
    let stop_ordered = Arc::<AtomicBool>::default();
    let network = Arc::<OnceLock<Arc<Network>>>::default();
    let (told, joined) = (stop_ordered.clone(), network.clone());
    let lease_ns = cluster.defaults.lease.as_nanos() as u64;
    let running_lease = cluster.defaults.cache_lease;
    let options = Options {
        name: name.to_owned(),
        terms: Terms { lease_ns, restart_ns: 10 * lease_ns, ..Terms::default() },
        policy: policy(&cluster),
        clock: Arc::new(SystemClock::default()),
        on_order: Box::new(move |order| {
            told.fetch_or(order.kind == OrderKind::Stop, Ordering::SeqCst);
            if let Some(network) = joined.get() {
                network.obey(order);
            }
        }),
    };
    let ring = key_ring(&cluster).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let manager = Manager::new(options, store.clone(), ring)
        .map_err(|error| store_failure(&described.store, &error))?;
    manager.set_cache_lease(running_lease);
    let manager = Arc::new(manager);
    let iods: Arc<dyn Iods> = Arc::new(RemoteIods::new(&cluster)?);
    let _background = Background::start(&manager, &iods)
        .map_err(|error| Failure::io("cannot start the background threads", &error))?;
    let running = Running { manager, store, stop_ordered, network };
    let (pool, listen) = (Pool::new(), &described.listen[..]);
    // Nobody compares a manager's: a lost lease tells its clients more.
    let boot = 0;
    let denied = described.store.join("pvfs-mgr.denied");
    let process = Process { cluster, name, listen, threads, pool, boot, denied };
    run(&running, process, context)
}

fn open_store(cluster: &Cluster, path: &Path, make: bool) -> Result<Arc<DiskStore>, Failure> {
    check_place(path, make)?;
    if make {
        begin_format(path)?;
    }
    let durability = match cluster.defaults.durability {
        pvfs_config::Durability::Local => Durability::Local,
        pvfs_config::Durability::Strict => Durability::Strict,
    };
    let options = StoreOptions { durability, ..StoreOptions::default() };
    let store = DiskStore::open(path, options);
    let store = Arc::new(store.map_err(|error| store_failure(path, &error))?);
    if make {
        let mut random = [0; 20];
        getrandom::fill(&mut random).expect("the kernel gives random bytes");
        let (generation, hash_key) = random.split_at(4);
        let generation = u32::from_le_bytes(generation.try_into().expect("four bytes")).max(1);
        let hash_key = hash_key.try_into().expect("sixteen bytes");
        let wishes = FormatOptions {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            ..FormatOptions::new(cluster.filesystem().id, generation, hash_key)
        };
        format(&*store, &wishes, &SystemClock::default()).map_err(|error| usage(&error))?;
        end_format(path)?;
    }
    Ok(store)
}

/// From here to [`end_format`] the store says that it is not finished. What an interrupted attempt left
/// goes: the directory was empty when it began.
fn begin_format(path: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::io(&format!("cannot make a store in {}", path.display()), &error);
    let marker = path.join(FORMATTING);
    if marker.exists() {
        for entry in std::fs::read_dir(path).map_err(failed)?.flatten() {
            let name = entry.file_name();
            if name == FORMATTING || name == "lost+found" {
                continue;
            }
            let is_directory = entry.file_type().map_err(failed)?.is_dir();
            let remove = if is_directory { std::fs::remove_dir_all } else { std::fs::remove_file };
            remove(entry.path()).map_err(failed)?;
        }
    }
    std::fs::write(&marker, "this store is being made\n").map_err(failed)?;
    sync_directory(path).map_err(failed)
}

fn end_format(path: &Path) -> Result<(), Failure> {
    let removed = std::fs::remove_file(path.join(FORMATTING)).and_then(|()| sync_directory(path));
    removed.map_err(|error| Failure::io("cannot finish the new store", &error))
}

fn sync_directory(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}

/// A store is made on purpose only: a manager started over a mount point whose disk is not mounted must
/// not take the empty directory for its store, nor put one among other files.
fn check_place(path: &Path, make: bool) -> Result<(), Failure> {
    let refused = |what| Failure::new(Exit::Usage, format!("{} {what}", path.display()));
    match (make, path.join(FORMATTING).exists()) {
        (true, true) => return Ok(()),
        (false, true) => {
            return Err(refused("was not made to the end; make it again with pvfs mgr --format"));
        }
        (_, false) => {}
    }
    let exists = DiskStore::exists(path).map_err(|error| usage(&error))?;
    match (make, exists, is_empty(path)?) {
        (true, true, _) => {
            Err(refused("holds a store already; remove it by hand if its files may go"))
        }
        (true, false, true) => make_directory(path),
        (false, true, _) => Ok(()),
        (false, false, true) => Err(refused(
            "holds no store; if its disk is mounted there, make one with pvfs mgr --format",
        )),
        (_, false, false) => {
            Err(refused("is not empty and holds no pvfs manager store; choose an empty directory"))
        }
    }
}

/// Nothing is there, or what mkfs puts into a new file system.
fn is_empty(path: &Path) -> Result<bool, Failure> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(true),
        entries => entries.map_err(|error| {
            let sentence = format!("cannot use {} as a store: {error}", path.display());
            Failure::new(Exit::Usage, sentence)
        })?,
    };
    Ok(entries.flatten().all(|entry| entry.file_name() == "lost+found"))
}

fn policy(cluster: &Cluster) -> Policy {
    let defaults = &cluster.defaults;
    let iods = cluster.iods.len();
    let described = cluster.iods.iter().map(|iod| MapIod {
        name: iod.name.clone(),
        endpoints: iod.listen.iter().map(ToString::to_string).collect(),
    });
    Policy {
        scheme: defaults.distribution.clone(),
        pcount: defaults.pcount,
        iods: (0..iods as u32).map(IodId).collect(),
        free_bytes: vec![1; iods],
        capability_lifetime_s: cluster.security.capability.as_secs(),
        objects_free: u64::from(u32::MAX),
        map: ClusterMap {
            version: cluster.map_version(),
            filesystem: cluster.filesystem().name.clone(),
            iods: described.collect(),
            dist: defaults.distribution.to_string(),
            pcount: defaults.pcount.unwrap_or(iods as u32),
            ssize: defaults.ssize.0,
        },
    }
}

fn store_failure(path: &Path, error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Usage, format!("cannot use the store in {}: {error}", path.display()))
}

fn usage(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}

/// How long a manager that stops waits for mounts to let go of what they cache: a process that has just ended is known
/// to have after a second.
const LET_GO_TIME: Duration = Duration::from_millis(1500);
const LET_GO_PAUSE: Duration = Duration::from_millis(10);

/// There while a store is being made, and after it was not made to the end.
const FORMATTING: &str = "pvfs-mgr.formatting";
