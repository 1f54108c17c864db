//! The world of a library inside somebody else's program: its connections have numbers far above those that
//! the program gets, and are known as [`KEPT`].

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use pvfs_net::blocking::{Blocking, Patient};
use pvfs_net::endpoint::Endpoint;
use pvfs_net::queue::{Polled, is_driving};
use pvfs_net::runtime::{Instant, Interest, KeptFile, Runtime};
use pvfs_net::stream::Stream;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

use crate::numbers::{KEPT, NUMBERS_END};

/// The calling thread drives its operation, as with [`Blocking`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Apart;

/// A connection that the program does not see.
pub struct Kept {
    number: RawFd,
    socket: Patient,
}

/// The number of a descriptor in [`KEPT`].
struct Noted(RawFd);

impl Drop for Noted {
    fn drop(&mut self) {
        KEPT.remove(self.0);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.remove(self.number);
    }
}

impl Stream for Kept {
    fn send(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.socket.send(pieces)
    }

    fn receive(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.socket.receive(pieces)
    }

    fn receive_files(
        &mut self,
        pieces: &mut [IoSliceMut<'_>],
        files: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        self.socket.receive_files(pieces, files)
    }

    fn expect(&mut self, bytes: usize) {
        self.socket.expect(bytes);
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

    fn is_local(&self) -> bool {
        self.socket.is_local()
    }

    fn shutdown(&mut self) {
        self.socket.shutdown();
    }
}

impl Runtime for Apart {
    type Stream = Kept;

    fn connect(&self, endpoint: &Endpoint) -> io::Result<Kept> {
        let socket = Blocking.connect(endpoint)?.raised(lowest());
        let number = socket.as_fd().as_raw_fd();
        KEPT.insert(number);
        Ok(Kept { number, socket })
    }

    fn poll_ready(&self, stream: &Kept, interest: Interest) -> Poll<()> {
        Blocking.poll_ready(&stream.socket, interest)
    }

    fn poll_timer(&self, at: Instant) -> Poll<()> {
        Blocking.poll_timer(at)
    }

    fn now(&self) -> Instant {
        Blocking.now()
    }

    fn wall_ns(&self) -> i64 {
        Blocking.wall_ns()
    }

    fn random(&self) -> u64 {
        Blocking.random()
    }

    fn keep(&self, file: OwnedFd) -> Option<KeptFile> {
        let file = fcntl_dupfd_cloexec(&file, lowest()).ok()?;
        let noted = Noted(file.as_raw_fd());
        KEPT.insert(noted.0);
        Some(KeptFile::new(file, Some(Box::new(noted))))
    }

    /// Looks again soon instead of keeping a descriptor to be woken by: it is rare that more threads are at
    /// one daemon than there are lanes. A queue has a descriptor.
    fn expect_wake(&self) {
        if is_driving() {
            return;
        }
        let _later = Blocking.poll_timer(self.now().after(LOOK_AGAIN));
    }
}

impl Polled for Apart {}

/// The lowest number for a descriptor that the program is not to see.
pub fn lowest() -> RawFd {
    static LOWEST: OnceLock<RawFd> = OnceLock::new();
    *LOWEST.get_or_init(|| {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(NUMBERS_END as u64);
        let limit = RawFd::try_from(limit).unwrap_or(NUMBERS_END).min(NUMBERS_END);
        (limit - ROOM).max(limit / 2)
    })
}

/// Connections that fit above [`lowest`]; further ones take what is free.
const ROOM: RawFd = 256;

const LOOK_AGAIN: Duration = Duration::from_millis(1);
