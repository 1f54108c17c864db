//! A daemon, a clock that moves when told, and clients that wait for their replies.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pvfs_iod::clock::Clock;
use pvfs_iod::{Config, Disk, Iod, MemoryDisk};
use pvfs_layout::{Dist, Regions};
use pvfs_net::buffer::Pool;
use pvfs_net::service::{
    ConnectionId, Departure, Desk, Peer, Request, Response, Service, Storage, Ticket,
};
use pvfs_wire::ops::{Access, Hello, Read, Sync, TruncateObject, Write};
use pvfs_wire::token::{Capability, Holder, KeyRing, Rights, Session, SessionRights};
use pvfs_wire::{Errno, Handle, Header, Operation, Wire};

/// Unix seconds when a test begins.
pub const START_S: u64 = 1_700_000_000;

/// A daemon under test.
pub struct Daemon {
    pub iod: Iod,
    pub ring: KeyRing,
    pub clock: Arc<TestClock>,
    desk: Arc<TestDesk>,
    tags: AtomicU64,
    connections: AtomicU64,
}

/// A client with one connection to it.
pub struct Client<'a> {
    pub daemon: &'a Daemon,
    pub peer: Arc<Peer>,
    pub session: Option<Arc<Session>>,
    /// What the next requests say of their patience.
    pub timeout_ms: AtomicU32,
}

/// One object of a file, and the right to it.
#[derive(Clone)]
pub struct Object {
    pub handle: Handle,
    pub slot: u32,
    pub access: Access,
}

pub struct TestClock {
    passed_ms: AtomicU64,
}

impl TestClock {
    pub fn advance(&self, time: Duration) {
        self.passed_ms.fetch_add(time.as_millis() as u64, SeqCst);
    }
}

impl Clock for TestClock {
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.passed_ms.load(SeqCst))
    }

    fn unix(&self) -> Duration {
        Duration::from_secs(START_S) + self.monotonic()
    }
}

#[derive(Default)]
struct TestDesk {
    replies: Mutex<HashMap<u64, Response>>,
    came: Condvar,
}

impl Desk for TestDesk {
    fn reply(&self, _: ConnectionId, request: &Header, response: Response) {
        let before = self.replies.lock().unwrap().insert(request.tag, response);
        assert!(before.is_none(), "a request was answered twice");
        self.came.notify_all();
    }
}

impl TestDesk {
    fn wait(&self, tag: u64) -> Response {
        let replies = self.replies.lock().unwrap();
        let patience = Duration::from_secs(30);
        let absent = |replies: &mut HashMap<u64, Response>| !replies.contains_key(&tag);
        let (mut replies, _) = self.came.wait_timeout_while(replies, patience, absent).unwrap();
        replies.remove(&tag).expect("every request is answered")
    }
}

/// A request on its way.
pub struct Sent<'a> {
    desk: &'a TestDesk,
    tag: u64,
}

impl Sent<'_> {
    /// Waits for the reply: its record and data, or its error.
    pub fn reply<O: Operation>(self) -> Result<(O::Reply, Vec<u8>), Errno> {
        let Response { status, body, data, .. } = self.desk.wait(self.tag);
        if status != pvfs_wire::OK {
            assert!(body.is_empty() && data.is_none(), "an error comes with nothing else");
            return Err(status);
        }
        let reply = O::Reply::from_bytes(&body).expect("a reply can be decoded");
        Ok((reply, data.map(|data| data.to_vec()).unwrap_or_default()))
    }

    pub fn is_answered(&self) -> bool {
        self.desk.replies.lock().unwrap().contains_key(&self.tag)
    }

    pub fn status(self) -> Errno {
        self.desk.wait(self.tag).status
    }
}

impl Daemon {
    pub fn new(disk: impl Disk + 'static) -> Self {
        Self::with(disk, |_| {})
    }

    pub fn with(disk: impl Disk + 'static, change: impl FnOnce(&mut Config)) -> Self {
        let clock = Arc::new(TestClock { passed_ms: AtomicU64::new(0) });
        let mut config = Config { clock: clock.clone(), workers: 4, ..Config::new("io0") };
        change(&mut config);
        let ring = KeyRing::new(&[[1; 32]]);
        let iod = Iod::new(config, Arc::new(disk), ring.clone(), Pool::new());
        let (tags, connections) = (AtomicU64::new(1), AtomicU64::new(1));
        Self { iod, ring, clock, desk: Arc::default(), tags, connections }
    }

    pub fn in_memory() -> (Self, MemoryDisk) {
        let disk = MemoryDisk::new(1);
        (Self::new(disk.clone()), disk)
    }

