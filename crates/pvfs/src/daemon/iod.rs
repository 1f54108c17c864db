//! `pvfs iod` as a process.

use std::sync::Arc;
use std::time::Duration;

use pvfs_client::credentials::key_ring;
use pvfs_config::Cluster;
use pvfs_iod::{Config, Iod, LocalDisk};
use pvfs_net::buffer::Pool;
use pvfs_net::service::Service;

use super::network::Network;
use super::{Make, Process, Role, make_directory, run, start_logging};
use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};

struct Running(Arc<Iod>);

impl Role for Running {
    fn service(&self) -> Arc<dyn Service> {
        self.0.clone()
    }

    fn stop_wanted(&self) -> bool {
        self.0.stop_wanted()
    }

    fn join_network(&self, network: Network) {
        let network = Arc::new(network);
        let counters = network.clone();
        self.0.show_also(move || counters.list_figures());
        self.0.on_order(move |order| network.obey(order));
    }

    fn reload(&self, cluster: &Cluster) {
        if let Ok(ring) = key_ring(cluster) {
            self.0.accept_keys(ring);
        }
    }

    fn finish(&self, patience: Duration) -> Result<(), String> {
        self.0.drain(patience).map_err(|errno| errno.to_string())
    }
}

/// Runs the iod called `name` until it is told to stop.
pub fn serve(
    cluster: Cluster,
    name: &str,
    make: Make,
    threads: usize,
    context: &Context,
) -> Result<(), Failure> {
    start_logging(&cluster, context);
    let (_, described) = cluster.iod(name)?;
    let described = described.clone();
    if make != Make::No {
        make_directory(&described.store)?;
        LocalDisk::format(&described.store, name).map_err(|error| store_failure(&error))?;
    }
    if make == Make::Only {
        return Ok(());
    }
    let disk = LocalDisk::open(&described.store, name).map_err(|error| store_failure(&error))?;
    let pool = Pool::new();
    let ring = key_ring(&cluster).map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let config = Config {
        filesystems: vec![cluster.filesystem().id],
        map_version: cluster.map_version(),
        commit_interval: cluster.defaults.commit_interval,
        ..Config::new(name)
    };
    let iod = Arc::new(Iod::new(config, Arc::new(disk), ring, pool.clone()));
    let boot = iod.boot();
    let denied = described.store.join("pvfs-iod.denied");
    let process = Process { cluster, name, listen: &described.listen, threads, pool, boot, denied };
    run(&Running(iod), process, context)
}

fn store_failure(error: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Usage, error.to_string())
}
