//! The world of a library inside somebody else's program: its connections have numbers far above those that
//! the program gets, and are known as [`KEPT`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use pvfs_net::blocking::{Blocking, Patient};
use pvfs_net::endpoint::Endpoint;
use pvfs_net::queue::{Polled, is_driving};
use pvfs_net::runtime::{Instant, Interest, KeptFile, Runtime};
use pvfs_net::tls::Connector;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

use crate::numbers::{IS_KEPT_SAFE, KEPT, NUMBERS_END};

/// The calling thread drives its operation, as with [`Blocking`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Apart;

/// The number of a descriptor in [`KEPT`].
struct Noted(RawFd);

impl Drop for Noted {
    fn drop(&mut self) {
        KEPT.remove(self.0);
    }
}

impl Noted {
    fn of(fd: impl AsFd) -> Box<Self> {
        let number = fd.as_fd().as_raw_fd();
        KEPT.insert(number);
        Box::new(Self(number))
    }
}

impl Runtime for Apart {
    type Stream = Patient;

    fn connect(&self, endpoint: &Endpoint, tls: Option<&Connector>) -> io::Result<Patient> {
        let socket = Blocking.connect(endpoint, tls)?.raised(lowest());
        let noted = Noted::of(&socket);
        Ok(socket.noted(noted))
    }

    fn poll_ready(&self, stream: &Patient, interest: Interest) -> Poll<()> {
        Blocking.poll_ready(stream, interest)
    }

    fn poll_timer(&self, at: Instant) -> Poll<()> {
        Blocking.poll_timer(at)
    }

    fn now(&self) -> Instant {
        Blocking.now()
    }

    fn now_about(&self) -> Instant {
        Blocking.now_about()
    }

    fn wall_ns(&self) -> i64 {
        Blocking.wall_ns()
    }

    fn wall_s(&self) -> u64 {
        Blocking.wall_s()
    }

    fn random(&self) -> u64 {
        Blocking.random()
    }

    fn keep(&self, file: OwnedFd) -> Option<KeptFile> {
        let file = fcntl_dupfd_cloexec(&file, lowest()).ok()?;
        let noted = Noted::of(&file);
        let file = KeptFile::new(file, Some(noted));
        Some(if IS_KEPT_SAFE.load(Ordering::Relaxed) { file } else { file.exposed() })
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
