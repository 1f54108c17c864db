//! A network in memory: virtual time, seeded delays, seeded faults; for simulating whole clusters.
//!
//! The same connection, gate and board code runs on it that runs on real sockets; only the bytes' way is
//! made up. Everything is decided by one seed: the same seed and the same calls give the same history,
//! to the byte and the nanosecond. Use it from one thread (it is `Send` because runtimes are).
//!
//! ```text
//!   client future          MemoryNetwork               MemoryDaemon
//!     connect("io0") ----> connection -- pipe ------>  run_ready(): accept, receive, serve, flush
//!     MemoryStream   <---- (two pipes) <- pipe ------
//!                           weather, holds, cuts
//! ```
//!
//! **Time** stands still while code runs. An executor repeats: poll every future and run every daemon until
//! nothing happens at this instant; then it lets time jump to [`MemoryNetwork::next_event`], which knows
//! of arrivals, of the daemons' ticks, and of the timers of every [`MemoryRuntime`]. [`MemoryRuntime::run`]
//! is such an executor; by hand it looks like this:
//!
//! ```
//! # use pvfs_net::memory::MemoryNetwork;
//! # use pvfs_net::runtime::{Instant, Interest};
//! # use pvfs_net::stream::Stream;
//! # use std::io::IoSlice;
//! let network = MemoryNetwork::new(42);
//! let listener = network.listen("io0");
//! let mut client = network.connect("client", "io0");
//! while !client.is_ready(Interest::Writable) {
//!     network.advance_to(network.next_event().expect("something is under way"));
//! }
//! let sent = client.send(&[IoSlice::new(b"hello")]).unwrap();
//! assert!(sent >= 1); // the rest of a short send is the caller's to send, as on a real socket
//! assert!(listener.accept().is_some());
//! ```
//!
//! **Hosts** are names. A host exists once it is mentioned; it can be reached while it listens.
//!
//! **Weather** ([`Weather`]) is chance: delays, small chunks, stalls, connections cut at a random byte. It
//! is set for all links or for one direction of one link.
//!
//! **Faults by hand**: [`MemoryNetwork::cut`] breaks the connections between two hosts, in one of the ways
//! of [`Cut`]: among them that the client sees it at once while the server goes on receiving for a time
//! what had been sent, so that requests of the old connection arrive after the client has reconnected.
//! [`MemoryNetwork::hold`] stops one direction (a stall, a partition: hold both) until
//! [`MemoryNetwork::heal`]. [`MemoryNetwork::crash`] ends a host's connections, as a killed process or as
//! a lost machine. As in TCP, held bytes are late but not lost, until it gives up after
//! [`GIVE_UP_AFTER`] and breaks the connection; bytes never change, repeat or swap.

mod agent;
mod chance;
mod daemon;
mod faults;
mod link;
mod runtime;
mod world;

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::runtime::{Instant, Interest};
use crate::stream::Stream;
pub use agent::MemoryAttendance;
pub use chance::Chance;
pub use daemon::MemoryDaemon;
pub use link::GIVE_UP_AFTER;
pub use runtime::MemoryRuntime;
use world::{Side, World};

/// The network. Clones are the same one.
#[derive(Clone)]
pub struct MemoryNetwork {
    world: Arc<Mutex<World>>,
}

/// One end of a connection. Dropping it closes the connection, as a closed socket does.
pub struct MemoryStream {
    world: Arc<Mutex<World>>,
    connection: u64,
    side: Side,
}

/// A host's ear. Clients are refused once it is dropped.
pub struct MemoryListener {
    world: Arc<Mutex<World>>,
    host: u32,
    listener: u64,
}

/// What may happen to bytes on their way. Chances are per send, in millionths.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The shortest way.
    pub delay_min: Duration,
    /// The longest, usually.
    pub delay_max: Duration,
    /// The chance to be delayed by up to `slow_max`.
    pub slow_ppm: u32,
    /// See `slow_ppm`.
    pub slow_max: Duration,
    /// The chance of a short send, and that what was sent arrives in small chunks.
    pub chop_ppm: u32,
    /// The chance that the connection is cut somewhere within these bytes, in any of the ways of [`Cut`].
    pub cut_ppm: u32,
}

/// How a connection is cut. Bytes under way arrive up to a random one; the rest is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cut {
    /// Both ends notice soon.
    Clean,
    /// The client notices now; the server only after up to this time, in which bytes sent before still
    /// arrive.
    ServerLate(Duration),
    /// The server notices now, the client after up to this time.
    ClientLate(Duration),
    /// What the client sends vanishes; nobody notices until TCP gives up.
    LostToServer,
    /// What the server sends vanishes; nobody notices until TCP gives up.
    LostToClient,
}

/// How a host ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Crash {
    /// Its process is killed: the kernel tells all peers.
    Killed,
    /// Its machine is gone: peers notice when TCP gives up.
    Silent,
}

impl Default for Weather {
    /// A quiet local network that still chops some messages.
    fn default() -> Self {
        Self {
            delay_min: Duration::from_micros(10),
            delay_max: Duration::from_micros(100),
            slow_ppm: 10_000,
            slow_max: Duration::from_millis(5),
            chop_ppm: 100_000,
            cut_ppm: 0,
        }
    }
}

