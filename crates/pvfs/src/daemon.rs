//! What a manager and an I/O daemon have in common as processes: start, signals, reload, an orderly end.
//!
//! ```text
//!   starting -- READY=1 --> serving -- SIGTERM, stop order --> finishing (20 s) --> synced, exit 0
//!                              |  SIGHUP: reads the cluster file again     \-- second SIGTERM: exit at once
//!                              |  estop order: sockets close, all fails with EIO; resume order: serves again
//! ```

pub mod iod;
mod iods;
pub mod mgr;
mod network;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use pvfs_config::{Cluster, Endpoint, Reload, SecurityMode};
use pvfs_net::buffer::Pool;
use pvfs_net::gate::{Doorman, Limits, Rules, Security};
use pvfs_net::reactor::{Daemon, Stopped};
use pvfs_net::service::Service;
use pvfs_net::tls::{Acceptor, TlsSetupError};
use rustix::process::{Resource, getrlimit, setrlimit};
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use network::Network;

/// What differs between the daemons.
pub trait Role {
    /// What serves requests.
    fn service(&self) -> Arc<dyn Service>;

    /// Whether a stop order has come.
    fn stop_wanted(&self) -> bool;

    /// A stop begins: refuses new work that would keep clients waiting.
    fn begin_stop(&self) {}

    /// Shows the network's counters with its own, and passes the orders it takes on to the network.
    fn join_network(&self, network: Network);

    /// Takes what may change while it runs.
    fn reload(&self, cluster: &Cluster);

    /// Brings everything to stable storage; the error says what could not be.
    fn finish(&self, patience: Duration) -> Result<(), String>;
}

/// Whether a store is made first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Make {
    /// No: there is one.
    No,
    /// Yes, and then it is served.
    AndServe,
    /// Yes, and nothing else.
    Only,
}

impl Make {
    /// What the options of a command mean.
    pub fn of(format: bool, format_only: bool) -> Self {
        match (format, format_only) {
            (_, true) => Self::Only,
            (true, false) => Self::AndServe,
            (false, false) => Self::No,
        }
    }
}

/// What a process needs to be a daemon.
pub struct Process<'a> {
    /// The cluster file it was started with.
    pub cluster: Cluster,
    /// Its name there.
    pub name: &'a str,
    /// Where it listens.
    pub listen: &'a [Endpoint],
    /// Reactor threads.
    pub threads: usize,
    /// Memory for data.
    pub pool: Pool,
    /// What its welcomes say of the past ([`pvfs_wire::ops::Welcome::boot`]).
    pub boot: u64,
    /// Where it remembers who is denied.
    pub denied: PathBuf,
}

/// What the process must react to.
enum Event {
    Stop,
    Reload,
}

/// Serves until told to stop.
pub fn run(role: &dyn Role, process: Process<'_>, context: &Context) -> Result<(), Failure> {
    raise_descriptor_limit();
    make_socket_directories(process.listen)?;
    let doorman = Arc::new(doorman(&process)?);
    let started = Daemon::start(
        role.service(),
        doorman.clone(),
        process.listen,
        process.threads,
        process.pool.clone(),
    );
    let daemon = started.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    let events = listen_to_signals()?;
    let listening: Vec<String> = daemon.endpoints().iter().map(ToString::to_string).collect();
    tracing::info!(name = process.name, ?listening, "serving");
    let network = Network::new(daemon.clone(), doorman.clone(), process.denied);
    role.join_network(network);
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    serve(role, process.cluster, process.listen, &doorman, &events, context);
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    finish(role, &daemon, events)
}

fn serve(
    role: &dyn Role,
    mut cluster: Cluster,
    listen: &[Endpoint],
    doorman: &Doorman,
    events: &Receiver<Event>,
    context: &Context,
) {
    loop {
        match events.recv_timeout(LOOK_INTERVAL) {
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Event::Reload) => cluster = reload(role, cluster, listen, doorman, context),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if role.stop_wanted() {
            return;
        }
    }
}

/// Finishes what is under way, on another thread so that a second signal can cut it short.
fn finish(role: &dyn Role, daemon: &Daemon, events: Receiver<Event>) -> Result<(), Failure> {
    tracing::info!("finishing what is under way");
    std::thread::spawn(move || {
        while let Ok(event) = events.recv() {
            if matches!(event, Event::Stop) {
                tracing::warn!("told to stop again: ending at once");
                std::process::exit(i32::from(Exit::Failed.code()));
            }
        }
    });
    // Whoever waits for the end of this process, `pvfs stop`, waits for the last sync too.
    let _listening = daemon.hold_listeners();
    role.begin_stop();
    let stopped = daemon.stop(STOP_TIME);
    let finished = role.finish(SYNC_TIME);
    match (stopped, finished) {
        (_, Err(reason)) => {
            Err(Failure::new(Exit::Failed, format!("not everything is synced: {reason}")))
        }
        (Stopped::InTheMiddle, _) => {
            let reason = "some requests were still under way after 20 s and were dropped";
            Err(Failure::new(Exit::Failed, reason))
        }
        (Stopped::Cleanly, Ok(())) => Ok(()),
    }
}

