//! Locks as requests: decoded, allowed, taken in memory, and stored with the group they came in.
//!
//! ```text
//! key    09 | object u64 | family u8 | start u64 | client u64 | owner u64      big-endian; families as on the wire
//! value  version byte | end u64 | pid u32 | exclusive u8                       little-endian
//! ```

use pvfs_net::service::Response;
use pvfs_wire::ops::{
    AccessBits, Done, InheritLocks, Lock, LockFamily, LockKind, LockTest, LocksInherited,
    OpenFlags, TestLock,
};
use pvfs_wire::{DecodeError, Errno, Handle, Reader, Wire};

use super::group::{Fate, Group};
use super::work::Pending;
use crate::keys;
use crate::locks::{Edit, Held, Holder, LockTable, Place, Refusal, Verdict};
use crate::permission::Credentials;
use crate::record::{First, Inode, OpenFile, Record};
use crate::store::View;

impl Group<'_, '_> {
    /// Takes or gives up a lock.
    pub(super) fn lock(&mut self, request: &Pending) -> Result<Fate, Errno> {
        let lock = Lock::from_bytes(&request.body).map_err(|_| Errno::EPROTO)?;
        let place = Place { object: lock.handle.object, family: lock.family.seen() };
        let holder = self.holder(request.peer.client, lock.handle, lock.family, lock.owner)?;
        let (start, end) = bounds(lock.family, lock.start, lock.end)?;
        let exclusive = lock.kind == LockKind::Write;
        let wanted = Held { start, end, holder, pid: lock.pid, exclusive };
        if lock.kind == LockKind::Unlock {
            self.writer.locks.unlock(place, wanted);
            return Ok(done());
        }
        self.require_lockable(request, lock.handle)?;
        let id = (lock.wait_ms > 0).then(|| self.writer.waiter());
        match self.writer.locks.lock(place, wanted, id) {
            Ok(Verdict::Granted) => Ok(done()),
            Ok(Verdict::Waits) => {
                let id = id.expect("only who has a number waits");
                Ok(Fate::AwaitLock(id, lock.wait_ms.min(WAIT_MS_MAX)))
            }
            Err(refusal) => Err(status(refusal)),
        }
    }

    /// Tells of a lock in the way. Runs in the group, so that it sees what is about to be stored.
    pub(super) fn test_lock(&mut self, request: &Pending) -> Result<Fate, Errno> {
        let test = TestLock::from_bytes(&request.body).map_err(|_| Errno::EPROTO)?;
        let place = Place { object: test.handle.object, family: test.family.seen() };
        let holder = self.holder(request.peer.client, test.handle, test.family, test.owner)?;
        let (start, end) = bounds(test.family, test.start, test.end)?;
        let exclusive = test.kind == LockKind::Write;
        self.require_lockable(request, test.handle)?;
        let conflict =
            self.writer.locks.test(place, &Held { start, end, holder, pid: 0, exclusive });
        let reply = LockTest { conflict: conflict.map(|held| held.report()) };
        Ok(Fate::Answer(Response::done::<TestLock>(&reply)))
    }

    /// Makes what a process holds that of the program which it executed.
    pub(super) fn inherit_locks(&mut self, request: &Pending) -> Result<Fate, Errno> {
        let InheritLocks { from_client, owner } =
            InheritLocks::from_bytes(&request.body).map_err(|_| Errno::EPROTO)?;
        let from = Holder { client: from_client, owner, by_open: false };
        let to = Holder { client: request.peer.client, ..from };
        let ranges = self.writer.locks.hand_over(from, to) as u64;
        Ok(Fate::Answer(Response::done::<InheritLocks>(&LocksInherited { ranges })))
    }

    /// Whose a lock is. One of an open file is its first open's, for all who take part in it.
    fn holder(
        &self,
        client: u64,
        handle: Handle,
        family: LockFamily,
        owner: u64,
    ) -> Result<Holder, Errno> {
        if !family.is_by_open() {
            return Ok(Holder { client, owner, by_open: false });
        }
        let opened = self.tx.get(&keys::open(client, owner))?.ok_or(Errno::EBADF)?;
        let opened = OpenFile::decode(&opened).map_err(|_| Errno::EIO)?;
        if opened.object != handle.object {
            return Err(Errno::EBADF);
        }
        let first = match opened.flags.has(OpenFlags::ADOPTED) {
            true => self.tx.get(&keys::taken(client, owner))?,
            false => None,
        };
        let first = first.map(|first| First::decode(&first)).transpose();
        let first = first.map_err(|_| Errno::EIO)?.unwrap_or(First { client, open: owner });
        Ok(Holder { client: first.client, owner: first.open, by_open: true })
    }

    /// Frees the locks of open files in which nobody takes part any more.
    pub(super) fn release_left(&mut self, left: Vec<First>) -> Result<(), Errno> {
        for First { client, open } in left {
            let is_over = self.writer.locks.concerns(client)
                && !self.tx.contains(&keys::open(client, open))?
                && self.tx.scan_prefix(&keys::partakers((client, open))).next().is_none();
            if is_over {
                let holder = Holder { client, owner: open, by_open: true };
                self.writer.locks.release_open(holder);
            }
        }
        Ok(())
    }

