//! Calls: a request, its deadline, and as many connections and repetitions as it takes.
//!
//! ```text
//!   call ── take a lane ── exchange ── reply
//!             │               │ connection lost
//!             └── reconnect ──┘   the same lane with the next incarnation, so that the daemon refuses
//!                                 whatever may still come from the old connection
//! ```
//!
//! Queries and repeatable operations are simply sent again. A change of metadata keeps its sequence through
//! all repetitions and is run once. When the deadline passes, the fate of the request is unknown and the
//! lane stays marked as broken: it is reconnected before anything else goes to that daemon.

mod pipelined;
mod pool;
mod sequences;

use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pvfs_wire::ops::{Access, Hello};
use pvfs_wire::token::Credential;
use pvfs_wire::{Bytes, Effect, Errno, Header, OK, Operation, Sequence, VERSION, Wire};

use crate::endpoint::Endpoint;
use crate::lane::{Incoming, Lane, LaneError, LaneId, LentRange, Outgoing};
use crate::pipe::Together;
use crate::runtime::{Instant, Runtime, before, sleep_until};
use crate::tls::{Connector, TlsFault};
use pool::{Lanes, Lease, Mover};
use sequences::{ChangeSlot, Sequences};

/// A client process, as daemons know it.
pub struct Caller<R: Runtime> {
    /// The world it lives in.
    pub runtime: R,
    client: u64,
    fsid: u32,
    software: String,
    data_checksum: bool,
    /// What TLS takes, where it is spoken.
    tls: Option<Box<Connect>>,
    sequences: Mutex<Sequences>,
    leases_lost: AtomicU64,
}

/// A daemon, as a client knows it: where it is and the lanes to it.
pub struct Server<R: Runtime> {
    name: String,
    endpoints: Vec<Endpoint>,
    lanes: Mutex<Lanes<R::Stream>>,
    map_version: AtomicU32,
    generation: AtomicU32,
}

/// On whose behalf calls are made.
pub struct Principal {
    key: u64,
    credential: Mutex<Arc<Credential>>,
    renew: Box<Renew>,
}

/// Gets a fresh credential, from an agent or by signing it.
pub type Renew = dyn Fn() -> Result<Credential, Errno> + Send + Sync;

/// What a connection over TLS begins with, by the certificates that are there now.
pub type Connect = dyn Fn() -> Connector + Send + Sync;

/// How long to try.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// The time after which the call fails.
    pub timeout: Duration,
    /// Whether a daemon that refuses connections is given until then to come back.
    pub insist: bool,
}

/// How long to try, and with whom to share connections meanwhile.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pipelined {
    /// How long.
    pub patience: Patience,
    /// With whom.
    pub together: Together,
}

/// A capability and the number it has on all lanes.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Number of the open file in this client.
    pub number: u32,
    /// Grows each time the capability is renewed.
    pub version: u64,
    /// The capability.
    pub token: Bytes,
}

/// What a daemon said.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Told<T> {
    /// The reply record, or the refusal.
    pub outcome: Result<T, Errno>,
    /// For how many milliseconds it may be cached, counted from before it was asked.
    pub leased_ms: u32,
}

/// File data that goes with a call.
#[derive(Default)]
pub struct Data<'a, 'b> {
    /// Sent with the request.
    pub out: &'a [&'a [u8]],
    /// Receives the reply's.
    pub into: &'a mut [&'b mut [u8]],
    /// Where what is to be written may be written without asking.
    pub lent: Option<LentRange<'a>>,
}

/// What came of a transfer.
#[derive(Debug)]
pub struct Moved<T> {
    /// The reply record.
    pub reply: T,
    /// How many bytes of the caller's memory were filled.
    pub bytes: usize,
    /// In which boot of the daemon's store this happened ([`pvfs_wire::ops::Welcome::boot`]).
    pub boot: u64,
    /// Descriptors that came along.
    pub files: Vec<OwnedFd>,
}

