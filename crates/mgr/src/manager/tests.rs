//! The daemon without sockets: rounds go in by hand, replies come out at a desk, time is a number.

mod caching;
mod exactly_once;
mod failures;
mod histories;
mod leases;
mod locks;
mod many_threads;
mod orders;
mod purging;
mod sessions;
mod truncations;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use pvfs_layout::{IodId, Scheme};
use pvfs_net::service::{
    ConnectionId, Desk, Peer, Reception, Request, Response, Service, Storage, Ticket,
};
use pvfs_wire::attr::{Striping, Time};
use pvfs_wire::ops::*;
use pvfs_wire::token::{KeyRing, Session, SessionRights};
use pvfs_wire::{Errno, Handle, Header, OK, Operation, Sequence, Wire};

use super::*;
use crate::store::{MemoryStore, Store};

/// Time that passes when a test says so.
#[derive(Default)]
struct Hands {
    ns: AtomicU64,
}

impl Clock for Hands {
    fn monotonic_ns(&self) -> u64 {
        self.ns.load(Ordering::SeqCst)
    }

    fn wall(&self) -> Time {
        Time::from_nanos(1_700_000_000_000_000_000 + self.monotonic_ns() as i64)
    }
}

/// Where replies arrive, by connection and tag.
#[derive(Default)]
struct Mailbox {
    replies: Mutex<HashMap<(ConnectionId, u64), Answer>>,
    /// Tags of replies that may be cached.
    leased: Mutex<std::collections::HashSet<u64>>,
}

/// Status and body.
type Answer = (Errno, Vec<u8>);

impl Desk for Mailbox {
    fn reply(&self, connection: ConnectionId, request: &Header, response: Response) {
        if response.leased_ms > 0 {
            self.leased.lock().unwrap().insert(request.tag);
        }
        let reply = (response.status, response.body);
        let before = self.replies.lock().unwrap().insert((connection, request.tag), reply);
        assert!(before.is_none(), "request {} was answered twice", request.tag);
    }
}

/// A manager, its store and its clock.
struct World {
    manager: Manager,
    store: Arc<dyn Backing>,
    clock: Arc<Hands>,
    desk: Arc<Mailbox>,
    orders: Arc<Mutex<Vec<OrderKind>>>,
}

/// A client on one connection.
#[derive(Clone)]
struct Caller {
    peer: Arc<Peer>,
    session: Arc<Session>,
}

/// A request as it would travel.
#[derive(Clone)]
struct Message {
    header: Header,
    body: Vec<u8>,
}

const SECRET: [u8; 32] = [7; 32];
static NEXT_TAG: AtomicU64 = AtomicU64::new(1);

fn keys() -> KeyRing {
    KeyRing::new(&[SECRET])
}

fn policy() -> Policy {
    let iods: Vec<IodId> = (0..4).map(IodId).collect();
    let map = ClusterMap {
        version: 3,
        filesystem: "test".into(),
        iods: Vec::new(),
        dist: "simple_stripe".into(),
        pcount: 4,
        ssize: 65536,
    };
    Policy {
        scheme: "simple_stripe".parse::<Scheme>().unwrap(),
        pcount: None,
        free_bytes: vec![1 << 30; iods.len()],
        iods,
        capability_lifetime_s: 600,
        objects_free: 1 << 30,
        map,
    }
}

impl World {
    fn new() -> Self {
        Self::on(Arc::new(MemoryStore::new()))
    }

    fn on(store: Arc<dyn Backing>) -> Self {
        let clock = Arc::new(Hands::default());
        format(&*store, &FormatOptions::new(1, 2, [3; 16]), &*clock).unwrap();
        Self::open(store, clock)
    }

    fn open(store: Arc<dyn Backing>, clock: Arc<Hands>) -> Self {
        let orders = Arc::new(Mutex::new(Vec::new()));
        let options = Options {
            name: "mgr0".into(),
            terms: Terms::default(),
            policy: policy(),
            clock: clock.clone(),
            on_order: Box::new({
                let orders = orders.clone();
                move |order: &Order| orders.lock().unwrap().push(order.kind)
            }),
        };
        let manager = Manager::new(options, store.clone(), keys()).unwrap();
        Self { manager, store, clock, desk: Arc::default(), orders }
    }

    /// The manager is killed and started again.
    fn restarted(self) -> Self {
        Self::open(self.store, self.clock)
    }

    fn root(&self) -> Handle {
        self.manager.filesystem().handle(pvfs_wire::handle::ROOT_OBJECT)
    }

    fn name(&self, path: &str) -> Target {
        Target::below(self.root(), path)
    }

    fn arrive(&self, client: u64, connection: u64) -> (Caller, Reception) {
        self.arrive_as(client, connection, 0)
    }

