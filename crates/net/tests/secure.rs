//! The client's calls over TLS, and what a client is told where one end speaks it otherwise than the other.

mod authority;

use std::sync::Arc;
use std::time::{Duration, Instant};

use authority::{AT_ONCE, Authority, Purpose};
use pvfs_config::Certificates;
use pvfs_layout::Regions;
use pvfs_net::blocking::{Blocking, block_on};
use pvfs_net::buffer::Pool;
use pvfs_net::call::{
    CallError, Caller, Connect, Data, Patience, Pipelined, Principal, Server, Shown,
};
use pvfs_net::endpoint::Endpoint;
use pvfs_net::gate::{Doorman, Limits, Rules, Security};
use pvfs_net::pipe::Together;
use pvfs_net::queue::Queue;
use pvfs_net::reactor::Daemon;
use pvfs_net::runtime::all;
use pvfs_net::service::{Departure, Peer, Reception, Request, Response, Service};
use pvfs_net::tls::{Acceptor, Connector, Defect, TlsFault};
use pvfs_wire::ops::{
    DaemonState, GetXattr, Hello, Ping, Pong, Read, ReadDone, Target, Write, Written, XattrValue,
};
use pvfs_wire::token::{Credential, KeyRing, Session, SessionRights};
use pvfs_wire::{Errno, Handle, Operation, Wire};

/// Gives bytes that are known, and says of those it gets whether they are.
struct Known;

impl Service for Known {
    fn arrived(&self, _: &Arc<Peer>, _: &Hello) -> Result<Reception, Errno> {
        Ok(Reception { lease_kept: true, generation: 7, map_version: 3, lease_ms: 1000 })
    }

    fn departed(&self, _: &Arc<Peer>, _: Departure) {}

    fn serve(&self, round: Vec<Request<'_>>) {
        for request in round {
            let response = match request.header.operation {
                Write::CODE => {
                    assert!(request.header.data_crc.is_none(), "TLS has a checksum of its own");
                    let is_known =
                        request.data.iter().zip(0..).all(|(byte, at)| *byte == known(at));
                    let local_size = if is_known { request.data.len() as u64 } else { u64::MAX };
                    Response::done::<Write>(&Written { local_size })
                }
                Read::CODE => {
                    let read = Read::from_bytes(request.body).unwrap();
                    let mut data = Pool::new().take(read.regions.total_bytes() as usize);
                    data.iter_mut().zip(0..).for_each(|(byte, at)| *byte = known(at));
                    Response::with_data::<Read>(&ReadDone { local_size: 9 }, data)
                }
                GetXattr::CODE => {
                    let value = pvfs_wire::Bytes((0..LONG).map(known).collect());
                    Response::done::<GetXattr>(&XattrValue { value })
                }
                _ => Response::done::<Ping>(&Pong { time_ns: 0, state: DaemonState::Ok, start: 0 }),
            };
            request.ticket.reply(response);
        }
    }

    fn tick(&self) {}
}

/// A record that is longer than what is received at once when no data are expected.
const LONG: usize = 3000;

fn known(at: usize) -> u8 {
    (at % 251) as u8
}

fn start(security: Security) -> Daemon {
    let rules = Rules {
        name: "known".into(),
        boot: 1,
        fsid: 1,
        security,
        networks: Vec::new(),
        root_squash: false,
        limits: Limits::default(),
        secret: [9; 32],
    };
    let doorman = Arc::new(Doorman::new(rules));
    let at = [Endpoint::tcp("127.0.0.1", 0)];
    Daemon::start(Arc::new(Known), doorman, &at, 2, Pool::new()).unwrap()
}

fn ring() -> KeyRing {
    KeyRing::new(&[[1; 32]])
}

fn secured(node: &Certificates, name: &str) -> Security {
    Security::Tls(ring(), Acceptor::new(node, [name]).unwrap())
}