/// Why a call has no reply.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The daemon answered with an error.
    #[error("{0}")]
    Status(Errno),
    /// No answer in time; whether the request was carried out is unknown.
    #[error("{}; see pvfs status", self.event())]
    Timeout {
        /// Which daemon.
        server: String,
        /// How long it was given.
        waited_ms: u64,
        /// What happened last.
        last: String,
    },
    /// The daemon cannot be reached, and the call was not to insist.
    #[error("{}; see pvfs status", self.event())]
    Unreachable {
        /// Which daemon.
        server: String,
        /// Why.
        reason: String,
    },
    /// The daemon and this client do not fit together; trying again is of no use.
    #[error("{server} refused the connection: {reason}")]
    Refused {
        /// Which daemon.
        server: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The daemon and this client do not get on over TLS, or only one of them speaks it.
    #[error("cannot connect to {server}: {fault}")]
    Untrusted {
        /// Which daemon.
        server: String,
        /// Why, and what to do.
        fault: TlsFault,
    },
}

impl CallError {
    /// The error number that a program is given.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Status(errno) => *errno,
            Self::Timeout { .. } => Errno::ETIMEDOUT,
            Self::Unreachable { .. } => Errno::EIO,
            Self::Refused { .. } | Self::Untrusted { .. } => Errno::EACCES,
        }
    }

    /// Whether trying again is of no use before somebody has changed something.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Untrusted { .. })
    }

    /// What happened, without a word on what to do.
    pub fn event(&self) -> String {
        match self {
            Self::Timeout { server, waited_ms, last } => {
                format!("{server} did not answer in {waited_ms} ms ({last})")
            }
            Self::Unreachable { server, reason } => format!("{server} is not reachable: {reason}"),
            Self::Status(_) | Self::Refused { .. } | Self::Untrusted { .. } => self.to_string(),
        }
    }
}

impl From<Errno> for CallError {
    fn from(errno: Errno) -> Self {
        Self::Status(errno)
    }
}

impl Principal {
    /// A principal whose credential comes from `renew`, now and whenever it is about to expire.
    pub fn new(renew: Box<Renew>) -> Result<Self, Errno> {
        let credential = Mutex::new(Arc::new(renew()?));
        Ok(Self { key: PRINCIPALS.fetch_add(1, Ordering::Relaxed), credential, renew })
    }

    fn credential(&self, now_s: u64) -> Result<Arc<Credential>, Errno> {
        let mut credential = self.credential.lock().expect("renew does not panic");
        if credential.expiry < now_s + RENEWED_BEFORE_S {
            *credential = Arc::new((self.renew)()?);
        }
        Ok(credential.clone())
    }

    /// A credential in place of one that a daemon refused; the present one, if that is another already.
    fn instead_of(&self, refused: &Arc<Credential>) -> Result<Arc<Credential>, Errno> {
        let mut credential = self.credential.lock().expect("renew does not panic");
        if Arc::ptr_eq(&credential, refused) {
            *credential = Arc::new((self.renew)()?);
        }
        Ok(credential.clone())
    }
}

impl<R: Runtime> Server<R> {
    /// A daemon reached at the first of these endpoints that answers.
    pub fn new(name: impl Into<String>, endpoints: Vec<Endpoint>) -> Self {
        let lanes = Mutex::new(Lanes::default());
        let (map_version, generation) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { name: name.into(), endpoints, lanes, map_version, generation }
    }

    /// Its name in the cluster file.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may be reached over a socket of this node.
    pub fn is_on_this_node(&self) -> bool {
        matches!(self.endpoints.first(), Some(Endpoint::Unix { .. }))
    }

    /// The file system's generation, as a manager's last welcome said; 0 before the first.
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Whether nothing that was given up can still happen there; if so, the next call waits until it cannot.
    pub fn is_whole(&self) -> bool {
        self.lock().is_whole()
    }

    /// Closes all idle lanes; those in use close when their calls end in error or are given back.
    pub fn disconnect(&self) {
        let lanes = &mut *self.lock();
        lanes.unheard.extend(lanes.idle.iter().flat_map(|(_, lane)| lane.unheard()));
        lanes.idle.clear();
        lanes.pipes.iter().for_each(|pipe| pipe.break_off());
        lanes.is_whole();
    }

