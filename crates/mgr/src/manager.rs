//! The manager daemon around the pure name space: a [`Service`] that the network calls.
//!
//! ```text
//!  reactor threads            serve(round)
//!      │  queries             ──> a snapshot of the store, at once, in parallel
//!      │  changes, locks      ──> the line ──> one writer ──> one group ──> commit ──> replies
//!      │  arrived, departed   ──> clients: who holds a lease
//!      └  tick                ──> the line: leases and waits that end
//! ```
//!
//! Whoever brings changes executes them, with those of others who came meanwhile, as one group: there is
//! no writer thread to wake. Nothing is answered before its group is committed, and what is answered is
//! visible to every snapshot taken from then on.

mod background;
mod backing;
mod caching;
mod clock;
mod figures;
mod group;
mod leases;
mod locking;
mod orders;
mod parked;
mod quota;
mod replies;
mod sessions;
mod status;
mod table;
mod vouching;
mod work;

#[cfg(test)]
mod tests;

pub use background::Background;
pub use backing::Backing;
use clock::unix_seconds;
pub use clock::{Clock, SystemClock};

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use pvfs_net::service::{Departure, Peer, Reception, Request, Response, Service};
use pvfs_wire::ops::{
    Control, Done, Hello, Order, OrderKind, Ping, Recalls, Sessions, Status, SyncNames, Uses, Vouch,
};
use pvfs_wire::token::{KeyRing, Session};
use pvfs_wire::{Errno, Operation, Wire};

use crate::caching::Recorder;
use crate::clients::{Clients, Terms};
use crate::execute::{Context, Policy, Random, dispatch};
use crate::namespace::{Filesystem, FilesystemError, FormatOptions};
use crate::permission::Credentials;
use crate::store::{Transaction, View};
use caching::{Caches, Look};
use figures::Figures;
use group::Writer;
use orders::{Mode, Orders};
use parked::Parked;
use work::{Line, Pending, Work};

/// How a manager is to be.
pub struct Options {
    /// Its name in the cluster file.
    pub name: String,
    /// How long clients are waited for.
    pub terms: Terms,
    /// Where new files go, and what clients are told of the cluster.
    pub policy: Policy,
    /// Where it learns the time.
    pub clock: Arc<dyn Clock>,
    /// Called when an administrator orders something that the process has to take part in: to exit, or
    /// to drop connections. Called once per order, from a network thread; it must not block.
    pub on_order: Box<dyn Fn(&Order) + Send + Sync>,
}

