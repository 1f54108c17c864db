//! Exactly once: what every slot of every client was answered last.
//!
//! ```text
//! count of the request    known of the slot     what is done
//! 6                       5 or nothing          run; the answer is stored in the same batch
//! 5                       5                     answered again from the record
//! 4                       5                     EPROTO: its sender has had the answer and went on
//! ```
//!
//! The records are in the store; the counts are in memory too, so that a new request reads nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use pvfs_net::service::Response;
use pvfs_wire::{Bytes, Errno, Sequence};

use crate::keys;
use crate::record::{Record, ReplyRecord};
use crate::store::{StoreError, Transaction, View};

/// The counts of all clients that changed something since the manager started.
#[derive(Debug, Default)]
pub struct Replies {
    clients: HashMap<u64, Slots>,
    /// Slots answered by the group under way, of which nothing is stored yet.
    uncommitted: Vec<(u64, u16)>,
}

/// The last count of each slot used, in the order of the slots.
#[derive(Debug, Default)]
struct Slots {
    counts: Vec<(u16, u64)>,
}

/// What is to be done with a change.
pub enum Verdict {
    /// It is new: run it.
    Run,
    /// It was run: answer it again. Whether that is committed.
    Repeat(Response, bool),
    /// It is older than what was answered last, or numbered as no change can be.
    Refuse,
}

impl Replies {
    /// Whether a change of `client` is to be run.
    pub fn check(
        &mut self,
        view: &dyn View,
        client: u64,
        sequence: Sequence,
    ) -> Result<Verdict, Errno> {
        if !sequence.is_change() || sequence.slot >= SLOTS_MAX {
            return Ok(Verdict::Refuse);
        }
        let last = self.slots(view, client)?.count(sequence.slot);
        match sequence.count.cmp(&last) {
            std::cmp::Ordering::Greater => Ok(Verdict::Run),
            std::cmp::Ordering::Less => Ok(Verdict::Refuse),
            std::cmp::Ordering::Equal => self.repeat(view, client, sequence),
        }
    }

    /// Puts the answer of a change into its batch.
    pub fn note(
        &mut self,
        tx: &mut Transaction<'_>,
        client: u64,
        sequence: Sequence,
        response: &Response,
    ) {
        let body = Bytes(response.body.clone());
        let record = ReplyRecord { count: sequence.count, status: response.status.0, body };
        tx.put(keys::reply(client, sequence.slot), record.encode());
        self.clients.entry(client).or_default().set(sequence.slot, sequence.count);
        self.uncommitted.push((client, sequence.slot));
    }

    /// The group was committed.
    pub fn committed(&mut self) {
        self.uncommitted.clear();
    }

    /// The group was not committed: what the store says counts again.
    pub fn rolled_back(&mut self) {
        for (client, _) in self.uncommitted.drain(..) {
            self.clients.remove(&client);
        }
    }

    /// Drops all records of a client that is gone.
    pub fn drop_client(&mut self, tx: &mut Transaction<'_>, client: u64) -> Result<(), StoreError> {
        self.clients.remove(&client);
        let records = tx.scan_prefix(&keys::replies(client)).map(|entry| Ok(entry?.0));
        let keys: Vec<Vec<u8>> = records.collect::<Result<_, StoreError>>()?;
        keys.into_iter().for_each(|key| tx.delete(key));
        Ok(())
    }

    fn slots(&mut self, view: &dyn View, client: u64) -> Result<&Slots, Errno> {
        Ok(match self.clients.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Slots::load(view, client)?),
        })
    }

    fn repeat(&self, view: &dyn View, client: u64, sequence: Sequence) -> Result<Verdict, Errno> {
        let bytes = view.get(&keys::reply(client, sequence.slot))?.ok_or(Errno::EIO)?;
        let record = decode(&bytes)?;
        let committed = !self.uncommitted.contains(&(client, sequence.slot));
        let status = Errno(record.status);
        let response = Response { status, ..Response::encoded(record.body.0) };
        Ok(Verdict::Repeat(response, committed))
    }
}

impl Slots {
    fn load(view: &dyn View, client: u64) -> Result<Self, Errno> {
        let mut slots = Self::default();
        for entry in view.scan_prefix(&keys::replies(client)) {
            let (key, value) = entry?;
            let slot = key.get(9..11).ok_or(Errno::EIO)?;
            slots.set(u16::from_be_bytes([slot[0], slot[1]]), decode(&value)?.count);
        }
        Ok(slots)
    }

    fn count(&self, slot: u16) -> u64 {
        let found = self.counts.binary_search_by_key(&slot, |entry| entry.0);
        found.map_or(0, |at| self.counts[at].1)
    }

    fn set(&mut self, slot: u16, count: u64) {
        match self.counts.binary_search_by_key(&slot, |entry| entry.0) {
            Ok(at) => self.counts[at].1 = count,
            Err(at) => self.counts.insert(at, (slot, count)),
        }
    }
}

/// A record that is not understood is never guessed at: the request might run twice.
fn decode(bytes: &[u8]) -> Result<ReplyRecord, Errno> {
    ReplyRecord::decode(bytes).map_err(|error| {
        tracing::error!(%error, "a stored reply is not understood");
        Errno::EIO
    })
}

/// Slots a client may use: as many changes as it may have outstanding on a connection.
pub const SLOTS_MAX: u16 = 64;

/// The longest reply of a change. Placements travel as runs, so real ones are far below.
pub const REPLY_BYTES_MAX: usize = 4 << 10;