    /// The marks of what was posted ([`Caller::post`]) and may not have arrived: the connection ended first.
    pub fn take_unheard(&self) -> Vec<u64> {
        std::mem::take(&mut self.lock().unheard)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lanes<R::Stream>> {
        self.lanes.lock().expect("no code panics while it holds the lanes")
    }
}

impl<R: Runtime> Caller<R> {
    /// A new client process with a random identity.
    pub fn new(runtime: R, fsid: u32, software: impl Into<String>, data_checksum: bool) -> Self {
        let client = runtime.random();
        Self {
            runtime,
            client,
            fsid,
            software: software.into(),
            data_checksum,
            tls: None,
            sequences: Mutex::new(Sequences::default()),
            leases_lost: AtomicU64::new(0),
        }
    }

    /// Speaks TLS with daemons that it reaches over a network; what that takes is asked for each connection.
    #[must_use]
    pub fn over_tls(self, tls: Option<Box<Connect>>) -> Self {
        Self { tls, ..self }
    }

    /// Its identity.
    pub fn client(&self) -> u64 {
        self.client
    }

    /// How often a daemon said that it no longer holds this client's opens and locks.
    pub fn leases_lost(&self) -> u64 {
        self.leases_lost.load(Ordering::Relaxed)
    }

    /// Opens and locks are lost that a client before this one held, in whose stead this one is.
    pub fn note_lease_lost(&self) {
        self.leases_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Asks, and returns the reply record.
    pub async fn call<O: Operation>(
        &self,
        server: &Server<R>,
        principal: &Principal,
        request: &O,
        patience: Patience,
    ) -> Result<O::Reply, CallError> {
        let told = self.call_told(server, principal, request, patience).await?;
        told.outcome.map_err(CallError::from)
    }

    /// Asks, and returns what the daemon said, be it a refusal, and for how long that may be cached.
    pub async fn call_told<O: Operation>(
        &self,
        server: &Server<R>,
        principal: &Principal,
        request: &O,
        patience: Patience,
    ) -> Result<Told<O::Reply>, CallError> {
        self.ask(&Call::new::<O>(server, principal, Sequence::default(), patience), request).await
    }

    /// The like for many at once, whose requests and replies are short: those that move `together` share a connection.
    pub async fn call_pipelined<O: Operation>(
        &self,
        server: &Server<R>,
        principal: &Principal,
        request: &O,
        Pipelined { patience, together }: Pipelined,
    ) -> Result<O::Reply, CallError> {
        let call = Call::new::<O>(server, principal, Sequence::default(), patience);
        let call = Call { mover: Mover::Queue, together: Some(together), ..call };
        self.ask(&call, request).await?.outcome.map_err(CallError::from)
    }

    /// Sends a request of which a repetition changes nothing, and waits for no reply: there is none. False when there was no
    /// idle connection for it, or that broke; then it has to be asked for. Should it turn out later that it may not have
    /// arrived, [`Server::take_unheard`] has its mark.
    pub async fn post<O: Operation>(
        &self,
        server: &Server<R>,
        principal: &Principal,
        request: &O,
        mark: u64,
        patience: Patience,
    ) -> bool {
        let call = Call::new::<O>(server, principal, Sequence::default(), patience);
        let deadline = self.runtime.now().after(patience.timeout);
        let body = request.to_bytes();
        let posted = pin!(self.try_post(&call, deadline, &body, mark));
        matches!(before(&self.runtime, deadline, posted).await, Some(Ok(true)))
    }

    async fn try_post(
        &self,
        call: &Call<'_, R>,
        deadline: Instant,
        body: &[u8],
        mark: u64,
    ) -> Result<bool, Trouble> {
        let Some(mut lease) = call.server.lease_to_post() else { return Ok(false) };
        let (session, _) = self.enter(call, &mut lease).await?;
        let header = self.header(call, session, deadline);
        let outgoing = Outgoing { header, body, data: &[], data_checksum: false, lent: None };
        let lane = lease.lane.as_mut().expect(LEASED);
        lane.post(&self.runtime, &outgoing, mark).await.map_err(Trouble::Lane)?;
        lease.healthy = true;
        Ok(true)
    }

    async fn ask<O: Operation>(
        &self,
        call: &Call<'_, R>,
        request: &O,
    ) -> Result<Told<O::Reply>, CallError> {
        let (body, server) = (request.to_bytes(), call.server);
        let slot = self.begin_change::<O>(call.mover).await;
        let sequence = slot.as_ref().map_or(Sequence::default(), |slot| slot.sequence);
        let call = Call { sequence, ..*call };
        let deadline = self.runtime.now().after(call.patience.timeout);
        let reply =
            self.repeat_told(&call, deadline, |_| body.clone(), &mut Data::default()).await?;
        drop(slot);
        let leased_ms = reply.header.timeout_ms;
        match reply.header.status {
            OK => Ok(Told { outcome: Ok(decoded::<O>(server, reply)?), leased_ms }),
            status => Ok(Told { outcome: Err(status), leased_ms }),
        }
    }

    /// The like as [`Self::transfer`] for many small ones at once: those that move `together` share a connection to
    /// each daemon and do not wait for one another. What has more than 64 KiB of data goes as ever; requests
    /// themselves must be short.
    pub async fn transfer_pipelined<O: Operation>(
        &self,
        server: &Server<R>,
        principal: &Principal,
        shown: &Shown,
        make: impl Fn(Access) -> O,
        data: &mut Data<'_, '_>,
        Pipelined { patience, together }: Pipelined,
    ) -> Result<Moved<O::Reply>, CallError> {
        let call = Call::new::<O>(server, principal, Sequence::default(), patience);
        let together = (data.lent.is_none() && data.fits_a_pipe()).then_some(together);
        let (reply_bytes, mover) = (REPLY_BYTES_WITH_DATA, Mover::Queue);
        let call = Call { reply_bytes, mover, shown: Some(shown), together, ..call };
        self.transfer_by(&call, make, data).await
    }

    /// Moves file data under a capability. `make` builds the request around the access it is given.
    pub async fn transfer<O: Operation>(
        &self,
        server: &Server<R>,
        principal: &Principal,
        shown: &Shown,
        make: impl Fn(Access) -> O,
        data: &mut Data<'_, '_>,
        patience: Patience,
    ) -> Result<Moved<O::Reply>, CallError> {
        let call = Call::new::<O>(server, principal, Sequence::default(), patience);
        let call = Call { reply_bytes: REPLY_BYTES_WITH_DATA, shown: Some(shown), ..call };
        self.transfer_by(&call, make, data).await
    }

    async fn transfer_by<O: Operation>(
        &self,
        call: &Call<'_, R>,
        make: impl Fn(Access) -> O,
        data: &mut Data<'_, '_>,
    ) -> Result<Moved<O::Reply>, CallError> {
        let number = call.shown.map_or(0, |shown| shown.number);
        let build = |token| make(Access { number, token }).to_bytes();
        let deadline = self.runtime.now().after(call.patience.timeout);
        loop {
            match self.repeat(call, deadline, build, data).await {
                // The daemon has dropped it from its table; the lane will show it again.
                Err(CallError::Status(Errno::ENOKEY)) if self.runtime.now() < deadline => {}
                // Too much waits there already. It said so at once, so that we do not wait in vain.
                Err(CallError::Status(Errno::EAGAIN)) if self.runtime.now() < deadline => {
                    sleep_until(&self.runtime, self.runtime.now().after(PAUSE_BUSY)).await;
                }
                reply => {
                    let mut incoming = reply?;
                    let (bytes, boot) = (incoming.header.data_bytes as usize, incoming.boot);
                    let files = std::mem::take(&mut incoming.files);
                    return Ok(Moved {
                        reply: decoded::<O>(call.server, incoming)?,
                        bytes,
                        boot,
                        files,
                    });
                }
            }
        }
    }

    /// The like of [`Self::repeat_told`], where a refusal is a failure.
    async fn repeat(
        &self,
        call: &Call<'_, R>,
        deadline: Instant,
        build: impl Fn(Option<Bytes>) -> Vec<u8>,
        data: &mut Data<'_, '_>,
    ) -> Result<Incoming, CallError> {
        let incoming = self.repeat_told(call, deadline, build, data).await?;
        let status = incoming.header.status;
        if status == OK { Ok(incoming) } else { Err(status.into()) }
    }

    /// Repeats an exchange on one lane after the other until it has a reply or its time is over.
    async fn repeat_told(
        &self,
        call: &Call<'_, R>,
        deadline: Instant,
        build: impl Fn(Option<Bytes>) -> Vec<u8>,
        data: &mut Data<'_, '_>,
    ) -> Result<Incoming, CallError> {
        let mut last = String::from("connecting");
        let mut pause = PAUSE_FIRST;
        let mut sent = SentUnder::default();
        loop {
            let attempt = pin!(self.attempt(call, deadline, &mut sent, &build, data));
            match before(&self.runtime, deadline, attempt).await {
                Some(Ok(incoming)) => return Ok(incoming),
                Some(Err(Trouble::Final(error))) => return Err(error),
                Some(Err(Trouble::Lane(error))) => last = error.to_string(),
                Some(Err(Trouble::Connect(error))) if call.patience.insist => {
                    last = error.to_string()
                }
                Some(Err(Trouble::Connect(error))) => return Err(unreachable(call.server, &error)),
                None => return Err(timeout(call, last)),
            }
            let until = self.runtime.now().after(pause);
            if until >= deadline {
                return Err(timeout(call, last));
            }
            sleep_until(&self.runtime, until).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn attempt(
        &self,
        call: &Call<'_, R>,
        deadline: Instant,
        sent: &mut SentUnder,
        build: impl Fn(Option<Bytes>) -> Vec<u8>,
        data: &mut Data<'_, '_>,
    ) -> Result<Incoming, Trouble> {
        if let Some(together) = call.together
            && let Some(incoming) =
                self.attempt_pipelined(call, deadline, sent, together, &build, data).await?
        {
            return Ok(incoming);
        }
        let mut lease = self.lane(call.server, call.mover).await?;
        let (session, credential) = self.enter(call, &mut lease).await?;
        if let Err(error) = self.note_sent(call, sent) {
            lease.healthy = true;
            return Err(error);
        }
        let lane = lease.lane.as_mut().expect(LEASED);
        let token = call.shown.and_then(|shown| match data.lent {
            // It may be that the daemon is never sent this request.
            Some(_) => Some(shown.token.clone()),
            None => lane.show(shown.number, shown.version, &shown.token),
        });
        let body = build(token);
        let header = self.header(call, session, deadline);
        let data_checksum = self.data_checksum;
        let lent = data.lent;
        let outgoing = Outgoing { header, body: &body, data: data.out, data_checksum, lent };
        let exchange = lane.exchange(&self.runtime, &outgoing, call.reply_bytes, data.into);
        let incoming = exchange.await.map_err(Trouble::Lane)?;
        if incoming.header.status == Errno::ENOKEY {
            lane.forget_shown();
        }
        if incoming.header.status == Errno::EKEYREVOKED {
            lane.forget_session(call.principal.key);
            lease.healthy = true;
            let _ = call.principal.instead_of(&credential);
            return Err(Trouble::Lane(LaneError::Refused(Errno::EKEYREVOKED)));
        }
        lease.healthy = true;
        Ok(incoming)
    }

    /// The number of the principal's session on a leased lane, and what it was introduced with.
    async fn enter(
        &self,
        call: &Call<'_, R>,
        lease: &mut Lease<'_, R>,
    ) -> Result<(u32, Arc<Credential>), Trouble> {
        let credential = call
            .principal
            .credential(self.runtime.wall_s())
            .map_err(|errno| Trouble::Final(CallError::Status(errno)))?;
        let lane = lease.lane.as_mut().expect(LEASED);
        let introduced = self.introduce(call, lane, &credential).await;
        if let Err(Trouble::Lane(LaneError::Refused(_))) = introduced {
            lease.healthy = true;
        }
        Ok((introduced?, credential))
    }

    /// What a request of this call begins with; the connection adds what it knows.
    fn header(&self, call: &Call<'_, R>, session: u32, deadline: Instant) -> Header {
        Header {
            session,
            sequence: call.sequence,
            timeout_ms: remaining_ms(&self.runtime, deadline),
            map_version: call.server.map_version.load(Ordering::Relaxed),
            ..Header::request(call.operation, 0)
        }
    }

    /// Notes under which lease a change goes out. EIO for one that went out under another: the reply records went with
    /// that lease, so that a repetition might run twice.
    fn note_sent(&self, call: &Call<'_, R>, sent: &mut SentUnder) -> Result<(), Trouble> {
        let present = self.leases_lost();
        let first = *sent.0.get_or_insert(present);
        match call.sequence.is_change() && first != present {
            true => Err(Trouble::Final(CallError::Status(Errno::EIO))),
            false => Ok(()),
        }
    }

    /// The number of the principal's session on a lane.
    async fn introduce(
        &self,
        call: &Call<'_, R>,
        lane: &mut Lane<R::Stream>,
        credential: &Arc<Credential>,
    ) -> Result<u32, Trouble> {
        match lane.session(call.principal.key, credential) {
            Some(number) => Ok(number),
            None => Box::pin(self.introduce_anew(call, lane, credential)).await,
        }
    }

    async fn introduce_anew(
        &self,
        call: &Call<'_, R>,
        lane: &mut Lane<R::Stream>,
        credential: &Arc<Credential>,
    ) -> Result<u32, Trouble> {
        let key = call.principal.key;
        let mut introduced = lane.introduce(&self.runtime, key, credential).await;
        if let Err(LaneError::Refused(errno)) = introduced
            && CREDENTIAL_REFUSED.contains(&errno)
        {
            // Its key was rolled out, or it was denied: its owner may well get another one.
            let fresh = call.principal.instead_of(credential);
            let fresh = fresh.map_err(|errno| Trouble::Final(CallError::Status(errno)))?;
            introduced = lane.introduce(&self.runtime, key, &fresh).await;
        }
        introduced.map_err(|error| match error {
            // What was issued in the second of a denial is denied too: the next one will do.
            LaneError::Refused(Errno::EKEYREVOKED) => Trouble::Lane(error),
            error => refusal(call.server, error),
        })
    }

    /// A lane for one exchange. Broken ones are reconnected first, all of them: see the module's head.
    async fn lane<'a>(&self, server: &'a Server<R>, mover: Mover) -> Result<Lease<'a, R>, Trouble> {
        loop {
            let mut lease = server.lease(mover, &self.runtime).await;
            if lease.lane.is_some() {
                return Ok(lease);
            }
            // In a box as all that is seldom, so that it takes no room in every call's future.
            lease.lane = Some(Box::pin(self.connect(server, lease.id)).await?);
            if server.lock().is_whole() {
                return Ok(lease);
            }
            lease.healthy = true;
        }
    }

    async fn connect(
        &self,
        server: &Server<R>,
        id: LaneId,
    ) -> Result<Box<Lane<R::Stream>>, Trouble> {
        let hello = self.hello(id);
        let mut last = Trouble::Connect(LaneError::Broken(std::io::ErrorKind::NotFound.into()));
        for endpoint in &server.endpoints {
            let tls = self.tls.as_ref().filter(|_| endpoint.host().is_some()).map(|tls| tls());
            let opened = match self.runtime.connect(endpoint, tls.as_ref()) {
                Ok(stream) => Lane::open(&self.runtime, stream, &hello).await,
                Err(error) => Err(error.into()),
            };
            match opened {
                Ok(lane) => {
                    self.note_welcome(server, &lane);
                    return Ok(Box::new(lane));
                }
                Err(error @ LaneError::Broken(_)) => last = Trouble::Connect(error),
                Err(error) => return Err(refusal(server, error)),
            }
        }
        Err(last)
    }

    fn note_welcome(&self, server: &Server<R>, lane: &Lane<R::Stream>) {
        server.map_version.store(lane.welcome().map_version, Ordering::Relaxed);
        server.generation.store(lane.welcome().generation, Ordering::Relaxed);
        if !lane.welcome().lease_kept {
            self.note_lease_lost();
        }
    }

    fn hello(&self, id: LaneId) -> Hello {
        let mut nonce = [0; 32];
        nonce
            .chunks_mut(8)
            .for_each(|part| part.copy_from_slice(&self.runtime.random().to_le_bytes()));
        Hello {
            version_min: VERSION,
            version_max: VERSION,
            client: self.client,
            lane: id.index,
            incarnation: id.incarnation,
            fsid: self.fsid,
            nonce,
            software: self.software.clone(),
        }
    }

    async fn begin_change<O: Operation>(&self, mover: Mover) -> Option<ChangeSlot<'_>> {
        if O::EFFECT != Effect::Change {
            return None;
        }
        Some(ChangeSlot::take(&self.sequences, mover, &self.runtime).await)
    }
}

/// What stays the same through all repetitions of a call.
struct Call<'a, R: Runtime> {
    server: &'a Server<R>,
    principal: &'a Principal,
    sequence: Sequence,
    patience: Patience,
    operation: u16,
    reply_bytes: usize,
    /// Whether it may change something.
    changes: bool,
    /// The capability that it goes by.
    shown: Option<&'a Shown>,
    /// Who moves it.
    mover: Mover,
    /// With whom it shares a pipe, if it goes over one.
    together: Option<Together>,
}

