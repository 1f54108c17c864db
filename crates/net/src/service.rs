//! What a daemon does with requests, seen from the network.
//!
//! A reactor gathers the complete requests of all connections that were ready at once (a *round*) and hands
//! them over together, so that a manager can execute them as one group. A request is either answered in
//! the round or later, from any thread, by its [`Ticket`].

use std::io;
use std::ops::{Deref, Range};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pvfs_wire::ops::Hello;
use pvfs_wire::token::Session;
use pvfs_wire::{Errno, Header, Operation, Wire};

use crate::buffer::Buffer;
use crate::tray::SharedTray;

/// A connection of this daemon, never reused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub struct ConnectionId(pub u64);

/// The client at the other end, as its hello said.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Its connection to us.
    pub connection: ConnectionId,
    /// The client process.
    pub client: u64,
    /// Which of its connections.
    pub lane: u32,
    /// Where it comes from: an IP address or `unix`.
    pub address: String,
}

/// A request that arrived completely and passed the gate.
pub struct Request<'a> {
    /// Who sent it.
    pub peer: &'a Arc<Peer>,
    /// On whose behalf; absent only for the operations that need no session.
    pub session: Option<&'a Arc<Session>>,
    /// Its header; `header.timeout_ms` says how long the sender still waits.
    pub header: Header,
    /// The operation's record, checked against its checksum.
    pub body: &'a [u8],
    /// File data, checked against its checksum where it has one.
    pub data: &'a [u8],
    /// What `data` lie in; see [`Request::keep_data`].
    pub storage: Storage<'a>,
    /// Where a reply after this round goes.
    pub ticket: Ticket,
}

/// What the data of a request lie in.
#[derive(Clone, Copy)]
pub enum Storage<'a> {
    /// Something that ends with the round.
    Round,
    /// A network buffer, with the body.
    Buffer(&'a Arc<Buffer>),
    /// The client's tray, at its beginning.
    Tray(&'a Arc<SharedTray>),
}

impl Peer {
    /// Whether it is a process of this node that can be handed descriptors.
    pub fn shares_node(&self) -> bool {
        self.address == UNIX
    }
}

/// The address of a peer that came over a socket of this node.
pub const UNIX: &str = "unix";

impl Request<'_> {
    /// The data, for use after the round. Not copied when it lies in a network buffer: the connection
    /// then goes on with another one.
    pub fn keep_data(&self) -> KeptData {
        let kept = match self.storage {
            Storage::Round => None,
            Storage::Buffer(buffer) => KeptData::inside(buffer, self.data),
            Storage::Tray(tray) => {
                Some(KeptData { memory: Kept::Tray(tray.clone()), range: 0..self.data.len() })
            }
        };
        kept.unwrap_or_else(|| KeptData::copied(self.data))
    }
}

/// Data of a request that outlives its round. Give it back soon: it holds a network buffer.
pub struct KeptData {
    memory: Kept,
    range: Range<usize>,
}

enum Kept {
    Buffer(Arc<Buffer>),
    Tray(Arc<SharedTray>),
}

impl KeptData {
    fn inside(buffer: &Arc<Buffer>, data: &[u8]) -> Option<Self> {
        let start = data.as_ptr().addr().checked_sub(buffer.as_ptr().addr())?;
        let range = start..start + data.len();
        (range.end <= buffer.len()).then(|| Self { memory: Kept::Buffer(buffer.clone()), range })
    }

    fn copied(data: &[u8]) -> Self {
        let mut memory = Buffer::unpooled(data.len());
        memory.copy_from_slice(data);
        Self { memory: Kept::Buffer(Arc::new(memory)), range: 0..data.len() }
    }
}

impl Deref for KeptData {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.memory {
            Kept::Buffer(buffer) => &buffer[self.range.clone()],
            Kept::Tray(tray) => &tray.data(self.range.end)[self.range.start..],
        }
    }
}

/// File data of a reply.
pub enum Data {
    /// In a buffer of the daemon.
    Buffered(Buffer),
    /// Somewhere else, to be sent from there.
    Lent(Box<dyn Lent>),
}

/// Data that somebody keeps as they are until they are sent. Others may have to wait for that, so what a client
/// does not take at once is copied.
pub trait Lent: Send {
    /// The data.
    fn bytes(&self) -> &[u8];

    /// The data in a buffer; the error when they cannot be had any more.
    fn copy(&self) -> io::Result<Buffer>;
}

impl Deref for Data {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Buffered(buffer) => buffer,
            Self::Lent(lent) => lent.bytes(),
        }
    }
}

