//! One connection of a client to a daemon: handshake, then one exchange at a time.
//!
//! A reply's data is received straight into the caller's memory: the pieces follow the fixed-size head in
//! the same `recvmsg`, so a small read costs one send and one receive.

use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use pvfs_wire::header::{checksum, checksum_pieces};
use pvfs_wire::ops::{Auth, Hello, Lend, Welcome, Written};
use pvfs_wire::token::{Code, Credential, client_proof, same_code, server_proof};
use pvfs_wire::{Bytes, DecodeError, Errno, HEADER_BYTES, Header, OK, Operation, Wire};

use crate::loan::Loan;
use crate::runtime::{Instant, Interest, Runtime, ready};
use crate::shared_buffers::SharedBuffers;
use crate::stream::Stream;
use crate::tls::{self, TlsFault};
use crate::tray::Tray;

/// A connection that has said hello.
pub struct Lane<S> {
    stream: S,
    nonce: Code,
    welcome: Welcome,
    tag: u64,
    sessions: HashMap<u64, AuthedSession>,
    shown: HashMap<u32, u64>,
    /// Whether descriptors may come with the reply under way, and those that came.
    lends: bool,
    files: Vec<OwnedFd>,
    /// Where data go that need not be sent; made when first of use.
    tray: Option<Tray>,
    /// Whether the request under way was left on the tray for the daemon.
    is_left: bool,
    /// When the daemon was last seen to be there.
    attended: Option<Instant>,
    /// The buffers of this process that the daemon was given.
    buffers: Option<Arc<SharedBuffers>>,
    /// Of what was posted since a reply was last heard: it may not have arrived.
    unheard: Vec<u64>,
}

/// Which of the client's connections this is, for the daemon to tell stale ones.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LaneId {
    /// Position among the client's lanes to this daemon.
    pub index: u32,
    /// Grows with each connection of that position.
    pub incarnation: u64,
}

/// Why an exchange did not end with a reply. The lane is of no further use.
#[derive(Debug, thiserror::Error)]
pub enum LaneError {
    /// The connection broke, or never came to be.
    #[error("connection lost: {0}")]
    Broken(io::Error),
    /// The two ends do not get on over TLS, or only one of them speaks it.
    #[error("{0}")]
    Tls(#[from] TlsFault),
    /// The peer does not speak as agreed.
    #[error("{0}")]
    Malformed(#[from] DecodeError),
    /// The daemon refused the handshake.
    #[error("refused: {0}")]
    Refused(Errno),
    /// The daemon could not prove that it holds the cluster key.
    #[error("the daemon does not hold this cluster's key; is the key file the same on every node?")]
    Impostor,
}

impl From<io::Error> for LaneError {
    fn from(error: io::Error) -> Self {
        TlsFault::of(&error).map_or(Self::Broken(error), Self::Tls)
    }
}

/// A request on its way out.
pub struct Outgoing<'a> {
    /// Operation, session, sequence and timeout; the lane fills in the rest.
    pub header: Header,
    /// The operation's record.
    pub body: &'a [u8],
    /// File data, in pieces.
    pub data: &'a [&'a [u8]],
    /// Whether the data is protected by a checksum.
    pub data_checksum: bool,
    /// Where the data may be written without asking.
    pub lent: Option<LentRange<'a>>,
}

/// The range of an object on loan that a request writes.
#[derive(Clone, Copy, Debug)]
pub struct LentRange<'a> {
    /// The object.
    pub loan: &'a Loan,
    /// Where the range begins.
    pub local: u64,
    /// Where the data may lie so that the daemon sees them.
    pub buffers: Option<&'a Arc<SharedBuffers>>,
}

/// A reply that arrived; its data is already where it belongs.
pub struct Incoming {
    /// Status and lengths.
    pub header: Header,
    /// The reply record.
    pub body: Vec<u8>,
    /// The daemon's boot, as it was welcomed with ([`Welcome::boot`]).
    pub boot: u64,
    /// Descriptors that came with it.
    pub files: Vec<OwnedFd>,
}

#[derive(Clone, Copy)]
struct AuthedSession {
    number: u32,
    expiry: u64,
}

