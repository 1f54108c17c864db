//! Locks. One that is not free is waited for in turns, by few threads for any number of programs, so that
//! neither the kernel's queue nor the connections to the manager are ever used up by waiting.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use pvfs_client::{Error, Result, Wait};
use pvfs_wire::Errno;
use pvfs_wire::ops::{HeldLock, Lock, LockFamily, LockKind, TestLock};

use crate::attributes::kernel_errno;
use crate::handles::OpenEntry;
use crate::identity::Requester;
use crate::locks::{Waiting, kind, wire_end};
use crate::mounted::{Mounted, wait};
use crate::protocol::FileHandle;
use crate::queue::Reply;
use crate::signals;

/// A lock as the kernel describes it.
#[derive(Clone, Copy, Debug)]
pub struct WantedLock {
    /// The open file it is asked through.
    pub number: FileHandle,
    /// Bytes or the whole file.
    pub family: LockFamily,
    /// Whose it is to be.
    pub owner: u64,
    /// The process that F_GETLK names.
    pub pid: u32,
    /// Read, write or unlock, as fcntl(2) numbers them.
    pub kind: i32,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub last: u64,
}

/// A program that waits for a lock.
pub struct LockWaiter {
    requester: Requester,
    entry: Arc<OpenEntry>,
    lock: Lock,
    reply: Reply,
    _waiting: Waiting,
}

impl Mounted {
    /// F_GETLK
    pub fn getlk(&self, requester: Requester, wanted: WantedLock) -> Result<Option<HeldLock>> {
        let entry = self.files.get(wanted.number)?;
        let lock = TestLock {
            handle: entry.file.handle,
            family: wanted.family,
            owner: wanted.owner,
            kind: kind(wanted.kind)?,
            start: wanted.start,
            end: wire_end(wanted.last),
        };
        wait(requester.pid, entry.user.test_lock(&lock))
    }

    /// F_SETLK, F_SETLKW and flock(2): answered at once, or later if the lock is to be waited for.
    pub fn setlk(
        self: &Arc<Self>,
        requester: Requester,
        wanted: WantedLock,
        sleep: bool,
        reply: Reply,
    ) {
        match self.try_lock(requester, wanted) {
            Ok((entry, lock, false)) if sleep => {
                let _waiting = self.owners.begin_waiting();
                self.wait_turn(LockWaiter { requester, entry, lock, reply, _waiting });
            }
            Ok((_, _, false)) => reply.error(Errno::EAGAIN),
            Ok((_, lock, true)) if lock.kind == LockKind::Unlock => reply.ok(),
            Ok((entry, _, true)) => {
                // Not by this thread: dropping pages that a program has changed in memory writes them first.
                let mounted = self.clone();
                self.waiting.spawn(move || {
                    mounted.refresh(entry.file.handle);
                    reply.ok();
                });
            }
            Err(error) => reply.error(kernel_errno(&error)),
        }
    }

    /// Asks for a lock without waiting; says whether it was granted.
    fn try_lock(
        &self,
        requester: Requester,
        wanted: WantedLock,
    ) -> Result<(Arc<OpenEntry>, Lock, bool)> {
        let entry = self.files.get(wanted.number)?;
        let lock = Lock {
            handle: entry.file.handle,
            family: wanted.family,
            owner: wanted.owner,
            pid: wanted.pid,
            kind: kind(wanted.kind)?,
            start: wanted.start,
            end: wire_end(wanted.last),
            wait_ms: 0,
        };
        if lock.family == LockFamily::Range && lock.kind != LockKind::Unlock {
            self.owners.note(entry.node, lock.owner);
            entry.note_range_owner(lock.owner);
        }
        match wait(requester.pid, entry.user.lock(lock.clone(), Wait::No)) {
            Ok(()) => Ok((entry, lock, true)),
            Err(error) if error.errno() == Errno::EAGAIN => Ok((entry, lock, false)),
            Err(error) => Err(error),
        }
    }

    /// Has a turn taken by the next thread that is free.
    fn wait_turn(self: &Arc<Self>, waiter: LockWaiter) {
        let mounted = self.clone();
        self.waiting.spawn(move || mounted.turn(waiter));
    }

    fn turn(self: Arc<Self>, waiter: LockWaiter) {
        match self.ask_for_a_while(&waiter) {
            None => self.wait_turn(waiter),
            Some(Ok(())) => {
                self.refresh(waiter.entry.file.handle);
                waiter.reply.ok();
            }
            Some(Err(error)) => waiter.reply.error(kernel_errno(&error)),
        }
    }

    /// What became of the lock; nothing yet when the turn is over.
    fn ask_for_a_while(&self, waiter: &LockWaiter) -> Option<Result<()>> {
        let interrupted = || signals::pending(waiter.requester.pid).any;
        if interrupted() {
            return Some(Err(Errno::EINTR.into()));
        }
        let user = &waiter.entry.user;
        let asked = if self.owners.is_crowded() {
            thread::sleep(CROWDED_PAUSE);
            wait(0, user.lock(waiter.lock.clone(), Wait::No))
        } else {
            let enough = || interrupted() || self.owners.is_crowded();
            wait(0, user.lock(waiter.lock.clone(), Wait::Until(&enough)))
        };
        match asked.as_ref().map_err(Error::errno) {
            Err(Errno::EAGAIN | Errno::EINTR) if !interrupted() => None,
            Err(Errno::EAGAIN) => Some(Err(Errno::EINTR.into())),
            _ => Some(asked),
        }
    }
}

/// Before asking again when so many wait that none can stay at the manager.
const CROWDED_PAUSE: Duration = Duration::from_millis(10);
