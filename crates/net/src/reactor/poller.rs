//! One thread: waits for its connections with epoll, and runs its board.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{ClockId, clock_gettime};

use super::board::{BUSY_LOAD, Board};
use super::mailbox::{Letter, Mailbox};
use super::{PHASE_END, PHASE_FINISH, PHASE_SERVE, Shared, deal};
use crate::connection::{Connection, Wishes};
use crate::gate::{Now, Origin};
use crate::listener::Listener;
use crate::runtime::Instant;
use crate::service::ConnectionId;
use crate::socket::Socket;
use crate::stream::Stream;

/// One thread's share of a daemon.
pub struct Reactor {
    shared: Arc<Shared>,
    index: u8,
    mailbox: Arc<Mailbox<Socket>>,
    board: Board<Socket>,
    epoll: OwnedFd,
    listeners: Option<Arc<[Listener]>>,
    /// Until when the listeners rest, for want of descriptors.
    resting_until: Option<Instant>,
    /// Readable connections for which there was no memory.
    starved: Vec<ConnectionId>,
    /// Connections that may be received from, and whose streams hold something that epoll knows nothing of.
    holding: Vec<ConnectionId>,
    ticked_at: Instant,
    swept_at: Instant,
    dealt_at: Instant,
    /// Whether other reactors take some connection here for busy.
    is_known_busy: bool,
    trimmed_at: Instant,
}

impl Reactor {
    /// A reactor that has not begun.
    pub fn new(shared: Arc<Shared>, index: u8, listeners: Arc<[Listener]>) -> io::Result<Self> {
        let mailbox = shared.house.mailroom[usize::from(index)].clone();
        let board = Board::new(shared.house.clone(), index);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = mailbox.bell().expect("reactors have bells");
        // Edge-triggered, so that the bell need never be read.
        epoll::add(&epoll, bell, EventData::new_u64(BELL), EventFlags::IN | EventFlags::ET)?;
        let now = now();
        let mut reactor = Self {
            shared,
            index,
            mailbox,
            board,
            epoll,
            listeners: Some(listeners),
            resting_until: None,
            starved: Vec::new(),
            holding: Vec::new(),
            ticked_at: now.instant,
            swept_at: now.instant,
            dealt_at: now.instant,
            is_known_busy: false,
            trimmed_at: now.instant,
        };
        reactor.watch_listeners()?;
        Ok(reactor)
    }

    /// Serves until the daemon is stopped; whether nothing was left undone then.
    pub fn run(mut self) -> bool {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut has_more = false;
        loop {
            self.wait(has_more, &mut events);
            let now = now();
            // First, so that who connects after the emergency is not closed for it.
            self.heed_estop();
            has_more = self.take_events(&events, now);
            has_more |= self.run_board(now);
            self.shared.loads[usize::from(self.index)].store(self.board.load(), Ordering::Relaxed);
            self.keep_time(now);
            if let Some(was_quiet) = self.end_if_told() {
                return was_quiet;
            }
        }
    }

    fn wait(&mut self, has_more: bool, events: &mut Vec<epoll::Event>) {
        let may_sleep = !has_more && self.holding.is_empty() && self.mailbox.fall_asleep();
        let timeout = if may_sleep { self.timeout() } else { Some(NO_TIME) };
        events.clear();
        let events = rustix::buffer::spare_capacity(events);
        // It can only be interrupted, which is a round with nothing in it.
        let _ = epoll::wait(&self.epoll, events, timeout.as_ref());
        self.mailbox.wake_up();
    }

    /// How long to sleep when nothing happens.
    fn timeout(&self) -> Option<Timespec> {
        let is_waiting = self.resting_until.is_some() || !self.starved.is_empty();
        if is_waiting {
            Some(SHORT_TIME)
        } else if self.index == 0 || self.phase() != PHASE_SERVE {
            Some(TICK_TIME)
        } else {
            (self.board.count() > 0 || self.is_known_busy).then_some(SWEEP_TIME)
        }
    }

    /// Receives what the events announce. What is too much for one round is served at once; true if
    /// that left more to do.
    fn take_events(&mut self, events: &[epoll::Event], now: Now) -> bool {
        let mut has_more = false;
        for id in std::mem::take(&mut self.starved) {
            self.receive(id, now);
            self.board.touch(id);
        }
        for id in std::mem::take(&mut self.holding) {
            self.receive(id, now);
        }
        for event in events {
            match event.data.u64() {
                BELL => {}
                data if data >= LISTENERS => self.accept((data - LISTENERS) as usize, now),
                data => self.take_event(ConnectionId(data), event.flags, now),
            }
            if self.board.is_round_full() {
                has_more |= self.run_board(now);
            }
        }
        has_more
    }

