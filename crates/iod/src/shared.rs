//! What reactors and workers share: a request is refused, executed at once, or handed to a worker.
//!
//! ```text
//! serve --> operation --> answer                                  on the reactor
//!               |-------> work ------> board --> answer           on a worker
//!               |                        |
//!               `-------> after sync <---'                        with others, on a worker
//! ```

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use pvfs_net::buffer::Pool;
use pvfs_net::orders::OrderBook;
use pvfs_net::service::{Peer, Request, Response};
use pvfs_wire::ops::{Access, DaemonState, Order, OrderKind, Write};
use pvfs_wire::token::{Capability, KeyRing, Rights};
use pvfs_wire::{Errno, Handle, Operation};

use crate::call::{Call, Pending};
use crate::capability::{Asker, check_shown};
use crate::clock::Clock;
use crate::connection::Connections;
use crate::disk::Disk;
use crate::engine::Engine;
use crate::figures::Figures;
use crate::health::Health;
use crate::iod::Config;
use crate::ops::{self, Next, Outcome, Work};
use crate::plan::Plan;
use crate::strain::Strain;
use crate::sync::SyncGroups;
use crate::worker::Board;

/// The daemon without its threads.
pub struct Shared {
    /// Its name in the cluster file.
    pub name: String,
    /// The cluster version it goes by.
    pub map_version: u32,
    /// The objects.
    pub engine: Engine,
    /// How it is.
    pub health: Arc<Health>,
    /// What happened.
    pub figures: Arc<Figures>,
    /// Orders seen.
    pub orders: OrderBook,
    /// The clients.
    pub connections: Connections,
    /// Whether writes block.
    pub strain: Strain,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Who signs capabilities and orders.
    ring: RwLock<KeyRing>,
    filesystems: Vec<u32>,
    write_at_once_bytes_max: usize,
    syncs: SyncGroups<Waiter>,
    board: Arc<Board<Job>>,
    /// Without workers everything is done where it comes up.
    has_workers: bool,
    started: Duration,
    commit_interval: Duration,
    /// When the last commit was begun, in nanoseconds of the monotonic clock.
    committed_ns: AtomicU64,
    committing: AtomicBool,
    stop_wanted: AtomicBool,
    more_figures: OnceLock<FigureSource>,
    on_order: OnceLock<OrderHook>,
}

/// Figures that somebody else keeps.
pub type FigureSource = Box<dyn Fn() -> Vec<(String, u64)> + Send + Sync>;

/// Whoever takes part in orders.
pub type OrderHook = Box<dyn Fn(&Order) + Send + Sync>;

/// What workers do.
pub enum Job {
    /// The rest of a request.
    Request(Box<Rest>),
    /// One sync of an object for all who wait for it.
    Sync(Handle),
    /// Everything to stable storage.
    Commit,
}

/// A request of which only the part is left that may block.
pub struct Rest {
    pending: Pending,
    work: Work,
}

/// A request that is answered after a sync.
struct Waiter {
    pending: Pending,
    response: Response,
}

impl Shared {
    /// A daemon whose jobs are still to be given workers, see [`Self::board`] and [`Self::run`].
    pub fn new(config: Config, disk: Arc<dyn Disk>, ring: KeyRing, pool: Pool) -> Arc<Self> {
        let (figures, health) = (Arc::<Figures>::default(), Arc::<Health>::default());
        if config.read_only {
            health.keep_read_only("read-only by configuration");
        }
        let number = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        let engine = Engine::new(disk, pool, Arc::clone(&figures), Arc::clone(&health), number);
        let started = config.clock.monotonic();
        Arc::new(Self {
            board: Arc::new(Board::new(config.bounds())),
            name: config.name,
            map_version: config.map_version,
            ring: RwLock::new(ring),
            engine,
            health,
            figures,
            orders: OrderBook::new(config.start),
            connections: Connections::default(),
            strain: Strain::default(),
            clock: config.clock,
            filesystems: config.filesystems,
            write_at_once_bytes_max: config.write_at_once_bytes_max,
            syncs: SyncGroups::new(),
            has_workers: config.workers > 0,
            started,
            commit_interval: config.commit_interval,
            committed_ns: AtomicU64::new(started.as_nanos() as u64),
            committing: AtomicBool::new(false),
            stop_wanted: AtomicBool::new(false),
            more_figures: OnceLock::new(),
            on_order: OnceLock::new(),
        })
    }

    /// Where jobs wait for workers.
    pub fn board(&self) -> &Arc<Board<Job>> {
        &self.board
    }

    /// Serves a request that came at `now`.
    pub fn serve(&self, request: Request<'_>, now: Duration) {
        self.figures.requests.one();
        // Without a connection there is nobody to answer: the client left in this very round.
        let Some(connection) = self.connections.get(request.peer.connection) else { return };
        let call = Call::new(request, connection);
        let outcome = ops::dispatch(self, &call);
        self.go_on(call.into_pending(now), outcome);
    }