/// Why a manager could not start.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The store holds no file system, or one that is not understood.
    #[error(transparent)]
    Filesystem(#[from] FilesystemError),
    /// Locks or clients in the store are not understood.
    #[error("the store cannot be read ({0}); see the log for the record in question")]
    Unreadable(Errno),
    /// No random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

/// A manager of one file system.
pub struct Manager {
    name: String,
    store: Arc<dyn Backing>,
    fs: Filesystem,
    clock: Arc<dyn Clock>,
    on_order: Box<dyn Fn(&Order) + Send + Sync>,
    lease_ms: u32,
    keys: RwLock<Arc<KeyRing>>,
    policy: RwLock<Arc<Policy>>,
    clients: Mutex<Clients>,
    line: Line<Writer>,
    parked: Parked,
    caches: Mutex<Caches>,
    /// Clients that cache no more, to be noted with the next group.
    uncached: Mutex<Vec<u64>>,
    orders: Orders,
    figures: Figures,
    started_ns: u64,
    seed: u64,
    silent_iods: Mutex<Vec<String>>,
    more_figures: OnceLock<FigureSource>,
}

/// More figures for a status, told by whoever has them.
type FigureSource = Box<dyn Fn() -> Vec<(String, u64)> + Send + Sync>;

/// Makes a new file system in an empty store, and returns it.
pub fn format(
    store: &dyn Backing,
    options: &FormatOptions,
    clock: &dyn Clock,
) -> Result<Filesystem, FilesystemError> {
    let snapshot = store.snapshot();
    let mut tx = Transaction::new(&*snapshot);
    let filesystem = Filesystem::format(&mut tx, options, clock.wall())?;
    let batch = tx.into_batch();
    store.commit(batch)?;
    store.sync()?;
    Ok(filesystem)
}

impl Manager {
    /// A manager of the file system in `store`. Clients that it knows have a whole lease to come back.
    pub fn new(
        options: Options,
        store: Arc<dyn Backing>,
        keys: KeyRing,
    ) -> Result<Self, ManagerError> {
        Self::with_seed(options, store, keys, getrandom::u64()?)
    }

    /// The same, with all its choices from one seed: a simulation can be repeated.
    pub fn with_seed(
        options: Options,
        store: Arc<dyn Backing>,
        keys: KeyRing,
        seed: u64,
    ) -> Result<Self, ManagerError> {
        let snapshot = store.snapshot();
        let fs = Filesystem::load(&*snapshot)?;
        let mut writer = Writer::new(seed);
        let mut clients = Clients::new(options.terms);
        let now_ns = options.clock.monotonic_ns();
        locking::restore(&*snapshot, &mut writer.locks).map_err(ManagerError::Unreadable)?;
        leases::restore(&*snapshot, &mut clients, writer.locks.clients(), now_ns)
            .map_err(ManagerError::Unreadable)?;
        let mut caches = Caches::new(options.terms.caches);
        caching::restore(&*snapshot, &mut caches, now_ns).map_err(ManagerError::Unreadable)?;
        drop(snapshot);
        let figures = Figures::default();
        figures.locks(writer.locks.held_count(), 0);
        Ok(Self {
            name: options.name,
            store,
            fs,
            clock: options.clock,
            on_order: options.on_order,
            lease_ms: u32::try_from(options.terms.lease_ns / 1_000_000).unwrap_or(u32::MAX),
            keys: RwLock::new(Arc::new(keys)),
            policy: RwLock::new(Arc::new(options.policy)),
            clients: Mutex::new(clients),
            line: Line::new(writer),
            parked: Parked::default(),
            caches: Mutex::new(caches),
            uncached: Mutex::default(),
            orders: Orders::new(Random::new(seed ^ START_SALT).number()),
            figures,
            started_ns: now_ns,
            seed,
            silent_iods: Mutex::new(Vec::new()),
            more_figures: OnceLock::new(),
        })
    }

    /// The file system.
    pub fn filesystem(&self) -> &Filesystem {
        &self.fs
    }

    /// Where new files go now.
    pub fn policy(&self) -> Arc<Policy> {
        self.policy.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes where new files go: after a reload of the cluster file, or as space is used up.
    pub fn change_policy(&self, change: impl FnOnce(&mut Policy)) {
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut policy));
    }

    /// Shows these figures too when it is asked for its status: those of the network. Once.
    pub fn show_also(&self, figures: impl Fn() -> Vec<(String, u64)> + Send + Sync + 'static) {
        let _ = self.more_figures.set(Box::new(figures));
    }

    /// Changes how long clients may believe what they cache, for those who begin to.
    pub fn set_cache_lease(&self, lease: std::time::Duration) {
        self.caches().set_lease(u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Goes over to other keys, after the key file has changed.
    pub fn set_keys(&self, keys: KeyRing) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Carries out an order that did not come over the network: a signal.
    pub fn order(&self, kind: OrderKind) {
        match kind {
            // The network believes; the manager only passes it on.
            OrderKind::Deny => {}
            OrderKind::Stop => {
                self.orders.set_mode(Mode::Stopping);
                // The next manager is to wait for nobody.
                self.close_leases();
            }
            OrderKind::Estop => {
                self.orders.set_mode(Mode::Stopped);
                self.drop_everything();
            }
            OrderKind::Resume => {
                self.clients().renew_all(self.clock.monotonic_ns());
                self.orders.set_mode(Mode::Serving);
            }
        }
        tracing::warn!(manager = %self.name, ?kind, "order carried out");
    }

    fn submit(&self, work: impl IntoIterator<Item = Work>) {
        self.line.submit(work, |writer, work| self.execute(writer, work));
    }

    /// Answers EIO to whatever waits anywhere.
    fn drop_everything(&self) {
        for work in self.line.take_all() {
            group::fail_stopped(work);
        }
        self.parked.fail_all(Errno::EIO);
        self.fail_waiting(Errno::EIO);
    }

    /// The names' part of fsync. Quick where the group of somebody else's was synced meanwhile.
    fn sync_names(&self, request: &Request<'_>) -> Response {
        if request.session.is_none() {
            return Response::failed(Errno::EACCES);
        }
        if SyncNames::from_bytes(request.body).is_err() {
            return Response::failed(Errno::EPROTO);
        }
        match self.store.sync() {
            Ok(()) => Response::done::<SyncNames>(&Done {}),
            Err(error) => {
                tracing::error!(manager = %self.name, "names cannot be synced: {error}");
                Response::failed(Errno::EIO)
            }
        }
    }

    /// Answers at once what needs no writer; hands back what does.
    fn answer<'a>(
        &self,
        request: Request<'a>,
        look: &mut Option<Look>,
        random: &mut Random,
    ) -> Option<Request<'a>> {
        let response = match request.header.operation {
            Ping::CODE => self.ping(),
            Status::CODE => self.status(),
            Control::CODE => self.control(request.body),
            _ if self.orders.mode() == Mode::Stopped => Response::failed(Errno::EIO),
            SyncNames::CODE => self.sync_names(&request),
            Vouch::CODE => self.vouch(&request),
            Recalls::CODE => return self.poll(request),
            code if table::is_query(code) => {
                let look = look.get_or_insert_with(|| self.look());
                self.query(request, look, random);
                return None;
            }
            _ => return Some(request),
        };
        request.ticket.reply(response);
        None
    }

    /// What the writer has to do for this request; nothing if it is answered already.
    fn work(&self, request: Request<'_>, session: Arc<Session>, now_ns: u64) -> Option<Work> {
        match request.header.operation {
            Sessions::CODE | Uses::CODE => self.look_at_users(request, &session),
            _ => Some(Work::Request(Pending::new(request, session, now_ns))),
        }
    }

    /// Answers from a snapshot. What was read is noted where somebody may cache it, or where somebody else
    /// may still believe in something older.
    fn query(&self, request: Request<'_>, look: &Look, random: &mut Random) {
        let client = request.peer.client;
        // After the snapshot was taken: what it shows was announced before.
        if !self.caches().concerns(client) {
            let response = self.ask(&request, &mut Transaction::new(&*look.snapshot), random);
            return request.ticket.reply(response);
        }
        let recorder = Recorder::default();
        let view: &dyn View = &*look.snapshot;
        let response = self.ask(&request, &mut Transaction::watched(view, &recorder), random);
        let read = recorder.take();
        self.answer_query(request.ticket, client, read, look.committed, response);
    }

    fn ask(
        &self,
        request: &Request<'_>,
        tx: &mut Transaction<'_>,
        random: &mut Random,
    ) -> Response {
        let Some(session) = request.session else { return Response::failed(Errno::EACCES) };
        self.figures.query();
        let (keys, policy) = (self.keys(), self.policy());
        let mut cx = Context {
            tx,
            fs: &self.fs,
            who: &Credentials::from(&**session),
            client: request.peer.client,
            now: self.clock.wall(),
            policy: &policy,
            keys: &keys,
            random,
            busy: None,
            left: Vec::new(),
        };
        match dispatch(request.header.operation, request.body, &mut cx) {
            Ok(body) => Response::encoded(body),
            Err(status) => Response::failed(status),
        }
    }

    fn keys(&self) -> Arc<KeyRing> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for Manager {
    fn arrived(&self, peer: &Arc<Peer>, hello: &Hello) -> Result<Reception, Errno> {
        if hello.fsid != 0 && hello.fsid != self.fs.fsid() {
            return Err(Errno::ENODEV);
        }
        let now_ns = self.clock.monotonic_ns();
        let lease_kept = self
            .clients()
            .arrived(peer.client, peer.connection, now_ns)
            .map_err(|_| Errno::ENFILE)?;
        self.clients().introduced(peer.client, &hello.software, &peer.address);
        Ok(Reception {
            lease_kept,
            generation: self.fs.generation(),
            map_version: self.policy().map.version,
            lease_ms: self.lease_ms,
        })
    }

    fn believed(&self, peer: &Arc<Peer>, session: &Arc<Session>) {
        let now_s = unix_seconds(self.clock.wall());
        self.clients().believed(peer.client, session, now_s);
    }

    fn departed(&self, peer: &Arc<Peer>, how: Departure) {
        let now_ns = self.clock.monotonic_ns();
        let mut clients = self.clients();
        clients.departed(peer.client, peer.connection, how, now_ns);
        clients.voucher_departed(peer.connection, now_ns);
        drop(clients);
        self.parked.depart(peer.connection);
    }

    fn serve(&self, round: Vec<Request<'_>>) {
        let now_ns = self.clock.monotonic_ns();
        let (mut look, mut random) = (None, Random::new(self.seed ^ now_ns));
        let mut changes = Vec::new();
        for request in round {
            let Some(request) = self.answer(request, &mut look, &mut random) else { continue };
            match request.session.cloned() {
                Some(session) => changes.extend(self.work(request, session, now_ns)),
                None => request.ticket.reply(Response::failed(Errno::EACCES)),
            }
        }
        drop(look);
        if !changes.is_empty() {
            self.submit(changes);
        }
    }

    fn tick(&self) {
        if self.orders.mode() != Mode::Stopped {
            self.look_at_leases();
            self.submit([Work::Clock]);
        }
    }
}

/// Keeps the number of the start apart from other choices of the same seed.
const START_SALT: u64 = 0x7374_6172_7400;
