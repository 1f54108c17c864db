//! `pvfs mgr` as a process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
use pvfs_wire::ops::{ClusterMap, DaemonState, MapIod, OrderKind};

use super::iods::RemoteIods;
use super::{Process, Role, make_directory, run, start_logging};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};

struct Running {
    manager: Arc<Manager>,
    store: Arc<DiskStore>,
    /// An order to stop has come over the network.
    stop_ordered: Arc<AtomicBool>,
}

impl Role for Running {
    fn service(&self) -> Arc<dyn Service> {
        self.manager.clone()
    }

    fn state(&self) -> DaemonState {
        self.manager.state().0
    }

    fn stop_wanted(&self) -> bool {
        self.stop_ordered.load(Ordering::SeqCst)
    }

    fn begin_stop(&self) {
        self.manager.order(OrderKind::Stop);
    }

    fn reload(&self, cluster: &Cluster) {
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
    make: bool,
    threads: usize,
    context: &Context,
) -> Result<(), Failure> {
    start_logging(&cluster, context);
    let described = cluster.manager(name)?.clone();
    let store = open_store(&cluster, &described.store, make)?;
    let stop_ordered = Arc::<AtomicBool>::default();
    let told = stop_ordered.clone();
    let lease_ns = cluster.defaults.lease.as_nanos() as u64;
    let options = Options {
        name: name.to_owned(),
        terms: Terms { lease_ns, ..Terms::default() },
        policy: policy(&cluster),
        clock: Arc::new(SystemClock::default()),
        on_order: Box::new(move |kind| {
            told.fetch_or(kind == OrderKind::Stop, Ordering::SeqCst);
        }),
    };
    let ring = key_ring(&cluster).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let manager = Manager::new(options, store.clone(), ring).map_err(|error| usage(&error))?;
    let manager = Arc::new(manager);
    let iods: Arc<dyn Iods> = Arc::new(RemoteIods::new(&cluster)?);
    let _background = Background::start(&manager, &iods)
        .map_err(|error| Failure::io("cannot start the background threads", &error))?;
    let running = Running { manager, store, stop_ordered };
    let process = Process { cluster, name, listen: &described.listen, threads, pool: Pool::new() };
    run(&running, process, context)
}

fn open_store(cluster: &Cluster, path: &Path, make: bool) -> Result<Arc<DiskStore>, Failure> {
    if make {
        make_directory(path)?;
    }
    let durability = match cluster.defaults.durability {
        pvfs_config::Durability::Local => Durability::Local,
        pvfs_config::Durability::Strict => Durability::Strict,
    };
    let options = StoreOptions { durability, ..StoreOptions::default() };
    let store = Arc::new(DiskStore::open(path, options).map_err(|error| usage(&error))?);
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
    }
    Ok(store)
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

fn usage(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}