    /// Writes what a client was killed in the middle of writing, so that it is written as a whole. At once, also where
    /// that may have to wait: what the client's next connection asks for must find it done.
    pub fn redo(&self, request: Request<'_>) {
        let Some(connection) = self.connections.get(request.peer.connection) else { return };
        let call = Call::new(request, connection);
        if call.operation() != Write::CODE || !call.shares_node() {
            return;
        }
        self.figures.redone_writes.one();
        let outcome = match ops::dispatch(self, &call) {
            Ok(Next::Work { work, .. }) => work(self, call.connection()),
            outcome => outcome,
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "what a client was killed in the middle of writing stays half written");
        }
    }

    /// Does a job; it may block.
    pub fn run(&self, job: Job) {
        match job {
            Job::Request(rest) => self.finish(*rest),
            Job::Sync(handle) => self.sync_for_all(handle),
            Job::Commit => {
                // A failure shows in the daemon's state; there is nobody to tell.
                let _ = self.engine.commit();
                self.committing.store(false, SeqCst);
            }
        }
    }

    /// The capability that a request goes by, if it gives any of these rights.
    pub fn grant(
        &self,
        call: &Call<'_>,
        access: &Access,
        rights: Rights,
    ) -> Result<Arc<Capability>, Errno> {
        let (session, now_s) = (call.session()?, self.clock.unix().as_secs());
        let ring = self.ring();
        let asker = Asker { ring: &ring, session, now_s };
        let granted = call.connection().capabilities().grant(access, &asker, rights);
        if granted.as_ref().err() == Some(&Errno::EKEYREJECTED) {
            self.figures.forged_capabilities.one();
        }
        let capability = granted?;
        self.check_served(capability.handle)?;
        Ok(capability)
    }

    /// The capability that a token of a request is, if it gives any of these rights now.
    pub fn grant_shown(
        &self,
        call: &Call<'_>,
        token: &[u8],
        rights: Rights,
    ) -> Result<Capability, Errno> {
        let (session, now_s) = (call.session()?, self.clock.unix().as_secs());
        let ring = self.ring();
        let granted = check_shown(token, &Asker { ring: &ring, session, now_s }, rights);
        if granted.as_ref().err() == Some(&Errno::EKEYREJECTED) {
            self.figures.forged_capabilities.one();
        }
        let capability = granted?;
        self.check_served(capability.handle)?;
        Ok(capability)
    }

    /// The keys that capabilities and orders are signed with.
    pub fn ring(&self) -> RwLockReadGuard<'_, KeyRing> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes by these keys from now on. What was verified already stays good for its time.
    pub fn accept_keys(&self, ring: KeyRing) {
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = ring;
        self.engine.end_loans();
    }

    /// Whether objects of this file system are kept here.
    pub fn serves(&self, fsid: u32) -> bool {
        self.filesystems.is_empty() || self.filesystems.contains(&fsid)
    }

    /// Refuses a handle of another file system.
    pub fn check_served(&self, handle: Handle) -> Result<(), Errno> {
        if self.serves(handle.fsid) { Ok(()) } else { Err(Errno::ESTALE) }
    }

    /// Refuses changes where there can be none.
    pub fn check_writable(&self) -> Result<(), Errno> {
        let read_only = self.health.state() == DaemonState::ReadOnly;
        if read_only { Err(Errno::EROFS) } else { Ok(()) }
    }

    /// Whether a write of this plan may be tried on a reactor.
    pub fn writes_at_once(&self, plan: &Plan) -> bool {
        let short = !plan.is_long() && plan.total_bytes() <= self.write_at_once_bytes_max as u64;
        short && !self.strain.is_felt(&*self.clock)
    }

    /// Carries an order out.
    pub fn obey(&self, order: &Order) {
        match order.kind {
            OrderKind::Deny => {}
            OrderKind::Stop => self.stop_wanted.store(true, SeqCst),
            OrderKind::Resume => self.health.resume(),
            OrderKind::Estop => self.estop(),
        }
        if let Some(on_order) = self.on_order.get() {
            on_order(order);
        }
        if order.kind == OrderKind::Deny {
            // Those who are still believed borrow again.
            self.engine.end_loans();
        }
    }

    /// Calls this after each order that was carried out; the first one given stays.
    pub fn on_order(&self, hook: OrderHook) {
        let _ = self.on_order.set(hook);
    }

    /// Whether an order to stop has come.
    pub fn stop_wanted(&self) -> bool {
        self.stop_wanted.load(SeqCst)
    }

    /// Time since it started.
    pub fn uptime(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.started)
    }

    /// Counters and gauges.
    pub fn figures(&self) -> Vec<(String, u64)> {
        let space = self.engine.disk().space().unwrap_or_default();
        let (pending, active) = self.board.depths();
        let gauges = [
            ("connections", self.connections.count() as u64),
            ("open_objects", self.engine.disk().open_objects() as u64),
            ("lent_objects", self.engine.lent_objects() as u64),
            ("pending_requests", pending as u64),
            ("active_requests", active as u64),
            ("store_size_bytes", space.total_bytes),
            ("store_available_bytes", space.available_bytes),
        ];
        let gauges = gauges.into_iter().map(|(name, value)| (name.to_owned(), value));
        let more = self.more_figures.get().map(|figures| figures()).unwrap_or_default();
        self.figures.list().into_iter().chain(gauges).chain(more).collect()
    }

    /// Adds figures to the list; the first ones told stay.
    pub fn show_also(&self, figures: FigureSource) {
        let _ = self.more_figures.set(figures);
    }

    /// Begins a commit when the last one was begun long enough ago.
    pub fn commit_if_due(&self) {
        let now = self.clock.monotonic();
        let last = Duration::from_nanos(self.committed_ns.load(SeqCst));
        if now < last + self.commit_interval || self.committing.swap(true, SeqCst) {
            return;
        }
        self.committed_ns.store(now.as_nanos() as u64, SeqCst);
        if self.submit(NOBODY, 0, Job::Commit).is_err() {
            self.committing.store(false, SeqCst);
        }
    }

    /// A client's connection is over. What waits for it is dropped now: the client may be back already, and
    /// is let in when nothing it asked for over the old connection can still happen.
    pub fn forget(&self, peer: &Peer) {
        let Some(gone) = self.connections.remove(peer.connection) else { return };
        let of_it = |pending: &Pending| Arc::ptr_eq(&pending.connection, &gone);
        let jobs =
            self.board.withdraw(|job| matches!(job, Job::Request(rest) if of_it(&rest.pending)));
        let waiters = self.syncs.withdraw(|waiter| of_it(&waiter.pending));
        // Their tickets answer nobody.
        drop((jobs, waiters));
    }

    fn go_on(&self, pending: Pending, outcome: Outcome) {
        match outcome {
            Ok(Next::Answer(response)) => pending.reply(response),
            Ok(Next::Work { bytes, work }) => self.hand_over(pending, bytes, work),
            Ok(Next::AfterSync(handle, response)) => self.reply_synced(pending, handle, response),
            Err(error) => self.refuse(pending, error),
        }
    }

    fn refuse(&self, pending: Pending, error: Errno) {
        self.figures.errors.one();
        match error {
            Errno::ETIMEDOUT => self.figures.timeouts.one(),
            Errno::EAGAIN => self.figures.overloads.one(),
            _ => {}
        }
        pending.reply(Response::failed(error));
    }

    fn hand_over(&self, pending: Pending, bytes: usize, work: Work) {
        self.figures.deferred.one();
        let client = pending.client;
        let job = Job::Request(Box::new(Rest { pending, work }));
        if let Err(Job::Request(rest)) = self.submit(client, bytes, job) {
            self.refuse(rest.pending, Errno::EAGAIN);
        }
    }

    fn finish(&self, Rest { pending, work }: Rest) {
        let outcome = self.do_work(&pending, work);
        self.go_on(pending, outcome);
    }

    fn do_work(&self, pending: &Pending, work: Work) -> Outcome {
        pending.check_wanted(&*self.clock)?;
        let outcome = work(self, &pending.connection);
        // Who was under way when an emergency stop came is told so, whatever came of it.
        if self.health.state() == DaemonState::Down { Err(Errno::EIO) } else { outcome }
    }

    fn reply_synced(&self, pending: Pending, handle: Handle, response: Response) {
        self.figures.syncs.one();
        let client = pending.client;
        if self.syncs.join(handle, Waiter { pending, response }) {
            self.begin_sync(client, handle);
        }
    }

    fn begin_sync(&self, client: u64, handle: Handle) {
        if self.submit(client, 0, Job::Sync(handle)).is_err() {
            let waiters = self.syncs.abandon(handle);
            waiters.into_iter().for_each(|waiter| self.refuse(waiter.pending, Errno::EAGAIN));
        }
    }

    fn sync_for_all(&self, handle: Handle) {
        let waiters = self.syncs.begin(handle);
        let client = waiters.first().map_or(NOBODY, |waiter| waiter.pending.client);
        if !waiters.is_empty() {
            let outcome = self.engine.sync(handle);
            for Waiter { pending, response } in waiters {
                let outcome = outcome.map(|()| Next::Answer(response));
                self.go_on(pending, outcome);
            }
        }
        if self.syncs.end(handle) {
            self.begin_sync(client, handle);
        }
    }

    fn submit(&self, client: u64, bytes: usize, job: Job) -> Result<(), Job> {
        if self.has_workers {
            return self.board.submit(client, bytes, job);
        }
        self.run(job);
        Ok(())
    }

    /// Drops everything that waits and fails everything to come.
    pub fn estop(&self) {
        self.health.stop("stopped by an emergency order; pvfs resume ends it");
        // After: what is lent while this happens is either taken back here, or not answered.
        self.engine.end_loans();
        for job in self.board.clear() {
            match job {
                Job::Request(rest) => self.refuse(rest.pending, Errno::EIO),
                Job::Sync(_) => {}
                Job::Commit => self.committing.store(false, SeqCst),
            }
        }
        let waiters = self.syncs.clear();
        waiters.into_iter().for_each(|waiter| self.refuse(waiter.pending, Errno::EIO));
    }
}

/// The client number of the daemon's own work.
const NOBODY: u64 = 0;
