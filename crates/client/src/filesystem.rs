//! A file system as a client holds it: its daemons, its deadlines, and who is using it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use pvfs_config::{Cluster, Endpoint};
use pvfs_layout::IodId;
use pvfs_net::call::{Caller, Patience, Principal, Server, Told};
use pvfs_net::runtime::Runtime;
use pvfs_net::shared_buffers::SharedBuffers;
use pvfs_wire::attr::Placement;
use pvfs_wire::ops::Map;
use pvfs_wire::{DATA_BYTES_MAX, Errno, Handle, Operation};

use crate::cache::Cache;
use crate::credentials::connector;
use crate::error::{Error, Result};
use crate::loans::Boards;
use crate::ops::dealing::Limits;
use crate::presence::Presence;
use crate::staging::Staging;
use crate::writers::Writers;

/// One file system, for any number of users and threads.
pub struct Filesystem<R: Runtime> {
    caller: Caller<R>,
    fsid: u32,
    manager: Server<R>,
    iods: Vec<Server<R>>,
    /// Until when each iod is not asked again by who only looks, in ns.
    silent_until: Vec<AtomicU64>,
    options: Options,
    opens: AtomicU64,
    numbers: AtomicU32,
    locked: Mutex<HashMap<Handle, u64>>,
    presence: Presence,
    given_up: Mutex<Vec<u64>>,
    writers: Writers,
    boards: Boards,
    staging: Staging,
    cache: Cache,
}

/// How a client behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long one data operation may take.
    pub data_timeout: Duration,
    /// How long one metadata operation may take.
    pub metadata_timeout: Duration,
    /// How long statfs, status and the sizes of a listing may take.
    pub status_timeout: Duration,
    /// Whether data is protected by checksums on its way.
    pub checksums: bool,
    /// Which of a daemon's addresses are used.
    pub transport: Transport,
    /// Whether objects on iods of this node are read without a message, by descriptors that the iods lend.
    pub borrows: bool,
    /// Bytes of one request to one iod; a longer transfer is several requests.
    pub request_bytes_max: u64,
    /// What daemons are told of this client: see [`Options::named`].
    pub software: String,
}

/// Which of a daemon's addresses are used.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Transport {
    /// A socket of this node where there is one, else TCP.
    #[default]
    Auto,
    /// TCP only.
    Tcp,
    /// Sockets of this node only.
    Unix,
}

impl Options {
    /// The defaults of a cluster file.
    pub fn of(cluster: &Cluster) -> Self {
        Self {
            data_timeout: cluster.defaults.data_deadline,
            metadata_timeout: cluster.defaults.metadata_deadline,
            status_timeout: cluster.defaults.status_deadline,
            checksums: cluster.defaults.checksums,
            transport: Transport::Auto,
            borrows: true,
            request_bytes_max: REQUEST_BYTES_MAX,
            software: concat!("pvfs-client ", env!("CARGO_PKG_VERSION")).into(),
        }
    }

    /// The same for this program, such as `pvfs mount`: administrators find the process by what it says of itself.
    #[must_use]
    pub fn named(self, program: &str) -> Self {
        let (system, version) = (rustix::system::uname(), env!("CARGO_PKG_VERSION"));
        let (node, process) = (system.nodename().to_string_lossy(), rustix::process::getpid());
        let software = format!("{program} {version} on {node}, process {process}");
        Self { software, ..self }
    }
}

