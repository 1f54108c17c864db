//! Tickets of requests that wait: for a lock, or for a truncation to end.
//!
//! They lie apart from the state of the writer, so that connections can go and an emergency stop can
//! answer them at once, even while the writer is stuck in a disk. What was taken away is told to the
//! writer later by number.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pvfs_net::service::{ConnectionId, Response, Ticket};
use pvfs_wire::Errno;

use crate::locks::WaiterId;

/// The tickets, and the numbers of those taken away.
#[derive(Default)]
pub struct Parked {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    tickets: HashMap<WaiterId, Place>,
    by_deadline: BTreeSet<(u64, WaiterId)>,
    by_connection: BTreeSet<(ConnectionId, WaiterId)>,
    abandoned: Vec<WaiterId>,
}

struct Place {
    ticket: Ticket,
    connection: ConnectionId,
    deadline_ns: u64,
}

impl Parked {
    /// Keeps a ticket until it is taken, its connection departs, or its time is over.
    pub fn park(&self, id: WaiterId, ticket: Ticket, connection: ConnectionId, deadline_ns: u64) {
        let mut inner = self.lock();
        inner.by_deadline.insert((deadline_ns, id));
        inner.by_connection.insert((connection, id));
        inner.tickets.insert(id, Place { ticket, connection, deadline_ns });
    }

    /// The ticket of a request whose turn has come, if it is still there.
    pub fn take(&self, id: WaiterId) -> Option<Ticket> {
        self.lock().take(id)
    }

    /// The tickets whose time is over.
    pub fn take_overdue(&self, now_ns: u64) -> Vec<(WaiterId, Ticket)> {
        let mut inner = self.lock();
        let late: Vec<WaiterId> =
            inner.by_deadline.range(..=(now_ns, WaiterId(u64::MAX))).map(|(_, id)| *id).collect();
        late.into_iter().filter_map(|id| Some((id, inner.take(id)?))).collect()
    }

    /// A connection is over: nobody waits on it any more.
    pub fn depart(&self, connection: ConnectionId) {
        let mut inner = self.lock();
        let range = (connection, WaiterId(0))..=(connection, WaiterId(u64::MAX));
        let ids: Vec<WaiterId> = inner.by_connection.range(range).map(|(_, id)| *id).collect();
        let tickets: Vec<Ticket> = ids.iter().filter_map(|id| inner.take(*id)).collect();
        inner.abandoned.extend(ids);
        drop(inner);
        // Answered into the void, outside the lock.
        drop(tickets);
    }

    /// Answers everybody with `status`.
    pub fn fail_all(&self, status: Errno) {
        let mut inner = self.lock();
        let ids: Vec<WaiterId> = inner.tickets.keys().copied().collect();
        let tickets: Vec<Ticket> = ids.iter().filter_map(|id| inner.take(*id)).collect();
        inner.abandoned.extend(ids);
        drop(inner);
        tickets.into_iter().for_each(|ticket| ticket.reply(Response::failed(status)));
    }

    /// The requests whose tickets were taken away since the last call.
    pub fn take_abandoned(&self) -> Vec<WaiterId> {
        std::mem::take(&mut self.lock().abandoned)
    }

    /// How many wait.
    pub fn count(&self) -> usize {
        self.lock().tickets.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take(&mut self, id: WaiterId) -> Option<Ticket> {
        let place = self.tickets.remove(&id)?;
        self.by_deadline.remove(&(place.deadline_ns, id));
        self.by_connection.remove(&(place.connection, id));
        Some(place.ticket)
    }
}