impl Weather {
    /// Bad days: long delays, many chunks, and one send in two hundred cuts its connection.
    pub fn stormy() -> Self {
        Self {
            delay_max: Duration::from_millis(2),
            slow_ppm: 50_000,
            slow_max: Duration::from_millis(500),
            chop_ppm: 500_000,
            cut_ppm: 5_000,
            ..Self::default()
        }
    }
}

impl MemoryNetwork {
    /// A quiet network without hosts, at time zero.
    pub fn new(seed: u64) -> Self {
        Self { world: Arc::new(Mutex::new(World::new(seed))) }
    }

    /// The virtual time, of a clock that never steps.
    pub fn now(&self) -> Instant {
        self.lock().now()
    }

    /// The calendar of a host, in nanoseconds since the epoch.
    pub fn wall_ns(&self, host: &str) -> i64 {
        let mut world = self.lock();
        let host = world.host(host);
        world.wall_ns(host)
    }

    /// Sets a host's calendar wrong by this much; it may step back.
    pub fn set_clock_error_ns(&self, host: &str, error_ns: i64) {
        let mut world = self.lock();
        let host = world.host(host);
        world.set_clock_error_ns(host, error_ns);
    }

    /// A random number from the seed.
    pub fn random(&self) -> u64 {
        self.lock().random()
    }

    /// When something happens next by itself: bytes arrive, a connection is made or noticed to be broken,
    /// a timer is due.
    pub fn next_event(&self) -> Option<Instant> {
        self.lock().next_event()
    }

    /// Makes that time an event.
    pub fn wake_at(&self, at: Instant) {
        self.lock().note(at);
    }

    /// Lets time pass. Going back is ignored.
    pub fn advance_to(&self, at: Instant) {
        self.lock().advance_to(at);
    }

    /// Begins to listen on a host, which clients can reach from now on.
    pub fn listen(&self, host: &str) -> MemoryListener {
        let mut world = self.lock();
        let host = world.host(host);
        let listener = world.listen(host);
        MemoryListener { world: self.world.clone(), host, listener }
    }

    /// Begins to connect. The stream is writable once connected or refused; its first use tells which.
    pub fn connect(&self, from: &str, to: &str) -> MemoryStream {
        let mut world = self.lock();
        let (from, to) = (world.host(from), world.host(to));
        let connection = world.connect(from, to);
        MemoryStream { world: self.world.clone(), connection, side: Side::Client }
    }

    /// The weather of all links that have none of their own.
    pub fn set_weather(&self, weather: Weather) {
        self.lock().set_weather(weather);
    }

    /// The weather of one direction of a link.
    pub fn set_link_weather(&self, from: &str, to: &str, weather: Weather) {
        let mut world = self.lock();
        let link = (world.host(from), world.host(to));
        world.set_link_weather(link, weather);
    }

    /// Cuts all connections that `client` has made to `server`.
    pub fn cut(&self, client: &str, server: &str, how: Cut) {
        let mut world = self.lock();
        let (client, server) = (world.host(client), world.host(server));
        world.cut_link(client, server, how);
    }

    /// Nothing sent from `from` arrives at `to`, until healed or for this time.
    pub fn hold(&self, from: &str, to: &str, time: Option<Duration>) {
        let mut world = self.lock();
        let link = (world.host(from), world.host(to));
        world.hold(link, time);
    }

    /// Holds both directions between two hosts.
    pub fn partition(&self, one: &str, other: &str) {
        self.hold(one, other, None);
        self.hold(other, one, None);
    }

    /// Ends all holds between two hosts.
    pub fn heal(&self, one: &str, other: &str) {
        let mut world = self.lock();
        let (one, other) = (world.host(one), world.host(other));
        world.heal((one, other));
        world.heal((other, one));
    }

    /// Ends a host's connections, both those it made and those it took, and its listening. Drop its
    /// [`MemoryDaemon`] as well; then it may be started again.
    pub fn crash(&self, host: &str, how: Crash) {
        let mut world = self.lock();
        let host = world.host(host);
        world.agents.crash(host, how);
        world.crash(host, how);
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no code panics holding it")
    }
}

impl MemoryListener {
    /// The next client that has connected, and its host's name.
    pub fn accept(&self) -> Option<(MemoryStream, String)> {
        let mut world = self.world.lock().expect("no code panics holding it");
        let (connection, peer) = world.accept(self.host)?;
        let stream = MemoryStream { world: self.world.clone(), connection, side: Side::Server };
        Some((stream, peer))
    }
}

impl Drop for MemoryListener {
    fn drop(&mut self) {
        if let Ok(mut world) = self.world.lock() {
            world.drop_listener(self.host, self.listener);
        }
    }
}

impl MemoryStream {
    /// Whether a receive or a send would not be told to wait.
    pub fn is_ready(&self, interest: Interest) -> bool {
        let world = self.lock();
        match interest {
            Interest::Readable => world.is_readable(self.connection, self.side),
            Interest::Writable => world.is_writable(self.connection, self.side),
        }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no code panics holding it")
    }
}

impl Stream for MemoryStream {
    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.lock().send(self.connection, self.side, pieces)
    }

    fn receive(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.lock().receive(self.connection, self.side, pieces)
    }

    fn shutdown(&mut self) {
        self.lock().close(self.connection, self.side);
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        if let Ok(mut world) = self.world.lock() {
            world.close(self.connection, self.side);
        }
    }
}

#[cfg(test)]
mod tests;
