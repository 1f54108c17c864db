//! The daemon's end of one connection: frames in, replies out, and the gate between.

pub mod input;
pub mod output;

use std::borrow::Cow;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use pvfs_wire::token::Session;
use pvfs_wire::{DecodeError, Errno, Header, Kind};

use crate::buffer::Pool;
use crate::gate::{Fault, Gate, Now, Verdict};
use crate::runtime::{Instant, Interest};
use crate::service::{ConnectionId, Desk, Request, Response, Service, Storage, Ticket};
use crate::shared_buffers::SeenBuffers;
use crate::stream::Stream;
use crate::tls::{self, TlsFault};
use crate::tray::{Left, SharedTray};
use input::{Frame, Input, Received};
use output::Output;

/// One client's connection.
pub struct Connection<S> {
    id: ConnectionId,
    stream: S,
    /// What the stream's own handshake waits for.
    shaking: Option<Interest>,
    input: Input,
    output: Output,
    gate: Gate,
    /// Where the peer puts data down instead of sending them.
    tray: Option<Arc<SharedTray>>,
    buffers: Option<SeenBuffers>,
    /// Requests of the round now under way.
    admitted: Vec<Admitted>,
    ending: bool,
    /// How large a reply is expected to be, so that a round's replies fit into the cap.
    usual_reply_bytes: usize,
    progress_at: Instant,
    /// How often something arrived since that was last looked at, and whether it was often.
    receives: u32,
    is_busy: bool,
    /// What the poller was told that it waits for, by whoever has it now.
    told: Option<Wishes>,
    data_checksum: bool,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wishes {
    /// Something to receive.
    pub receive: bool,
    /// Room to send.
    pub send: bool,
}

/// A request that passed the gate, by its place in the input buffer.
struct Admitted {
    header: Header,
    body: Range<usize>,
    data: Range<usize>,
    tray: Option<Arc<SharedTray>>,
    session: Option<Arc<Session>>,
}

/// What parsing came upon, besides requests.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Findings {
    /// A hello was believed: close these, then welcome it.
    pub greeting: Option<Vec<ConnectionId>>,
    /// Sessions that the peer has proven to own.
    pub believed: Vec<Arc<Session>>,
    /// Messages that came twice.
    pub duplicates: u64,
    /// More messages may be complete than fit into this round.
    pub has_more: bool,
    /// Close the connection.
    pub fault: Option<Fault>,
}

impl<S: Stream> Connection<S> {
    /// For a stream accepted just now.
    pub fn new(stream: S, gate: Gate, id: ConnectionId, data_checksum: bool, now: Now) -> Self {
        Self {
            id,
            stream,
            shaking: None,
            input: Input::default(),
            output: Output::default(),
            gate,
            tray: None,
            buffers: None,
            admitted: Vec::new(),
            ending: false,
            usual_reply_bytes: FIRST_REPLY_BYTES,
            progress_at: now.instant,
            receives: 0,
            is_busy: true,
            told: None,
            data_checksum,
        }
    }

    /// Its number.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The stream.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The rules.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// The rules, to change what they know.
    pub fn gate_mut(&mut self) -> &mut Gate {
        &mut self.gate
    }

    /// Bytes that the next receive would borrow from the pool.
    pub fn bytes_wanted(&self) -> usize {
        self.input.bytes_wanted()
    }

    /// How large the next reply is expected to be.
    pub fn usual_reply_bytes(&self) -> usize {
        self.usual_reply_bytes
    }

    /// Whether more may be received: nobody who does not read replies may send requests.
    pub fn wants_to_receive(&self) -> bool {
        !self.ending && !self.is_waiting() && !self.is_congested()
    }

    /// Whether something waits for the stream to take it.
    pub fn wants_to_send(&self) -> bool {
        !self.output.is_empty() || self.shaking == Some(Interest::Writable)
    }

    /// Whether this connection has said its last word, and it was sent.
    pub fn is_finished(&self) -> bool {
        self.ending && self.output.is_empty()
    }

    /// Whether it was new at the last [`Connection::note_busy`], or much arrived before that.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Notes whether much has arrived since the last time, half a second ago: more than daemons say to each other.
    pub fn note_busy(&mut self) {
        self.is_busy = std::mem::take(&mut self.receives) >= BUSY_RECEIVES;
    }

    /// What the poller knows that it waits for; none when it does not know the connection.
    pub fn told(&self) -> Option<Wishes> {
        self.told
    }

    /// Notes what the poller was told.
    pub fn note_told(&mut self, wishes: Wishes) {
        self.told = Some(wishes);
    }

    /// It goes to another reactor, which looks soon at who is busy there.
    pub fn forget_poller(&mut self) {
        self.told = None;
        self.receives = BUSY_RECEIVES;
    }

    /// Whether another reactor can go on with it: nobody here has yet to say something to it.
    pub fn may_move(&self) -> bool {
        self.gate.peer().is_some() && self.admitted.is_empty() && !self.ending && self.is_quiet()
    }

