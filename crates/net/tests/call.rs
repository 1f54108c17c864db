//! The client's calls against the daemons' reactor, over real sockets.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pvfs_layout::Regions;
use pvfs_net::blocking::{Blocking, block_on};
use pvfs_net::buffer::Pool;
use pvfs_net::call::{CallError, Caller, Data, Patience, Pipelined, Principal, Server, Shown};
use pvfs_net::endpoint::Endpoint;
use pvfs_net::gate::{Doorman, Limits, Rules, Security};
use pvfs_net::pipe::Together;
use pvfs_net::queue::Queue;
use pvfs_net::reactor::Daemon;
use pvfs_net::runtime::all;
use pvfs_net::service::{Departure, Peer, Reception, Request, Response, Service, Ticket};
use pvfs_wire::ops::{
    Hello, Ping, Pong, Read, ReadDone, StatStore, Statfs, StoreStat, Target, Unlink, Write, Written,
};
use pvfs_wire::token::{Credential, KeyRing, Session, SessionRights};
use pvfs_wire::{Bytes, Errno, Handle, Operation, Wire};

/// Answers what the tests ask, and counts.
#[derive(Default)]
struct Echo {
    served: AtomicU32,
    forget_first_capability: bool,
}

impl Service for Echo {
    fn arrived(&self, _: &Arc<Peer>, _: &Hello) -> Result<Reception, Errno> {
        Ok(Reception { lease_kept: true, generation: 7, map_version: 3, lease_ms: 1000 })
    }

    fn departed(&self, _: &Arc<Peer>, _: Departure) {}

    fn serve(&self, round: Vec<Request<'_>>) {
        for request in round {
            let response = self.answer(&request);
            request.ticket.reply(response);
        }
    }

    fn tick(&self) {}
}

impl Echo {
    fn answer(&self, request: &Request<'_>) -> Response {
        let count = self.served.fetch_add(1, Ordering::Relaxed);
        match request.header.operation {
            StatStore::CODE => Response::done::<StatStore>(&StoreStat {
                disk: 0,
                total_bytes: u64::from(count),
                free_bytes: 2,
                available_bytes: 1,
            }),
            Write::CODE => {
                let write = Write::from_bytes(request.body).unwrap();
                if self.forget_first_capability && count == 0 {
                    return Response::failed(Errno::ENOKEY);
                }
                assert_eq!(write.access.token.is_some(), count <= 1, "shown once per lane");
                Response::done::<Write>(&Written { local_size: request.data.len() as u64 })
            }
            Read::CODE => {
                let read = Read::from_bytes(request.body).unwrap();
                let mut data = Pool::new().take(read.regions.total_bytes() as usize);
                (0..)
                    .zip(data.iter_mut())
                    .for_each(|(at, byte): (usize, _)| *byte = (at % 251) as u8);
                Response::with_data::<Read>(&ReadDone { local_size: 9 }, data)
            }
            Ping::CODE => {
                let state = pvfs_wire::ops::DaemonState::Ok;
                Response::done::<Ping>(&Pong { time_ns: 0, state, start: 0 })
            }
            _ => Response::failed(Errno::ENOSYS),
        }
    }
}

fn start(service: Echo, secret: [u8; 32], at: &Endpoint) -> Daemon {
    start_any(Arc::new(service), secret, at)
}

fn start_any(service: Arc<dyn Service>, secret: [u8; 32], at: &Endpoint) -> Daemon {
    let rules = Rules {
        name: "echo".into(),
        boot: 1,
        fsid: 1,
        security: Security::Psk(KeyRing::new(&[secret])),
        networks: Vec::new(),
        root_squash: false,
        limits: Limits::default(),
        secret: [9; 32],
    };
    let doorman = Arc::new(Doorman::new(rules));
    Daemon::start(service, doorman, std::slice::from_ref(at), 1, Pool::new()).unwrap()
}

fn any_port() -> Endpoint {
    Endpoint::tcp("127.0.0.1", 0)
}

