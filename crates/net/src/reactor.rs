//! The daemon's network: threads with one epoll each, serving rounds of requests.
//!
//! ```text
//!   Daemon -- start, stop, estop, resume, figures
//!     Reactor 0 (also ticks)   Reactor 1 ...          one thread and one epoll each
//!       Board: connections       Board                  pure bookkeeping, no epoll
//!       Mailbox <---------- letters ---------> Mailbox   replies from other threads, adoptions
//!     listeners, shared by all; a new connection goes to the reactor with the fewest that are busy, and those
//!     that stay busy are dealt to the reactors in turn
//! ```
//!
//! A request and its reply cost `epoll_wait`, one receive and one send, whatever else is going on.

pub mod board;
mod deal;
pub mod figures;
pub mod mailbox;
mod poller;
pub mod seats;

use std::io;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant as SystemInstant};

use rustix::event::{EventfdFlags, eventfd};

use crate::buffer::Pool;
use crate::endpoint::Endpoint;
use crate::gate::Doorman;
use crate::gate::lanes::LaneKey;
use crate::listener::{ListenError, Listener};
use crate::service::Service;
use crate::socket::Socket;
use board::House;
use figures::Figures;
use mailbox::{Mailbox, Mailroom};
use poller::Reactor;

/// Why a daemon could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address is taken, unknown or forbidden.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system has no threads or descriptors left.
    #[error("cannot set up the reactors: {0}")]
    System(#[from] io::Error),
}

/// How a stop went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stopped {
    /// Everything asked for was answered.
    Cleanly,
    /// The time was over first; the rest was dropped.
    InTheMiddle,
}

/// A running network side of a daemon. Clones are handles to the same one; it runs until stopped.
#[derive(Clone)]
pub struct Daemon {
    shared: Arc<Shared>,
    endpoints: Arc<[Endpoint]>,
    threads: Arc<Threads>,
    /// Of the reactors, until they have stopped.
    listeners: Weak<[Listener]>,
}

/// What the reactors and the daemon's handles share.
struct Shared {
    house: Arc<House<Socket>>,
    phase: AtomicU8,
    /// Grows with each estop: a reactor that sees a new one closes everything.
    estops: AtomicUsize,
    /// What each reactor has to do ([`Board::load`]), to give new connections to the idlest.
    loads: Box<[AtomicUsize]>,
    /// The lanes that are busy on each reactor, as it saw it last, to deal them out anew.
    busy: Mutex<Vec<Vec<LaneKey>>>,
}

struct Threads {
    count: usize,
    /// A message per thread that ended; whether it ended quiet.
    ended: Mutex<Receiver<bool>>,
}

/// What the reactors should be doing; only ever goes up.
const PHASE_SERVE: u8 = 0;
const PHASE_FINISH: u8 = 1;
const PHASE_END: u8 = 2;

impl Daemon {
    /// Listens on `endpoints` and serves from `threads` threads.
    pub fn start(
        service: Arc<dyn Service>,
        doorman: Arc<Doorman>,
        endpoints: &[Endpoint],
        threads: usize,
        pool: Pool,
    ) -> Result<Self, StartError> {
        assert!((1..=THREADS_MAX).contains(&threads), "a daemon has 1 to {THREADS_MAX} reactors");
        let listeners = bind_all(endpoints)?;
        let house = Arc::new(House {
            service,
            doorman,
            pool,
            figures: Figures::default(),
            mailroom: furnish(threads)?,
        });
        let bound = listeners.iter().map(Listener::endpoint).collect::<io::Result<_>>()?;
        let shared = Arc::new(Shared {
            house,
            phase: AtomicU8::new(PHASE_SERVE),
            estops: AtomicUsize::new(0),
            loads: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            busy: Mutex::new(vec![Vec::new(); threads]),
        });
        let held = Arc::downgrade(&listeners);
        let (ended_sender, ended) = channel();
        for index in 0..threads {
            let reactor = Reactor::new(shared.clone(), index as u8, listeners.clone())?;
            spawn(reactor, index, ended_sender.clone())?;
        }
        let threads = Arc::new(Threads { count: threads, ended: Mutex::new(ended) });
        Ok(Self { shared, endpoints: bound, threads, listeners: held })
    }

