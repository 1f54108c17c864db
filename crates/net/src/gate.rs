//! What one connection may do, message by message. Pure: no sockets, no clocks.
//!
//! ```text
//!            Hello              lane free            Auth (any number)
//!   Silent ---------> Waiting -------------> Open ---------------------> Open, with sessions
//!     | 5 s              | wrong version, file system, network, old incarnation
//!     +--> closed        +--> refused with one status, closed
//! ```
//!
//! Only `Ping` and `Control` are served without a session. A peer that breaks the rules is closed and
//! counted, since an honest client never does.

pub mod denials;
pub mod doorman;
pub mod lanes;
pub mod lockout;

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use pvfs_wire::ops::{Auth, Authed, Control, Hello, Lock, Ping, Status, Welcome};
use pvfs_wire::token::{
    CLOCK_SKEW_S, Nonce, Session, TokenError, client_proof, same_code, server_proof,
};
use pvfs_wire::{
    DATA_BYTES_MAX, DecodeError, Effect, Errno, Header, Kind, Operation, VERSION, Wire,
};

use crate::runtime::Instant;
use crate::service::{ConnectionId, Peer, Reception, Response, UNIX};
use crate::tls::TlsFault;
pub use doorman::{Doorman, Limits, Rules, Security};
use lanes::{Entry, LaneKey};

/// The time, as the gate is told it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Now {
    /// For timeouts.
    pub instant: Instant,
    /// Seconds since the epoch, for expiries.
    pub wall_s: u64,
}

/// Where a connection comes from, as lockouts and caps tell clients apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub enum Origin {
    /// An address of the network.
    Ip(IpAddr),
    /// A process of this node.
    Unix {
        /// Its user, as the kernel vouches.
        uid: u32,
    },
}

impl Origin {
    /// An IPv4 client of an IPv6 listener counts as what it is.
    pub fn from_ip(address: IpAddr) -> Self {
        Self::Ip(address.to_canonical())
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Unix { .. } => f.write_str(UNIX),
        }
    }
}

