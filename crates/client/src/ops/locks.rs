//! Advisory locks. A caller that waits does so in short turns, so that it stays interruptible and every
//! request has an end.

use std::time::Duration;

use pvfs_net::call::Patience;
use pvfs_net::runtime::Runtime;
use pvfs_wire::ops::{HeldLock, InheritLocks, Lock, LockKind, TestLock};
use pvfs_wire::{Errno, Handle};

use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

/// Whether a lock that is not free is waited for.
pub enum Wait<'a> {
    /// No: EAGAIN at once.
    No,
    /// Yes, until this says true: then EINTR.
    Until(&'a (dyn Fn() -> bool + Sync)),
}

impl<R: Runtime> User<R> {
    /// Takes or gives up a lock; `request.wait_ms` is set here.
    pub async fn lock(&self, mut request: Lock, wait: Wait<'_>) -> Result<()> {
        request.wait_ms = if matches!(wait, Wait::No) { 0 } else { TURN.as_millis() as u32 };
        loop {
            let asked = self.ask_lock(&request).await;
            match (&wait, asked) {
                (Wait::Until(interrupted), Err(error)) if error.errno() == Errno::EAGAIN => {
                    if interrupted() {
                        return Err(Errno::EINTR.into());
                    }
                }
                (_, asked) => return asked,
            }
        }
    }

    /// The like for a lock of an open file: all who take part in the open share it, and it ends with the last of
    /// them. `family` says what kind it is, whose it is not.
    pub async fn lock_open(&self, file: &OpenFile, request: Lock, wait: Wait<'_>) -> Result<()> {
        let (family, owner) = (request.family.of_open(true), file.own()?);
        self.lock(Lock { handle: file.handle, family, owner, ..request }, wait).await
    }

    /// The lock in the way of one of an open file, if any.
    pub async fn test_lock_open(
        &self,
        file: &OpenFile,
        request: &TestLock,
    ) -> Result<Option<HeldLock>> {
        let (family, owner) = (request.family.of_open(true), file.own()?);
        let request = TestLock { handle: file.handle, family, owner, ..request.clone() };
        self.test_lock(&request).await
    }

    /// The lock in the way of this one, if any (F_GETLK).
    pub async fn test_lock(&self, request: &TestLock) -> Result<Option<HeldLock>> {
        Ok(self.ask(request).await?.conflict)
    }

    /// Makes the byte ranges that a process held as another client this one's, which it has become by executing a
    /// program. False where they went with that client's lease.
    pub async fn inherit_locks(&self, from_client: u64, owner: u64) -> Result<bool> {
        Ok(self.ask(&InheritLocks { from_client, owner }).await?.ranges > 0)
    }

    /// This client holds locks on these files that it inherited; if they are lost, whoever relies on them is told as if
    /// it had been its own lease that is over.
    pub fn note_inherited(&self, files: &[Handle], are_lost: bool) {
        files.iter().for_each(|file| self.filesystem.note_lock(*file));
        if are_lost {
            self.filesystem.caller().note_lease_lost();
        }
    }

    async fn ask_lock(&self, request: &Lock) -> Result<()> {
        let patience = self.filesystem.metadata_patience();
        let patience = Patience { timeout: patience.timeout + TURN, ..patience };
        let server = self.filesystem.manager();
        self.filesystem.caller().call(server, &self.principal, request, patience).await?;
        match request.kind {
            LockKind::Unlock if request.start == 0 && request.end == u64::MAX => {
                self.filesystem.forget_lock(request.handle);
            }
            LockKind::Unlock => {}
            LockKind::Read | LockKind::Write => self.filesystem.note_lock(request.handle),
        }
        Ok(())
    }
}

/// How long the manager holds a request that waits for a lock.
const TURN: Duration = Duration::from_millis(500);
