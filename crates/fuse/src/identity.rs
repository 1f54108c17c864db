//! On whose behalf a request is made.
//!
//! The kernel tells user and primary group, not the supplementary groups; those are read from /proc, each
//! time if it is the manager's check alone that counts. Where the kernel checks too, and knows the groups,
//! they are believed for a second; a refusal by groups that were not read for this very request is not
//! believed: they are read again, and if they have changed the request is tried once more.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pvfs_client::credentials::{Identity, Issuer};
use pvfs_client::{Error, Filesystem, Result, User};
use pvfs_net::blocking::Blocking;
use pvfs_wire::Errno;
use pvfs_wire::token::SessionRights;

use crate::options::Cache;

/// Who asks, as the kernel says.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub struct Requester {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Thread.
    pub pid: u32,
}

/// Finds the user to act as.
pub enum Identities {
    /// Everything is done as the user who mounted: no other session is to be had on this node.
    Mounter(User<Blocking>),
    /// Everyone acts as themselves.
    Each(Box<Users>),
}

/// The users of a mount that may act as anyone.
pub struct Users {
    filesystem: Arc<Filesystem<Blocking>>,
    issuer: Issuer,
    believed: Duration,
    groups: Mutex<HashMap<Requester, Groups>>,
    users: Mutex<HashMap<Identity, User<Blocking>>>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
struct Groups {
    gids: Vec<u32>,
    read_at: Instant,
}

impl Requester {
    /// The user of this process.
    pub fn of_process() -> Self {
        Self {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            pid: std::process::id(),
        }
    }
}

impl Identities {
    /// Whoever holds the cluster key may vouch for every user of this node; an agent vouches for its caller.
    pub fn new(
        filesystem: Arc<Filesystem<Blocking>>,
        issuer: Issuer,
        cache: Cache,
    ) -> Result<Self> {
        if let Issuer::Key { .. } = issuer {
            let believed = if kernel_checks(&issuer, cache) { BELIEVED } else { Duration::ZERO };
            let (groups, users) = (Mutex::default(), Mutex::default());
            return Ok(Self::Each(Box::new(Users { filesystem, issuer, believed, groups, users })));
        }
        let principal = issuer.principal(Identity::of_process(), SessionRights::NONE)?;
        Ok(Self::Mounter(User::new(filesystem, principal)))
    }

    /// Does something as the requester.
    pub fn act<T>(
        &self,
        requester: Requester,
        action: impl Fn(&User<Blocking>) -> Result<T>,
    ) -> Result<T> {
        match self {
            Self::Mounter(user) => action(user),
            Self::Each(users) => users.act(requester, action),
        }
    }

    /// The user who mounted, for what is done on nobody's behalf.
    pub fn own_user(&self) -> Result<User<Blocking>> {
        self.user(Requester::of_process())
    }

    /// The requester, for an action that cannot be refused by their groups.
    pub fn user(&self, requester: Requester) -> Result<User<Blocking>> {
        self.act(requester, |user| Ok(user.clone()))
    }
}

/// Whether the kernel is to check permissions by the attributes it has. For that it asks for those of every
/// directory on a path, which are one message each if nothing may be remembered; the manager checks each
/// request anyway. But a name that the kernel remembers never gets to the manager, and where everything is
/// done as one user the manager cannot tell who asks.
pub fn kernel_checks(issuer: &Issuer, cache: Cache) -> bool {
    cache != Cache::None || !matches!(issuer, Issuer::Key { .. })
}

impl Users {
    fn act<T>(
        &self,
        requester: Requester,
        action: impl Fn(&User<Blocking>) -> Result<T>,
    ) -> Result<T> {
        let (groups, fresh) = self.groups(requester);
        let outcome = action(&self.user(requester, &groups)?);
        if fresh || !outcome.as_ref().is_err_and(is_refusal) {
            return outcome;
        }
        let now = self.read_groups(requester);
        if now == groups { outcome } else { action(&self.user(requester, &now)?) }
    }

    /// The supplementary groups, and whether they were read just now.
    fn groups(&self, requester: Requester) -> (Vec<u32>, bool) {
        // The superuser is refused nothing for want of a group.
        if requester.uid == 0 {
            return (Vec::new(), true);
        }
        let known = lock(&self.groups).get(&requester).cloned();
        match known.filter(|known| known.read_at.elapsed() < self.believed) {
            Some(known) => (known.gids, false),
            None => (self.read_groups(requester), true),
        }
    }

    fn read_groups(&self, requester: Requester) -> Vec<u32> {
        let gids = groups_of(requester.pid);
        if self.believed.is_zero() {
            return gids;
        }
        let mut all = lock(&self.groups);
        if all.len() >= REQUESTERS_MAX {
            all.retain(|_, groups| groups.read_at.elapsed() < self.believed);
        }
        if all.len() >= REQUESTERS_MAX {
            all.clear();
        }
        all.insert(requester, Groups { gids: gids.clone(), read_at: Instant::now() });
        gids
    }