impl<'a, R: Runtime> Call<'a, R> {
    fn new<O: Operation>(
        server: &'a Server<R>,
        principal: &'a Principal,
        sequence: Sequence,
        patience: Patience,
    ) -> Self {
        let (operation, changes) = (O::CODE, O::EFFECT != Effect::Query);
        let (reply_bytes, shown, mover, together) = (0, None, Mover::Waiter, None);
        Self {
            server,
            principal,
            sequence,
            patience,
            operation,
            reply_bytes,
            changes,
            shown,
            mover,
            together,
        }
    }
}

/// How many leases this client had lost when a call was first sent; nothing before. That is asked of the client and not of
/// the connection that a repetition goes over: only the first connections after a loss are told of it.
#[derive(Default)]
struct SentUnder(Option<u64>);

/// The time left, as a header tells it.
fn remaining_ms(runtime: &impl Runtime, deadline: Instant) -> u32 {
    let left = runtime.now_about().until(deadline);
    u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1)
}

enum Trouble {
    Connect(LaneError),
    Lane(LaneError),
    Final(CallError),
}

fn decoded<O: Operation>(
    server: &Server<impl Runtime>,
    incoming: Incoming,
) -> Result<O::Reply, CallError> {
    O::Reply::from_bytes(&incoming.body).map_err(|error| CallError::Refused {
        server: server.name.clone(),
        reason: format!("its answer to {} was not understood: {error}", O::NAME),
    })
}