    /// Whether no request is unanswered and no reply unsent.
    pub fn is_quiet(&self) -> bool {
        self.gate.requests_outstanding() == 0 && self.output.is_empty()
    }

    fn is_waiting(&self) -> bool {
        self.gate.peer().is_none() && self.gate.lane().is_some()
    }

    fn is_congested(&self) -> bool {
        self.output.queued_bytes() > self.gate.limits().queued_bytes_max
    }

    /// Receives once.
    pub fn receive(&mut self, pool: &Pool, now: Now) -> std::io::Result<Received> {
        self.shaking = self.stream.handshake()?;
        if self.shaking.is_some() {
            return Ok(Received::Nothing);
        }
        let mut files = Vec::new();
        let received = self.input.receive(&mut self.stream, pool, &mut files)?;
        files.iter().for_each(|file| self.take_file(file));
        if let Received::Bytes(_) = received {
            self.progress_at = now.instant;
            self.receives = self.receives.saturating_add(1);
        }
        Ok(received)
    }

    /// The peer has sent its tray along, or its buffers, which are of another length. What is neither is noticed when the
    /// peer says that it used it.
    fn take_file(&mut self, file: &OwnedFd) {
        match SharedTray::map(file) {
            Ok(tray) => self.tray = Some(Arc::new(tray)),
            Err(_) => self.buffers = SeenBuffers::map(file).ok(),
        }
    }

    /// Takes complete messages through the gate, until there are no more or the gate says stop.
    pub fn admit(&mut self, now: Now) -> Findings {
        let mut findings = Findings::default();
        while self.wants_to_receive() && findings.fault.is_none() {
            if self.is_round_full() {
                findings.has_more = true;
                break;
            }
            match self.next_frame() {
                Ok(Some(frame)) => self.admit_frame(&frame, &mut findings, now),
                Ok(None) => break,
                Err(fault) => findings.fault = Some(fault),
            }
        }
        self.stream.expect(self.input.missing_bytes());
        findings
    }

    /// Whether the replies to the requests admitted so far may be all that the cap allows. One request
    /// is always served.
    fn is_round_full(&self) -> bool {
        let expected = self.admitted.len() * self.usual_reply_bytes + self.output.queued_bytes();
        !self.admitted.is_empty() && expected > self.gate.limits().queued_bytes_max
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, Fault> {
        match self.input.peek() {
            Ok(Some(header)) => self.gate.announce(header)?,
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.mistaken(error)),
        }
        Ok(self.input.next_frame()?)
    }

    /// Who begins with TLS where it is not spoken is told so in its own language, and need not wait.
    fn mistaken(&mut self, error: DecodeError) -> Fault {
        if self.gate.peer().is_some() || !tls::is_hello(self.input.unread()) {
            return error.into();
        }
        // It is closed in any case.
        let _ = self.stream.send(&[IoSlice::new(&tls::NOT_SPOKEN)]);
        TlsFault::Unwanted.into()
    }

    fn admit_frame(&mut self, frame: &Frame, findings: &mut Findings, now: Now) {
        let Some(memory) = self.input.memory() else { return };
        let Ok(tray) = self.tray_of(&frame.header) else {
            findings.fault = Some(DecodeError::Value.into());
            return;
        };
        let verdict = self.gate.pass(&frame.header, &memory[frame.body.clone()], now);
        if !matches!(verdict, Verdict::Wait) {
            self.input.advance(frame);
        }
        match verdict {
            Verdict::Serve(session) => self.admitted.push(Admitted {
                header: frame.header,
                body: frame.body.clone(),
                data: frame.data.clone(),
                tray,
                session,
            }),
            Verdict::Answer(response) => self.push(&frame.header, response, now),
            Verdict::Believe(response, session) => {
                findings.believed.push(session);
                self.push(&frame.header, response, now);
            }
            Verdict::Refuse(response) => {
                self.push(&frame.header, response, now);
                self.ending = true;
            }
            Verdict::Greet(older) => findings.greeting = Some(older),
            Verdict::Drop => findings.duplicates += 1,
            Verdict::Wait => {}
            Verdict::Close(fault) => findings.fault = Some(fault),
        }
    }

    /// Has the service do what a client of this node was killed in the middle of.
    pub fn redo_left(&mut self, service: &dyn Service, desk: &Arc<dyn Desk>, now: Now) {
        let Some(tray) = self.tray.clone() else { return };
        let Some(left) = tray.take_left(now.instant) else { return };
        let Some((header, body)) = read_left(&left.message, tray.room()) else { return };
        let Some(data) = self.data_left(&tray, &left, header.data_bytes as usize) else { return };
        let Verdict::Serve(session) = self.gate.pass_left(&header, now) else { return };
        let Some(peer) = self.gate.peer() else { return };
        service.redo(Request {
            peer,
            session: session.as_ref(),
            header,
            body,
            data: &data,
            storage: Storage::Round,
            ticket: Ticket::new(self.id, header, desk.clone()),
        });
    }

