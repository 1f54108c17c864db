//! The lanes to one daemon: idle ones to use again, broken ones to reconnect before anything else.

use std::task::{Poll, Waker};

use super::Server;
use crate::lane::{Lane, LaneId};
use crate::runtime::Runtime;

/// The lanes to one daemon.
pub(super) struct Lanes<S> {
    pub(super) idle: Vec<(LaneId, Box<Lane<S>>)>,
    pub(super) broken: Vec<LaneId>,
    count: u32,
    waiting: Vec<Waker>,
}

impl<S> Default for Lanes<S> {
    fn default() -> Self {
        Self { idle: Vec::new(), broken: Vec::new(), count: 0, waiting: Vec::new() }
    }
}

/// What a call gets.
pub(super) enum Taken<S> {
    /// A lane to use at once.
    Idle(LaneId, Box<Lane<S>>),
    /// A lane to connect, for the first time or again.
    Connect(LaneId),
}

impl<S> Lanes<S> {
    /// A lane, broken ones first; pending while all are in use.
    pub(super) fn take<R: Runtime>(&mut self, waker: &Waker, runtime: &R) -> Poll<Taken<S>> {
        if let Some(id) = self.broken.pop() {
            return Poll::Ready(Taken::Connect(id));
        }
        if let Some((id, lane)) = self.idle.pop() {
            return Poll::Ready(Taken::Idle(id, lane));
        }
        if self.count < LANES_MAX {
            self.count += 1;
            return Poll::Ready(Taken::Connect(LaneId { index: self.count - 1, incarnation: 1 }));
        }
        runtime.expect_wake();
        self.waiting.push(waker.clone());
        Poll::Pending
    }
}

/// The use of a lane for one exchange; without a happy end it counts as broken.
pub(super) struct Lease<'a, R: Runtime> {
    pub(super) server: &'a Server<R>,
    pub(super) id: LaneId,
    pub(super) lane: Option<Box<Lane<R::Stream>>>,
    pub(super) healthy: bool,
}

impl<R: Runtime> Drop for Lease<'_, R> {
    fn drop(&mut self) {
        let mut lanes = self.server.lock();
        match self.lane.take() {
            Some(lane) if self.healthy => lanes.idle.push((self.id, lane)),
            _ => lanes.broken.push(LaneId { incarnation: self.id.incarnation + 1, ..self.id }),
        }
        // All of them: the first may have given up waiting, and would keep it from the others.
        lanes.waiting.drain(..).for_each(Waker::wake);
    }
}

/// Lanes to one daemon; more calls at once than this wait for one another.
const LANES_MAX: u32 = 32;