fn refusal(server: &Server<impl Runtime>, error: LaneError) -> Trouble {
    let reason = match error {
        LaneError::Broken(_) => return Trouble::Lane(error),
        LaneError::Tls(fault) => {
            let server = server.name.clone();
            return Trouble::Final(CallError::Untrusted { server, fault });
        }
        LaneError::Malformed(error) => error.to_string(),
        LaneError::Impostor => LaneError::Impostor.to_string(),
        LaneError::Refused(errno) => refusal_reason(errno),
    };
    Trouble::Final(CallError::Refused { server: server.name.clone(), reason })
}

fn refusal_reason(errno: Errno) -> String {
    match errno {
        Errno::EKEYREJECTED => "the session was not signed with its key; is the key file the same \
                                on every node?"
            .into(),
        Errno::EKEYEXPIRED => "the session expired; check that the clocks agree within 60 s".into(),
        Errno::EKEYREVOKED => "the session was denied by an administrator (pvfs deny)".into(),
        Errno::EPROTO => {
            "it speaks another version of the protocol; install matching versions".into()
        }
        Errno::ENODEV => "it serves another file system; check the id in the cluster file".into(),
        Errno::EACCES => {
            "this address or user may not connect; check [security] networks, or wait \
                          for a lockout to end: a minute after ten bad tokens, longer after more"
                .into()
        }
        other => other.to_string(),
    }
}

fn unreachable(server: &Server<impl Runtime>, error: &LaneError) -> CallError {
    CallError::Unreachable { server: server.name.clone(), reason: error.to_string() }
}

fn timeout(call: &Call<'_, impl Runtime>, last: String) -> CallError {
    let waited_ms = call.patience.timeout.as_millis() as u64;
    CallError::Timeout { server: call.server.name.clone(), waited_ms, last }
}

const LEASED: &str = "a lease holds a lane until it is dropped";

static PRINCIPALS: AtomicU64 = AtomicU64::new(1);

/// The reply record of every transfer is one `u64` (the local size) or nothing.
const REPLY_BYTES_WITH_DATA: usize = 8;

/// What a daemon says of a credential that it does not believe, or not any more.
const CREDENTIAL_REFUSED: [Errno; 3] =
    [Errno::EKEYREJECTED, Errno::EKEYREVOKED, Errno::EKEYEXPIRED];

/// A session is renewed this long before it expires.
const RENEWED_BEFORE_S: u64 = 120;

/// Before asking a busy daemon again.
const PAUSE_BUSY: Duration = Duration::from_millis(5);

const PAUSE_FIRST: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);
