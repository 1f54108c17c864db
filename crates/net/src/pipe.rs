//! One connection of a client to a daemon with many exchanges on the way at once.
//!
//! ```text
//!   exchange 1  request ──> out ──┐            ┌── leader: sends `out`, waits for the stream, takes replies in
//!   exchange 2  request ──> out ──┼── stream ──┤
//!   exchange 3  request ──> out ──┘            └── followers: wait to be told that their reply is there
//! ```
//!
//! There is no thread or task of its own: one of those who wait leads, and when it has its reply another takes
//! over. Requests that are made in one go leave together, replies that arrive together are taken in together.
//! All bytes are copied once on each way, so this is for small transfers; [`crate::lane`] is for large ones.
//!
//! A request that may change something and that nobody waits for any more breaks the pipe: see [`crate::call`].

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use pvfs_wire::header::checksum_pieces;
use pvfs_wire::{Bytes, DecodeError, HEADER_BYTES, Header};

use crate::call::Shown;
use crate::lane::{LaneError, LaneId, Outgoing};
use crate::line::{Line, Turn};
use crate::runtime::{Interest, Runtime};
use crate::stream::Stream;

/// A connection that was introduced, shared by all exchanges of one session.
pub struct Pipe<S> {
    /// Which of the client's connections it is.
    pub(crate) id: LaneId,
    /// Whose exchanges go over it.
    pub(crate) owner: Owner,
    /// The number of the session on this connection.
    pub(crate) session: u32,
    /// The daemon's boot, as it was welcomed with.
    pub(crate) boot: u64,
    exchanges_max: usize,
    is_broken: AtomicBool,
    state: Mutex<State<S>>,
}

/// Whose exchanges a pipe carries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Owner {
    /// The session, as this client names it.
    pub principal: u64,
    /// Until when it is good.
    pub expiry: u64,
    /// Those who move together, so that whoever leads is there for all others.
    pub together: Together,
}

/// Operations that one thread moves side by side. Those of others are not seen to by them, and so share no pipe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Together(u64);