fn principal() -> Principal {
    Principal::new(Box::new(|| {
        let rights = SessionRights::NONE;
        let expiry = u64::MAX / 4;
        let session = Session { id: 1, uid: 0, gid: 0, gids: vec![], rights, issued: 0, expiry };
        Ok(Credential::issue(&ring(), &session))
    }))
    .unwrap()
}

fn caller(certificates: Option<&Certificates>) -> Caller<Blocking> {
    let connector = certificates.map(|certificates| Connector::new(certificates).unwrap());
    let tls = connector.map(|connector| Box::new(move || connector.clone()) as Box<Connect>);
    Caller::new(Blocking, 1, "test", true).over_tls(tls)
}

const PATIENT: Patience = Patience { timeout: Duration::from_secs(30), insist: true };

struct Client {
    caller: Caller<Blocking>,
    server: Server<Blocking>,
    principal: Principal,
    shown: Shown,
}

impl Client {
    fn of(caller: Caller<Blocking>, daemon: &Daemon) -> Self {
        let server = Server::new("known", daemon.endpoints().to_vec());
        let shown = Shown { number: 1, version: 1, token: b"token".into() };
        Self { caller, server, principal: principal(), shown }
    }

    async fn write(&self, bytes: usize) {
        let whole: Vec<u8> = (0..bytes).map(known).collect();
        let pieces: Vec<&[u8]> = whole.chunks(100_000).collect();
        let regions = Regions::contiguous(0, bytes as u64).unwrap();
        let make = |access| Write { access, slot: 0, regions: regions.clone(), sync: false };
        let mut data = Data { out: &pieces, ..Data::default() };
        let (server, shown) = (&self.server, &self.shown);
        let moved =
            self.caller.transfer(server, &self.principal, shown, make, &mut data, PATIENT).await;
        assert_eq!(moved.unwrap().reply.local_size, bytes as u64);
    }

    async fn long_record(&self, how: Option<Pipelined>) {
        let target = Target::object(Handle::root(1, 7));
        let ask = GetXattr { target, follow: true, name: b"user.long".into() };
        let (caller, server, principal) = (&self.caller, &self.server, &self.principal);
        let answer = match how {
            None => caller.call(server, principal, &ask, PATIENT).await,
            Some(how) => caller.call_pipelined(server, principal, &ask, how).await,
        };
        let value = answer.unwrap().value;
        assert!(
            value.0.len() == LONG && value.0.iter().zip(0..).all(|(byte, at)| *byte == known(at))
        );
    }

    async fn read(&self, bytes: usize, how: Option<Pipelined>) {
        let mut whole = vec![0; bytes];
        let regions = Regions::contiguous(0, bytes as u64).unwrap();
        let make = |access| Read { access, slot: 0, regions: regions.clone() };
        let mut pieces: Vec<&mut [u8]> = whole.chunks_mut(70_001).collect();
        let mut data = Data { into: &mut pieces, ..Data::default() };
        let (caller, server, principal) = (&self.caller, &self.server, &self.principal);
        let moved = match how {
            None => caller.transfer(server, principal, &self.shown, make, &mut data, PATIENT).await,
            Some(how) => {
                caller
                    .transfer_pipelined(server, principal, &self.shown, make, &mut data, how)
                    .await
            }
        };
        assert_eq!(moved.unwrap().bytes, bytes);
        assert!(whole.iter().zip(0..).all(|(byte, at)| *byte == known(at)));
    }
}

#[test]
fn transfers_of_any_length_arrive_alone_and_side_by_side() {
    let authority = Authority::new();
    let daemon = start(secured(&authority.node(&["127.0.0.1"]), "127.0.0.1"));
    let client = Client::of(caller(Some(&authority.user())), &daemon);
    for bytes in [1, 448, 16_320, 16_385, 65_536, 1 << 20, (3 << 20) + 7] {
        block_on(client.write(bytes));
        block_on(client.read(bytes, None));
        block_on(all((0..8).map(|more| client.read(bytes + more, None))));
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let client = &client;
            scope.spawn(move || {
                for round in 0..20 {
                    block_on(client.write(thread * 50_000 + round * 997 + 1));
                    block_on(client.read(thread * 50_000 + round * 997 + 1, None));
                }
            });
        }
    });
}

