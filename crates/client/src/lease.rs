//! Keeping a lease on what this client caches: one long poll after the other.

use std::time::Duration;

use pvfs_net::call::Patience;
use pvfs_net::runtime::Runtime;
use pvfs_wire::ops::{Recall, Recalls};

use crate::error::Result;
use crate::user::User;

/// Whoever keeps the lease of a client. The cache ([`crate::cache::Cache`]) is usable while it does.
///
/// ```text
/// poll ──> recalls ──> whoever was told more than the cache knows (the kernel) drops it ──> poll, which
///                                                                                          acknowledges
/// ```
pub struct Leaseholder<R: Runtime> {
    user: User<R>,
    lease: u64,
    acknowledged: u64,
    wait_ms: u32,
}

/// What a poll brought.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Lost {
    /// These are no longer as they were told, the oldest first; nothing if the list is empty.
    Some(Vec<Recall>),
    /// There was no lease, or there is none any more: nothing holds that was told before.
    All,
}

impl<R: Runtime> Leaseholder<R> {
    /// Makes the file system's cache usable as soon as [`Self::poll`] is called, again and again.
    pub fn new(user: User<R>) -> Self {
        user.filesystem().cache().enable();
        Self { user, lease: 0, acknowledged: 0, wait_ms: 0 }
    }

    /// Waits for recalls, at most a fraction of the lease, and renews it. What the last poll brought is
    /// acknowledged by this, so it must have been dropped everywhere before.
    pub async fn poll(&mut self) -> Result<Lost> {
        let filesystem = self.user.filesystem().clone();
        let runtime = filesystem.runtime();
        let sent = runtime.now();
        let (lease, acknowledged, wait_ms) = (self.lease, self.acknowledged, self.wait_ms);
        let request = Recalls { lease, acknowledged, wait_ms, ends: false };
        let timeout = Duration::from_millis(u64::from(self.wait_ms)) + ANSWER_TIME;
        let patience = Patience { timeout, insist: true };
        let caller = filesystem.caller();
        let told =
            caller.call(filesystem.manager(), self.user.principal(), &request, patience).await?;
        let cache = filesystem.cache();
        let until = sent.after(Duration::from_millis(u64::from(told.lease_ms)));
        if told.lease == 0 {
            (self.lease, self.acknowledged, self.wait_ms) = (0, 0, 0);
            cache.lose_lease();
            return Ok(Lost::All);
        }
        self.acknowledged = told.number;
        if told.lease_ms > 0 {
            self.wait_ms = told.lease_ms / POLLS_PER_LEASE;
        }
        if told.lease != self.lease {
            self.lease = told.lease;
            cache.begin_lease(until);
            return Ok(Lost::All);
        }
        cache.recall(&told.recalls);
        if told.lease_ms > 0 {
            cache.renew_lease(until);
        }
        Ok(Lost::Some(told.recalls))
    }

    /// Lets go of everything before asking again: the manager cannot be heard.
    pub fn lose(&mut self) {
        (self.lease, self.acknowledged, self.wait_ms) = (0, 0, 0);
        self.user.filesystem().cache().lose_lease();
    }
}

impl<R: Runtime> User<R> {
    /// Says that this client caches nothing any more, so that nobody waits for it, nor a manager that is started next.
    pub async fn end_lease(&self) -> Result<()> {
        self.filesystem().cache().lose_lease();
        let request = Recalls { lease: 0, acknowledged: 0, wait_ms: 0, ends: true };
        let patience = Patience { timeout: ANSWER_TIME, insist: false };
        let filesystem = self.filesystem();
        let (caller, manager) = (filesystem.caller(), filesystem.manager());
        caller.call(manager, self.principal(), &request, patience).await?;
        Ok(())
    }
}

/// Each poll renews the lease when it is sent, so what is told in between may be believed for the rest.
const POLLS_PER_LEASE: u32 = 5;

/// For the reply, beyond the time the manager may wait.
const ANSWER_TIME: Duration = Duration::from_secs(2);
