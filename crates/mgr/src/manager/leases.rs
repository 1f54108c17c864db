//! What the clock brings: leases that end, waits that end.

use pvfs_net::service::Response;
use pvfs_wire::Errno;
use pvfs_wire::attr::Time;

use super::clock::unix_seconds;
use super::group::Group;
use crate::clients::Clients;
use crate::execute::Context;
use crate::keys;
use crate::namespace::expire_client;
use crate::ops::shared::{due_shared, end_shared};
use crate::permission::Credentials;
use crate::store::View;

impl Group<'_, '_> {
    /// Ends what is over.
    pub(super) fn look_at_the_clock(&mut self) {
        self.end_waits();
        self.writer.locks.review();
        let due = self.manager.clients().take_due(self.now_ns, CLIENTS_PER_GROUP);
        for client in due {
            self.expire(client);
        }
        let forgotten = self.manager.clients().take_forgotten();
        for client in forgotten {
            self.tx.delete(keys::client(client));
        }
        self.end_shared_opens();
        self.note_uncached();
        self.note_locks();
    }

    /// Ends shared opens whose time is over. They have no client, and so no lease.
    fn end_shared_opens(&mut self) {
        let due_ns = self.writer.shared_looked_ns.saturating_add(SHARED_LOOK_NS);
        if self.now_ns < due_ns {
            return;
        }
        self.writer.shared_looked_ns = self.now_ns;
        let due = due_shared(&self.tx, unix_seconds(self.wall), CLIENTS_PER_GROUP);
        for number in due.unwrap_or_default() {
            let ended = self.apart(number, |cx| end_shared(cx, number));
            match ended {
                Ok(()) => tracing::debug!(number, "a shared open is over"),
                Err(error) => tracing::error!(number, %error, "a shared open cannot be ended yet"),
            }
        }
    }

    /// A client whose lease was lost asks for a change, so it knows. Its old state must be gone.
    pub(super) fn require_lease(&mut self, client: u64) -> Result<(), Errno> {
        let told = self.manager.clients().asked(client).map_err(|_| Errno::EIO)?;
        if told {
            self.tx.delete(keys::client(client));
        }
        Ok(())
    }

    fn end_waits(&mut self) {
        for (id, ticket) in self.manager.parked.take_overdue(self.now_ns) {
            self.writer.deferred.remove(&id);
            if self.writer.locks.lapse(id) {
                self.writer.lapsed.push_back((self.now_ns.saturating_add(LAPSED_KEPT_NS), id));
            }
            self.outcome.answer(ticket, Response::failed(Errno::EAGAIN), true);
        }
        while let Some((until_ns, id)) = self.writer.lapsed.front().copied()
            && until_ns <= self.now_ns
        {
            self.writer.lapsed.pop_front();
            self.writer.locks.cancel(id);
        }
    }

    /// Frees what a client held. One with many opens takes several groups.
    fn expire(&mut self, client: u64) {
        let changes_before = self.tx.len();
        self.writer.locks.release_client(client);
        self.note_locks();
        let freed = self.free(client).unwrap_or_else(|error| {
            tracing::error!(client, %error, "what a lost client held cannot be freed yet");
            false
        });
        if self.tx.len() > changes_before {
            // Should it come back after a restart, it still has to be told.
            self.tx.put(keys::client(client), expired_at(self.wall));
        }
        match freed {
            true => self.forget(client),
            false => self.outcome.overdue.push(client),
        }
    }

    fn free(&mut self, client: u64) -> Result<bool, Errno> {
        let room = CHANGES_PER_GROUP.saturating_sub(self.tx.len()) / CHANGES_PER_OPEN;
        if room == 0 {
            return Ok(false);
        }
        self.truncation_ended = true;
        self.apart(client, |cx| expire_client(cx, client, room))
    }

    /// Does what no request asked for, all or nothing.
    fn apart<T>(
        &mut self,
        client: u64,
        change: impl FnOnce(&mut Context<'_, '_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let mut cx = Context {
            tx: &mut self.tx,
            fs: &self.manager.fs,
            who: &Credentials::default(),
            client,
            now: self.wall,
            policy: &self.policy,
            keys: &self.keys,
            random: &mut self.writer.random,
            busy: None,
            left: Vec::new(),
        };
        let savepoint = cx.tx.savepoint();
        let result = change(&mut cx);
        if result.is_err() {
            cx.tx.rollback(savepoint);
            return result;
        }
        let left = cx.left;
        self.release_left(left)?;
        result
    }

    fn forget(&mut self, client: u64) {
        self.writer.quota.forget(client);
        if let Err(error) = self.writer.replies.drop_client(&mut self.tx, client) {
            tracing::error!(client, %error, "reply records of a lost client stay");
        }
        tracing::debug!(client, "a client is gone; its opens and locks are freed");
        self.outcome.expired.push(client);
    }
}

/// Learns from the store who held something before a restart, and who had lost it.
pub fn restore(
    view: &dyn View,
    clients: &mut Clients,
    lock_holders: impl IntoIterator<Item = u64>,
    now_ns: u64,
) -> Result<(), Errno> {
    for tag in [keys::OPEN, keys::TICKET, keys::REPLY] {
        let mut holders = Vec::new();
        each_client(view, tag, |client| holders.push(client))?;
        for client in holders {
            // Shared opens have no client that could come back.
            if tag != keys::OPEN || view.get(&keys::shared(client))?.is_none() {
                clients.remember(client, now_ns);
            }
        }
    }
    lock_holders.into_iter().for_each(|client| clients.remember(client, now_ns));
    each_client(view, keys::CLIENT, |client| clients.remember_expired(client, now_ns))
}

/// Calls `each` for every client with an entry under `tag`, reading one entry of each.
fn each_client(view: &dyn View, tag: u8, mut each: impl FnMut(u64)) -> Result<(), Errno> {
    let mut range = crate::store::KeyRange::prefix(&[tag]);
    loop {
        let Some(entry) = view.scan(&range).next() else { return Ok(()) };
        let client = keys::first_number(&entry?.0).ok_or(Errno::EIO)?;
        each(client);
        let Some(next) = client.checked_add(1) else { return Ok(()) };
        range.start = [&[tag][..], &next.to_be_bytes()].concat();
    }
}

fn expired_at(wall: Time) -> [u8; 9] {
    let mut record = [crate::record::VERSION; 9];
    record[1..].copy_from_slice(&unix_seconds(wall).to_le_bytes());
    record
}

/// A client that waits in turns asks again at once; whoever does not holds nobody up for longer.
const LAPSED_KEPT_NS: u64 = 200_000_000;

/// Their times are in minutes and hours.
const SHARED_LOOK_NS: u64 = 5_000_000_000;

/// Clients expired in one group.
const CLIENTS_PER_GROUP: usize = 64;

/// Changes in a group of expiries, so that requests wait for it no longer than for one of their own.
const CHANGES_PER_GROUP: usize = 8 << 10;

/// An open, its file's inode, and what removing the file takes.
const CHANGES_PER_OPEN: usize = 4;
