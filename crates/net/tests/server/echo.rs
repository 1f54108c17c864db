//! A service that gives back what it is given, in several manners, and notes what it sees.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pvfs_net::buffer::{Buffer, Pool};
use pvfs_net::endpoint::Endpoint;
use pvfs_net::gate::{Doorman, Limits, Rules, Security};
use pvfs_net::reactor::Daemon;
use pvfs_net::service::{Departure, Peer, Reception, Request, Response, Service, Ticket};
use pvfs_wire::ops::Hello;
use pvfs_wire::token::{Credential, KeyRing, Session, SessionRights};
use pvfs_wire::{Errno, OK};

/// Body and data come back.
pub const ECHO: u16 = 0x0300;
/// The ticket is dropped.
pub const FORGET: u16 = 0x0301;
/// Comes back from another thread, after as many milliseconds as the body's first byte says.
pub const LATER: u16 = 0x0302;
/// As many data bytes come back as the body's `u32` says.
pub const PRODUCE: u16 = 0x0303;
/// Comes back when the test says so.
pub const HOLD: u16 = 0x0304;
/// The body of the reply is the session's uid.
pub const WHOAMI: u16 = 0x0305;
/// The service finds a token in it that nobody signed.
pub const FORGED: u16 = 0x0306;
/// Stops the daemon in an emergency.
pub const ESTOP: u16 = 0x0307;

#[derive(Default)]
pub struct Echo {
    pub arrived: Mutex<Vec<(u64, u64)>>,
    pub departed: Mutex<Vec<(u64, Departure)>>,
    pub served: Mutex<Vec<(u64, Vec<u8>)>>,
    pub redone: Mutex<Vec<(u64, Vec<u8>)>>,
    pub held: Mutex<Vec<Ticket>>,
    pub rounds: Mutex<Vec<usize>>,
    /// Which thread served a client last.
    pub threads: Mutex<HashMap<u64, ThreadId>>,
    pub pool: Pool,
    pub daemon: OnceLock<Daemon>,
}

impl Service for Echo {
    fn arrived(&self, peer: &Arc<Peer>, hello: &Hello) -> Result<Reception, Errno> {
        self.arrived.lock().unwrap().push((peer.client, hello.incarnation));
        Ok(Reception { lease_kept: true, lease_ms: 30_000, ..Reception::default() })
    }

    fn departed(&self, peer: &Arc<Peer>, how: Departure) {
        self.departed.lock().unwrap().push((peer.client, how));
    }

    fn serve(&self, round: Vec<Request<'_>>) {
        self.rounds.lock().unwrap().push(round.len());
        let thread = std::thread::current().id();
        for request in round {
            self.threads.lock().unwrap().insert(request.peer.client, thread);
            self.served.lock().unwrap().push((request.peer.client, request.body.to_vec()));
            self.serve_one(request);
        }
    }

    fn redo(&self, request: Request<'_>) {
        assert!(
            self.departed.lock().unwrap().iter().all(|(client, _)| *client != request.peer.client)
        );
        let what = [request.body, request.data].concat();
        self.redone.lock().unwrap().push((request.peer.client, what));
    }

    fn tick(&self) {}
}

impl Echo {
    fn serve_one(&self, request: Request<'_>) {
        let body = request.body.to_vec();
        match request.header.operation {
            ECHO => {
                let mut data = self.pool.take(request.data.len());
                data.copy_from_slice(request.data);
                request.ticket.reply(Response {
                    status: OK,
                    body,
                    data: Some(data.into()),
                    files: Vec::new(),
                    leased_ms: 0,
                });
            }
            FORGET => {}
            LATER => {
                let data = request.keep_data();
                let ticket = request.ticket;
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(u64::from(body[0])));
                    let mut copy = Buffer::unpooled(data.len());
                    copy.copy_from_slice(&data);
                    ticket.reply(Response {
                        status: OK,
                        body,
                        data: Some(copy.into()),
                        files: Vec::new(),
                        leased_ms: 0,
                    });
                });
            }
            PRODUCE => {
                let bytes = u32::from_le_bytes(body[..4].try_into().unwrap());
                let data = Some(self.pool.take(bytes as usize));
                request.ticket.reply(Response {
                    status: OK,
                    body: Vec::new(),
                    data: data.map(Into::into),
                    files: Vec::new(),
                    leased_ms: 0,
                });
            }
            HOLD => self.held.lock().unwrap().push(request.ticket),
            WHOAMI => {
                let uid = request.session.map_or(u32::MAX, |session| session.uid);
                let body = uid.to_le_bytes().to_vec();
                request.ticket.reply(Response {
                    status: OK,
                    body,
                    data: None,
                    files: Vec::new(),
                    leased_ms: 0,
                });
            }
            ESTOP => {
                self.daemon.get().unwrap().estop();
                request.ticket.reply(Response {
                    status: OK,
                    body,
                    data: None,
                    files: Vec::new(),
                    leased_ms: 0,
                });
            }
            FORGED => request.ticket.reply(Response::failed(Errno::EKEYREJECTED)),
            _ => request.ticket.reply(Response::failed(Errno::ENOSYS)),
        }
    }
}

pub struct Fixture {
    pub echo: Arc<Echo>,
    pub daemon: Daemon,
    pub doorman: Arc<Doorman>,
    pub tcp: Endpoint,
    pub unix: Endpoint,
    _directory: tempfile::TempDir,
}

pub fn rules(limits: Limits) -> Rules {
    Rules {
        name: "io0".into(),
        boot: 42,
        fsid: 7,
        security: Security::Psk(ring()),
        networks: Vec::new(),
        root_squash: true,
        limits,
        secret: [9; 32],
    }
}

pub fn ring() -> KeyRing {
    KeyRing::new(&[[1; 32]])
}

pub fn credential_of(ring: &KeyRing, uid: u32, rights: SessionRights, expiry: u64) -> Credential {
    let session = Session { id: 5, uid, gid: uid, gids: vec![uid], rights, issued: 0, expiry };
    Credential::issue(ring, &session)
}

pub fn credential() -> Credential {
    credential_of(&ring(), 1000, SessionRights::NONE, u64::MAX)
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(rules(Limits::default()))
    }

    pub fn with(rules: Rules) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let endpoints =
            [Endpoint::tcp("127.0.0.1", 0), Endpoint::unix(directory.path().join("io0.sock"))];
        let echo = Arc::new(Echo::default());
        let doorman = Arc::new(Doorman::new(rules));
        let pool = echo.pool.clone();
        let daemon = Daemon::start(echo.clone(), doorman.clone(), &endpoints, 2, pool).unwrap();
        let [tcp, unix] = daemon.endpoints() else { panic!("two endpoints were bound") };
        let (tcp, unix) = (tcp.clone(), unix.clone());
        Self { echo, daemon, doorman, tcp, unix, _directory: directory }
    }

    pub fn figure(&self, name: &str) -> u64 {
        let figures = self.daemon.list_figures();
        figures.into_iter().find(|(known, _)| known == name).expect("it is counted").1
    }

    pub fn both(&self) -> [Endpoint; 2] {
        [self.tcp.clone(), self.unix.clone()]
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.echo.held.lock().unwrap().clear();
        self.daemon.stop(Duration::from_secs(5));
    }
}

/// Waits for something that happens soon, on another thread.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(10), "did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