    /// The data of a request that was left, on the tray or where it says; `None` when they are not there.
    fn data_left<'a>(
        &self,
        tray: &'a SharedTray,
        left: &Left,
        bytes: usize,
    ) -> Option<Cow<'a, [u8]>> {
        if left.places.is_empty() {
            return Some(tray.data(bytes).into());
        }
        let data = self.buffers.as_ref()?.collected(&left.places, bytes)?;
        (data.len() == bytes).then(|| data.into())
    }

    /// The tray that a message's data are on, if they are on one; the error when there is no such.
    fn tray_of(&self, header: &Header) -> Result<Option<Arc<SharedTray>>, ()> {
        if !header.shared_data {
            return Ok(None);
        }
        let fits = |tray: &&Arc<SharedTray>| header.data_bytes as usize <= tray.room();
        self.tray.as_ref().filter(fits).map(|tray| Some(tray.clone())).ok_or(())
    }

    /// How many requests of this connection belong to the round.
    pub fn admitted_count(&self) -> usize {
        self.admitted.len()
    }

    /// Appends the admitted requests to the round.
    pub fn join_round<'a>(&'a self, round: &mut Vec<Request<'a>>, desk: &Arc<dyn Desk>) {
        let (Some(peer), Some(memory)) = (self.gate.peer(), self.input.memory()) else { return };
        round.extend(self.admitted.iter().map(|admitted| {
            let (data, storage) = match &admitted.tray {
                Some(tray) => (tray.data(admitted.header.data_bytes as usize), Storage::Tray(tray)),
                None => (&memory[admitted.data.clone()], Storage::Buffer(memory)),
            };
            Request {
                peer,
                session: admitted.session.as_ref(),
                header: admitted.header,
                body: &memory[admitted.body.clone()],
                data,
                storage,
                ticket: Ticket::new(self.id, admitted.header, desk.clone()),
            }
        }));
    }

    /// The round is over.
    pub fn leave_round(&mut self, pool: &Pool) {
        self.admitted.clear();
        self.input.release(pool);
    }

    /// Queues the reply to a request that was served.
    pub fn reply(&mut self, request: &Header, response: Response, now: Now) {
        self.gate.answered(request);
        let bytes = response.data.as_ref().map_or(0, |data| data.len()) + response.body.len();
        self.usual_reply_bytes = bytes.max(self.usual_reply_bytes / 2);
        // A forged capability or order is no better than a forged session.
        self.ending |= response.status == Errno::EKEYREJECTED && self.gate.offence(now);
        self.push(request, response, now);
    }

    /// Opens or refuses a connection whose hello waited.
    pub fn finish_hello(&mut self, request: &Header, response: Response, now: Now) {
        self.ending |= response.status != pvfs_wire::OK;
        self.push(request, response, now);
    }

    fn push(&mut self, request: &Header, response: Response, now: Now) {
        if request.unanswered {
            return;
        }
        if self.output.is_empty() {
            self.progress_at = now.instant;
        }
        let limits = self.gate.limits();
        let header = Header {
            credits: limits.requests_max,
            map_version: self.gate.map_version(),
            timeout_ms: response.leased_ms,
            ..request.reply(response.status)
        };
        self.output.push(header, response, self.data_checksum);
    }

    /// Sends what the stream takes; returns how much.
    pub fn flush(&mut self, now: Now) -> std::io::Result<usize> {
        if self.shaking == Some(Interest::Writable) {
            self.shaking = self.stream.handshake()?;
        }
        let sent = self.output.flush(&mut self.stream)?;
        if sent > 0 {
            self.progress_at = now.instant;
        }
        Ok(sent)
    }

    /// Whether the peer's time is up: for its handshake, its half message, or its unread replies.
    pub fn overdue(&self, now: Now) -> Option<Fault> {
        let is_expected = !self.output.is_empty() || self.input.is_halfway();
        let since_progress = self.progress_at.until(now.instant);
        if self.gate.is_too_slow(now) {
            Some(Fault::TooSlow)
        } else if is_expected && since_progress > self.gate.limits().stall_time_max {
            Some(Fault::Stalled)
        } else {
            None
        }
    }

    /// Ends it; the stream is dropped with the value.
    pub fn shutdown(&mut self) {
        self.stream.shutdown();
    }
}

/// The request in a redo record, if it is one whose data are on the tray.
fn read_left(message: &[u8], room: usize) -> Option<(Header, &[u8])> {
    let (header, body) = message.split_first_chunk()?;
    let header = Header::decode(header).ok()?;
    header.check_body(body).ok()?;
    let is_whole = header.kind == Kind::Request && header.body_bytes as usize == body.len();
    let is_there = header.shared_data && header.data_bytes as usize <= room;
    (is_whole && is_there).then_some((header, body))
}

/// What arrives in half a second from a client that does something.
const BUSY_RECEIVES: u32 = 10;

/// The reply expected from a connection that has not had any.
const FIRST_REPLY_BYTES: usize = 1 << 20;