impl<R: Runtime> Filesystem<R> {
    /// Gets ready to use the first file system of a cluster; contacts nobody yet.
    pub fn new(runtime: R, cluster: &Cluster, options: Options) -> Result<Arc<Self>> {
        let fsid = cluster.filesystems[0].id;
        let caller = Caller::new(runtime, fsid, options.software.clone(), options.checksums)
            .over_tls(connector(cluster)?);
        let server = |described: &pvfs_config::Server| {
            Server::new(described.name.clone(), reachable(&described.listen, options.transport))
        };
        let manager = cluster.managers.first().map(server);
        let manager =
            manager.ok_or_else(|| Error::Setup("the cluster file names no manager".into()))?;
        let iods: Vec<_> = cluster.iods.iter().map(server).collect();
        let silent_until = iods.iter().map(|_| AtomicU64::new(0)).collect();
        let (opens, numbers) = (AtomicU64::new(1), AtomicU32::new(1));
        let locked = Mutex::default();
        let presence = Presence::before(cluster.agent.socket.clone());
        Ok(Arc::new(Self {
            caller,
            fsid,
            manager,
            iods,
            silent_until,
            options,
            opens,
            numbers,
            locked,
            presence,
            given_up: Mutex::default(),
            writers: Writers::default(),
            boards: Boards::default(),
            staging: Staging::default(),
            cache: Cache::default(),
        }))
    }

    /// The root directory. Asks the manager once for the file system's generation.
    pub async fn root(&self, principal: &Principal) -> Result<Handle> {
        if self.manager.generation() == 0 {
            self.ask(principal, &Map {}).await?;
        }
        Ok(Handle::root(self.fsid, self.manager.generation()))
    }

    /// Asks the manager, within the time for metadata.
    pub(crate) async fn ask<O: Operation>(
        &self,
        principal: &Principal,
        request: &O,
    ) -> Result<O::Reply> {
        Ok(self.caller.call(&self.manager, principal, request, self.metadata_patience()).await?)
    }

    /// The number of the file system, part of every handle.
    pub fn fsid(&self) -> u32 {
        self.fsid
    }

    /// The like, and for how many milliseconds the answer may be cached; of a refusal too.
    pub(crate) async fn ask_told<O: Operation>(
        &self,
        principal: &Principal,
        request: &O,
    ) -> Result<Told<O::Reply>> {
        let patience = self.metadata_patience();
        Ok(self.caller.call_told(&self.manager, principal, request, patience).await?)
    }

    /// What this client may answer by itself.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The machinery of calls.
    pub fn caller(&self) -> &Caller<R> {
        &self.caller
    }

    /// The world.
    pub fn runtime(&self) -> &R {
        &self.caller.runtime
    }

    /// The manager.
    pub fn manager(&self) -> &Server<R> {
        &self.manager
    }

    /// The iods, in the order of their ids.
    pub fn iods(&self) -> &[Server<R>] {
        &self.iods
    }

    /// The iod that holds a slot; EIO when the cluster file of this node does not know it.
    pub(crate) fn iod_of(&self, placement: &Placement, slot: u32) -> Result<&Server<R>> {
        let id = placement.iods.get(slot);
        let iod = id.and_then(|IodId(id)| self.iods.get(id as usize));
        iod.ok_or_else(|| Errno::EIO.into())
    }

    /// Shows these buffers to the iods of this node: what lies there is written to objects on loan without being copied
    /// first. Only the first ones are.
    pub fn share(&self, buffers: Arc<SharedBuffers>) {
        self.staging.share(buffers);
    }

    /// Where data lie that are written by loan.
    pub(crate) fn staging(&self) -> &Staging {
        &self.staging
    }

    /// The words of iods that lend objects.
    pub(crate) fn boards(&self) -> &Boards {
        &self.boards
    }

    /// How this client behaves.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What one request of a noncontiguous access carries.
    pub(crate) fn request_limits(&self) -> Limits {
        let bytes_max = self.options.request_bytes_max.clamp(1, u64::from(DATA_BYTES_MAX));
        Limits { bytes_max, regions_max: REQUEST_REGIONS_MAX }
    }

    pub(crate) fn data_patience(&self) -> Patience {
        Patience { timeout: self.options.data_timeout, insist: true }
    }

    pub(crate) fn metadata_patience(&self) -> Patience {
        Patience { timeout: self.options.metadata_timeout, insist: true }
    }

    pub(crate) fn status_patience(&self) -> Patience {
        Patience { timeout: self.options.status_timeout, insist: false }
    }

