//! The runtime of a library: the calling thread drives its own operation with `poll(2)`.
//!
//! No thread, no signal, no global state in the host program. While an operation is polled it notes the
//! descriptors and the earliest time it waits for; when it cannot go on, the thread sleeps until one of them.
//! Where all it waits for is replies, the receive of the first does the waiting, without a poll.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::attendance::{Attendance, attend};
use crate::endpoint::Endpoint;
use crate::queue::current;
use crate::runtime::{Instant, Interest, Runtime};
use crate::signals;
use crate::socket::{RECEIVE_WAIT, Socket};
use crate::stream::Stream;
use crate::tls::Connector;

/// A socket that is received from without polling first when its thread waits for nothing but replies.
/// Field order is the order of their ends, as with [`KeptFile`](crate::runtime::KeptFile).
pub struct Patient {
    _noted: Option<Box<dyn Send + Sync>>,
    socket: Socket,
    /// Bytes of a message that are on their way.
    expected_bytes: usize,
}

impl Stream for Patient {
    fn handshake(&mut self) -> io::Result<Option<Interest>> {
        self.socket.handshake()
    }

    fn has_more(&self) -> bool {
        self.socket.has_more()
    }

    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.send(pieces)
    }

    fn receive(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let fd = self.socket.as_fd().as_raw_fd();
        if WAITS.with_borrow_mut(|waits| waits.receiving.take()) != Some(fd) {
            return self.socket.receive(pieces);
        }
        let room: usize = pieces.iter().map(|piece| piece.len()).sum();
        let received = self.socket.receive_waiting(pieces, room <= self.expected_bytes);
        if let Err(error) = &received {
            WAITS.with_borrow_mut(|waits| waits.polls = true);
            if error.kind() == io::ErrorKind::Interrupted {
                note_interruption();
            }
        }
        received
    }

    fn receive_files(
        &mut self,
        pieces: &mut [IoSliceMut<'_>],
        files: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        self.socket.receive_files(pieces, files)
    }

    /// Nothing is said to the kernel: a low water mark delays acknowledgements, from which some congestion
    /// control (BBR) concludes that the network is slow.
    fn expect(&mut self, bytes: usize) {
        self.expected_bytes = bytes;
    }

    fn send_files(
        &mut self,
        pieces: &[IoSlice<'_>],
        files: &[BorrowedFd<'_>],
    ) -> io::Result<usize> {
        self.socket.send_files(pieces, files)
    }

    fn carries_files(&self) -> bool {
        self.socket.carries_files()
    }

    fn is_protected(&self) -> bool {
        self.socket.is_protected()
    }

    fn shutdown(&mut self) {
        self.socket.shutdown();
    }
}

impl Patient {
    /// Has the same connection under a number of at least `lowest` ([`Socket::raised`]).
    #[must_use]
    pub fn raised(self, lowest: RawFd) -> Self {
        Self { socket: self.socket.raised(lowest), ..self }
    }

    /// Drops something just before it closes.
    #[must_use]
    pub fn noted(self, noted: Box<dyn Send + Sync>) -> Self {
        Self { _noted: Some(noted), ..self }
    }
}

impl AsFd for Patient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The world of real sockets and clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocking;

fn instant(clock: ClockId) -> Instant {
    let time = clock_gettime(clock);
    Instant(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

impl Runtime for Blocking {
    type Stream = Patient;

    fn connect(&self, endpoint: &Endpoint, tls: Option<&Connector>) -> io::Result<Patient> {
        let socket = Socket::connect_with(endpoint, tls)?;
        Ok(Patient { _noted: None, socket, expected_bytes: 1 })
    }

    fn poll_ready(&self, stream: &Patient, interest: Interest) -> Poll<()> {
        let has_records = stream.socket.has_records();
        if has_records && interest == Interest::Readable && stream.socket.has_more() {
            return Poll::Ready(());
        }
        if let Some(polled) = current::poll_ready(stream.socket.as_fd(), interest) {
            return polled;
        }
        let fd = stream.socket.as_fd().as_raw_fd();
        let flags = match interest {
            Interest::Readable => PollFlags::IN,
            Interest::Writable => PollFlags::OUT,
        };
        WAITS.with_borrow_mut(|waits| {
            waits.polls |= has_records;
            waits.ready_or_wait(fd, flags)
        })
    }

    fn poll_timer(&self, at: Instant) -> Poll<()> {
        if self.now() >= at {
            return Poll::Ready(());
        }
        if current::wake_at(at).is_none() {
            WAITS.with_borrow_mut(|waits| waits.wake_at = waits.wake_at.min(at));
        }
        Poll::Pending
    }

    fn now(&self) -> Instant {
        instant(ClockId::Monotonic)
    }

    fn now_about(&self) -> Instant {
        instant(ClockId::MonotonicCoarse)
    }

    fn wall_ns(&self) -> i64 {
        let time = clock_gettime(ClockId::Realtime);
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    fn attend(&self, agent: &Path, client: u64) -> Option<Box<dyn Attendance>> {
        attend(agent, client)
    }

    fn expect_wake(&self) {
        WAITS.with_borrow_mut(|waits| {
            waits.expects_wake = true;
            if let Some(bell) = &waits.bell {
                bell.install();
            }
        });
    }

    fn wall_s(&self) -> u64 {
        let time = clock_gettime(ClockId::RealtimeCoarse);
        u64::try_from(time.tv_sec).unwrap_or(0)
    }

    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("the kernel gives random bytes");
        u64::from_le_bytes(bytes)
    }
}

/// Runs an operation to its end on this thread. Operations carry their own deadlines.
///
/// Inlined, so that a future lies where its caller made it: to copy its kilobytes would take as long as a
/// tenth of a small exchange.
#[inline(always)]
pub fn block_on<F: Future>(future: F) -> F::Output {
    drive(pin!(future))
}

fn drive<F: Future>(mut future: Pin<&mut F>) -> F::Output {
    let bell = BELL.try_with(Arc::clone).unwrap_or_default();
    let waker = Waker::from(bell.clone());
    let mut context = Context::from_waker(&waker);
    // An operation may be begun inside another's wait only by mistake, but then each keeps its own waits.
    let _masked = current::mask();
    let own = Waits { bell: Some(bell.clone()), ..Waits::new() };
    let outer = WAITS.replace(ManuallyDrop::new(own));
    let output = loop {
        WAITS.with_borrow_mut(|waits| waits.begin_round());
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            break output;
        }
        sleep(&bell);
    };
    drop(ManuallyDrop::into_inner(WAITS.replace(outer)));
    output
}

/// How often a signal has ended a sleep of this thread, so that whoever waits in turns can tell.
pub fn interruptions() -> u64 {
    INTERRUPTIONS.get()
}

fn note_interruption() {
    INTERRUPTIONS.set(INTERRUPTIONS.get() + 1);
}

thread_local! {
    /// Has no destructor, and so serves a thread to its very end: what a program left in a buffer is written
    /// when its other thread-locals are gone. Nothing leaks: outside of [`block_on`] it holds nothing.
    static WAITS: RefCell<ManuallyDrop<Waits>> =
        const { RefCell::new(ManuallyDrop::new(Waits::new())) };
    static BELL: Arc<Bell> = Arc::new(Bell::default());
    static INTERRUPTIONS: Cell<u64> = const { Cell::new(0) };
}

/// What the operation of this thread waits for.
struct Waits {
    wanted: Vec<(RawFd, PollFlags)>,
    ready: Vec<(RawFd, PollFlags)>,
    wake_at: Instant,
    bell: Option<Arc<Bell>>,
    /// Another thread may wake this one.
    expects_wake: bool,
    /// The stream whose receive does the waiting.
    receiving: Option<RawFd>,
    /// The next wait is a poll: a receive has waited and nothing came, so it will take longer; or what arrives are
    /// records, and a receive cannot know how many make up a message.
    polls: bool,
}

impl Waits {
    const fn new() -> Self {
        Self {
            wanted: Vec::new(),
            ready: Vec::new(),
            wake_at: Instant(u64::MAX),
            bell: None,
            expects_wake: false,
            receiving: None,
            polls: false,
        }
    }

    fn begin_round(&mut self) {
        self.wanted.clear();
        self.wake_at = Instant(u64::MAX);
        self.expects_wake = false;
    }

    /// The stream whose receive may do the waiting. Where there are more, they are parts of one operation, which
    /// needs all of them: what arrives for the others waits in their sockets, and wakes nobody.
    fn first_receive(&mut self) -> Option<(RawFd, PollFlags)> {
        let first = *self.wanted.first()?;
        let receives = self.wanted.iter().all(|(_, flags)| *flags == PollFlags::IN);
        let may_wait = receives && !self.expects_wake && !self.polls;
        self.polls = false;
        let has_time = || Blocking.now().after(RECEIVE_WAIT) < self.wake_at;
        (may_wait && has_time()).then_some(first)
    }

    fn ready_or_wait(&mut self, fd: RawFd, flags: PollFlags) -> Poll<()> {
        if let Some(at) = self.ready.iter().position(|seen| *seen == (fd, flags)) {
            self.ready.swap_remove(at);
            return Poll::Ready(());
        }
        self.wanted.push((fd, flags));
        Poll::Pending
    }
}

/// Sleeps until something waited for happens, and notes what.
fn sleep(bell: &Bell) {
    WAITS.with_borrow_mut(|waits| {
        let waits = &mut **waits;
        waits.ready.clear();
        waits.receiving = None;
        if bell.rung.swap(false, Ordering::Acquire) {
            return;
        }
        let mask = signals::mask_of_sleeps();
        if let (Some(first), None) = (waits.first_receive(), mask) {
            waits.receiving = Some(first.0);
            waits.ready.push(first);
            return;
        }
        let mut fds: Vec<PollFd<'_>> = waits
            .wanted
            .iter()
            .map(|(fd, flags)| PollFd::from_borrowed_fd(borrow(*fd), *flags))
            .collect();
        if let Some(fd) = bell.fd.get() {
            fds.push(PollFd::new(fd, PollFlags::IN));
        }
        // A signal ends the sleep early, which is a needless round and nothing worse.
        if poll_with(&mut fds, timeout(waits.wake_at).as_ref(), mask.as_ref()) == Err(Errno::INTR) {
            note_interruption();
        }
        let happened = fds.iter().zip(&waits.wanted).filter(|(fd, _)| !fd.revents().is_empty());
        waits.ready.extend(happened.map(|(_, wanted)| *wanted));
        bell.quieten();
    });
}

fn timeout(wake_at: Instant) -> Option<Timespec> {
    if wake_at == Instant(u64::MAX) {
        return None;
    }
    let left = Blocking.now().until(wake_at);
    Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) })
}