fn principal(secret: [u8; 32]) -> Principal {
    let ring = KeyRing::new(&[secret]);
    Principal::new(Box::new(move || {
        let session = Session {
            id: 1,
            uid: 0,
            gid: 0,
            gids: vec![],
            rights: SessionRights::NONE,
            issued: 0,
            expiry: u64::MAX / 4,
        };
        Ok(Credential::issue(&ring, &session))
    }))
    .unwrap()
}

fn caller() -> Caller<Blocking> {
    Caller::new(Blocking, 1, "test", true)
}

const PATIENT: Patience = Patience { timeout: Duration::from_secs(10), insist: true };
const HASTY: Patience = Patience { timeout: Duration::from_millis(300), insist: false };

#[test]
fn a_call_is_answered_and_its_lane_used_again() {
    let daemon = start(Echo::default(), [1; 32], &any_port());
    let server = Server::new("echo", daemon.endpoints().to_vec());
    let (caller, principal) = (caller(), principal([1; 32]));
    for expected in 0..100 {
        let stat = block_on(caller.call(&server, &principal, &StatStore {}, PATIENT)).unwrap();
        assert_eq!(stat.total_bytes, expected);
    }
    assert_eq!(server.generation(), 7);
    let refused = block_on(caller.call(&server, &principal, &Statfs {}, PATIENT)).unwrap_err();
    assert_eq!(refused, CallError::Status(Errno::ENOSYS));
}

#[test]
fn data_goes_from_and_to_the_callers_pieces_and_a_capability_is_shown_once() {
    let service = Echo { forget_first_capability: true, ..Echo::default() };
    let daemon = start(service, [1; 32], &any_port());
    let server = Server::new("echo", daemon.endpoints().to_vec());
    let (caller, principal) = (caller(), principal([1; 32]));
    let shown = Shown { number: 5, version: 1, token: Bytes::from(b"token") };
    let bytes = 3 << 20;
    let regions = Regions::contiguous(0, bytes as u64).unwrap();
    let content = vec![7u8; bytes];
    for _ in 0..3 {
        let regions = regions.clone();
        let make = |access| Write { access, slot: 0, regions: regions.clone(), sync: false };
        let pieces = [&content[..100], &content[100..]];
        let mut data = Data { out: &pieces, ..Data::default() };
        let call = caller.transfer(&server, &principal, &shown, make, &mut data, PATIENT);
        assert_eq!(block_on(call).unwrap().reply.local_size, bytes as u64);
    }
    let mut buffer = vec![0u8; bytes];
    let (left, right) = buffer.split_at_mut(12_345);
    let make = |access| Read { access, slot: 0, regions: regions.clone() };
    let mut into = [left, right];
    let mut data = Data { into: &mut into, ..Data::default() };
    let call = caller.transfer(&server, &principal, &shown, make, &mut data, PATIENT);
    let moved = block_on(call).unwrap();
    assert_eq!((moved.reply.local_size, moved.bytes), (9, bytes));
    assert!((0..).zip(&buffer).all(|(at, byte): (usize, _)| *byte == (at % 251) as u8));
}

#[test]
fn a_wrong_key_is_one_sentence_and_no_retry() {
    let daemon = start(Echo::default(), [1; 32], &any_port());
    let server = Server::new("echo", daemon.endpoints().to_vec());
    let started = Instant::now();
    let call = caller();
    let refused =
        block_on(call.call(&server, &principal([2; 32]), &StatStore {}, PATIENT)).unwrap_err();
    assert!(refused.to_string().contains("is the key file the same on every node"), "{refused}");
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_call_survives_a_restart_and_an_absent_daemon_is_told_in_time() {
    let daemon = start(Echo::default(), [1; 32], &any_port());
    let at = daemon.endpoints()[0].clone();
    let server = Server::new("echo", vec![at.clone()]);
    let (caller, principal) = (caller(), principal([1; 32]));
    block_on(caller.call(&server, &principal, &StatStore {}, PATIENT)).unwrap();
    daemon.stop(Duration::from_secs(1));
    let refused = block_on(caller.call(&server, &principal, &StatStore {}, HASTY)).unwrap_err();
    assert!(matches!(refused, CallError::Unreachable { .. }), "{refused:?}");
    let waiting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        start(Echo::default(), [1; 32], &at)
    });
    block_on(caller.call(&server, &principal, &StatStore {}, PATIENT)).unwrap();
    drop(waiting.join());
}