impl Together {
    /// Others than all before.
    #[allow(clippy::new_without_default)] // No two are equal.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

struct State<S> {
    stream: S,
    tag: u64,
    out: Vec<u8>,
    sent: usize,
    inbox: Vec<u8>,
    /// What of the inbox has arrived and is not yet understood.
    filled: std::ops::Range<usize>,
    exchanges: HashMap<u64, Exchange>,
    /// Who waits for the stream.
    leader: Option<u64>,
    shown: HashMap<u32, u64>,
    /// Who waits for an exchange to end.
    waiting: Line,
}

#[derive(Default)]
struct Exchange {
    waker: Option<Waker>,
    answer: Option<Answer>,
    /// Nobody waits for the answer any more.
    is_abandoned: bool,
}

/// A reply.
pub struct Answer {
    /// Status and lengths.
    pub header: Header,
    /// The reply record.
    pub body: Vec<u8>,
    /// File data.
    pub data: Vec<u8>,
}

/// A place among the exchanges of a pipe, held until the reply is there.
pub struct Place<S: Stream> {
    pipe: Arc<Pipe<S>>,
    tag: u64,
    /// What was asked may change something.
    is_change: bool,
    is_sent: bool,
}

/// What a lane becomes a pipe with.
pub(crate) struct Opened<S> {
    pub id: LaneId,
    pub owner: Owner,
    pub session: u32,
    pub boot: u64,
    pub exchanges_max: u16,
    pub stream: S,
    pub tag: u64,
}

impl<S: Stream> Pipe<S> {
    pub(crate) fn new(opened: Opened<S>) -> Self {
        let Opened { id, owner, session, boot, exchanges_max, mut stream, tag } = opened;
        stream.expect(1);
        let state = State {
            stream,
            tag,
            out: Vec::new(),
            sent: 0,
            inbox: vec![0; INBOX_BYTES],
            filled: 0..0,
            exchanges: HashMap::new(),
            leader: None,
            shown: HashMap::new(),
            waiting: Line::default(),
        };
        Self {
            id,
            owner,
            session,
            boot,
            exchanges_max: usize::from(exchanges_max.max(1)),
            is_broken: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    /// Whether it is of no further use.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::SeqCst)
    }

    /// Ends it: whoever waits is told so.
    pub fn break_off(&self) {
        self.lock().end(&self.is_broken);
    }

    /// A place, if there is room for one more exchange.
    pub fn place(self: &Arc<Self>, is_change: bool) -> Option<Place<S>> {
        let mut state = self.lock();
        if self.is_broken() || state.exchanges.len() >= self.exchanges_max {
            return None;
        }
        state.tag += 1;
        let tag = state.tag;
        state.exchanges.insert(tag, Exchange::default());
        Some(Place { pipe: self.clone(), tag, is_change, is_sent: false })
    }

    /// Waits until there may be room.
    pub async fn room<R: Runtime<Stream = S>>(&self, runtime: &R) {
        let mut room = Room { pipe: self, turn: Turn::default() };
        poll_fn(|cx| room.poll(runtime, cx)).await;
    }

    /// The daemon has forgotten some capability: shows all of them again.
    pub fn forget_shown(&self) {
        self.lock().shown.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Stream> Place<S> {
    /// Sends a request and waits for its reply. `make` makes the body around the token to show, if any.
    pub async fn exchange<R: Runtime<Stream = S>>(
        mut self,
        runtime: &R,
        header: Header,
        shown: Option<&Shown>,
        make: impl FnOnce(Option<Bytes>) -> Vec<u8>,
        data: (&[&[u8]], bool),
    ) -> Result<Answer, LaneError> {
        self.send(header, shown, make, data);
        let answer = poll_fn(|cx| self.poll(runtime, cx)).await?;
        if answer.header.operation != header.operation {
            return Err(DecodeError::Value.into());
        }
        Ok(answer)
    }

    /// Puts the request behind those that wait to be sent.
    fn send(
        &mut self,
        header: Header,
        shown: Option<&Shown>,
        make: impl FnOnce(Option<Bytes>) -> Vec<u8>,
        (data, data_checksum): (&[&[u8]], bool),
    ) {
        let state = &mut *self.pipe.lock();
        let news = shown
            .filter(|shown| state.shown.insert(shown.number, shown.version) != Some(shown.version));
        let body = make(news.map(|shown| shown.token.clone()));
        let outgoing = Outgoing { header, body: &body, data, data_checksum, lent: None };
        let protect = data_checksum && !state.stream.is_protected();
        let header = crate::lane::finished(&outgoing, self.tag, protect);
        if state.sent == state.out.len() {
            state.out.clear();
            state.sent = 0;
        }
        state.out.extend_from_slice(&header.encode());
        state.out.extend_from_slice(&body);
        data.iter().for_each(|piece| state.out.extend_from_slice(piece));
        self.is_sent = true;
        // Who leads sends it, after whatever else is made in this go.
        state.wake_leader();
    }

    fn poll<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Answer, LaneError>> {
        let state = &mut *self.pipe.lock();
        if let Some(answer) = state.take_answer(self.tag) {
            return Poll::Ready(Ok(answer));
        }
        if self.pipe.is_broken() {
            return Poll::Ready(Err(lost()));
        }
        if state.leader.is_none_or(|leader| leader == self.tag) {
            state.leader = Some(self.tag);
            match state.lead(runtime, self.tag) {
                Err(error) => {
                    state.end(&self.pipe.is_broken);
                    return Poll::Ready(Err(error));
                }
                Ok(Some(answer)) => return Poll::Ready(Ok(answer)),
                Ok(None) => {}
            }
        }
        if let Some(exchange) = state.exchanges.get_mut(&self.tag) {
            exchange.waker = Some(cx.waker().clone());
        }
        runtime.expect_wake();
        Poll::Pending
    }
}

impl<S: Stream> Drop for Place<S> {
    fn drop(&mut self) {
        let state = &mut *self.pipe.lock();
        let is_open = state.exchanges.contains_key(&self.tag);
        if is_open && self.is_sent && self.is_change {
            state.end(&self.pipe.is_broken);
        } else if is_open && self.is_sent {
            // The daemon still counts it, and its reply still comes.
            if let Some(exchange) = state.exchanges.get_mut(&self.tag) {
                exchange.is_abandoned = true;
                exchange.waker = None;
            }
        } else {
            state.exchanges.remove(&self.tag);
        }
        // Without a leader somebody was called to lead, and that may have been this one.
        if state.leader.is_none_or(|leader| leader == self.tag) {
            state.leader = None;
            state.wake_any();
        }
        state.waiting.call();
    }
}

/// A turn in the line of those who wait for room. Who is called and does not come lets the next one in.
struct Room<'a, S: Stream> {
    pipe: &'a Pipe<S>,
    turn: Turn,
}

impl<S: Stream> Room<'_, S> {
    fn poll<R: Runtime<Stream = S>>(&mut self, runtime: &R, cx: &mut Context<'_>) -> Poll<()> {
        let state = &mut *self.pipe.lock();
        let was_called = state.waiting.was_called(&self.turn);
        let has_room = state.exchanges.len() < self.pipe.exchanges_max;
        if was_called || has_room || self.pipe.is_broken() {
            return Poll::Ready(());
        }
        state.waiting.wait(&mut self.turn, cx.waker());
        runtime.expect_wake();
        Poll::Pending
    }
}

impl<S: Stream> Drop for Room<'_, S> {
    fn drop(&mut self) {
        let state = &mut *self.pipe.lock();
        let was_called = state.waiting.leave(&mut self.turn);
        if was_called && state.exchanges.len() < self.pipe.exchanges_max {
            state.waiting.call();
        }
    }
}

impl<S: Stream> State<S> {
    /// Sends and receives as far as the stream lets it; the answer of `tag`, once it is there.
    fn lead<R: Runtime<Stream = S>>(
        &mut self,
        runtime: &R,
        tag: u64,
    ) -> Result<Option<Answer>, LaneError> {
        loop {
            self.send_out()?;
            let is_readable = runtime.poll_ready(&self.stream, Interest::Readable).is_ready();
            let is_writable = self.sent < self.out.len()
                && runtime.poll_ready(&self.stream, Interest::Writable).is_ready();
            if is_readable {
                self.receive()?;
            }
            if let Some(answer) = self.take_answer(tag) {
                return Ok(Some(answer));
            }
            if !is_readable && !is_writable {
                return Ok(None);
            }
        }
    }