    /// Puts what has happened to the locks into the batch, and answers whose turn has come.
    pub(super) fn note_locks(&mut self) {
        let changes = self.writer.locks.take_changes();
        for (place, edit) in &changes.edits {
            match edit {
                Edit::Added(held) => self.tx.put(key(*place, held), LockRecord(*held).encode()),
                Edit::Removed(held) => self.tx.delete(key(*place, held)),
            }
        }
        self.outcome.edits.extend(changes.edits);
        for id in changes.granted {
            // Without a ticket the reply is lost, as it may be on the network: the client asks
            // again, gives the lock up, or loses its lease.
            if let Some(ticket) = self.take_ticket(id) {
                let response = Response::done::<Lock>(&Done {});
                self.outcome.answer(ticket, response, false);
            }
        }
    }

    /// A lock is for those who may read or write the file, or have it open.
    fn require_lockable(&self, request: &Pending, handle: Handle) -> Result<(), Errno> {
        if !self.manager.fs.owns(handle) {
            return Err(Errno::ESTALE);
        }
        let bytes = self.tx.get(&keys::inode(handle.object))?.ok_or(Errno::ESTALE)?;
        let inode = Inode::decode(&bytes).map_err(|_| Errno::EIO)?;
        let who = Credentials::from(&*request.session);
        let may = who.may(&inode, AccessBits::READ) || who.may(&inode, AccessBits::WRITE);
        if may || self.has_open(request.peer.client, handle.object)? {
            return Ok(());
        }
        Err(Errno::EACCES)
    }

    fn has_open(&self, client: u64, object: u64) -> Result<bool, Errno> {
        for entry in self.tx.scan_prefix(&keys::opens(client)) {
            let (_, value) = entry?;
            if OpenFile::decode(&value).is_ok_and(|open| open.object == object) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Fills a table with the locks in the store.
pub fn restore(view: &dyn View, locks: &mut LockTable) -> Result<(), Errno> {
    for entry in view.scan_prefix(&[keys::LOCK]) {
        let (key, value) = entry?;
        let (place, held) = parse(&key, &value).map_err(|error| {
            tracing::error!(key = %key.escape_ascii(), %error, "a stored lock is not understood");
            Errno::EIO
        })?;
        locks.restore(place, held);
    }
    Ok(())
}

fn done() -> Fate {
    Fate::Answer(Response::done::<Lock>(&Done {}))
}

/// A flock is one of the whole file.
fn bounds(family: LockFamily, start: u64, end: u64) -> Result<(u64, u64), Errno> {
    match family.seen() {
        LockFamily::Flock => Ok((0, u64::MAX)),
        _ if start < end => Ok((start, end)),
        _ => Err(Errno::EINVAL),
    }
}

fn status(refusal: Refusal) -> Errno {
    match refusal {
        Refusal::Conflict => Errno::EAGAIN,
        Refusal::Deadlock => Errno::EDEADLK,
        Refusal::Full => Errno::ENOLCK,
    }
}

/// What is stored of a lock; the key says the rest.
struct LockRecord(Held);

impl Record for LockRecord {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.end.put(out);
        self.0.pid.put(out);
        self.0.exclusive.put(out);
    }

    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let holder = Holder::default();
        let (end, pid) = (u64::get(from)?, u32::get(from)?);
        Ok(Self(Held { start: 0, end, holder, pid, exclusive: bool::get(from)? }))
    }
}

fn key(place: Place, held: &Held) -> Vec<u8> {
    let mut key = keys::locks(place.object).to_vec();
    key.push(place.family.of_open(held.holder.by_open) as u8);
    for number in [held.start, held.holder.client, held.holder.owner] {
        key.extend_from_slice(&number.to_be_bytes());
    }
    key
}

fn parse(key: &[u8], value: &[u8]) -> Result<(Place, Held), DecodeError> {
    let mut from = Reader::new(key.get(1..).ok_or(DecodeError::Short)?);
    let number = |from: &mut Reader<'_>| from.array().map(u64::from_be_bytes);
    let object = number(&mut from)?;
    let family = LockFamily::get(&mut from)?;
    let start = number(&mut from)?;
    let (client, owner) = (number(&mut from)?, number(&mut from)?);
    let holder = Holder { client, owner, by_open: family.is_by_open() };
    from.finish()?;
    let held = Held { start, holder, ..LockRecord::decode(value)?.0 };
    Ok((Place { object, family: family.seen() }, held))
}

/// Nobody waits longer in one request; who wants to asks again, and so stays interruptible.
const WAIT_MS_MAX: u32 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_lock_comes_back() {
        [false, true].into_iter().for_each(stored_and_back);
    }

    fn stored_and_back(by_open: bool) {
        let holder = Holder { client: 3, owner: 4, by_open };
        let held = Held { start: 1, end: 2, holder, pid: 5, exclusive: true };
        let place = Place { object: 7, family: LockFamily::Flock };
        let (key, value) = (key(place, &held), LockRecord(held).encode());
        assert_eq!(key.len(), 34);
        assert_eq!(value, [1, 2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1]);
        assert_eq!(parse(&key, &value), Ok((place, held)));
        assert!((0..key.len()).all(|length| parse(&key[..length], &value).is_err()));
        assert!((0..value.len()).all(|length| parse(&key, &value[..length]).is_err()));
    }
}
