//! The lanes to one daemon: idle ones to use again, broken ones to reconnect before anything else, and pipes.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use super::Server;
use crate::lane::{Lane, LaneId};
use crate::line::{Line, Turn};
use crate::pipe::{Owner, Pipe, Together};
use crate::runtime::Runtime;
use crate::stream::Stream;

/// The lanes to one daemon.
pub(super) struct Lanes<S> {
    pub(super) idle: Vec<(LaneId, Box<Lane<S>>)>,
    pub(super) broken: Vec<LaneId>,
    pub(super) pipes: Vec<Arc<Pipe<S>>>,
    /// Of what was posted over connections that have ended since.
    pub(super) unheard: Vec<u64>,
    count: u32,
    /// Lanes in use by operations of queues.
    queued: u32,
    waiting: Lines,
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
            unheard: Vec::new(),
            count: 0,
            queued: 0,
            waiting: Lines::default(),
            is_opening: false,
            awaiting_pipe: Vec::new(),
        }
    }
}

/// Who moves an operation. A queue may be left alone with operations on the way, and what they hold with it; so
/// queues never get all there is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mover {
    /// A thread that waits for nothing else.
    Waiter,
    /// A queue.
    Queue,
}

/// Those who wait for what they share, in a line for each kind of them.
#[derive(Default)]
pub(super) struct Lines {
    waiters: Line,
    queues: Line,
}

impl Lines {
    pub(super) fn of(&mut self, mover: Mover) -> &mut Line {
        match mover {
            Mover::Waiter => &mut self.waiters,
            Mover::Queue => &mut self.queues,
        }
    }

    /// Calls the first of each: that of the queues may not get it, or not come.
    pub(super) fn call(&mut self) {
        self.waiters.call();
        self.queues.call();
    }
}

/// What a call gets.
enum Taken<S> {
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
        let broken = self.pipes.extract_if(.., |pipe| pipe.is_broken());
        self.broken.extend(broken.map(|pipe| next_incarnation(pipe.id)));
        self.broken.is_empty()
    }

    /// A lane, broken ones first, if there is one to be had.
    fn take(&mut self, mover: Mover) -> Option<Taken<S>> {
        if mover == Mover::Queue && self.queued >= LANES_OF_QUEUES_MAX {
            return None;
        }
        let taken = self.take_any()?;
        self.queued += u32::from(mover == Mover::Queue);
        Some(taken)
    }

    /// A lane that is idle and takes one more request without reply, if nothing is to be connected again first.
    fn take_to_post(&mut self) -> Option<(LaneId, Box<Lane<S>>)> {
        if !self.is_whole() {
            return None;
        }
        self.idle.pop_if(|(_, lane)| lane.may_post())
    }

    fn take_any(&mut self) -> Option<Taken<S>> {
        if !self.is_whole()
            && let Some(id) = self.broken.pop()
        {
            return Some(Taken::Connect(id));
        }
        if let Some((id, lane)) = self.idle.pop() {
            return Some(Taken::Idle(id, lane));
        }
        (self.count < LANES_MAX).then(|| {
            self.count += 1;
            Taken::Connect(LaneId { index: self.count - 1, incarnation: 1 })
        })
    }
}

impl<R: Runtime> Server<R> {
    /// A lane for one exchange, or the place of one that is to be connected; waits while all are in use.
    pub(super) async fn lease(&self, mover: Mover, runtime: &R) -> Lease<'_, R> {
        let mut wish = Wish { server: self, mover, turn: Turn::default() };
        poll_fn(|cx| wish.poll(cx.waker(), runtime)).await
    }

    /// The lane that was used last, if it is idle and takes one more request without reply.
    pub(super) fn lease_to_post(&self) -> Option<Lease<'_, R>> {
        let (id, lane) = self.lock().take_to_post()?;
        let (server, mover, lane) = (self, Mover::Waiter, Some(lane));
        Some(Lease { server, mover, id, lane, healthy: false, is_kept: false })
    }
}

/// Somebody who wants a lane.
struct Wish<'a, R: Runtime> {
    server: &'a Server<R>,
    mover: Mover,
    turn: Turn,
}

impl<'a, R: Runtime> Wish<'a, R> {
    fn poll(&mut self, waker: &Waker, runtime: &R) -> Poll<Lease<'a, R>> {
        let lanes = &mut *self.server.lock();
        let Some(taken) = lanes.take(self.mover) else {
            runtime.expect_wake();
            lanes.waiting.of(self.mover).wait(&mut self.turn, waker);
            return Poll::Pending;
        };
        lanes.waiting.of(self.mover).leave(&mut self.turn);
        let (id, lane) = match taken {
            Taken::Idle(id, lane) => (id, Some(lane)),
            Taken::Connect(id) => (id, None),
        };
        let (server, mover) = (self.server, self.mover);
        Poll::Ready(Lease { server, mover, id, lane, healthy: false, is_kept: false })
    }
}

impl<R: Runtime> Drop for Wish<'_, R> {
    fn drop(&mut self) {
        let line = &mut self.server.lock().waiting;
        if line.of(self.mover).leave(&mut self.turn) {
            line.of(self.mover).call();
        }
    }
}

/// The use of a lane for one exchange; without a happy end it counts as broken.
pub(super) struct Lease<'a, R: Runtime> {
    server: &'a Server<R>,
    mover: Mover,
    pub(super) id: LaneId,
    pub(super) lane: Option<Box<Lane<R::Stream>>>,
    pub(super) healthy: bool,
    /// It has become something else.
    is_kept: bool,
}

impl<R: Runtime> Lease<'_, R> {
    /// The lane for good.
    pub(super) fn keep(mut self) -> Option<(LaneId, Box<Lane<R::Stream>>)> {
        let lane = self.lane.take()?;
        self.server.lock().unheard.extend(lane.unheard());
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
            lane => {
                lanes.unheard.extend(lane.iter().flat_map(|lane| lane.unheard()));
                lanes.broken.push(next_incarnation(self.id));
            }
        }
        lanes.queued -= u32::from(self.mover == Mover::Queue);
        lanes.waiting.call();
    }
}

fn next_incarnation(id: LaneId) -> LaneId {
    LaneId { incarnation: id.incarnation + 1, ..id }
}

/// Pipes to one daemon, each in the place of a lane.
const PIPES_MAX: usize = 16;

/// Lanes to one daemon; more calls at once than this wait for one another.
const LANES_MAX: u32 = 32;

/// Of these, for operations of queues. Pipes are not counted.
const LANES_OF_QUEUES_MAX: u32 = 12;