#[test]
fn what_is_posted_arrives_or_is_told_to_be_unheard() {
    let service = Arc::new(Echo::default());
    let daemon = start_any(service.clone(), [1; 32], &any_port());
    let at = daemon.endpoints()[0].clone();
    let server = Server::new("echo", vec![at.clone()]);
    let (caller, principal) = (caller(), principal([1; 32]));
    let post = |mark| block_on(caller.post(&server, &principal, &StatStore {}, mark, PATIENT));
    let ask = || block_on(caller.call(&server, &principal, &StatStore {}, PATIENT)).unwrap();
    assert!(!post(1), "there is no connection yet");
    assert_eq!(ask().total_bytes, 0);
    assert!((2..5).all(&post));
    assert_eq!(ask().total_bytes, 4, "in their order");
    assert!(server.take_unheard().is_empty());
    // Somebody has to be heard of now and then.
    assert_eq!((0..100).take_while(|mark| post(*mark)).count(), 16);
    assert_eq!(ask().total_bytes, 21);
    assert!(post(7) && post(8));
    daemon.stop(Duration::from_secs(1));
    let again = start(Echo::default(), [1; 32], &at);
    assert_eq!(ask().total_bytes, 0);
    assert_eq!(server.take_unheard(), [7, 8]);
    assert!(post(9));
    server.disconnect();
    assert_eq!(server.take_unheard(), [9]);
    drop(again);
}

/// Tells its second visitor that the lease is lost, and answers no change the first time.
#[derive(Default)]
struct Forgetful {
    arrivals: AtomicU32,
    departures: AtomicU32,
    changes: AtomicU32,
    unanswered: Mutex<Vec<Ticket>>,
}

impl Service for Forgetful {
    fn arrived(&self, _: &Arc<Peer>, _: &Hello) -> Result<Reception, Errno> {
        let lease_kept = self.arrivals.fetch_add(1, Ordering::SeqCst) != 1;
        Ok(Reception { lease_kept, generation: 7, map_version: 3, lease_ms: 1000 })
    }

    fn departed(&self, _: &Arc<Peer>, _: Departure) {
        self.departures.fetch_add(1, Ordering::SeqCst);
    }

    fn serve(&self, round: Vec<Request<'_>>) {
        for request in round {
            let is_change = request.header.sequence.is_change();
            if is_change && self.changes.fetch_add(1, Ordering::SeqCst) == 0 {
                self.unanswered.lock().unwrap().push(request.ticket);
            } else {
                request.ticket.reply(Response::failed(Errno::ENOENT));
            }
        }
    }

    fn tick(&self) {}
}