    /// Where it listens, with the ports that the kernel chose.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// As long as this is kept, whoever connects waits instead of being refused, also after
    /// [`Daemon::stop`]: a refusal then means that the process has ended.
    pub fn hold_listeners(&self) -> Option<Arc<[Listener]>> {
        self.listeners.upgrade()
    }

    /// Counters.
    pub fn figures(&self) -> &Figures {
        &self.shared.house.figures
    }

    /// The counters by name, lockouts and memory included, for a status report.
    pub fn list_figures(&self) -> Vec<(String, u64)> {
        let house = &self.shared.house;
        let mut list = house.figures.list();
        list.push(("net_lockouts_count".into(), house.doorman.lockouts_count()));
        list.push(("net_buffers_bytes".into(), house.pool.lent_bytes() as u64));
        list
    }

    /// Stops for good: takes no new connection or request, waits until all that were taken are answered
    /// or `deadline` is over, and closes everything. Not to be called from a service.
    pub fn stop(&self, deadline: Duration) -> Stopped {
        let until = SystemInstant::now() + deadline;
        self.enter(PHASE_FINISH);
        let ended = self.threads.ended.lock().expect("no code panics holding it");
        let mut quiet = 0;
        for waited in 0..self.threads.count {
            let left = until.saturating_duration_since(SystemInstant::now());
            match ended.recv_timeout(left) {
                Ok(was_quiet) => quiet += usize::from(was_quiet),
                Err(_) => {
                    self.enter(PHASE_END);
                    // A thread that is stuck in its service is left behind: stopping never hangs.
                    let rest = self.threads.count - waited;
                    (0..rest).for_each(|_| {
                        let _ = ended.recv_timeout(END_TIME_MAX);
                    });
                    return Stopped::InTheMiddle;
                }
            }
        }
        if quiet == self.threads.count { Stopped::Cleanly } else { Stopped::InTheMiddle }
    }

    /// An emergency: closes every connection now, and answers all requests with EIO until resumed.
    /// May be called by a service; the reply to the request that ordered it is still sent.
    pub fn estop(&self) {
        self.shared.house.doorman.set_down(true);
        self.shared.estops.fetch_add(1, Ordering::SeqCst);
        self.ring_all();
    }

    /// Serves again after an [`Daemon::estop`].
    pub fn resume(&self) {
        self.shared.house.doorman.set_down(false);
    }

    fn enter(&self, phase: u8) {
        self.shared.phase.fetch_max(phase, Ordering::SeqCst);
        self.ring_all();
    }

    fn ring_all(&self) {
        self.shared.house.mailroom.iter().for_each(|mailbox| mailbox.ring());
    }
}

fn bind_all(endpoints: &[Endpoint]) -> Result<Arc<[Listener]>, ListenError> {
    let mut listeners = Vec::new();
    for endpoint in endpoints {
        listeners.extend(Listener::bind(endpoint)?);
    }
    Ok(listeners.into())
}

fn furnish(threads: usize) -> io::Result<Mailroom<Socket>> {
    let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
    (0..threads).map(|_| Ok(Arc::new(Mailbox::new(Some(eventfd(0, flags)?))))).collect()
}

fn spawn(reactor: Reactor, index: usize, ended: Sender<bool>) -> io::Result<()> {
    let body = move || {
        let guard = AbortOnPanic;
        let was_quiet = reactor.run();
        std::mem::forget(guard);
        // Nobody listens when the daemon was not stopped but dropped.
        let _ = ended.send(was_quiet);
    };
    std::thread::Builder::new().name(format!("net-{index}")).spawn(body)?;
    Ok(())
}

/// A daemon that lost a reactor would keep some clients waiting for ever: better to start anew.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        eprintln!("a reactor of this daemon panicked; it ends so that it can be started anew");
        std::process::abort();
    }
}

const THREADS_MAX: usize = 64;

/// How long a reactor may take to close its connections once it must.
const END_TIME_MAX: Duration = Duration::from_secs(1);