impl<S: Stream> Lane<S> {
    /// Says hello on a fresh stream.
    pub async fn open<R: Runtime<Stream = S>>(
        runtime: &R,
        stream: S,
        hello: &Hello,
    ) -> Result<Self, LaneError> {
        let mut lane = Self {
            stream,
            nonce: hello.nonce,
            welcome: nobody_yet(),
            tag: 0,
            sessions: HashMap::new(),
            shown: HashMap::new(),
            lends: false,
            files: Vec::new(),
            tray: None,
            is_left: false,
            attended: None,
            buffers: None,
            unheard: Vec::new(),
        };
        ready(runtime, &lane.stream, Interest::Writable).await;
        while let Some(interest) = lane.stream.handshake()? {
            ready(runtime, &lane.stream, interest).await;
        }
        lane.welcome = lane.ask(runtime, hello).await?;
        Ok(lane)
    }

    /// The connection, and the tag of its last request.
    pub(crate) fn into_stream(self) -> (S, u64) {
        (self.stream, self.tag)
    }

    /// What the daemon said of itself.
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// The number of a session that was introduced on this lane. `key` names the session in this process.
    pub fn session(&self, key: u64, credential: &Credential) -> Option<u32> {
        let known = self.sessions.get(&key).filter(|known| known.expiry == credential.expiry);
        known.map(|known| known.number)
    }