/// Why a connection is closed by us.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Bytes that mean nothing.
    #[error("malformed message: {0}")]
    Malformed(#[from] DecodeError),
    /// The two ends do not get on over TLS, or only one of them speaks it.
    #[error("{0}")]
    Tls(#[from] TlsFault),
    /// More requests or bytes outstanding than agreed.
    #[error("more requests or bytes outstanding than were agreed at hello")]
    Overdrawn,
    /// A request, or another hello, out of turn.
    #[error("message out of turn")]
    OutOfTurn,
    /// The handshake took too long.
    #[error("handshake took too long")]
    TooSlow,
    /// Replies were not read, or a message never ended.
    #[error("peer made no progress")]
    Stalled,
}

/// What is to be done with a message.
pub enum Verdict {
    /// Serve it, on behalf of this session.
    Serve(Option<Arc<Session>>),
    /// Answer it without asking the service.
    Answer(Response),
    /// The peer owns this session: answer, and tell the service.
    Believe(Response, Arc<Session>),
    /// Answer it and close.
    Refuse(Response),
    /// A hello: first close these older connections of the lane, then see [`Gate::may_open`].
    Greet(Vec<ConnectionId>),
    /// A duplicate of an earlier message: forget it.
    Drop,
    /// Not now: ask again when the lane is open.
    Wait,
    /// Close.
    Close(Fault),
}

/// The rules of one connection.
pub struct Gate {
    doorman: Arc<Doorman>,
    connection: ConnectionId,
    origin: Origin,
    opened: Instant,
    stage: Stage,
    tag_last: u64,
    session_last: u32,
    /// In the order of their numbers, which only grow: a number is never given to another session.
    sessions: Vec<(u32, Arc<Session>)>,
    /// How many denials the sessions were compared with.
    denials_seen: u64,
    /// Of the last that was thrown out for one; the numbers only grow.
    denied: Vec<u32>,
    outstanding: Outstanding,
}

enum Stage {
    Silent,
    Waiting(Box<Greeting>),
    Open(Box<Greeting>),
}

/// A hello that was believed, and what it was made into.
struct Greeting {
    header: Header,
    hello: Hello,
    peer: Arc<Peer>,
    nonce: Nonce,
}

/// Requests that were passed on and not yet answered.
#[derive(Clone, Copy, Debug, Default)]
struct Outstanding {
    requests: u32,
    bytes: u64,
    changes: u32,
}

impl Gate {
    /// For a connection accepted just now.
    pub fn new(doorman: Arc<Doorman>, connection: ConnectionId, origin: Origin, now: Now) -> Self {
        Self {
            doorman,
            connection,
            origin,
            opened: now.instant,
            stage: Stage::Silent,
            tag_last: 0,
            session_last: 0,
            sessions: Vec::new(),
            denials_seen: 0,
            denied: Vec::new(),
            outstanding: Outstanding::default(),
        }
    }

    /// Whether a message with this header may come, before any of it is received.
    pub fn announce(&self, header: &Header) -> Result<(), Fault> {
        if header.kind != Kind::Request {
            return Err(Fault::Malformed(DecodeError::Value));
        }
        let limits = self.doorman.limits();
        let over = self.outstanding.requests >= u32::from(limits.requests_max)
            || self.outstanding.bytes + cost(header) > u64::from(limits.outstanding_bytes_max);
        if over { Err(Fault::Overdrawn) } else { Ok(()) }
    }

    /// What is to be done with a message that arrived completely.
    pub fn pass(&mut self, header: &Header, body: &[u8], now: Now) -> Verdict {
        if matches!(self.stage, Stage::Waiting(_)) {
            return Verdict::Wait;
        }
        if header.tag <= self.tag_last {
            return Verdict::Drop;
        }
        if let Err(fault) = self.announce(header) {
            return Verdict::Close(fault);
        }
        self.tag_last = header.tag;
        match (&self.stage, header.operation) {
            (Stage::Silent, Hello::CODE) => self.hello(header, body, now),
            (Stage::Open(_), Auth::CODE) => self.auth(body, now),
            (Stage::Open(_), code) if code != Hello::CODE => self.request(header, now),
            _ => Verdict::Close(Fault::OutOfTurn),
        }
    }

    fn hello(&mut self, header: &Header, body: &[u8], now: Now) -> Verdict {
        let hello = match Hello::from_bytes(body) {
            Ok(hello) => hello,
            Err(error) => return Verdict::Close(error.into()),
        };
        if let Err(status) = self.doorman.check_hello(&hello, self.origin, now) {
            return Verdict::Refuse(Response::failed(status));
        }
        let lane = LaneKey { client: hello.client, lane: hello.lane };
        let older = match self.doorman.lanes().enter(lane, hello.incarnation, self.connection) {
            Entry::Older(older) => older,
            Entry::Stale => return Verdict::Refuse(Response::failed(Errno::ESTALE)),
            Entry::Crowded => return Verdict::Refuse(Response::failed(Errno::EBUSY)),
        };
        let peer = Peer {
            connection: self.connection,
            client: hello.client,
            lane: hello.lane,
            address: self.origin.to_string(),
        };
        let nonce = self.doorman.nonce();
        let greeting = Greeting { header: *header, hello, peer: Arc::new(peer), nonce };
        self.stage = Stage::Waiting(Box::new(greeting));
        Verdict::Greet(older)
    }

    /// The peer and its hello, when it waits and nothing of the lane's older connections can still
    /// happen. The service decides next: [`Gate::welcome`] or a refusal.
    pub fn may_open(&self) -> Option<(&Header, &Arc<Peer>, &Hello)> {
        let Stage::Waiting(greeting) = &self.stage else { return None };
        let first = self.doorman.lanes().is_first(greeting.lane(), self.connection);
        first.then_some((&greeting.header, &greeting.peer, &greeting.hello))
    }

    /// Opens the connection; the reply to its hello.
    pub fn welcome(&mut self, reception: Reception) -> Response {
        let Stage::Waiting(greeting) = std::mem::replace(&mut self.stage, Stage::Silent) else {
            panic!("only a connection that waits is welcomed");
        };
        let limits = self.doorman.limits();
        let welcome = Welcome {
            version: VERSION,
            name: self.doorman.name().to_owned(),
            boot: self.doorman.boot(),
            nonce: greeting.nonce,
            lease_kept: reception.lease_kept,
            lease_ms: reception.lease_ms,
            requests_max: limits.requests_max,
            outstanding_bytes_max: limits.outstanding_bytes_max,
            data_bytes_max: DATA_BYTES_MAX,
            map_version: reception.map_version,
            generation: reception.generation,
        };
        self.doorman.note_map_version(reception.map_version);
        self.stage = Stage::Open(greeting);
        Response::done::<Hello>(&welcome)
    }

    fn auth(&mut self, body: &[u8], now: Now) -> Verdict {
        let auth = match Auth::from_bytes(body) {
            Ok(auth) => auth,
            Err(error) => return Verdict::Close(error.into()),
        };
        match self.believe(&auth, now) {
            Ok((authed, session)) => Verdict::Believe(Response::done::<Auth>(&authed), session),
            Err(Errno::EKEYREJECTED) if self.doorman.offence(self.origin, now) => {
                Verdict::Refuse(Response::failed(Errno::EKEYREJECTED))
            }
            Err(status) => Verdict::Answer(Response::failed(status)),
        }
    }

    fn believe(&mut self, auth: &Auth, now: Now) -> Result<(Authed, Arc<Session>), Errno> {
        let Stage::Open(greeting) = &self.stage else { return Err(Errno::EPROTO) };
        let (client, server) = (greeting.hello.nonce, greeting.nonce);
        let ring = self.doorman.keys();
        let session = ring.check_session(&auth.token, now.wall_s).map_err(status_of)?;
        if self.doorman.denials().cover(&session) {
            return Err(Errno::EKEYREVOKED);
        }
        let secret = ring.session_secret(&auth.token).map_err(status_of)?;
        if !same_code(&client_proof(&secret, &client, &server), &auth.proof) {
            return Err(Errno::EKEYREJECTED);
        }
        self.doorman.lanes().prove(greeting.lane());
        let session = Arc::new(self.doorman.squash(session));
        let number = self.remember(session.clone(), now)?;
        let proof = server_proof(&secret, &client, &server);
        Ok((Authed { session: number, proof }, session))
    }

    fn remember(&mut self, session: Arc<Session>, now: Now) -> Result<u32, Errno> {
        if self.sessions.len() >= self.doorman.limits().sessions_max {
            self.sessions.retain(|(_, session)| !is_over(session, now));
        }
        if self.sessions.len() >= self.doorman.limits().sessions_max {
            return Err(Errno::EMFILE);
        }
        self.session_last = self.session_last.checked_add(1).ok_or(Errno::EMFILE)?;
        self.sessions.push((self.session_last, session));
        Ok(self.session_last)
    }

    fn request(&mut self, header: &Header, now: Now) -> Verdict {
        self.drop_denied();
        let session = match self.session(header, now) {
            Ok(session) => session,
            Err(status) => return Verdict::Answer(Response::failed(status)),
        };
        if self.doorman.is_down() && !SERVED_WHEN_DOWN.contains(&header.operation) {
            return Verdict::Answer(Response::failed(Errno::EIO));
        }
        self.outstanding.requests += 1;
        self.outstanding.bytes += cost(header);
        self.outstanding.changes += u32::from(changes_something(header.operation));
        Verdict::Serve(session)
    }

    /// Who was believed and is denied meanwhile is not believed any more.
    fn drop_denied(&mut self) {
        let changes = self.doorman.denials().changes();
        if std::mem::replace(&mut self.denials_seen, changes) == changes {
            return;
        }
        let denials = self.doorman.denials();
        let denied = self.sessions.extract_if(.., |(_, session)| denials.cover(session));
        self.denied.extend(denied.map(|(number, _)| number));
        let kept = self.denied.len().saturating_sub(DENIED_MAX);
        self.denied.drain(..kept);
    }

    fn session(&self, header: &Header, now: Now) -> Result<Option<Arc<Session>>, Errno> {
        let found = self.sessions.binary_search_by_key(&header.session, |(number, _)| *number);
        match found {
            Ok(at) if is_over(&self.sessions[at].1, now) => Err(Errno::EKEYEXPIRED),
            Ok(at) => Ok(Some(self.sessions[at].1.clone())),
            Err(_) if SERVED_WITHOUT_SESSION.contains(&header.operation) => Ok(None),
            Err(_) if self.denied.contains(&header.session) => Err(Errno::EKEYREVOKED),
            // A number that was ours once, and made room: its session is over.
            Err(_) if (1..=self.session_last).contains(&header.session) => Err(Errno::EKEYEXPIRED),
            Err(_) => Err(Errno::EACCES),
        }
    }

    /// What is to be done with a request that a peer has left when its connection ended. Not what was answered.
    pub fn pass_left(&mut self, header: &Header, now: Now) -> Verdict {
        let is_answered = header.tag <= self.tag_last && self.outstanding.requests == 0;
        match &self.stage {
            Stage::Open(_) if !is_answered => self.request(header, now),
            _ => Verdict::Drop,
        }
    }

    /// Counts a bad token that the service found; whether the origin is locked out now.
    pub fn offence(&self, now: Now) -> bool {
        self.doorman.offence(self.origin, now)
    }

    /// Notes that a request which was passed on is answered.
    pub fn answered(&mut self, request: &Header) {
        self.outstanding.requests -= 1;
        self.outstanding.bytes -= cost(request);
        self.outstanding.changes -= u32::from(changes_something(request.operation));
    }

    /// Requests passed on and not yet answered.
    pub fn requests_outstanding(&self) -> u32 {
        self.outstanding.requests
    }

    /// Those of them that may still change something.
    pub fn changes_outstanding(&self) -> u32 {
        self.outstanding.changes
    }

    /// The peer, once it was welcomed.
    pub fn peer(&self) -> Option<&Arc<Peer>> {
        match &self.stage {
            Stage::Open(greeting) => Some(&greeting.peer),
            _ => None,
        }
    }

    /// The lane whose table lists this connection.
    pub fn lane(&self) -> Option<LaneKey> {
        match &self.stage {
            Stage::Waiting(greeting) | Stage::Open(greeting) => Some(greeting.lane()),
            Stage::Silent => None,
        }
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        self.doorman.limits()
    }

    /// The cluster map that replies name.
    pub fn map_version(&self) -> u32 {
        self.doorman.map_version()
    }

    /// Where the connection comes from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Whether the peer let the time for its handshake pass.
    pub fn is_too_slow(&self, now: Now) -> bool {
        let limits = self.doorman.limits();
        let time = match self.stage {
            Stage::Open(_) if self.session_last > 0 => return false,
            Stage::Open(_) => limits.anonymous_time_max,
            Stage::Silent | Stage::Waiting(_) => limits.handshake_time_max,
        };
        self.opened.until(now.instant) > time
    }
}

impl Greeting {
    fn lane(&self) -> LaneKey {
        LaneKey { client: self.hello.client, lane: self.hello.lane }
    }
}

/// Whether a request, served late, could still change what later requests of its client saw.
///
/// A lock may wait for other clients for as long as they like, so a reconnecting lane does not wait
/// for it: managers end the waits of a lane that departed.
pub fn changes_something(operation: u16) -> bool {
    static HARMLESS: LazyLock<Vec<bool>> = LazyLock::new(harmless_operations);
    !HARMLESS.get(usize::from(operation)).is_some_and(|harmless| *harmless)
}

fn harmless_operations() -> Vec<bool> {
    let mut harmless = vec![false; 1024];
    for (code, _, effect) in pvfs_wire::ops::table() {
        if effect == Effect::Query || code == Lock::CODE {
            harmless[usize::from(code)] = true;
        }
    }
    harmless
}

fn cost(header: &Header) -> u64 {
    u64::from(header.body_bytes) + u64::from(header.data_bytes)
}

fn is_over(session: &Session, now: Now) -> bool {
    session.expiry.saturating_add(CLOCK_SKEW_S) < now.wall_s
}

fn status_of(error: TokenError) -> Errno {
    match error {
        // Signed by us, so no attack: its time is over, or a clock is wrong.
        TokenError::Expired | TokenError::FromTheFuture => Errno::EKEYEXPIRED,
        TokenError::Forged => Errno::EKEYREJECTED,
    }
}

/// Beyond these a session that was denied is told that it expired.
const DENIED_MAX: usize = 64;

/// Who is unknown may ask whether we live, and deliver an order that carries its own signature.
const SERVED_WITHOUT_SESSION: [u16; 2] = [Ping::CODE, Control::CODE];

/// A daemon that was stopped in an emergency tells how it is, and can be told to go on.
const SERVED_WHEN_DOWN: [u16; 3] = [Ping::CODE, Control::CODE, Status::CODE];

#[cfg(test)]
pub(crate) mod tests;