    fn user(&self, requester: Requester, gids: &[u32]) -> Result<User<Blocking>> {
        let identity = Identity { uid: requester.uid, gid: requester.gid, gids: gids.to_vec() };
        if let Some(user) = lock(&self.users).get(&identity) {
            return Ok(user.clone());
        }
        let principal = self.issuer.principal(identity.clone(), SessionRights::NONE)?;
        let user = User::new(self.filesystem.clone(), principal);
        let mut users = lock(&self.users);
        if users.len() >= USERS_MAX {
            users.clear();
        }
        users.insert(identity, user.clone());
        Ok(user)
    }
}

fn is_refusal(error: &Error) -> bool {
    matches!(error.errno(), Errno::EACCES | Errno::EPERM)
}

/// The supplementary groups of a thread; none when it is gone or out of sight.
fn groups_of(thread: u32) -> Vec<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    parse_groups(&status)
}

fn parse_groups(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    line.into_iter().flat_map(str::split_whitespace).filter_map(|gid| gid.parse().ok()).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no code panics while it holds this")
}

/// How long groups are believed without a look.
const BELIEVED: Duration = Duration::from_secs(1);

/// Threads whose groups are remembered.
const REQUESTERS_MAX: usize = 4096;

/// Users that are remembered; each costs a session on every connection.
const USERS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_client::Options;
    use pvfs_wire::token::KeyRing;
    use std::cell::{Cell, RefCell};

    fn users() -> Users {
        let text = "version = 1\n[filesystem]\nname = \"t\"\nid = 1\n[security]\nmode = \"none\"\n\
                    [[manager]]\nname = \"m0\"\nlisten = [\"tcp://127.0.0.1:1\"]\nstore = \"m0\"\n\
                    [[iod]]\nname = \"i0\"\nlisten = [\"tcp://127.0.0.1:2\"]\nstore = \"i0\"\n";
        let cluster = pvfs_config::Cluster::parse(text, "/tmp/t.toml".as_ref()).unwrap();
        let filesystem = Filesystem::new(Blocking, &cluster, Options::of(&cluster)).unwrap();
        let (ring, lifetime) = (KeyRing::new(&[[0; 32]]), Duration::from_secs(600));
        let issuer = Issuer::Key { ring, lifetime, security: None };
        let (groups, users) = (Mutex::default(), Mutex::default());
        Users { filesystem, issuer, believed: BELIEVED, groups, users }
    }

    fn requester(uid: u32) -> Requester {
        Requester { uid, gid: 100, pid: std::process::id() }
    }

    fn believe(users: &Users, requester: Requester, gids: &[u32]) {
        let groups = Groups { gids: gids.to_vec(), read_at: Instant::now() };
        lock(&users.groups).insert(requester, groups);
    }

    fn known(users: &Users) -> Vec<Identity> {
        lock(&users.users).keys().cloned().collect()
    }

    #[test]
    fn groups_are_read_as_the_kernel_writes_them() {
        assert_eq!(
            parse_groups("Gid:\t1\t1\t1\t1\nGroups:\t4 24 1000 \nNStgid:\t5\n"),
            [4, 24, 1000]
        );
        assert_eq!(parse_groups("Groups:\t\n"), [] as [u32; 0]);
        assert_eq!(parse_groups(""), [] as [u32; 0]);
        assert_eq!(groups_of(0), [] as [u32; 0]);
    }

    #[test]
    fn one_user_is_made_per_identity() {
        let users = users();
        for _ in 0..3 {
            users.act(requester(1000), |_| Ok(())).unwrap();
        }
        users.act(requester(1001), |_| Ok(())).unwrap();
        assert_eq!(known(&users).len(), 2);
    }

    /// The groups believed are wrong; what this process really has is read after the refusal.
    #[test]
    fn a_refusal_by_outdated_groups_is_not_believed() {
        let users = users();
        let asker = requester(1000);
        believe(&users, asker, &[7, 8, 9]);
        let tried = RefCell::new(0);
        let outcome = users.act(asker, |_| {
            *tried.borrow_mut() += 1;
            if *tried.borrow() == 1 { Err(Errno::EACCES.into()) } else { Ok(()) }
        });
        assert_eq!((outcome, *tried.borrow()), (Ok(()), 2));
        assert!(known(&users).iter().any(|identity| identity.gids == groups_of(asker.pid)));
    }

    #[test]
    fn groups_given_up_count_no_more_when_only_the_manager_checks() {
        let users = Users { believed: Duration::ZERO, ..users() };
        let asker = requester(1000);
        believe(&users, asker, &[7, 8, 9]);
        users.act(asker, |_| Ok(())).unwrap();
        assert_eq!(known(&users)[0].gids, groups_of(asker.pid));
    }

    #[test]
    fn a_refusal_by_fresh_groups_is_final() {
        let users = users();
        let tried = Cell::new(0);
        let outcome: Result<()> = users.act(requester(1000), |_| {
            tried.set(tried.get() + 1);
            Err(Errno::EACCES.into())
        });
        assert_eq!((outcome, tried.get()), (Err(Errno::EACCES.into()), 1));
    }

    #[test]
    fn other_failures_are_not_tried_again() {
        let users = users();
        believe(&users, requester(1000), &[7]);
        let tried = Cell::new(0);
        let outcome: Result<()> = users.act(requester(1000), |_| {
            tried.set(tried.get() + 1);
            Err(Errno::ENOENT.into())
        });
        assert_eq!((outcome, tried.get()), (Err(Errno::ENOENT.into()), 1));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let users = users();
        for pid in 0..2 * REQUESTERS_MAX as u32 {
            users.read_groups(Requester { uid: 5, gid: 5, pid: 0x7000_0000 + pid });
        }
        assert!(lock(&users.groups).len() <= REQUESTERS_MAX);
    }
}