    fn take_event(&mut self, id: ConnectionId, flags: EventFlags, now: Now) {
        if flags.contains(EventFlags::OUT) {
            self.board.touch(id);
        }
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            self.board.hang_up(id, now);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.receive(id, now);
        }
    }

    fn receive(&mut self, id: ConnectionId, now: Now) {
        if self.phase() != PHASE_SERVE {
            return self.board.touch(id);
        }
        if !self.board.receive(id, now) {
            self.starved.push(id);
            self.board.touch(id);
        }
    }

    fn run_board(&mut self, now: Now) -> bool {
        let reads = self.phase() == PHASE_SERVE;
        let (epoll, starved, holding) = (&self.epoll, &self.starved, &mut self.holding);
        self.board.run(now, |connection| {
            let may_receive = reads && !starved.contains(&connection.id());
            tell(epoll, connection, may_receive);
            if connection.stream().has_more() && may_receive && connection.wants_to_receive() {
                holding.push(connection.id());
            }
        })
    }

    fn accept(&mut self, listener: usize, now: Now) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listeners) = &self.listeners else { return };
            match listeners[listener].accept() {
                Ok((socket, origin)) => self.place(socket, origin, now),
                Err(error) if is_exhaustion(&error) => return self.rest(now),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The client left before it was let in; the next one may be fine.
                Err(_) => {}
            }
        }
    }

    /// Finds a new connection its reactor: the one with the least to do.
    fn place(&mut self, mut socket: Socket, origin: Origin, now: Now) {
        let house = &self.shared.house;
        if !house.doorman.seat(origin) {
            house.figures.capped_count.add(1);
            return socket.shutdown();
        }
        house.figures.accepted_count.add(1);
        if let (Some(tls), Origin::Ip(_)) = (house.doorman.tls(), origin) {
            match tls.begin() {
                Ok(session) => socket.secure(session),
                Err(error) => {
                    tracing::error!(%origin, %error, "TLS cannot begin");
                    house.doorman.unseat(origin);
                    return socket.shutdown();
                }
            }
        }
        let loads = &self.shared.loads;
        let own = usize::from(self.index);
        let least = |index: &usize| (loads[*index].load(Ordering::Relaxed), *index != own);
        let idlest = (0..loads.len()).min_by_key(least).expect("there is a reactor");
        loads[idlest].fetch_add(BUSY_LOAD + 1, Ordering::Relaxed);
        if idlest == own {
            let id = self.board.adopt(socket, origin, now);
            self.board.touch(id);
        } else {
            house.mailroom[idlest].post(Letter::Adopt(socket, origin));
        }
    }

    /// Out of descriptors or memory: lets the clients wait in the backlog instead of asking again
    /// and again.
    fn rest(&mut self, now: Now) {
        if self.resting_until.is_none() {
            self.shared.house.figures.accept_rests_count.add(1);
            tracing::warn!("out of file descriptors: new clients must wait; raise LimitNOFILE");
            self.forget_listeners();
            self.resting_until = Some(now.instant.after(REST_TIME));
        }
    }

    fn watch_listeners(&mut self) -> io::Result<()> {
        // Only one of the reactors that sleep is woken for a new client.
        let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
        for (index, listener) in (LISTENERS..).zip(self.listeners.iter().flat_map(|all| all.iter()))
        {
            epoll::add(&self.epoll, listener, EventData::new_u64(index), flags)?;
        }
        Ok(())
    }

    fn forget_listeners(&self) {
        for listener in self.listeners.iter().flat_map(|all| all.iter()) {
            // It is not listed while it rests.
            let _ = epoll::delete(&self.epoll, listener);
        }
    }

    fn keep_time(&mut self, now: Now) {
        if self.index == 0 && self.ticked_at.until(now.instant) >= TICK_EVERY {
            self.ticked_at = now.instant;
            self.shared.house.service.tick();
        }
        if self.index == 0 && self.trimmed_at.until(now.instant) >= TRIM_EVERY {
            self.trimmed_at = now.instant;
            self.shared.house.pool.trim();
        }
        if self.swept_at.until(now.instant) >= SWEEP_EVERY {
            self.swept_at = now.instant;
            self.board.sweep(now);
        }
        if self.dealt_at.until(now.instant) >= DEAL_EVERY {
            self.dealt_at = now.instant;
            self.deal();
        }
        if self.resting_until.is_some_and(|until| until <= now.instant)
            && self.watch_listeners().is_ok()
        {
            self.resting_until = None;
        }
    }

    /// Gives busy connections to the reactors that should have them.
    fn deal(&mut self) {
        if self.phase() != PHASE_SERVE {
            return;
        }
        let own = usize::from(self.index);
        let shared = self.shared.clone();
        let mut busy = shared.busy.lock().expect("no code panics holding it");
        busy[own] = self.board.busy_lanes();
        for (lane, to) in deal::moves(&busy, own) {
            let Some(connection) = self.board.send_away(lane, to as u8) else { continue };
            // It knows the connection, or will never hear of it.
            let _ = epoll::delete(&self.epoll, connection.stream());
            busy[own].retain(|kept| *kept != lane);
            busy[to].push(lane);
            shared.loads[to].fetch_add(BUSY_LOAD + 1, Ordering::Relaxed);
            shared.house.mailroom[to].post(Letter::Take(connection, self.board.estops()));
        }
        self.is_known_busy = !busy[own].is_empty();
    }

    fn heed_estop(&mut self) {
        let estops = self.shared.estops.load(Ordering::SeqCst);
        if estops != self.board.estops() {
            self.board.heed_estop(estops);
        }
    }

    /// Whether this was the last turn, and if so, whether nothing was left undone.
    fn end_if_told(&mut self) -> Option<bool> {
        match self.phase() {
            PHASE_SERVE => return None,
            PHASE_FINISH if !self.board.is_quiet() => {
                self.stop_accepting();
                return None;
            }
            PHASE_FINISH | PHASE_END => {}
            phase => unreachable!("there is no phase {phase}"),
        }
        self.stop_accepting();
        let was_quiet = self.board.is_quiet();
        self.board.close_all();
        Some(was_quiet)
    }

    fn stop_accepting(&mut self) {
        if self.listeners.is_some() {
            self.forget_listeners();
            self.listeners = None;
            let ids: Vec<ConnectionId> = self.board.ids().collect();
            ids.into_iter().for_each(|id| self.board.touch(id));
        }
    }

    fn phase(&self) -> u8 {
        self.shared.phase.load(Ordering::SeqCst)
    }
}

