//! Advisory locks, cluster-wide.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use pvfs_client::{Wait, block_on};
use pvfs_net::blocking::interruptions;
use pvfs_net::signals;
use pvfs_wire::Errno;
use pvfs_wire::ops::{HeldLock, Lock, LockFamily, LockKind, TestLock};

use crate::description::{Description, Own};
use crate::errno::{Reach, Stop};
use crate::process::Process;

/// Whose a lock is and what it covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Family {
    /// Byte ranges of this process (F_SETLK).
    Process,
    /// Byte ranges of the open file (F_OFD_SETLK).
    Open,
    /// The whole file, of the open file (flock).
    Whole,
}

/// A lock that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Whose.
    pub family: Family,
    /// What is done.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// One past the last; `u64::MAX` for all that may come.
    pub end: u64,
    /// Whether it is waited for.
    pub wait: bool,
}

/// A lock in the way.
pub type Conflict = HeldLock;

impl Process {
    /// Takes or gives up a lock. A wait ends with EINTR when a signal was handled, unless all handlers of this
    /// process ask for calls to go on (`SA_RESTART`).
    pub fn lock(&self, fd: RawFd, wanted: Wanted) -> Reach<()> {
        let description = self.description(fd)?;
        check_access(&description, &wanted)?;
        self.lock_description(&description, wanted)
    }

    /// F_GETLK
    pub fn test_lock(&self, fd: RawFd, wanted: Wanted) -> Reach<Option<Conflict>> {
        let description = self.description(fd)?;
        let test = TestLock {
            handle: description.record.handle,
            family: family(wanted.family),
            owner: self.owner(&description, wanted.family),
            kind: wanted.kind,
            start: wanted.start,
            end: wanted.end,
        };
        if wanted.family != Family::Process && description.record.has_opens() {
            return self.with_own(&description, false, |Own { user, file }| {
                block_on(user.test_lock_open(file, &test))
            });
        }
        Ok(block_on(self.user()?.test_lock(&test))?)
    }

    fn lock_description(&self, description: &Description, wanted: Wanted) -> Reach<()> {
        let handle = description.record.handle;
        let lock = Lock {
            handle,
            family: family(wanted.family),
            owner: self.owner(description, wanted.family),
            pid: rustix::process::getpid().as_raw_nonzero().get().unsigned_abs(),
            kind: wanted.kind,
            start: wanted.start,
            end: wanted.end,
            wait_ms: 0,
        };
        let takes = wanted.kind != LockKind::Unlock;
        let _held = wanted.wait.then(signals::hold);
        let before = interruptions();
        let interrupted = move || interruptions() != before && !signals::all_restart();
        let wait = || if wanted.wait { Wait::Until(&interrupted) } else { Wait::No };
        match wanted.family {
            Family::Process if takes => drop(self.locks().files.insert(handle)),
            Family::Process => {}
            // The lock is that of all who have the file open through this description, here or elsewhere.
            _ if description.record.has_opens() => {
                let locked = self.with_own(description, false, |Own { user, file }| {
                    block_on(user.lock_open(file, lock.clone(), wait()))
                });
                return locked.inspect(|()| {
                    if takes {
                        description.shared.note_locked();
                    }
                });
            }
            _ if takes => description.locked.store(true, Ordering::Relaxed),
            _ => {}
        }
        let user = match description.record.is_file() {
            true => self.own(description, false)?.user.clone(),
            false => self.user()?,
        };
        Ok(block_on(user.lock(lock, wait()))?)
    }

    /// Within this client: the process itself, or something open of which the manager knows no opens.
    fn owner(&self, description: &Description, family: Family) -> u64 {
        let number = match family {
            Family::Process => 0,
            Family::Open | Family::Whole => description.identity.1,
        };
        self.locks().owner ^ number
    }

    /// As POSIX has it, closing any descriptor of a file gives up the process's locks on it.
    pub(crate) fn drop_range_locks(&self, description: &Description) -> Reach<()> {
        let has_some = self.locks().files.remove(&description.record.handle);
        if has_some { self.lock_description(description, whole(Family::Process)) } else { Ok(()) }
    }

    /// The last descriptor of what the manager knows no opens of gives up the locks that are its own; those of others
    /// go with the last open, which the manager sees.
    pub(crate) fn drop_own_locks(&self, description: &Description) {
        if description.locked.swap(false, Ordering::Relaxed) {
            let _ = self.lock_description(description, whole(Family::Open));
            let _ = self.lock_description(description, whole(Family::Whole));
        }
    }
}

fn check_access(description: &Description, wanted: &Wanted) -> Result<(), Stop> {
    let may = match (wanted.family, wanted.kind) {
        _ if description.record.path_only => false,
        (Family::Whole, _) | (_, LockKind::Unlock) => true,
        (_, LockKind::Read) => description.may_read(),
        (_, LockKind::Write) => description.may_write(),
    };
    if may { Ok(()) } else { Err(Errno::EBADF.into()) }
}

fn whole(family: Family) -> Wanted {
    Wanted { family, kind: LockKind::Unlock, start: 0, end: u64::MAX, wait: false }
}

fn family(family: Family) -> LockFamily {
    if family == Family::Whole { LockFamily::Flock } else { LockFamily::Range }
}
