//! The connections of one reactor, and the rounds they are served in. Knows no epoll and no clock, so
//! the in-memory network drives the same code.
//!
//! ```text
//!   receive (per ready connection) -> gate -> one round -> Service::serve -> replies -> flush
//!                                                              ^ letters from other threads
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use pvfs_wire::Header;

use super::figures::Figures;
use super::mailbox::{Letter, Mailbox, Mailroom};
use super::seats::{Seats, home_of};
use crate::buffer::Pool;
use crate::connection::Connection;
use crate::connection::input::Received;
use crate::gate::lanes::LaneKey;
use crate::gate::{Doorman, Fault, Gate, Now, Origin, changes_something};
use crate::service::{ConnectionId, Departure, Desk, Response, Service};
use crate::stream::Stream;
use crate::tls::TlsFault;

/// What the reactors of a daemon have in common.
pub struct House<S> {
    /// Who serves.
    pub service: Arc<dyn Service>,
    /// Who lets in.
    pub doorman: Arc<Doorman>,
    /// Memory for messages.
    pub pool: Pool,
    /// Counters.
    pub figures: Figures,
    /// Every reactor's letters.
    pub mailroom: Mailroom<S>,
}

/// The connections of one reactor.
pub struct Board<S> {
    house: Arc<House<S>>,
    index: u8,
    mailbox: Arc<Mailbox<S>>,
    desk: Arc<dyn Desk>,
    seats: Seats<S>,
    /// Connections with received bytes that were not yet looked at.
    ready: Vec<ConnectionId>,
    /// Connections that may have something to send or to say to epoll.
    dirty: Vec<ConnectionId>,
    /// Closed connections, of which changes are still under way in the service.
    lingering: HashMap<ConnectionId, Lingering>,
    letters: Vec<Letter<S>>,
    /// Emergency stops that were heeded.
    estops: usize,
    /// Bytes received for the next round, and expected of its replies.
    round_bytes: usize,
}

struct Lingering {
    lane: LaneKey,
    changes: u32,
}

