//! Clients that cache, as requests see them: polls, answers that wait, and what they may believe.

use std::sync::{MutexGuard, PoisonError};

use pvfs_net::service::{Request, Response, Ticket};
use pvfs_wire::ops::Recalls;
use pvfs_wire::{Errno, Wire};

use super::Manager;
use super::group::{Answer, Fate, Group, Outcome};
use super::work::{Pending, Work};
use crate::caching::{self, Due, Leases, Polled};
use crate::keys;
use crate::record::VERSION;
use crate::store::{Snapshot, View};

/// The leases; what waits are tickets with their answers.
pub type Caches = Leases<(Ticket, Response), Ticket>;

/// A snapshot, and which groups it is certain to show.
pub struct Look {
    pub snapshot: Snapshot,
    pub committed: u64,
}

impl Manager {
    /// A snapshot to answer queries from.
    pub(super) fn look(&self) -> Look {
        // In this order: the snapshot may show more than it is credited with, never less.
        let committed = self.caches().committed();
        Look { snapshot: self.store.snapshot(), committed }
    }

    /// Answers a query that has read `read`: at once, or when nobody believes in anything older any more.
    pub(super) fn answer_query(
        &self,
        ticket: Ticket,
        client: u64,
        read: Vec<caching::Key>,
        committed: u64,
        mut response: Response,
    ) {
        let mut caches = self.caches();
        let now_ns = self.clock.monotonic_ns();
        let (leased_ms, hold) = caches.query(client, read, committed, now_ns);
        response.leased_ms = leased_ms;
        let answer = match hold {
            Some(hold) => caches.keep(hold, (ticket, response)),
            None => Some((ticket, response)),
        };
        drop(caches);
        if let Some((ticket, response)) = answer {
            ticket.reply(response);
        }
    }