/// The rest of it came in the same record, and poll says nothing of it.
#[test]
fn a_reply_that_is_longer_than_expected_is_read_to_its_end() {
    let authority = Authority::new();
    let daemon = start(secured(&authority.node(&["127.0.0.1"]), "127.0.0.1"));
    let client = Client::of(caller(Some(&authority.user())), &daemon);
    block_on(client.long_record(None));
    block_on(all((0..8).map(|_| client.long_record(None))));
    let how = Pipelined { patience: PATIENT, together: Together::new() };
    let mut queue = Queue::new(&Blocking).unwrap();
    queue.submit(client.long_record(None));
    queue.submit(client.long_record(Some(how)));
    for _ in 0..2 {
        assert!(queue.wait_any(Some(PATIENT.timeout)).is_some());
    }
}

#[test]
fn a_queue_moves_many_exchanges_over_one_connection() {
    let authority = Authority::new();
    let daemon = start(secured(&authority.node(&["127.0.0.1"]), "127.0.0.1"));
    let client = Client::of(caller(Some(&authority.user())), &daemon);
    let how = Pipelined { patience: PATIENT, together: Together::new() };
    let mut queue = Queue::new(&Blocking).unwrap();
    for at in 0..300 {
        // Those of more than 64 KiB go by connections of their own.
        queue.submit(client.read(1 + at * 331, Some(how)));
    }
    for _ in 0..300 {
        assert!(queue.wait_any(Some(Duration::from_secs(30))).is_some());
    }
}

#[test]
fn ends_that_do_not_get_on_are_told_so_at_once_however_patient() {
    use Defect::{Name, UnknownCa};
    let (ours, others) = (Authority::new(), Authority::new());
    let user = ours.user();
    let stranger = others.user();
    let node = ours.node(&["127.0.0.1"]);
    let tls = || secured(&node, "127.0.0.1");
    let elsewhere = ours.issue(&["elsewhere"], Purpose::Node, 2100);
    let cases = [
        (Security::Psk(ring()), Some(&user), TlsFault::Unspoken),
        (tls(), None, TlsFault::Unwanted),
        (tls(), Some(&stranger), TlsFault::Theirs(UnknownCa)),
        (secured(&elsewhere, "elsewhere"), Some(&user), TlsFault::Theirs(Name)),
    ];
    let refused = |security, caller: Caller<Blocking>, expected| {
        let daemon = start(security);
        let client = Client::of(caller, &daemon);
        let begun = Instant::now();
        let call = client.caller.call(&client.server, &client.principal, &Ping {}, PATIENT);
        let error = block_on(call).unwrap_err();
        assert_eq!(error, CallError::Untrusted { server: "known".into(), fault: expected });
        assert!(error.is_refusal() && error.errno() == Errno::EACCES);
        assert!(begun.elapsed() < AT_ONCE, "{error}");
        // The daemon counts it a moment after it has said so.
        while daemon.figures().untrusted_count.get() == 0 {
            assert!(begun.elapsed() < AT_ONCE, "it was not counted");
            std::thread::yield_now();
        }
    };
    for (security, certificates, expected) in cases {
        refused(security, caller(certificates), expected);
    }
}

#[test]
fn a_daemon_that_comes_back_is_found_again() {
    let authority = Authority::new();
    let node = authority.node(&["127.0.0.1"]);
    let daemon = start(secured(&node, "127.0.0.1"));
    let client = Client::of(caller(Some(&authority.user())), &daemon);
    block_on(client.write(1 << 20));
    daemon.estop();
    daemon.resume();
    block_on(client.write(1 << 20));
}