    fn send_out(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.stream.send(&[IoSlice::new(&self.out[self.sent..])]) {
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.out.shrink_to(OUT_BYTES_KEPT);
        self.sent = 0;
        Ok(())
    }

    fn receive(&mut self) -> Result<(), LaneError> {
        if self.filled.start > 0 {
            self.inbox.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let room = &mut self.inbox[self.filled.end..];
        match self.stream.receive(&mut [IoSliceMut::new(room)]) {
            Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof).into()),
            Ok(bytes) => self.filled.end += bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        while let Some(message) = self.next_message()? {
            self.deliver(message)?;
        }
        Ok(())
    }

    /// The next whole reply of the inbox.
    fn next_message(&mut self) -> Result<Option<Answer>, DecodeError> {
        let bytes = &self.inbox[self.filled.clone()];
        let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let header = Header::decode(head)?;
        let (body, data) = (header.body_bytes as usize, header.data_bytes as usize);
        let total = HEADER_BYTES + body + data;
        if total > self.inbox.len() {
            return Err(DecodeError::TooLong);
        }
        let Some(rest) = bytes.get(HEADER_BYTES..total) else { return Ok(None) };
        let (body, data) = rest.split_at(body);
        header.check_body(body)?;
        if header.data_crc.is_some_and(|crc| checksum_pieces([data]) != crc) {
            return Err(DecodeError::Checksum);
        }
        let answer = Answer { header, body: body.to_vec(), data: data.to_vec() };
        self.filled.start += total;
        Ok(Some(answer))
    }

    fn deliver(&mut self, answer: Answer) -> Result<(), DecodeError> {
        let tag = answer.header.tag;
        let exchange = self.exchanges.get_mut(&tag).ok_or(DecodeError::Value)?;
        if exchange.is_abandoned {
            self.exchanges.remove(&tag);
            self.waiting.call();
            return Ok(());
        }
        exchange.answer = Some(answer);
        if let Some(waker) = exchange.waker.take() {
            waker.wake();
        }
        Ok(())
    }

    fn take_answer(&mut self, tag: u64) -> Option<Answer> {
        let answer = self.exchanges.get_mut(&tag)?.answer.take()?;
        self.exchanges.remove(&tag);
        Some(answer)
    }

    fn wake_leader(&mut self) {
        let leader = self.leader.and_then(|tag| self.exchanges.get_mut(&tag));
        if let Some(waker) = leader.and_then(|leader| leader.waker.take()) {
            waker.wake();
        }
    }

    /// Has somebody lead.
    fn wake_any(&mut self) {
        let waker = self.exchanges.values_mut().find_map(|exchange| exchange.waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn end(&mut self, is_broken: &AtomicBool) {
        is_broken.store(true, Ordering::SeqCst);
        self.stream.shutdown();
        let waiting = self.exchanges.values_mut().filter_map(|exchange| exchange.waker.take());
        waiting.for_each(Waker::wake);
        self.waiting.call_all();
    }
}

fn lost() -> LaneError {
    io::Error::from(ErrorKind::ConnectionReset).into()
}

/// A message no longer than this fits into a pipe, on both ways; [`crate::call`] sends longer ones by lanes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Several of the longest replies at once.
const INBOX_BYTES: usize = 4 * MESSAGE_BYTES_MAX;

const OUT_BYTES_KEPT: usize = 256 << 10;
