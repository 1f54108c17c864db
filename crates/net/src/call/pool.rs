//! The lanes to one daemon: idle ones to use again, broken ones to reconnect before anything else, and pipes.

use std::sync::Arc;
use std::task::{Poll, Waker};

use super::Server;
use crate::lane::{Lane, LaneId};
use crate::pipe::{Owner, Pipe, Together};
use crate::runtime::Runtime;
use crate::stream::Stream;

/// The lanes to one daemon.
pub(super) struct Lanes<S> {
    pub(super) idle: Vec<(LaneId, Box<Lane<S>>)>,
    pub(super) broken: Vec<LaneId>,
    pub(super) pipes: Vec<Arc<Pipe<S>>>,
    count: u32,
    waiting: Vec<Waker>,
    /// Somebody opens a pipe; others wait for it.
    is_opening: bool,
    awaiting_pipe: Vec<Waker>,
}

impl<S> Default for Lanes<S> {
    fn default() -> Self {
        Self {
            idle: Vec::new(),
            broken: Vec::new(),
            pipes: Vec::new(),
            count: 0,
            waiting: Vec::new(),
            is_opening: false,
            awaiting_pipe: Vec::new(),
        }
    }
}

/// What a call gets.
pub(super) enum Taken<S> {
    /// A lane to use at once.
    Idle(LaneId, Box<Lane<S>>),
    /// A lane to connect, for the first time or again.
    Connect(LaneId),
}

/// Where an exchange over a pipe can go.
pub(super) enum Way<S> {
    /// This pipe, which may be full.
    Pipe(Arc<Pipe<S>>),
    /// There is none: who is told so opens one.
    Open,
    /// Something is broken, and is to be connected again first.
    Mend,
    /// There are as many pipes as there may be: a lane has to do.
    Lane,
}

impl<S: Stream> Lanes<S> {
    /// A way for these exchanges; pending while somebody opens a pipe.
    pub(super) fn way<R: Runtime>(
        &mut self,
        owner: Owner,
        waker: &Waker,
        runtime: &R,
    ) -> Poll<Way<S>> {
        // One of a session that was renewed since is of no further use.
        let renewed = |pipe: &&Arc<Pipe<S>>| {
            pipe.owner.principal == owner.principal && pipe.owner.expiry != owner.expiry
        };
        self.pipes.iter().filter(renewed).for_each(|pipe| pipe.break_off());
        let own = self.pipes.iter().find(|pipe| pipe.owner == owner && !pipe.is_broken());
        let own = own.cloned();
        if !self.is_whole() {
            return Poll::Ready(Way::Mend);
        }
        match own {
            Some(pipe) => Poll::Ready(Way::Pipe(pipe)),
            None if self.pipes.len() >= PIPES_MAX => Poll::Ready(Way::Lane),
            None if self.is_opening => {
                runtime.expect_wake();
                self.awaiting_pipe.push(waker.clone());
                Poll::Pending
            }
            None => {
                self.is_opening = true;
                Poll::Ready(Way::Open)
            }
        }
    }

    /// These exchanges have ended for good.
    pub(super) fn part(&mut self, together: Together) {
        let of_them = self.pipes.iter().filter(|pipe| pipe.owner.together == together);
        of_them.for_each(|pipe| pipe.break_off());
        self.is_whole();
    }

    /// Whoever opened a pipe has done so, or given up.
    pub(super) fn opened(&mut self) {
        self.is_opening = false;
        self.awaiting_pipe.drain(..).for_each(Waker::wake);
    }

    /// Whether nothing is to be connected again.
    pub(super) fn is_whole(&mut self) -> bool {
        let (broken, whole) = std::mem::take(&mut self.pipes)
            .into_iter()
            .partition::<Vec<_>, _>(|pipe| pipe.is_broken());
        self.pipes = whole;
        self.broken.extend(broken.iter().map(|pipe| next_incarnation(pipe.id)));
        self.broken.is_empty()
    }

    /// A lane, broken ones first; pending while all are in use.
    pub(super) fn take<R: Runtime>(&mut self, waker: &Waker, runtime: &R) -> Poll<Taken<S>> {
        if !self.is_whole()
            && let Some(id) = self.broken.pop()
        {
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
    /// It has become something else.
    pub(super) is_kept: bool,
}

impl<R: Runtime> Lease<'_, R> {
    /// The lane for good.
    pub(super) fn keep(mut self) -> Option<(LaneId, Box<Lane<R::Stream>>)> {
        let lane = self.lane.take()?;
        self.is_kept = true;
        Some((self.id, lane))
    }
}

impl<R: Runtime> Drop for Lease<'_, R> {
    fn drop(&mut self) {
        let mut lanes = self.server.lock();
        match self.lane.take() {
            Some(lane) if self.healthy => lanes.idle.push((self.id, lane)),
            _ if self.is_kept => {}
            _ => lanes.broken.push(next_incarnation(self.id)),
        }
        // All of them: the first may have given up waiting, and would keep it from the others.
        lanes.waiting.drain(..).for_each(Waker::wake);
    }
}

fn next_incarnation(id: LaneId) -> LaneId {
    LaneId { incarnation: id.incarnation + 1, ..id }
}

/// Pipes to one daemon, each in the place of a lane.
const PIPES_MAX: usize = 16;

/// Lanes to one daemon; more calls at once than this wait for one another.
const LANES_MAX: u32 = 32;