/// Its reply record went with the lease. The connection it would be sent again over need not be one that was told of the loss.
#[test]
fn a_change_is_not_sent_again_under_another_lease() {
    let service = Arc::new(Forgetful::default());
    let daemon = start_any(service.clone(), [1; 32], &any_port());
    let server = Server::new("forgetful", daemon.endpoints().to_vec());
    let (caller, principal) = (caller(), principal([1; 32]));
    let unlink = Unlink { target: Target::below(Handle::default(), "gone") };
    std::thread::scope(|scope| {
        let change = scope.spawn(|| block_on(caller.call(&server, &principal, &unlink, PATIENT)));
        let wait_for = |count: &AtomicU32, wanted: u32| {
            while count.load(Ordering::SeqCst) < wanted {
                std::thread::yield_now();
            }
        };
        wait_for(&service.changes, 1);
        let told = block_on(caller.call(&server, &principal, &StatStore {}, PATIENT)).unwrap_err();
        assert_eq!((told, caller.leases_lost()), (CallError::Status(Errno::ENOENT), 1));
        daemon.estop();
        daemon.resume();
        wait_for(&service.departures, 2);
        // Only now, when nobody hears it. Until then its client would not be let in again.
        let late = std::mem::take(&mut *service.unanswered.lock().unwrap());
        late.into_iter().for_each(|ticket| ticket.reply(Response::failed(Errno::ENOENT)));
        assert_eq!(change.join().unwrap(), Err(CallError::Status(Errno::EIO)));
    });
    assert_eq!(service.changes.load(Ordering::SeqCst), 1, "it was sent again");
    let next = block_on(caller.call(&server, &principal, &unlink, PATIENT)).unwrap_err();
    assert_eq!(next, CallError::Status(Errno::ENOENT), "changes go on under the new lease");
}

#[test]
fn a_silent_daemon_is_given_up_at_the_deadline() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = Server::new("silent", vec![Endpoint::tcp("127.0.0.1", port)]);
    let started = Instant::now();
    let caller = caller();
    let refused =
        block_on(caller.call(&server, &principal([1; 32]), &StatStore {}, HASTY)).unwrap_err();
    assert!(matches!(refused, CallError::Timeout { .. }), "{refused:?}");
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[test]
fn many_threads_and_many_calls_at_once_share_the_lanes() {
    let daemon = start(Echo::default(), [1; 32], &any_port());
    let server = Server::new("echo", daemon.endpoints().to_vec());
    let (caller, principal) = (caller(), principal([1; 32]));
    std::thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                for _ in 0..20 {
                    block_on(caller.call(&server, &principal, &StatStore {}, PATIENT)).unwrap();
                }
            });
        }
    });
    let calls = (0..100).map(|_| caller.call(&server, &principal, &StatStore {}, PATIENT));
    let answered = block_on(all(calls));
    assert!(answered.iter().all(Result::is_ok));
}

/// Whoever leads a pipe, or has just been called to, may be given up: then another must.
#[test]
fn exchanges_that_share_a_pipe_end_whichever_of_them_are_given_up() {
    let secret = [5; 32];
    let daemon = start(Echo::default(), secret, &any_port());
    let server = Server::new("echo", daemon.endpoints().to_vec());
    let (caller, principal) = (Caller::new(Blocking, 1, "test", false), principal(secret));
    let shown = Shown { number: 1, version: 1, token: b"token".into() };
    let patience = Patience { timeout: Duration::from_secs(30), insist: true };
    let how = Pipelined { patience, together: Together::new() };
    let read = async |bytes: u64| {
        let mut buffer = vec![0; bytes as usize];
        let regions = Regions::contiguous(0, bytes).unwrap();
        let make = |access| Read { access, slot: 0, regions: regions.clone() };
        let mut pieces = [&mut buffer[..]];
        let data = &mut Data { into: &mut pieces, ..Data::default() };
        let moved = caller.transfer_pipelined(&server, &principal, &shown, make, data, how);
        moved.await.map(|moved| moved.bytes as u64)
    };
    // The connection is there, so that a flush sends and nothing is received before all are given up.
    assert_eq!(block_on(read(9)), Ok(9));
    for kept in [0, 1, 7, 15] {
        let mut queue = Queue::new(&Blocking).unwrap();
        let tickets: Vec<_> = (0..16u64).map(|at| queue.submit(read(at + 1))).collect();
        queue.flush();
        for (at, ticket) in tickets.iter().enumerate() {
            assert!(at == kept || queue.cancel(*ticket));
        }
        let outcome = queue.wait(tickets[kept], Some(Duration::from_secs(10)));
        assert_eq!(outcome, Some(Ok(kept as u64 + 1)), "of sixteen, number {kept} was kept");
    }
}