/// Tells epoll what a connection waits for, if that is news.
fn tell(epoll: &OwnedFd, connection: &mut Connection<Socket>, may_receive: bool) {
    let receive = may_receive && connection.wants_to_receive();
    let wishes = Wishes { receive, send: connection.wants_to_send() };
    let told = connection.told();
    if told == Some(wishes) {
        return;
    }
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, wishes.receive);
    flags.set(EventFlags::OUT, wishes.send);
    let data = EventData::new_u64(connection.id().0);
    let done = match told {
        None => epoll::add(epoll, connection.stream(), data, flags),
        Some(_) => epoll::modify(epoll, connection.stream(), data, flags),
    };
    match done {
        Ok(()) => connection.note_told(wishes),
        Err(error) => tracing::error!(%error, "epoll does not take a connection"),
    }
}

fn now() -> Now {
    let monotonic = clock_gettime(ClockId::Monotonic);
    let wall = clock_gettime(ClockId::RealtimeCoarse);
    Now {
        instant: Instant(monotonic.tv_sec as u64 * 1_000_000_000 + monotonic.tv_nsec as u64),
        wall_s: u64::try_from(wall.tv_sec).unwrap_or(0),
    }
}

fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let out_of = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| out_of.contains(&errno))
}

/// Event data that are no connection: those have a reactor number, at most 63, in the upper byte.
const BELL: u64 = u64::MAX - 1;
const LISTENERS: u64 = 0xff << 56;

const EVENTS_MAX: usize = 256;

/// New clients taken in one go; established ones should not wait for a flood.
const ACCEPTS_MAX: usize = 32;

const TICK_EVERY: std::time::Duration = std::time::Duration::from_millis(95);
const SWEEP_EVERY: std::time::Duration = std::time::Duration::from_millis(950);
const DEAL_EVERY: std::time::Duration = std::time::Duration::from_millis(450);
const TRIM_EVERY: std::time::Duration = std::time::Duration::from_secs(5);
const REST_TIME: std::time::Duration = std::time::Duration::from_secs(1);

const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const SHORT_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const TICK_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const SWEEP_TIME: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