    /// Takes a poll; hands back the one that begins a lease, which the writer has to note first.
    pub(super) fn poll<'a>(&self, request: Request<'a>) -> Option<Request<'a>> {
        let decoded = Recalls::from_bytes(request.body);
        let poll = match (request.session, decoded) {
            (None, _) => Err(Errno::EACCES),
            (_, Err(_)) => Err(Errno::EPROTO),
            (_, Ok(poll)) => Ok(poll),
        };
        let poll = match poll {
            Ok(poll) if poll.lease == 0 && !poll.ends && !self.caches().is_closing() => {
                return Some(request);
            }
            Ok(poll) => poll,
            Err(status) => {
                request.ticket.reply(Response::failed(status));
                return None;
            }
        };
        let (client, now_ns) = (request.peer.client, self.clock.monotonic_ns());
        let mut due = Due::default();
        let mut caches = self.caches();
        let polled = caches.poll(client, &poll, request.ticket, now_ns, &mut due);
        self.note_ended(&caches, &mut due);
        drop(caches);
        match polled {
            Polled::Taken => {}
            Polled::Begins(ticket) | Polled::Refused(ticket) => {
                ticket.reply(Response::failed(Errno::EHOSTDOWN));
            }
        }
        give(due);
        None
    }

    /// Tells all who cache that their leases are over: nobody begins one any more.
    pub(super) fn close_leases(&self) {
        let mut due = Due::default();
        self.caches().close(&mut due);
        give(due);
    }

    /// Whether nobody caches anything any more, and the next manager will know so.
    pub fn is_uncached(&self) -> bool {
        let none = self.caches().client_count() == 0;
        // Has the writer note who has let go.
        self.submit([Work::Clock]);
        none
    }

    /// Ends leases and waits that are over.
    pub(super) fn look_at_leases(&self) {
        let mut due = Due::default();
        let mut caches = self.caches();
        if !caches.is_idle() {
            caches.look_at_the_clock(self.clock.monotonic_ns(), &mut due);
        }
        self.note_ended(&caches, &mut due);
        drop(caches);
        give(due);
    }

    /// Has the writer note whose leases are over. Nobody sees that they are before that is certain to happen.
    fn note_ended(&self, _: &Caches, due: &mut Due<(Ticket, Response), Ticket>) {
        let mut uncached = self.uncached.lock().unwrap_or_else(PoisonError::into_inner);
        uncached.append(&mut due.ended);
    }

    /// Answers everything that waits with an error.
    pub(super) fn fail_waiting(&self, status: Errno) {
        let (answers, polls) = self.caches().take_waiting();
        let tickets = answers.into_iter().map(|(ticket, _)| ticket).chain(polls);
        tickets.for_each(|ticket| ticket.reply(Response::failed(status)));
    }

    /// Decides what a group's answers have to wait for, and tells those who hold what it changes. Before the
    /// commit: nobody may see the change without seeing that it is not settled.
    pub(super) fn recall_for(&self, outcome: &Outcome) -> caching::Group {
        let mut caches = self.caches();
        if caches.is_idle() {
            return caching::Group::default();
        }
        let mut due = Due::default();
        let group = caches.begin_group(outcome.footprints(), self.clock.monotonic_ns(), &mut due);
        drop(caches);
        give(due);
        group
    }

    /// Gives a group's answers, or keeps them; `committed` says whether what they tell has happened.
    pub(super) fn answer_group(
        &self,
        mut group: caching::Group,
        answers: Vec<Answer>,
        committed: Result<(), Errno>,
    ) {
        let mut caches = self.caches();
        match committed {
            Ok(()) => caches.committed_group(&group),
            Err(_) => caches.rolled_back(&group),
        }
        group.holds.resize(group.holds.len().max(answers.len()), None);
        group.leased_ms.resize(group.holds.len(), 0);
        let silent = group.holds.split_off(answers.len());
        silent.into_iter().flatten().for_each(|hold| caches.let_go(hold));
        let decided = group.holds.into_iter().zip(group.leased_ms);
        let mut now = Vec::new();
        for (Answer { ticket, mut response, holds, .. }, (hold, leased_ms)) in
            answers.into_iter().zip(decided)
        {
            match committed {
                Err(status) if !holds => response = Response::failed(status),
                Err(_) => {}
                Ok(()) => response.leased_ms = leased_ms,
            }
            match hold {
                Some(hold) => now.extend(caches.keep(hold, (ticket, response))),
                None => now.push((ticket, response)),
            }
        }
        drop(caches);
        now.into_iter().for_each(|(ticket, response)| ticket.reply(response));
    }

    /// The leases of these clients begin, now that they are noted.
    pub(super) fn begin_leases(&self, clients: Vec<(u64, Ticket)>) {
        let mut due = Due::default();
        let mut caches = self.caches();
        for (client, ticket) in clients {
            caches.begin(client, ticket, self.clock.monotonic_ns(), &mut due);
        }
        drop(caches);
        give(due);
    }

    /// These clients are gone.
    pub(super) fn end_leases(&self, clients: &[u64]) {
        let mut due = Due::default();
        let mut caches = self.caches();
        clients.iter().for_each(|client| caches.drop_client(*client, &mut due));
        drop(caches);
        give(due);
    }

    pub(super) fn caches(&self) -> MutexGuard<'_, Caches> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Group<'_, '_> {
    /// Notes that the client caches, so that the next manager waits for it.
    pub(super) fn begin_lease(&mut self, request: &Pending) -> Result<Fate, Errno> {
        Recalls::from_bytes(&request.body).map_err(|_| Errno::EPROTO)?;
        let lease_ns = self.manager.caches().lease_ns();
        let record = [&[VERSION][..], &lease_ns.to_le_bytes()].concat();
        let key = keys::caching(request.peer.client);
        if self.tx.get(&key)?.as_ref() != Some(&record) {
            self.tx.put(key, record);
        }
        Ok(Fate::BeginLease)
    }

    /// Clients whose leases are over are not to be waited for after a restart.
    pub(super) fn note_uncached(&mut self) {
        let ended = std::mem::take(
            &mut *self.manager.uncached.lock().unwrap_or_else(PoisonError::into_inner),
        );
        for client in ended {
            // It may have come back since.
            let is_back = self.outcome.began.iter().any(|(began, _)| *began == client)
                || self.manager.caches().has_lease(client);
            if !is_back {
                self.tx.delete(keys::caching(client));
            }
        }
    }
}

/// Learns from the store who cached something before a restart.
pub fn restore(view: &dyn View, caches: &mut Caches, now_ns: u64) -> Result<(), Errno> {
    for entry in view.scan_prefix(&[keys::CACHING]) {
        let (key, record) = entry?;
        let client = keys::first_number(&key).ok_or(Errno::EIO)?;
        let lease_ns = record.strip_prefix(&[VERSION]).and_then(|bytes| bytes.try_into().ok());
        let lease_ns = u64::from_le_bytes(lease_ns.ok_or(Errno::EIO)?);
        caches.remember(client, lease_ns, now_ns);
    }
    Ok(())
}

fn give(due: Due<(Ticket, Response), Ticket>) {
    for (ticket, recalled) in due.polls {
        ticket.reply(Response::done::<Recalls>(&recalled));
    }
    due.answers.into_iter().for_each(|(ticket, response)| ticket.reply(response));
}
