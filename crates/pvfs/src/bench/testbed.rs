//! What a run is made on: a place, a cluster and the bare servers beside it.

use super::cluster::{Daemons, client};
use super::cpu::Processes;
use super::error::{Doing, Error, Result};
use super::limit::servers::Servers;
use super::place::Place;
use pvfs_client::{Blocking, Transport, User, block_on};
use pvfs_config::{Cluster, Endpoint};
use pvfs_wire::Handle;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::Target;
use rustix::net::sockopt::socket_peercred;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Everything a measurement needs. Fields go away in this order.
pub struct Testbed {
    bare: Servers,
    daemons: Option<Daemons>,
    daemon_pids: Vec<u32>,
    cluster: Cluster,
    place: Place,
}

impl Testbed {
    /// On a private cluster, or on `running`. Stores and bare files lie below `directory`.
    pub fn prepare(running: Option<Cluster>, directory: Option<&Path>) -> Result<Self> {
        let beside = running.as_ref().and_then(|cluster| cluster.iods.first()?.store.parent());
        let place = Place::prepare(directory.or(beside.filter(|beside| beside.exists())))?;
        let (daemons, cluster) = match running {
            Some(cluster) => (None, cluster),
            None => {
                let daemons = Daemons::start(place.directory())?;
                let cluster = daemons.cluster.clone();
                (Some(daemons), cluster)
            }
        };
        let bare = Servers::start(cluster.iods.len(), place.directory())?;
        let daemon_pids = daemons.as_ref().map_or_else(|| pids_of(&cluster), Daemons::pids);
        let testbed = Self { bare, daemons, daemon_pids, cluster, place };
        testbed.make_home()?;
        Ok(testbed)
    }

    /// The cluster measured.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Where it lies.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// A new client of the file system.
    pub fn client(&self, transport: Transport) -> Result<User<Blocking>> {
        client(&self.cluster, transport)
    }

    /// The addresses of the bare servers.
    pub fn bare(&self, transport: Transport) -> &[Endpoint] {
        if transport == Transport::Unix { self.bare.unix() } else { self.bare.tcp() }
    }

    /// This process and the daemons of the file system, as far as they are on this machine.
    pub fn product_processes(&self) -> Processes {
        Processes::with_this(&self.daemon_pids)
    }

    /// This process and the bare servers.
    pub fn bare_processes(&self) -> Processes {
        Processes::with_this(&self.bare.pids())
    }

    /// The daemons, the manager first; only those on this machine.
    pub fn daemon_pids(&self) -> &[u32] {
        &self.daemon_pids
    }

    /// The name, in the root directory of the file system, of the directory that all our files are in.
    pub fn home(&self) -> String {
        format!("bench-{}", std::process::id())
    }

    /// A new directory in it.
    pub fn directory(&self, name: &str) -> Result<Handle> {
        self.make_directory(&format!("{}/{name}", self.home()))
    }

    fn make_home(&self) -> Result<()> {
        self.make_directory(&self.home()).map(drop)
    }

    fn make_directory(&self, path: &str) -> Result<Handle> {
        let user = self.client(Transport::Tcp)?;
        let made = block_on(async {
            let root = user.root().await?;
            user.mkdir(Target::below(root, path), 0o700).await
        });
        Ok(made.doing(&format!("make the directory {path}"))?.handle)
    }

    fn remove_home(&self) -> Result<()> {
        let user = self.client(Transport::Tcp)?;
        let removed = block_on(async {
            let root = user.root().await?;
            let home = user.stat(Target::below(root, self.home()), false).await?;
            empty(&user, home.handle).await?;
            user.rmdir(Target::below(root, self.home())).await
        });
        removed.doing("remove our directory").map(drop)
    }

    /// The strip size of the cluster's files.
    pub fn strip_bytes(&self) -> u64 {
        self.cluster.defaults.ssize.0
    }

    /// Takes the testbed's word that the cluster is whole.
    pub fn require_iods(&self, count: usize) -> Result<()> {
        match self.cluster.iods.len() {
            iods if iods >= count => Ok(()),
            iods => Err(Error::Wrong(format!("{count} iods are needed, the cluster has {iods}"))),
        }
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        // A private cluster goes as a whole.
        if self.daemons.is_none()
            && let Err(error) = self.remove_home()
        {
            eprintln!("pvfs bench: {} stays in the file system: {error}", self.home());
        }
    }
}

/// Removes all that is in a directory.
async fn empty(user: &User<Blocking>, directory: Handle) -> pvfs_client::Result<()> {
    for entry in user.list(directory, false).await? {
        let target = Target::below(directory, &entry.name.0);
        if entry.kind == FileKind::Directory {
            Box::pin(empty(user, entry.handle)).await?;
            user.rmdir(target).await?;
        } else {
            user.unlink(target).await?;
        }
    }
    Ok(())
}

/// The processes behind the sockets of a cluster that runs already: the kernel tells who listens.
fn pids_of(cluster: &Cluster) -> Vec<u32> {
    let servers = cluster.managers.iter().chain(&cluster.iods);
    let sockets = servers.filter_map(|server| {
        server.listen.iter().find_map(|endpoint| match endpoint {
            Endpoint::Unix { path } => UnixStream::connect(path).ok(),
            Endpoint::Tcp { .. } => None,
        })
    });
    let listeners = sockets.filter_map(|socket| socket_peercred(&socket).ok());
    listeners.map(|listener| listener.pid.as_raw_nonzero().get() as u32).collect()
}
