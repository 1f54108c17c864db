//! Client code on the network in memory: the world of a simulated process.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{MemoryDaemon, MemoryNetwork, MemoryStream};
use crate::attendance::Attendance;
use crate::endpoint::Endpoint;
use crate::runtime::{Instant, Interest, Runtime};
use crate::tls::Connector;

/// The world of a process on one host. An endpoint `tcp://NAME:port` is the host of that name.
#[derive(Clone)]
pub struct MemoryRuntime {
    network: MemoryNetwork,
    host: String,
}

impl MemoryRuntime {
    /// For a process on `host`.
    pub fn new(network: &MemoryNetwork, host: &str) -> Self {
        Self { network: network.clone(), host: host.to_owned() }
    }

    /// The network.
    pub fn network(&self) -> &MemoryNetwork {
        &self.network
    }

    /// Runs a future and the daemons until the future is done, or `patience` of virtual time is over: then
    /// `None`. `between` is called at each instant, when nothing more happens at it: to inject faults.
    pub fn run<F: Future>(
        network: &MemoryNetwork,
        daemons: &mut Vec<MemoryDaemon>,
        patience: Duration,
        future: F,
        mut between: impl FnMut(&mut Vec<MemoryDaemon>),
    ) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let deadline = network.now().after(patience);
        while network.now() <= deadline {
            if let Some(output) = settle(daemons, future.as_mut()) {
                return Some(output);
            }
            between(daemons);
            network.advance_to(network.next_event()?);
        }
        None
    }
}

/// Lets everything happen that happens at this instant. Whoever waits is polled again whether or not it
/// was woken, so wakers need do nothing.
fn settle<F: Future>(daemons: &mut [MemoryDaemon], mut future: Pin<&mut F>) -> Option<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let polled = future.as_mut().poll(&mut context);
        if let Poll::Ready(output) = polled {
            return Some(output);
        }
        let mut is_busy = false;
        for daemon in daemons.iter_mut() {
            is_busy |= daemon.run_ready();
        }
        if !is_busy {
            return None;
        }
    }
}

impl Runtime for MemoryRuntime {
    type Stream = MemoryStream;

    /// Without TLS: nobody listens in memory.
    fn connect(&self, endpoint: &Endpoint, _: Option<&Connector>) -> io::Result<MemoryStream> {
        match endpoint {
            Endpoint::Tcp { host, .. } => Ok(self.network.connect(&self.host, host)),
            Endpoint::Unix { .. } => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    fn poll_ready(&self, stream: &MemoryStream, interest: Interest) -> Poll<()> {
        if stream.is_ready(interest) { Poll::Ready(()) } else { Poll::Pending }
    }

    fn poll_timer(&self, at: Instant) -> Poll<()> {
        if self.network.now() >= at {
            return Poll::Ready(());
        }
        self.network.wake_at(at);
        Poll::Pending
    }

    fn now(&self) -> Instant {
        self.network.now()
    }

    fn wall_ns(&self) -> i64 {
        self.network.wall_ns(&self.host)
    }

    fn random(&self) -> u64 {
        self.network.random()
    }

    fn attend(&self, _: &Path, client: u64) -> Option<Box<dyn Attendance>> {
        self.network.attend(&self.host, client)
    }
}
