//! What all connections of a daemon share at the door: keys, networks, lockouts, caps, lanes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock};
use std::time::Duration;

use ipnet::IpNet;
use pvfs_wire::ops::Hello;
use pvfs_wire::token::{KeyRing, Nonce, Session, SessionRights};
use pvfs_wire::{Errno, VERSION};
use sha2::{Digest, Sha256};

use super::denials::Denials;
use super::lanes::Lanes;
use super::lockout::Lockouts;
use super::{Now, Origin};
use crate::tls::Acceptor;

/// How clients prove who they are.
#[derive(Clone)]
pub enum Security {
    /// By a secret derived from the cluster key.
    Psk(KeyRing),
    /// The same, inside TLS on all that is not of this node.
    Tls(KeyRing, Acceptor),
    /// Not at all: the key is all zero. For tests on one machine.
    None,
}

/// What a daemon asks of its clients.
#[derive(Clone)]
pub struct Rules {
    /// The daemon's name in the cluster file.
    pub name: String,
    /// See [`pvfs_wire::ops::Welcome::boot`].
    pub boot: u64,
    /// The file system served; a hello that names another is refused.
    pub fsid: u32,
    /// How sessions are proved.
    pub security: Security,
    /// Where clients may come from; empty means anywhere. Unix sockets are always allowed.
    pub networks: Vec<IpNet>,
    /// Whether uid 0 is nobody, except in sessions of daemons and administrators.
    pub root_squash: bool,
    /// Bounds.
    pub limits: Limits,
    /// Random; nonces are derived from it. Nobody else may know it.
    pub secret: [u8; 32],
}

/// How much of the daemon one client, and all together, may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests one connection may have outstanding.
    pub requests_max: u16,
    /// Their body and data bytes.
    pub outstanding_bytes_max: u32,
    /// Sessions introduced on one connection.
    pub sessions_max: usize,
    /// Bytes of replies waiting for one reader; over it, its requests are not read.
    pub queued_bytes_max: usize,
    /// Bytes of buffers lent by the pool; over it, no connection begins to receive.
    pub memory_bytes_max: usize,
    /// Connections of the whole daemon.
    pub connections_max: usize,
    /// Connections from one address, or one user of this node.
    pub connections_per_origin_max: usize,
    /// From accept to hello and welcome.
    pub handshake_time_max: Duration,
    /// How long a connection may do without a session.
    pub anonymous_time_max: Duration,
    /// Without a byte of progress while replies wait or a message is half received.
    pub stall_time_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_max: 64,
            outstanding_bytes_max: 16 << 20,
            sessions_max: 1024,
            queued_bytes_max: 8 << 20,
            memory_bytes_max: 2 << 30,
            connections_max: 16_384,
            connections_per_origin_max: 12_288,
            handshake_time_max: Duration::from_secs(5),
            anonymous_time_max: Duration::from_secs(60),
            stall_time_max: Duration::from_secs(30),
        }
    }
}

/// Shared by all connections of a daemon. Only handshakes take its locks.
pub struct Doorman {
    name: String,
    boot: u64,
    fsid: u32,
    root_squash: bool,
    limits: Limits,
    secret: [u8; 32],
    nonces: AtomicU64,
    map_version: AtomicU32,
    down: AtomicBool,
    keys: RwLock<KeyRing>,
    tls: RwLock<Option<Acceptor>>,
    networks: RwLock<Vec<IpNet>>,
    lockouts: Mutex<Lockouts>,
    lanes: Mutex<Lanes>,
    seats: Mutex<Seats>,
    denials: Denials,
}

#[derive(Default)]
struct Seats {
    taken: usize,
    by_origin: HashMap<Origin, usize>,
}

impl Doorman {
    /// A doorman with these rules.
    pub fn new(rules: Rules) -> Self {
        let (ring, tls) = rules.security.into_parts();
        Self {
            name: rules.name,
            boot: rules.boot,
            fsid: rules.fsid,
            root_squash: rules.root_squash,
            limits: rules.limits,
            secret: rules.secret,
            nonces: AtomicU64::new(0),
            map_version: AtomicU32::new(0),
            down: AtomicBool::new(false),
            keys: RwLock::new(ring),
            tls: RwLock::new(tls),
            networks: RwLock::new(rules.networks),
            lockouts: Mutex::new(Lockouts::default()),
            lanes: Mutex::new(Lanes::default()),
            seats: Mutex::new(Seats::default()),
            denials: Denials::default(),
        }
    }