    /// A client process with a session of its own.
    pub fn client(&self, number: u64) -> Client<'_> {
        self.client_with(number, Some(session(number, SessionRights::NONE)))
    }

    pub fn manager(&self) -> Client<'_> {
        self.client_with(999, Some(session(999, SessionRights::DAEMON)))
    }

    pub fn client_with(&self, number: u64, session: Option<Session>) -> Client<'_> {
        let connection = ConnectionId(self.connections.fetch_add(1, SeqCst));
        let peer = Arc::new(Peer { connection, client: number, lane: 0, address: "here".into() });
        self.iod.arrived(&peer, &hello(0)).unwrap();
        let session = session.map(Arc::new);
        Client { daemon: self, peer, session, timeout_ms: AtomicU32::new(0) }
    }

    /// A gauge of this name, or a counter.
    pub fn figure(&self, name: &str) -> u64 {
        let (figures, counter) = (self.iod.figures(), format!("{name}_total"));
        let found = figures.iter().find(|figure| figure.0 == name || figure.0 == counter);
        found.unwrap_or_else(|| panic!("no figure {name}")).1
    }
}

pub fn hello(fsid: u32) -> Hello {
    Hello {
        version_min: 1,
        version_max: 1,
        client: 1,
        lane: 0,
        incarnation: 1,
        fsid,
        nonce: [0; 32],
        software: "test".into(),
    }
}

pub fn session(id: u64, rights: SessionRights) -> Session {
    let (uid, gid, gids) = (1000, 100, Vec::new());
    Session { id, uid, gid, gids, rights, issued: START_S, expiry: START_S + 43_200 }
}

pub fn handle(object: u64) -> Handle {
    Handle { fsid: 1, generation: 1, object }
}

pub fn contiguous(offset: u64, len: u64) -> Regions {
    Regions::contiguous(offset, len).unwrap()
}

impl<'a> Client<'a> {
    /// A right to all of a file of one object, signed by the manager.
    pub fn object(&self, number: u64) -> Object {
        self.slot(number, Dist::basic(), 0, Rights::READ | Rights::WRITE | Rights::TRUNCATE)
    }

    pub fn slot(&self, number: u64, dist: Dist, slot: u32, rights: Rights) -> Object {
        let capability = Capability {
            handle: handle(number),
            rights,
            dist,
            holder: Holder::Session(self.session.as_ref().map_or(0, |session| session.id)),
            layout_epoch: 0,
            expiry: START_S + 600,
        };
        let token = Some(self.daemon.ring.sign_capability(&capability).into());
        let access = Access { number: number as u32, token };
        Object { handle: handle(number), slot, access }
    }

    pub fn send_raw(&self, code: u16, body: &[u8], data: &[u8]) -> Sent<'a> {
        let tag = self.daemon.tags.fetch_add(1, SeqCst);
        let mut header = Header::request(code, tag).with_body(body);
        header.data_bytes = data.len() as u32;
        header.timeout_ms = self.timeout_ms.load(SeqCst);
        let ticket = Ticket::new(self.peer.connection, header, self.daemon.desk.clone());
        let (peer, session) = (&self.peer, self.session.as_ref());
        let request =
            Request { peer, session, header, body, data, storage: Storage::Round, ticket };
        self.daemon.iod.serve(vec![request]);
        Sent { desk: &self.daemon.desk, tag }
    }

    pub fn send<O: Operation>(&self, operation: &O, data: &[u8]) -> Sent<'a> {
        self.send_raw(O::CODE, &operation.to_bytes(), data)
    }

    pub fn call<O: Operation>(&self, operation: &O) -> Result<O::Reply, Errno> {
        self.send(operation, &[]).reply::<O>().map(|(reply, _)| reply)
    }

    pub fn leave(&self, how: Departure) {
        self.daemon.iod.departed(&self.peer, how);
    }

    /// The data, and the local size.
    pub fn read(&self, object: &Object, regions: Regions) -> Result<(Vec<u8>, u64), Errno> {
        let request = Read { access: object.access.clone(), slot: object.slot, regions };
        self.send(&request, &[]).reply::<Read>().map(|(reply, data)| (data, reply.local_size))
    }

    /// The local size.
    pub fn write(&self, object: &Object, regions: Regions, data: &[u8]) -> Result<u64, Errno> {
        let sent = self.send_write(object, regions, data, false);
        sent.reply::<Write>().map(|(reply, _)| reply.local_size)
    }

    pub fn send_write(
        &self,
        object: &Object,
        regions: Regions,
        data: &[u8],
        sync: bool,
    ) -> Sent<'a> {
        let request = Write { access: object.access.clone(), slot: object.slot, regions, sync };
        self.send(&request, data)
    }

    pub fn write_at(&self, object: &Object, offset: u64, data: &[u8]) -> Result<u64, Errno> {
        self.write(object, contiguous(offset, data.len() as u64), data)
    }

    pub fn truncate(&self, object: &Object, size: u64) -> Result<u64, Errno> {
        let request = TruncateObject { access: object.access.clone(), slot: object.slot, size };
        self.call(&request).map(|reply| reply.local_size)
    }

    pub fn sync(&self, object: &Object) -> Result<(), Errno> {
        self.call(&Sync { access: object.access.clone() }).map(|_| ())
    }
}
