//! What code that waits needs from the world: connections, clocks, chance.
//!
//! Client operations are straight-line async code over a [`Runtime`]. Two worlds implement it: the calling
//! thread itself ([`crate::blocking`], `poll(2)`), and the simulator (virtual time, seeded chance). A future
//! never spawns anything: it is driven by whoever waits for it, and dropped when nobody does.

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use crate::attendance::Attendance;
use crate::endpoint::Endpoint;
use crate::stream::Stream;
use crate::tls::Connector;

/// Nanoseconds of a clock that never steps, from an arbitrary start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Ord, PartialOrd)]
pub struct Instant(pub u64);

impl Instant {
    /// This much later.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long until `later`; zero when that is past.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_nanos(later.0.saturating_sub(self.0))
    }
}

/// What a stream is waited for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interest {
    /// Bytes, or the end, have arrived.
    Readable,
    /// Bytes can be sent, or the connection is made.
    Writable,
}

/// The world, as waiting code sees it.
pub trait Runtime: Send + Sync + 'static {
    /// Its connections.
    type Stream: Stream;

    /// Begins to connect, with TLS where there is a network and what that takes. The stream is usable once writable and
    /// [`Stream::handshake`] is done; the first call that says so tells of a failure.
    fn connect(&self, endpoint: &Endpoint, tls: Option<&Connector>) -> io::Result<Self::Stream>;

    /// Whether `stream` may be ready since the last wait; if not, arranges for the current task to be
    /// polled again when it is. May say ready too often, never too rarely.
    fn poll_ready(&self, stream: &Self::Stream, interest: Interest) -> Poll<()>;

    /// Whether it is that late; if not, arranges for the current task to be polled again then.
    fn poll_timer(&self, at: Instant) -> Poll<()>;

    /// The clock for deadlines.
    fn now(&self) -> Instant;

    /// The clock, up to some milliseconds late, at a fifth of the price.
    fn now_about(&self) -> Instant {
        self.now()
    }

    /// The calendar, in nanoseconds since the epoch, for expiries and times of files.
    fn wall_ns(&self) -> i64;

    /// A random number.
    fn random(&self) -> u64;

    /// Has the node's agent know that the process of `client` lives, for as long as what is returned is
    /// kept. Nothing where no agent listens.
    fn attend(&self, _agent: &Path, _client: u64) -> Option<Box<dyn Attendance>> {
        None
    }

    /// A waker of the current task was kept, to be rung from another thread.
    fn expect_wake(&self) {}

    /// A descriptor that the program did not ask for (an object that was lent, a queue's set), where this world keeps
    /// such things; nothing when there is no room.
    fn keep(&self, file: OwnedFd) -> Option<KeptFile> {
        Some(KeptFile::new(file, None))
    }

    /// The calendar in whole seconds.
    fn wall_s(&self) -> u64 {
        u64::try_from(self.wall_ns() / 1_000_000_000).unwrap_or(0)
    }
}

/// A descriptor that is kept. Field order is the order of their ends: first whoever keeps count of the program's
/// descriptors hears of it, then its number is free.
pub struct KeptFile {
    _noted: Option<Box<dyn Send + Sync>>,
    file: OwnedFd,
    is_exposed: bool,
}

impl KeptFile {
    /// A descriptor, and what is to be dropped just before it is closed.
    pub fn new(file: OwnedFd, noted: Option<Box<dyn Send + Sync>>) -> Self {
        Self { _noted: noted, file, is_exposed: false }
    }

    /// The program that we are in does not know of it, and may close it with all that it does not know.
    #[must_use]
    pub fn exposed(self) -> Self {
        Self { is_exposed: true, ..self }
    }

    /// Whether its number may mean another file by now.
    pub fn is_exposed(&self) -> bool {
        self.is_exposed
    }
}

impl AsFd for KeptFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl std::fmt::Debug for KeptFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.file.fmt(f)
    }
}

/// Waits until `stream` may be ready: always yields once, since the caller has just seen that it is not.
pub async fn ready<R: Runtime>(runtime: &R, stream: &R::Stream, interest: Interest) {
    poll_fn(|_| runtime.poll_ready(stream, interest)).await;
}

/// Waits until then.
pub async fn sleep_until<R: Runtime>(runtime: &R, at: Instant) {
    poll_fn(|_| runtime.poll_timer(at)).await;
}

/// Waits for `future` until `deadline`; `None` when that comes first. Takes it pinned where it was made: a
/// future that is handed over whole is copied, and kept twice in the one that waits for it.
pub async fn before<R: Runtime, F: Future>(
    runtime: &R,
    deadline: Instant,
    mut future: Pin<&mut F>,
) -> Option<F::Output> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => runtime.poll_timer(deadline).map(|()| None),
    })
    .await
}

/// Waits for all, which make progress side by side; outputs in the order given.
pub async fn all<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut running: Vec<_> =
        futures.into_iter().map(|future| Running::Yet(Box::pin(future))).collect();
    poll_fn(|cx| {
        let mut pending = false;
        for slot in &mut running {
            pending |= slot.poll(cx).is_pending();
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    running.into_iter().map(Running::output).collect()
}

enum Running<F: Future> {
    Yet(Pin<Box<F>>),
    Done(Option<F::Output>),
}

impl<F: Future> Running<F> {
    fn poll(&mut self, cx: &mut std::task::Context<'_>) -> Poll<()> {
        let Self::Yet(future) = self else { return Poll::Ready(()) };
        future.as_mut().poll(cx).map(|output| *self = Self::Done(Some(output)))
    }

    fn output(self) -> F::Output {
        match self {
            Self::Done(Some(output)) => output,
            _ => unreachable!("all() ends when every future is done"),
        }
    }
}