    /// The daemon's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// See [`pvfs_wire::ops::Welcome::boot`].
    pub fn boot(&self) -> u64 {
        self.boot
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The cluster keys accepted now.
    pub fn keys(&self) -> KeyRing {
        self.keys.read().expect("no code panics holding it").clone()
    }

    /// What speaks TLS with who connects over a network, where that is asked for.
    pub fn tls(&self) -> Option<Acceptor> {
        self.tls.read().expect("no code panics holding it").clone()
    }

    /// Rolls the keys and certificates, and changes who may connect, for handshakes from now on.
    pub fn reload(&self, security: Security, networks: Vec<IpNet>) {
        let (ring, tls) = security.into_parts();
        *self.keys.write().expect("no code panics holding it") = ring;
        *self.tls.write().expect("no code panics holding it") = tls;
        *self.networks.write().expect("no code panics holding it") = networks;
    }

    /// Who is not believed any more.
    pub fn denials(&self) -> &Denials {
        &self.denials
    }

    /// Whether the daemon was stopped in an emergency: all requests are answered EIO.
    pub fn is_down(&self) -> bool {
        self.down.load(Ordering::Relaxed)
    }

    /// Begins or ends that state.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    /// The cluster map that replies name.
    pub fn map_version(&self) -> u32 {
        self.map_version.load(Ordering::Relaxed)
    }

    /// Names another cluster map in replies from now on.
    pub fn note_map_version(&self, version: u32) {
        self.map_version.store(version, Ordering::Relaxed);
    }

    /// How often an address was locked out since the start.
    pub fn lockouts_count(&self) -> u64 {
        self.lockouts().count()
    }

    /// Takes a seat for a new connection, unless the caps are reached.
    pub fn seat(&self, origin: Origin) -> bool {
        let mut seats = self.seats.lock().expect("no code panics holding it");
        if seats.taken >= self.limits.connections_max {
            return false;
        }
        let own = seats.by_origin.entry(origin).or_default();
        if *own >= self.limits.connections_per_origin_max {
            return false;
        }
        *own += 1;
        seats.taken += 1;
        true
    }

    /// Gives the seat back.
    pub fn unseat(&self, origin: Origin) {
        let mut seats = self.seats.lock().expect("no code panics holding it");
        seats.taken -= 1;
        let own = seats.by_origin.get_mut(&origin).expect("the connection had a seat");
        *own -= 1;
        if *own == 0 {
            seats.by_origin.remove(&origin);
        }
    }

    pub(super) fn check_hello(&self, hello: &Hello, origin: Origin, now: Now) -> Result<(), Errno> {
        if !(hello.version_min..=hello.version_max).contains(&VERSION) {
            return Err(Errno::EPROTO);
        }
        if !self.allows(origin) || self.lockouts().is_locked_out(origin, now.instant) {
            return Err(Errno::EACCES);
        }
        if hello.fsid != 0 && hello.fsid != self.fsid {
            return Err(Errno::ENODEV);
        }
        Ok(())
    }

    fn allows(&self, origin: Origin) -> bool {
        let Origin::Ip(address) = origin else { return true };
        let networks = self.networks.read().expect("no code panics holding it");
        networks.is_empty() || networks.iter().any(|network| network.contains(&address))
    }

    /// Counts a bad token or proof; whether the origin is locked out now.
    pub(super) fn offence(&self, origin: Origin, now: Now) -> bool {
        let locked_out = self.lockouts().offence(origin, now.instant);
        if let Some(time) = locked_out {
            tracing::warn!(%origin, seconds = time.as_secs(), "locked out: too many bad tokens");
        }
        locked_out.is_some()
    }

    pub(super) fn squash(&self, mut session: Session) -> Session {
        let trusted = SessionRights::DAEMON.with(SessionRights::ADMIN);
        if self.root_squash && session.uid == 0 && !session.rights.any(trusted) {
            session.uid = NOBODY;
            session.gid = NOBODY;
            session.gids.clear();
        }
        session
    }

    /// Unpredictable and never twice.
    pub(super) fn nonce(&self) -> Nonce {
        let count = self.nonces.fetch_add(1, Ordering::Relaxed);
        Sha256::new().chain_update(self.secret).chain_update(count.to_le_bytes()).finalize().into()
    }

    /// The lanes of all clients.
    pub fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().expect("no code panics holding it")
    }

    fn lockouts(&self) -> MutexGuard<'_, Lockouts> {
        self.lockouts.lock().expect("no code panics holding it")
    }
}

impl Security {
    fn into_parts(self) -> (KeyRing, Option<Acceptor>) {
        match self {
            Self::Psk(ring) => (ring, None),
            Self::Tls(ring, acceptor) => (ring, Some(acceptor)),
            Self::None => (KeyRing::new(&[[0; 32]]), None),
        }
    }
}

/// The user and group of a root that is not believed.
const NOBODY: u32 = 65_534;