    /// This iod let a question time out.
    pub(crate) fn note_silence(&self, iod: u32) {
        let until = self.caller.runtime.now().after(SILENT_TIME);
        self.silent_until[iod as usize].store(until.0, Ordering::Relaxed);
    }

    /// Whether it did so just now.
    pub(crate) fn is_silent(&self, iod: u32) -> bool {
        let until = self.silent_until[iod as usize].load(Ordering::Relaxed);
        until > 0 && self.caller.runtime.now().0 < until
    }

    /// A number for an open, never given before by this client.
    pub(crate) fn next_open(&self) -> u64 {
        self.presence.note(&self.caller);
        self.opens.fetch_add(1, Ordering::Relaxed)
    }

    /// Nobody waits for these opens any more, and nobody knows whether they were done.
    pub(crate) fn give_up(&self, opens: impl IntoIterator<Item = u64>) {
        self.given_up_list().extend(opens);
    }

    /// Opens to be closed by whoever talks to the manager next, with those whose close may not have arrived.
    pub(crate) fn take_given_up(&self) -> Vec<u64> {
        let mut opens = std::mem::take(&mut *self.given_up_list());
        opens.extend(self.manager().take_unheard());
        opens
    }

    /// This client's opens for writing.
    pub(crate) fn writers(&self) -> &Writers {
        &self.writers
    }

    /// Whether a lock on this file was granted, and not given up as a whole.
    pub(crate) fn has_locked(&self, handle: Handle) -> bool {
        self.lock_table().contains_key(&handle)
    }

    fn given_up_list(&self) -> MutexGuard<'_, Vec<u64>> {
        self.given_up.lock().expect("no code panics while it holds the list")
    }

    /// A lock on this file was granted under the present lease.
    pub(crate) fn note_lock(&self, handle: Handle) {
        self.presence.note(&self.caller);
        self.lock_table().insert(handle, self.caller.leases_lost());
    }

    /// Nothing of this client can be locked in this file any more.
    pub(crate) fn forget_lock(&self, handle: Handle) {
        self.lock_table().remove(&handle);
    }

    /// EIO when a lock on this file went with a lease: whoever relies on it must not go on (D4).
    pub(crate) fn check_lock(&self, handle: Handle) -> Result<()> {
        let lost = self.caller.leases_lost();
        if lost == 0 {
            return Ok(());
        }
        let granted_under = self.lock_table().get(&handle).copied();
        if granted_under.is_some_and(|lease| lease < lost) {
            Err(Errno::EIO.into())
        } else {
            Ok(())
        }
    }

    fn lock_table(&self) -> MutexGuard<'_, HashMap<Handle, u64>> {
        self.locked.lock().expect("no code panics while it holds the table")
    }

    /// A number for a capability.
    pub(crate) fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// The addresses to try, in order: a socket of this node is faster than TCP where it exists.
fn reachable(endpoints: &[Endpoint], transport: Transport) -> Vec<Endpoint> {
    let local = |endpoint: &&Endpoint| matches!(endpoint, Endpoint::Unix { .. });
    let unix = endpoints.iter().filter(local).cloned();
    let tcp = endpoints.iter().filter(|endpoint| !local(endpoint)).cloned();
    match transport {
        Transport::Tcp => tcp.collect(),
        Transport::Unix => unix.collect(),
        Transport::Auto => unix.filter(exists).chain(tcp).collect(),
    }
}

fn exists(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Unix { path } if path.exists())
}

/// How long nobody who only looks asks an iod again that did not answer: long enough for a listing to go on, and not
/// for anybody to miss that it is back.
const SILENT_TIME: Duration = Duration::from_secs(1);

/// A request's data fits a processor's cache on both ends.
const REQUEST_BYTES_MAX: u64 = 1 << 20;

/// A list this long is half a megabyte, and an iod a few hundredths of a second busy with it. Half of what an iod
/// takes ([`pvfs_wire::attr::REGIONS_MAX`]), since two blocks of a strided access can be one region to us.
const REQUEST_REGIONS_MAX: usize = 32 << 10;