fn reload(
    role: &dyn Role,
    cluster: Cluster,
    listen: &[Endpoint],
    doorman: &Doorman,
    context: &Context,
) -> Cluster {
    let fresh = match Cluster::load(&cluster.path) {
        Ok(fresh) => fresh,
        Err(error) => {
            tracing::error!("the cluster file is not taken: {error}");
            return cluster;
        }
    };
    let comparison = Reload::between(&cluster, &fresh);
    for change in &comparison.changes {
        tracing::info!("{change}");
    }
    let taken = comparison.apply(&cluster, &fresh);
    match security(&taken, listen) {
        Ok(security) => doorman.reload(security, taken.security.networks.clone()),
        Err(failure) => context.warn(&failure),
    }
    role.reload(&taken);
    tracing::info!("reloaded");
    taken
}

fn doorman(process: &Process<'_>) -> Result<Doorman, Failure> {
    let cluster = &process.cluster;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).expect("the kernel gives random bytes");
    Ok(Doorman::new(Rules {
        name: process.name.to_owned(),
        boot: process.boot,
        fsid: cluster.filesystem().id,
        security: security(cluster, process.listen)?,
        networks: cluster.security.networks.clone(),
        root_squash: cluster.security.root_squash,
        limits: Limits::default(),
        secret,
    }))
}

fn security(cluster: &Cluster, listen: &[Endpoint]) -> Result<Security, Failure> {
    let usage = |error: &dyn std::error::Error| Failure::new(Exit::Usage, error.to_string());
    let ring = || pvfs_client::credentials::key_ring(cluster).map_err(|error| usage(&error));
    match cluster.security.mode {
        SecurityMode::None => Ok(Security::None),
        SecurityMode::Psk => Ok(Security::Psk(ring()?)),
        SecurityMode::Tls => {
            let acceptor = acceptor(&cluster.security, listen).map_err(|error| usage(&error))?;
            Ok(Security::Tls(ring()?, acceptor))
        }
    }
}

/// What a daemon speaks TLS with, looked at for what clients would find wrong.
fn acceptor(
    security: &pvfs_config::Security,
    listen: &[Endpoint],
) -> Result<Acceptor, TlsSetupError> {
    let certificates = security.read_node_certificates()?;
    Acceptor::new(&certificates, listen.iter().filter_map(Endpoint::host))
}

fn listen_to_signals() -> Result<Receiver<Event>, Failure> {
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP]);
    let mut signals = signals.map_err(|error| Failure::io("cannot listen to signals", &error))?;
    let (sender, events) = channel();
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let event = if signal == SIGHUP { Event::Reload } else { Event::Stop };
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    Ok(events)
}

/// A daemon has a descriptor for each connection and each object in use.
fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("cannot raise the limit of open files: {error}");
    }
}

fn make_socket_directories(listen: &[Endpoint]) -> Result<(), Failure> {
    let paths = listen.iter().filter_map(|endpoint| match endpoint {
        Endpoint::Unix { path } => path.parent(),
        Endpoint::Tcp { .. } => None,
    });
    paths.into_iter().try_for_each(make_directory)
}

/// Network threads of an iod unless told otherwise: one for each processor, so that each client can be
/// served by a thread that stays where that client, or its network queue, is.
pub fn iod_threads() -> usize {
    processors().min(8)
}

/// Network threads of a manager unless told otherwise: half as many, since what one thread hears at
/// a time is logged at once, and few large batches cost less than many small ones.
pub fn mgr_threads() -> usize {
    (processors() / 2).clamp(1, 4)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The refusal to guess which of several daemons is meant.
pub fn which_one(role: &str, servers: &[pvfs_config::Server]) -> Failure {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let sentence = format!("which {role}? give --name with one of {}", names.join(", "));
    Failure::new(Exit::Usage, sentence)
}

/// Makes a directory with those above it; there already is fine.
pub fn make_directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(|error| {
        Failure::io(&format!("cannot make the directory {}", path.display()), &error)
    })
}

/// Logs go to standard error: systemd and `pvfs up` keep them.
pub fn start_logging(cluster: &Cluster, context: &Context) {
    use tracing_subscriber::filter::LevelFilter;
    let configured = cluster.log_level.as_str().parse().unwrap_or(LevelFilter::INFO);
    let level = match context.verbose() {
        0 => configured,
        1 => configured.max(LevelFilter::DEBUG),
        _ => LevelFilter::TRACE,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    // A line that cannot be written, as on a full disk, is lost; saying so would be a panic.
    let log = log.log_internal_errors(false).with_ansi(std::io::stderr().is_terminal());
    // A second start in one process (tests) keeps the first.
    let _ = log.try_init();
}

/// How long a stop waits for what is under way (004 §7).
const STOP_TIME: Duration = Duration::from_secs(20);

/// How long the last sync may take.
const SYNC_TIME: Duration = Duration::from_secs(60);

/// How soon an order to stop is noticed.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