/// `ppoll(2)` with the mask, if one is to hold meanwhile.
#[allow(unsafe_code)]
fn poll_with(
    fds: &mut [PollFd<'_>],
    timeout: Option<&Timespec>,
    mask: Option<&libc::sigset_t>,
) -> rustix::io::Result<()> {
    let Some(mask) = mask else { return poll(fds, timeout).map(drop) };
    let timeout = timeout.map(|left| libc::timespec { tv_sec: left.tv_sec, tv_nsec: left.tv_nsec });
    let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
    let (first, count) = (fds.as_mut_ptr().cast(), fds.len() as libc::nfds_t);
    // SAFETY: a `PollFd` is laid out as a `pollfd`, of which there are `count`; the others are null or of their type.
    if unsafe { libc::ppoll(first, count, timeout, mask) } >= 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[allow(unsafe_code)]
fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the descriptor was noted during the last poll of the future that owns the stream; the
    // future is neither polled nor dropped before `sleep` returns, so the stream is still open.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Wakes a thread that waits for another thread of this process (for a lane to become free).
/// Its descriptor exists only once some waker has been rung, so plain operations never pay for it.
#[derive(Default)]
struct Bell {
    rung: AtomicBool,
    fd: OnceLock<OwnedFd>,
}

impl Bell {
    fn quieten(&self) {
        if let Some(fd) = self.fd.get() {
            let _ = rustix::io::read(fd, &mut [0; 8]);
        }
    }

    /// Makes sure that a ring is heard during a sleep.
    fn install(&self) {
        self.fd.get_or_init(|| {
            let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
            eventfd(0, flags).expect("a process can have one more descriptor")
        });
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rung.store(true, Ordering::Release);
        if let Some(fd) = self.fd.get() {
            let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{all, before, sleep_until};
    use std::time::Duration;

    #[test]
    fn a_deadline_ends_a_wait_that_nothing_else_would() {
        let start = Blocking.now();
        let deadline = start.after(Duration::from_millis(20));
        let output = block_on(before(&Blocking, deadline, pin!(std::future::pending::<()>())));
        assert!(output.is_none());
        assert!(Blocking.now() >= deadline);
    }

    #[test]
    fn sleeps_run_side_by_side() {
        let start = Blocking.now();
        let until = start.after(Duration::from_millis(30));
        block_on(all((0..50).map(|_| sleep_until(&Blocking, until))));
        assert!(start.until(Blocking.now()) < Duration::from_secs(1));
    }

    /// The signal comes between two sleeps, where it would go unnoticed.
    #[test]
    fn a_signal_that_is_held_ends_the_next_sleep() {
        extern "C" fn ignore(_: libc::c_int) {}
        let held = signals::hold();
        let before = interruptions();
        handle_and_raise(libc::SIGWINCH, ignore);
        assert_eq!(interruptions(), before);
        let until = Blocking.now().after(Duration::from_millis(1));
        block_on(sleep_until(&Blocking, until));
        assert_eq!(interruptions(), before + 1);
        handle_and_raise(libc::SIGWINCH, ignore);
        drop(held);
        block_on(sleep_until(&Blocking, Blocking.now().after(Duration::from_millis(1))));
        assert_eq!(interruptions(), before + 1, "was let in when it was no longer held");
    }

    #[allow(unsafe_code)]
    fn handle_and_raise(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
        // SAFETY: the handler does nothing, and nobody else in these tests handles the signal.
        unsafe {
            libc::signal(signal, handler as *const () as libc::sighandler_t);
            libc::raise(signal);
        }
    }

    /// A program's buffered output may be written that late.
    #[test]
    fn operations_run_even_while_the_thread_local_values_of_a_thread_go() {
        struct Late(std::sync::mpsc::Sender<bool>);
        impl Drop for Late {
            fn drop(&mut self) {
                let until = Blocking.now().after(Duration::from_millis(1));
                block_on(sleep_until(&Blocking, until));
                let _ = self.0.send(true);
            }
        }
        thread_local! { static LATE: RefCell<Option<Late>> = const { RefCell::new(None) }; }
        let (told, hears) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            LATE.set(Some(Late(told)));
            // Its values are made after, and so destroyed before, the one above.
            block_on(std::future::ready(()));
        });
        assert_eq!(hears.recv_timeout(Duration::from_secs(10)), Ok(true));
    }
}