impl<S: Stream + 'static> Board<S> {
    /// An empty board for the reactor with this number.
    pub fn new(house: Arc<House<S>>, index: u8) -> Self {
        let mailbox = house.mailroom[usize::from(index)].clone();
        Self {
            index,
            desk: mailbox.clone(),
            mailbox,
            house,
            seats: Seats::new(index),
            ready: Vec::new(),
            dirty: Vec::new(),
            lingering: HashMap::new(),
            letters: Vec::new(),
            estops: 0,
            round_bytes: 0,
        }
    }

    /// Gives a new connection a place. Its seat with the doorman was taken by whoever accepted it.
    pub fn adopt(&mut self, stream: S, origin: Origin, now: Now) -> ConnectionId {
        let doorman = self.house.doorman.clone();
        self.house.figures.connections.add(1);
        self.seats.add(|id| {
            let data_checksum = !stream.is_protected();
            Connection::new(stream, Gate::new(doorman, id, origin, now), id, data_checksum, now)
        })
    }

    /// The connection, while it is open and here.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection<S>> {
        self.seats.get(id)
    }

    fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection<S>> {
        self.seats.get_mut(id)
    }

    /// All open connections.
    pub fn ids(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.seats.iter().map(Connection::id)
    }

    /// How many are open.
    pub fn count(&self) -> usize {
        self.seats.count()
    }

    /// How much there is to do here, to compare with other boards: the connections that are busy, and as little as
    /// they may be later, the others.
    pub fn load(&self) -> usize {
        self.seats.busy_count() * BUSY_LOAD + self.count()
    }

    /// Receives once from a connection that is ready; false when there is no memory for it now.
    pub fn receive(&mut self, id: ConnectionId, now: Now) -> bool {
        let house = self.house.clone();
        let Some(connection) = self.connection_mut(id) else { return true };
        if !connection.wants_to_receive() {
            return true;
        }
        let wanted = connection.bytes_wanted();
        let lent = house.pool.lent_bytes();
        if wanted > 0 && lent + wanted > house.doorman.limits().memory_bytes_max {
            return false;
        }
        let reply_bytes = connection.usual_reply_bytes();
        match connection.receive(&house.pool, now) {
            Ok(Received::Bytes(bytes)) => {
                self.round_bytes += bytes + reply_bytes;
                house.figures.received_bytes.add(bytes as u64);
                self.ready.push(id);
            }
            Ok(Received::Nothing) => {
                if connection.wants_to_send() {
                    self.dirty.push(id);
                }
            }
            Ok(Received::End) => self.end(id, Departure::Closed, now),
            Err(error) => match TlsFault::of(&error) {
                Some(fault) => self.punish(id, fault.into()),
                None => self.end(id, Departure::Broken, now),
            },
        }
        true
    }

    /// Whether the next round is large enough: more would only push its first bytes out of the
    /// processor's cache before they are checked, served and sent.
    pub fn is_round_full(&self) -> bool {
        self.round_bytes > ROUND_BYTES_MAX
    }

    /// The stream says that both directions are over, which is not heard by receiving while a
    /// connection is not received from.
    pub fn hang_up(&mut self, id: ConnectionId, now: Now) {
        if self.connection(id).is_some_and(|connection| !connection.wants_to_receive()) {
            self.end(id, Departure::Broken, now);
        }
    }

    /// The other end has ended it, in the middle of a write perhaps.
    fn end(&mut self, id: ConnectionId, how: Departure, now: Now) {
        let (service, desk) = (self.house.service.clone(), self.desk.clone());
        if let Some(connection) = self.connection_mut(id) {
            connection.redo_left(&*service, &desk, now);
        }
        self.close(id, how);
    }

    /// Notes that a connection can be sent to, or must be looked at.
    pub fn touch(&mut self, id: ConnectionId) {
        self.dirty.push(id);
    }

    /// Serves what was received, and sends what was answered. Calls `changed` for every connection
    /// whose wishes (to receive, to send) may have changed. True when there is more to do at once.
    pub fn run(&mut self, now: Now, mut changed: impl FnMut(&mut Connection<S>)) -> bool {
        self.read_letters(now);
        self.serve_round(now);
        self.read_letters(now);
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            self.flush(id, now);
            if let Some(connection) = self.connection_mut(id) {
                changed(connection);
            }
        }
        // Closing a connection while flushing may have touched others.
        dirty.append(&mut self.dirty);
        self.dirty = dirty;
        !(self.ready.is_empty() && self.dirty.is_empty())
    }

    fn serve_round(&mut self, now: Now) {
        self.round_bytes = 0;
        let mut ready = std::mem::take(&mut self.ready);
        ready.sort_unstable();
        ready.dedup();
        let count: usize = ready.iter().map(|id| self.admit(*id, now)).sum();
        if count > 0 {
            self.house.figures.requests_count.add(count as u64);
            let mut round = Vec::with_capacity(count);
            for id in &ready {
                if let Some(connection) = self.connection(*id) {
                    connection.join_round(&mut round, &self.desk);
                }
            }
            self.house.service.serve(round);
        }
        for id in ready.drain(..) {
            let pool = self.house.pool.clone();
            if let Some(connection) = self.connection_mut(id) {
                connection.leave_round(&pool);
            }
        }
        // What was found unread while a reply was flushed belongs to the next round.
        ready.append(&mut self.ready);
        self.ready = ready;
    }

    /// Takes a connection's messages through the gate; returns how many requests are to be served.
    fn admit(&mut self, id: ConnectionId, now: Now) -> usize {
        let Some(connection) = self.connection_mut(id) else { return 0 };
        let findings = connection.admit(now);
        let count = connection.admitted_count();
        if let Some(peer) = connection.gate().peer().filter(|_| !findings.believed.is_empty()) {
            let (peer, service) = (peer.clone(), self.house.service.clone());
            findings.believed.iter().for_each(|session| service.believed(&peer, session));
        }
        self.dirty.push(id);
        self.house.figures.duplicates_count.add(findings.duplicates);
        if let Some(older) = findings.greeting {
            self.greet(id, older, now);
        }
        if findings.has_more {
            self.ready.push(id);
        }
        if let Some(fault) = findings.fault {
            self.punish(id, fault);
            return 0;
        }
        count
    }

    fn greet(&mut self, id: ConnectionId, older: Vec<ConnectionId>, now: Now) {
        for connection in older {
            self.post(connection, Letter::Replaced(connection));
        }
        self.try_welcome(id, now);
    }

    /// Welcomes a connection, unless its lane is still being left by an older one.
    fn try_welcome(&mut self, id: ConnectionId, now: Now) {
        let service = self.house.service.clone();
        let Some(connection) = self.connection_mut(id) else { return };
        let Some((header, peer, hello)) = connection.gate().may_open() else { return };
        let (header, peer) = (*header, peer.clone());
        let response = match service.arrived(&peer, hello) {
            Ok(reception) => connection.gate_mut().welcome(reception),
            Err(status) => Response::failed(status),
        };
        connection.finish_hello(&header, response, now);
        self.dirty.push(id);
        // It may have sent requests along with its hello.
        self.ready.push(id);
    }

    fn read_letters(&mut self, now: Now) {
        let mut letters = std::mem::take(&mut self.letters);
        self.mailbox.collect(&mut letters);
        for letter in letters.drain(..) {
            match letter {
                Letter::Reply(id, request, response) => self.deliver(id, &request, response, now),
                Letter::Replaced(id) => self.replace(id, now),
                Letter::LaneFree(id) => self.try_welcome(id, now),
                Letter::Adopt(stream, origin) => {
                    let id = self.adopt(stream, origin, now);
                    self.dirty.push(id);
                }
                Letter::Take(connection, estops) => self.take(connection, estops),
                Letter::Moved(id, to) => self.seats.note_move(id, to),
                Letter::Gone(id) => self.seats.forget(id),
            }
        }
        self.letters = letters;
    }

    fn deliver(&mut self, id: ConnectionId, request: &Header, response: Response, now: Now) {
        if let Some(connection) = self.connection_mut(id) {
            connection.reply(request, response, now);
            self.house.figures.replies_count.add(1);
            if self.dirty.last() != Some(&id) {
                self.dirty.push(id);
            }
        } else if changes_something(request.operation) {
            self.forget_change(id);
        }
    }

    /// A change asked for on a closed connection is over.
    fn forget_change(&mut self, id: ConnectionId) {
        let Some(lingering) = self.lingering.get_mut(&id) else { return };
        lingering.changes -= 1;
        if lingering.changes == 0 {
            let lane = lingering.lane;
            self.lingering.remove(&id);
            self.leave_lane(lane, id);
        }
    }

    fn replace(&mut self, id: ConnectionId, now: Now) {
        if self.connection(id).is_some() {
            self.house.figures.replaced_count.add(1);
            self.end(id, Departure::Replaced, now);
        } else if let Some(board) = self.seats.whereabouts(id) {
            self.house.mailroom[usize::from(board)].post(Letter::Replaced(id));
        }
    }

    /// Finds out which connections are busy; to be called about twice a second.
    pub fn busy_lanes(&mut self) -> Vec<LaneKey> {
        self.seats.count_busy();
        let busy = self.seats.iter().filter(|connection| connection.is_busy());
        busy.filter_map(|connection| connection.gate().lane()).collect()
    }

    /// Takes out a busy connection for another board to serve, unless something is under way here.
    pub fn send_away(&mut self, lane: LaneKey, to: u8) -> Option<Box<Connection<S>>> {
        let is_meant = |connection: &&Connection<S>| connection.gate().lane() == Some(lane);
        let may_move = |connection: &&Connection<S>| connection.is_busy() && connection.may_move();
        let id = self.seats.iter().filter(is_meant).find(may_move)?.id();
        let mut connection = self.seats.send_away(id, to)?;
        if home_of(id) != self.index {
            // Before the other board has it, which may itself have something to say of it to its home.
            self.post(id, Letter::Moved(id, to));
        }
        connection.forget_poller();
        self.house.figures.moved_count.add(1);
        Some(connection)
    }

    fn take(&mut self, connection: Box<Connection<S>>, estops: usize) {
        let id = connection.id();
        self.seats.put(connection);
        if estops < self.estops {
            // It was on its way while all others were closed.
            return self.close(id, Departure::Broken);
        }
        self.ready.push(id);
        self.dirty.push(id);
    }

    fn flush(&mut self, id: ConnectionId, now: Now) {
        let Some(connection) = self.connection_mut(id) else { return };
        let was_congested = !connection.wants_to_receive();
        let flushed = connection.flush(now);
        let is_finished = connection.is_finished();
        let is_free_again = was_congested && connection.wants_to_receive();
        match flushed {
            Ok(sent) => self.house.figures.sent_bytes.add(sent as u64),
            Err(_) => return self.close(id, Departure::Broken),
        }
        if is_finished {
            self.close(id, Departure::Broken);
        } else if is_free_again {
            self.ready.push(id);
        }
    }

    fn punish(&mut self, id: ConnectionId, fault: Fault) {
        let figures = &self.house.figures;
        match fault {
            Fault::Malformed(_) | Fault::Tls(TlsFault::Malformed) => figures.malformed_count.add(1),
            Fault::Tls(_) => figures.untrusted_count.add(1),
            Fault::Overdrawn | Fault::OutOfTurn => figures.unruly_count.add(1),
            Fault::TooSlow | Fault::Stalled => figures.stalled_count.add(1),
        }
        if let Some(connection) = self.connection(id) {
            let origin = connection.gate().origin();
            tracing::debug!(%origin, connection = id.0, "connection closed: {fault}");
        }
        self.close(id, Departure::Broken);
    }

    /// Ends a connection. Its requests under way end by themselves; their replies go nowhere.
    pub fn close(&mut self, id: ConnectionId, how: Departure) {
        let Some(mut connection) = self.seats.remove(id) else { return };
        if home_of(id) != self.index {
            self.post(id, Letter::Gone(id));
        }
        self.house.figures.connections.take_one();
        connection.shutdown();
        let gate = connection.gate();
        self.house.doorman.unseat(gate.origin());
        if let Some(peer) = gate.peer() {
            self.house.service.departed(peer, how);
        }
        let Some(lane) = gate.lane() else { return };
        match gate.changes_outstanding() {
            0 => self.leave_lane(lane, id),
            changes => {
                self.lingering.insert(id, Lingering { lane, changes });
            }
        }
    }

    fn leave_lane(&mut self, lane: LaneKey, id: ConnectionId) {
        let next = self.house.doorman.lanes().leave(lane, id);
        if let Some(next) = next {
            self.post(next, Letter::LaneFree(next));
        }
    }

    fn post(&self, to: ConnectionId, letter: Letter<S>) {
        self.house.mailroom[usize::from(home_of(to))].post(letter);
    }

    /// Closes whoever let its time pass.
    pub fn sweep(&mut self, now: Now) {
        let overdue: Vec<(ConnectionId, Fault)> = self
            .seats
            .iter()
            .filter_map(|connection| Some((connection.id(), connection.overdue(now)?)))
            .collect();
        for (id, fault) in overdue {
            self.punish(id, fault);
        }
    }

    /// Closes every connection for an emergency; `estops` counts all of them until now.
    pub fn heed_estop(&mut self, estops: usize) {
        self.estops = estops;
        self.close_all();
    }

    /// Emergency stops that were heeded.
    pub fn estops(&self) -> usize {
        self.estops
    }

    /// Closes every connection at once.
    pub fn close_all(&mut self) {
        let ids: Vec<ConnectionId> = self.ids().collect();
        for id in ids {
            self.close(id, Departure::Broken);
        }
        self.ready.clear();
        self.dirty.clear();
    }

    /// Whether every request is answered and every reply sent.
    pub fn is_quiet(&self) -> bool {
        self.seats.iter().all(Connection::is_quiet)
    }
}

/// What a connection counts for in [`Board::load`] when it is new or was heard of lately, next to one that was not.
pub const BUSY_LOAD: usize = 1 << 32;

/// Bytes in and out that one round should not exceed by much: half of a usual second-level cache.
const ROUND_BYTES_MAX: usize = 512 << 10;