    fn arrive_as(&self, client: u64, connection: u64, uid: u32) -> (Caller, Reception) {
        let peer = Arc::new(Peer {
            connection: ConnectionId(connection),
            client,
            lane: 0,
            address: "unix".into(),
        });
        let hello = Hello {
            version_min: 1,
            version_max: 1,
            client,
            lane: 0,
            incarnation: connection,
            fsid: 1,
            nonce: [0; 32],
            software: "test".into(),
        };
        let reception = self.manager.arrived(&peer, &hello).unwrap();
        let session = Session {
            id: client,
            uid,
            gid: uid,
            gids: Vec::new(),
            rights: SessionRights::NONE,
            issued: 0,
            expiry: u64::MAX,
        };
        let session = Arc::new(session);
        self.manager.believed(&peer, &session);
        (Caller { peer, session }, reception)
    }

    fn client(&self, client: u64) -> Caller {
        self.arrive(client, client * 100).0
    }

    fn pass(&self, seconds: f64) {
        self.clock.ns.fetch_add((seconds * 1e9) as u64, Ordering::SeqCst);
    }

    /// Lets time pass with a tick at its end, and one more for what takes two groups.
    fn pass_and_tick(&self, seconds: f64) {
        self.pass(seconds);
        self.manager.tick();
        self.manager.tick();
    }

    /// Hands in a round and returns at once; replies are picked up by [`World::reply`].
    fn send(&self, messages: &[(&Caller, &Message)]) {
        let round = messages.iter().map(|(caller, message)| self.request(caller, message));
        self.manager.serve(round.collect());
    }

    fn request<'a>(&self, caller: &'a Caller, message: &'a Message) -> Request<'a> {
        let connection = caller.peer.connection;
        Request {
            peer: &caller.peer,
            session: Some(&caller.session),
            header: message.header,
            body: &message.body,
            data: &[],
            storage: Storage::Round,
            ticket: Ticket::new(connection, message.header, self.desk.clone()),
        }
    }

    /// The reply, if it is there; once.
    fn reply(&self, caller: &Caller, message: &Message) -> Option<Answer> {
        let key = (caller.peer.connection, message.header.tag);
        self.desk.replies.lock().unwrap().remove(&key)
    }

    fn status_of(&self, caller: &Caller, message: &Message) -> Option<Errno> {
        self.reply(caller, message).map(|reply| reply.0)
    }

    /// Sends one message and returns its reply.
    fn exchange(&self, caller: &Caller, message: &Message) -> Answer {
        self.send(&[(caller, message)]);
        self.reply(caller, message).expect("it is answered in its round")
    }

    fn call<O: Operation>(
        &self,
        caller: &Caller,
        count: u64,
        operation: &O,
    ) -> Result<O::Reply, Errno> {
        let (status, body) = self.exchange(caller, &message(operation, 0, count));
        if status == OK { Ok(O::Reply::from_bytes(&body).unwrap()) } else { Err(status) }
    }

    fn exists(&self, caller: &Caller, path: &str) -> bool {
        let stat = Stat { target: self.name(path), follow: false, placement: false };
        match self.call(caller, 0, &stat) {
            Ok(_) => true,
            Err(Errno::ENOENT) => false,
            Err(other) => panic!("stat of {path} failed with {other:?}"),
        }
    }

    fn mkdir(&self, path: &str) -> Mkdir {
        Mkdir { target: self.name(path), mode: 0o755 }
    }

    fn open_file(&self, path: &str, open: u64, flags: OpenFlags) -> Open {
        let striping = Striping::default();
        Open { target: self.name(path), flags, mode: 0o644, striping, open }
    }

    /// Everything in the store.
    fn contents(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let snapshot = self.store.snapshot();
        let all = snapshot.scan(&crate::store::KeyRange::all());
        all.map(|entry| entry.unwrap()).collect()
    }

    fn figure(&self, name: &str) -> u64 {
        let (_, body) = self.exchange(&self.client(999_999), &message(&Status {}, 0, 0));
        let report = StatusReport::from_bytes(&body).unwrap();
        report.figures.iter().find(|figure| figure.0 == name).expect("the status has it").1
    }
}

fn message<O: Operation>(operation: &O, slot: u16, count: u64) -> Message {
    let body = operation.to_bytes();
    let tag = NEXT_TAG.fetch_add(1, Ordering::Relaxed);
    let sequence = Sequence { slot, count };
    let header = Header { sequence, ..Header::request(O::CODE, tag) };
    Message { header: header.with_body(&body), body }
}

/// The same request again, as another message.
fn again(message: &Message) -> Message {
    let tag = NEXT_TAG.fetch_add(1, Ordering::Relaxed);
    Message { header: Header { tag, ..message.header }, body: message.body.clone() }
}

const NAMELESS: OpenFlags = OpenFlags::WRITE.with(OpenFlags::DIRECTORY).with(OpenFlags::NAMELESS);
const CREATE: OpenFlags = OpenFlags::READ.with(OpenFlags::WRITE).with(OpenFlags::CREATE);