    /// Introduces a session on this lane; returns its number here.
    pub async fn introduce<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        key: u64,
        credential: &Credential,
    ) -> Result<u32, LaneError> {
        let (client, server) = (self.nonce, self.welcome.nonce);
        let proof = client_proof(&credential.secret, &client, &server);
        let authed = self.ask(runtime, &Auth { token: credential.token.clone(), proof }).await?;
        if !same_code(&authed.proof, &server_proof(&credential.secret, &client, &server)) {
            return Err(LaneError::Impostor);
        }
        let session = AuthedSession { number: authed.session, expiry: credential.expiry };
        self.sessions.insert(key, session);
        Ok(authed.session)
    }

    /// A session that the daemon does not know any more has to be introduced again.
    pub fn forget_session(&mut self, key: u64) {
        self.sessions.remove(&key);
    }

    /// The token to send along, when this version of the capability was not yet shown here.
    pub fn show(&mut self, number: u32, version: u64, token: &Bytes) -> Option<Bytes> {
        let news = self.shown.insert(number, version) != Some(version);
        news.then(|| token.clone())
    }

    /// The daemon has forgotten some capability: shows all of them again.
    pub fn forget_shown(&mut self) {
        self.shown.clear();
    }

    /// Sends a request and waits for its reply. `into` takes the reply's data, in order.
    pub async fn exchange<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        outgoing: &Outgoing<'_>,
        reply_body_bytes: usize,
        into: &mut [&mut [u8]],
    ) -> Result<Incoming, LaneError> {
        self.tag += 1;
        self.lends = outgoing.header.operation == Lend::CODE;
        if let Some(local_end) = self.write_lent(runtime, outgoing) {
            self.take_back()?;
            return Ok(self.written(outgoing, local_end));
        }
        self.send(runtime, outgoing).await?;
        let incoming = self.receive(runtime, reply_body_bytes, into).await?;
        self.take_back()?;
        if incoming.header.tag != self.tag || incoming.header.operation != outgoing.header.operation
        {
            return Err(DecodeError::Value.into());
        }
        // Requests of a connection are taken up in their order.
        self.unheard.clear();
        Ok(incoming)
    }

    /// Sends a request that gets no reply. `mark` tells which it was, should the connection end before anything is
    /// heard from the other end.
    pub async fn post<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        outgoing: &Outgoing<'_>,
        mark: u64,
    ) -> Result<(), LaneError> {
        self.tag += 1;
        self.unheard.push(mark);
        let header = Header { unanswered: true, ..outgoing.header };
        self.send(runtime, &Outgoing { header, ..*outgoing }).await
    }

    /// Whether one more request may be outstanding beside those posted, and the exchange that follows them.
    pub fn may_post(&self) -> bool {
        let posted_max = POSTED_MAX.min(usize::from(self.welcome.requests_max) / 2);
        self.unheard.len() < posted_max
    }

    /// The marks of what was posted and not heard of.
    pub fn unheard(&self) -> &[u64] {
        &self.unheard
    }

    async fn ask<R: Runtime<Stream = S>, O: Operation>(
        &mut self,
        runtime: &R,
        request: &O,
    ) -> Result<O::Reply, LaneError> {
        let body = request.to_bytes();
        let header = Header::request(O::CODE, 0);
        let outgoing =
            Outgoing { header, body: &body, data: &[], data_checksum: false, lent: None };
        let incoming = self.exchange(runtime, &outgoing, 0, &mut []).await?;
        match incoming.header.status {
            OK => Ok(O::Reply::from_bytes(&incoming.body)?),
            status => Err(LaneError::Refused(status)),
        }
    }

    /// Writes the data of a request to the object itself, where it is on loan, and returns where they end. The request
    /// is left on the tray meanwhile: a daemon whose client is killed in the middle of it carries it out. `None` when the
    /// request has to be sent; it stays there until the reply, for part of it may have been done.
    fn write_lent<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        outgoing: &Outgoing<'_>,
    ) -> Option<u64> {
        let LentRange { loan, local, buffers } = outgoing.lent?;
        let (bytes, now) = (outgoing.data.iter().map(|piece| piece.len()).sum(), runtime.now());
        if !Tray::holds(bytes) || !loan.is_good(now) {
            return None;
        }
        if !self.is_attended(runtime) {
            loan.spoil();
            return None;
        }
        // A daemon that does not have the tray yet would not find the request there, nor data in buffers that it does
        // not have.
        let tray = self.tray.as_mut().filter(|tray| tray.file().is_none())?;
        if self.buffers.is_none() && buffers.is_some_and(|buffers| buffers.file().is_some()) {
            return None;
        }
        let header = Header { shared_data: true, ..finished(outgoing, self.tag, false) };
        let message = [&header.encode()[..], outgoing.body];
        // This process may have been stopped in the middle.
        let if_still_good = |()| loan.is_good(runtime.now()).then_some(local + bytes as u64);
        let places = self.buffers.as_ref().and_then(|buffers| buffers.places(outgoing.data));
        if places.is_some_and(|places| tray.leave(now, message, &places)) {
            self.is_left = true;
            let written = loan.write_whole(local, outgoing.data, now).and_then(if_still_good);
            if written.is_none() {
                // The buffers are somebody else's when this is given up, the tray is nobody's.
                tray.put(outgoing.data);
                tray.data_are_here();
            }
            return written;
        }
        tray.put(outgoing.data);
        self.is_left = tray.leave(now, message, &[]);
        let written = self.is_left.then(|| loan.write_whole(local, &[tray.data(bytes)], now));
        written.flatten().and_then(if_still_good)
    }

    /// Whether the daemon is still at the other end, between two exchanges: one that was restarted finds nothing that
    /// is left on this lane. Looked at once in each step of the clock.
    fn is_attended<R: Runtime<Stream = S>>(&mut self, runtime: &R) -> bool {
        let now = runtime.now_about();
        if self.attended == Some(now) {
            return true;
        }
        let mut byte = [0];
        let received =
            self.stream.receive_files(&mut [IoSliceMut::new(&mut byte)], &mut Vec::new());
        let is_attended = received.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        self.attended = is_attended.then_some(now);
        is_attended
    }

    /// The request is done; nobody need do it again.
    fn take_back(&mut self) -> Result<(), LaneError> {
        let is_ours = match &mut self.tray {
            Some(tray) if std::mem::take(&mut self.is_left) => tray.take_back(),
            _ => true,
        };
        // The connection has ended, and the daemon takes us for dead. What is to come waits until it is done with that.
        is_ours.then_some(()).ok_or_else(|| io::Error::from(ErrorKind::ConnectionAborted).into())
    }

    /// What the daemon would have answered; of the object's size, what this write made sure of.
    fn written(&self, outgoing: &Outgoing<'_>, local_end: u64) -> Incoming {
        Incoming {
            header: outgoing.header.reply(OK),
            body: Written { local_size: local_end }.to_bytes(),
            boot: outgoing.lent.map_or(self.welcome.boot, |lent| lent.loan.boot),
            files: Vec::new(),
        }
    }

    async fn send<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        outgoing: &Outgoing<'_>,
    ) -> Result<(), LaneError> {
        let protect = outgoing.data_checksum && !self.stream.is_protected();
        let shared_data = self.put_on_tray(outgoing.data, outgoing.lent.is_some());
        let header = Header { shared_data, ..finished(outgoing, self.tag, protect) }.encode();
        let data = if shared_data { &[] } else { outgoing.data };
        let pieces = [&header[..], outgoing.body].into_iter().chain(data.iter().copied());
        let mut slices: Vec<IoSlice<'_>> = pieces.map(IoSlice::new).collect();
        let mut rest = &mut slices[..];
        if shared_data {
            let buffers = outgoing.lent.and_then(|lent| lent.buffers);
            let sent = self.send_memory(runtime, buffers, &header).await?;
            IoSlice::advance_slices(&mut rest, sent);
        }
        while !rest.is_empty() {
            match self.stream.send(&rest[..rest.len().min(SLICES_MAX)]) {
                Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready(runtime, &self.stream, Interest::Writable).await;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether the data are where the daemon sees them, so that they need not be sent. `is_lent` when it should have the
    /// tray even if they are short.
    fn put_on_tray(&mut self, data: &[&[u8]], is_lent: bool) -> bool {
        let bytes = data.iter().map(|piece| piece.len()).sum();
        let suits = Tray::suits(bytes) || is_lent && Tray::holds(bytes);
        if !suits || !self.stream.carries_files() {
            return false;
        }
        if self.tray.is_none() {
            // Without memory or descriptors to spare, data are sent as ever.
            self.tray = Tray::new().ok();
        }
        let Some(tray) = &mut self.tray else { return false };
        tray.put(data);
        true
    }

    /// Gives the daemon the tray and the buffers, with the beginning of the message, unless it has them already. Returns
    /// how much it sent of that.
    async fn send_memory<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        buffers: Option<&Arc<SharedBuffers>>,
        beginning: &[u8],
    ) -> Result<usize, LaneError> {
        let Some(tray) = &mut self.tray else { return Ok(0) };
        let buffers = buffers.filter(|_| self.buffers.is_none());
        let shown = buffers.and_then(|buffers| buffers.file());
        let files = [tray.file().map(AsFd::as_fd), shown];
        let files: Vec<BorrowedFd<'_>> = files.into_iter().flatten().collect();
        if files.is_empty() {
            return Ok(0);
        }
        loop {
            match self.stream.send_files(&[IoSlice::new(beginning)], &files) {
                Ok(sent) => {
                    tray.handed_over();
                    let given = shown.and(buffers).cloned();
                    self.buffers = self.buffers.take().or(given);
                    return Ok(sent);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    ready(runtime, &self.stream, Interest::Writable).await;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn receive<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        reply_body_bytes: usize,
        into: &mut [&mut [u8]],
    ) -> Result<Incoming, LaneError> {
        let mut head = [0; HEAD_BYTES];
        // With data to follow, the head must end exactly where the data begins.
        let head_bytes = if into.is_empty() { HEAD_BYTES } else { HEADER_BYTES + reply_body_bytes };
        let mut got = 0;
        while got < HEADER_BYTES {
            match self.fill(runtime, &mut head[got..head_bytes], into).await {
                Ok(bytes) => got += bytes,
                Err(LaneError::Broken(_)) if tls::is_alert(&head[..got]) => {
                    return Err(TlsFault::Unwanted.into());
                }
                Err(error) => return Err(error),
            }
        }
        let header = Header::decode(head[..HEADER_BYTES].try_into().expect("64 bytes"))?;
        if into.is_empty() {
            let body = self.rest_of_body(runtime, header, &head[HEADER_BYTES..got]).await?;
            return Ok(self.incoming(header, body));
        }
        let total = expected_total(header, head_bytes, into)?;
        while got < total {
            self.stream.expect(total - got);
            got += self.fill_from(runtime, got, &mut head[..head_bytes], into).await?;
        }
        self.stream.expect(1);
        let body = head[HEADER_BYTES..HEADER_BYTES + header.body_bytes as usize].to_vec();
        header.check_body(&body)?;
        check_data(header, into)?;
        Ok(self.incoming(header, body))
    }

    fn incoming(&mut self, header: Header, body: Vec<u8>) -> Incoming {
        Incoming { header, body, boot: self.welcome.boot, files: std::mem::take(&mut self.files) }
    }

    /// The body of a reply without data, of which `first` has already arrived.
    async fn rest_of_body<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        header: Header,
        first: &[u8],
    ) -> Result<Vec<u8>, LaneError> {
        let bytes = header.body_bytes as usize;
        if header.data_bytes != 0 || first.len() > bytes {
            return Err(DecodeError::TooLong.into());
        }
        let mut body = vec![0; bytes];
        body[..first.len()].copy_from_slice(first);
        let mut got = first.len();
        while got < bytes {
            got += self.fill(runtime, &mut body[got..], &mut []).await?;
        }
        header.check_body(&body)?;
        Ok(body)
    }

    async fn fill_from<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        got: usize,
        head: &mut [u8],
        into: &mut [&mut [u8]],
    ) -> Result<usize, LaneError> {
        let head_bytes = head.len();
        if got < head_bytes {
            return self.fill(runtime, &mut head[got..], into).await;
        }
        let mut skip = got - head_bytes;
        let first = into.iter().position(|piece| {
            let inside = skip < piece.len();
            if !inside {
                skip -= piece.len();
            }
            inside
        });
        let (piece, rest) =
            into[first.unwrap_or(0)..].split_first_mut().expect("bytes are missing");
        self.fill(runtime, &mut piece[skip..], rest).await
    }

    /// Waits for bytes and puts them into `first`, then `rest`.
    async fn fill<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        first: &mut [u8],
        rest: &mut [&mut [u8]],
    ) -> Result<usize, LaneError> {
        loop {
            // Nothing can have arrived before the peer had time to answer: waiting first saves a call.
            ready(runtime, &self.stream, Interest::Readable).await;
            let mut slices = Vec::with_capacity(1 + rest.len().min(SLICES_MAX));
            slices.push(IoSliceMut::new(first));
            slices.extend(rest.iter_mut().take(SLICES_MAX).map(|piece| IoSliceMut::new(piece)));
            let received = match self.lends {
                true => self.stream.receive_files(&mut slices, &mut self.files),
                false => self.stream.receive(&mut slices),
            };
            match received {
                Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
                Ok(count) => return Ok(count),
                Err(error) if retry(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The header of a request with what it says of body and data.
pub(crate) fn finished(outgoing: &Outgoing<'_>, tag: u64, protect: bool) -> Header {
    let data_bytes: usize = outgoing.data.iter().map(|piece| piece.len()).sum();
    let protect = protect && data_bytes > 0;
    let pieces = || outgoing.data.iter().copied();
    Header {
        tag,
        body_bytes: outgoing.body.len() as u32,
        body_crc: checksum(outgoing.body),
        data_bytes: data_bytes as u32,
        data_crc: protect.then(|| checksum_pieces(pieces())),
        ..outgoing.header
    }
}

fn expected_total(
    header: Header,
    head_bytes: usize,
    into: &[&mut [u8]],
) -> Result<usize, DecodeError> {
    let body = header.body_bytes as usize;
    let room: usize = into.iter().map(|piece| piece.len()).sum();
    let failed = header.status != OK && body == 0 && header.data_bytes == 0;
    let fits = HEADER_BYTES + body == head_bytes && header.data_bytes as usize <= room;
    match (failed, fits) {
        (true, _) => Ok(HEADER_BYTES),
        (_, true) => Ok(head_bytes + header.data_bytes as usize),
        _ => Err(DecodeError::TooLong),
    }
}

fn check_data(header: Header, into: &[&mut [u8]]) -> Result<(), DecodeError> {
    let Some(crc) = header.data_crc else { return Ok(()) };
    let mut left = header.data_bytes as usize;
    let pieces = into.iter().map(|piece| {
        let bytes = left.min(piece.len());
        left -= bytes;
        &piece[..bytes]
    });
    if checksum_pieces(pieces) == crc { Ok(()) } else { Err(DecodeError::Checksum) }
}

fn retry(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn nobody_yet() -> Welcome {
    Welcome {
        version: pvfs_wire::VERSION,
        name: String::new(),
        boot: 0,
        nonce: [0; 32],
        lease_kept: true,
        lease_ms: 0,
        requests_max: 1,
        outstanding_bytes_max: 0,
        data_bytes_max: 0,
        map_version: 0,
        generation: 0,
    }
}

/// Requests without reply before one that shows whether the other end lives.
const POSTED_MAX: usize = 16;

/// Room for the header and the body of most replies.
const HEAD_BYTES: usize = 512;

/// Pieces per system call, below every kernel's limit.
const SLICES_MAX: usize = 512;