impl From<Buffer> for Data {
    fn from(buffer: Buffer) -> Self {
        Self::Buffered(buffer)
    }
}

/// An answer on its way out.
pub struct Response {
    /// Zero or an error number.
    pub status: Errno,
    /// The operation's reply record; empty with an error.
    pub body: Vec<u8>,
    /// File data.
    pub data: Option<Data>,
    /// Descriptors, for a process of this node; see [`Peer::shares_node`].
    pub files: Vec<OwnedFd>,
    /// How long what it tells may be cached; 0 not at all.
    pub leased_ms: u32,
}

impl Response {
    /// Success, with a reply record that is encoded already.
    pub fn encoded(body: Vec<u8>) -> Self {
        Self { status: pvfs_wire::OK, body, data: None, files: Vec::new(), leased_ms: 0 }
    }

    /// Success, with a reply record.
    pub fn done<O: Operation>(reply: &O::Reply) -> Self {
        Self::encoded(reply.to_bytes())
    }

    /// Success, with a reply record and data.
    pub fn with_data<O: Operation>(reply: &O::Reply, data: impl Into<Data>) -> Self {
        Self { data: Some(data.into()), ..Self::done::<O>(reply) }
    }

    /// Success, with a reply record and descriptors.
    pub fn with_files<O: Operation>(reply: &O::Reply, files: Vec<OwnedFd>) -> Self {
        Self { files, ..Self::done::<O>(reply) }
    }

    /// Failure.
    pub fn failed(status: Errno) -> Self {
        Self { status, body: Vec::new(), data: None, files: Vec::new(), leased_ms: 0 }
    }
}

/// The obligation to answer one request. Dropped unanswered it answers EIO, so that no client ever
/// waits for a request that was lost in the daemon.
pub struct Ticket {
    header: Header,
    connection: ConnectionId,
    desk: Option<Arc<dyn Desk>>,
}

/// Where replies are handed in; a reactor's mailbox, or the simulator's.
pub trait Desk: Send + Sync {
    /// Queues the reply to `request` on `connection`, and wakes whoever sends it. Called from any thread.
    /// A connection that is gone swallows it.
    fn reply(&self, connection: ConnectionId, request: &Header, response: Response);
}

impl Ticket {
    /// For the reactor: a ticket for the request with this header.
    pub fn new(connection: ConnectionId, header: Header, desk: Arc<dyn Desk>) -> Self {
        Self { header, connection, desk: Some(desk) }
    }

    /// Answers.
    pub fn reply(mut self, response: Response) {
        if let Some(desk) = self.desk.take() {
            desk.reply(self.connection, &self.header, response);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.take() {
            desk.reply(self.connection, &self.header, Response::failed(Errno::EIO));
        }
    }
}

/// How a client's connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Departure {
    /// The other end closed it: the process ended, or gave this lane up.
    Closed,
    /// It broke, or broke the rules: the process may well live on.
    Broken,
    /// A newer incarnation of the same lane took its place.
    Replaced,
}

/// What a daemon adds to the welcome of a client.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Reception {
    /// See [`pvfs_wire::ops::Welcome::lease_kept`].
    pub lease_kept: bool,
    /// See [`pvfs_wire::ops::Welcome::generation`].
    pub generation: u32,
    /// See [`pvfs_wire::ops::Welcome::map_version`].
    pub map_version: u32,
    /// See [`pvfs_wire::ops::Welcome::lease_ms`].
    pub lease_ms: u32,
}

/// A daemon, as the network sees it. Called by several reactor threads at once.
pub trait Service: Send + Sync + 'static {
    /// A client said hello; the error refuses it.
    fn arrived(&self, peer: &Arc<Peer>, hello: &Hello) -> Result<Reception, Errno>;

    /// The client has proven to own this session, before any request on its behalf. Told for each connection, as the
    /// session is after root was squashed.
    fn believed(&self, _peer: &Arc<Peer>, _session: &Arc<Session>) {}

    /// A client's connection is over. Tickets of its requests that still wait (for a lock, for their turn)
    /// should be dropped now: a newer incarnation of the same lane is welcomed only when no change asked
    /// for on this connection can still happen.
    fn departed(&self, peer: &Arc<Peer>, how: Departure);

    /// Serves the requests of one round. Those whose tickets are not used are answered EIO.
    fn serve(&self, round: Vec<Request<'_>>);

    /// Carries out the write of a client of this node that was killed while it did it itself ([`crate::tray`]), before
    /// this returns: [`Self::departed`] comes next. There is nobody to answer.
    fn redo(&self, _request: Request<'_>) {}

    /// Called about ten times a second by one reactor, for leases and other clocks.
    fn tick(&self);
}
