//! Attributes of objects and of the file system.

use pvfs_client::Result;
use pvfs_wire::Errno;
use pvfs_wire::attr::Attr;
use pvfs_wire::handle::ROOT_OBJECT;
use pvfs_wire::ops::{AccessBits, FilesystemStat, SetAttr, SetTime, StoreStat};

use crate::identity::Requester;
use crate::mounted::{Mounted, wait};

/// What setattr is to change; what is absent stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
}

impl Mounted {
    /// stat(2)
    pub fn getattr(&self, requester: Requester, node: u64) -> Result<Attr> {
        if let Some(told) = self.recent.take(requester.pid, node) {
            return Ok(told);
        }
        if node == ROOT_OBJECT {
            return self.stat_root(requester);
        }
        match self.stat(requester, &self.object(node)?) {
            Err(error) if error.errno() == Errno::ESTALE => {
                self.nodes.gone_directory(node).ok_or(error)
            }
            told => told,
        }
    }

    /// What the kernel asks, naming an open file, when it is about to read near the end of what it knows:
    /// an old size would be taken for the end of the file.
    pub fn getattr_exactly(&self, requester: Requester, node: u64) -> Result<Attr> {
        self.recent.forget(requester.pid);
        self.stat_exactly(requester, &self.object(node)?)
    }

    /// access(2) and chdir(2), where the kernel does not check by itself.
    pub fn access(&self, requester: Requester, node: u64, wanted: u32) -> Result<()> {
        let target = &self.object(node)?;
        let wanted = AccessBits::from_bits(wanted & ACCESS_BITS).unwrap_or(AccessBits::NONE);
        self.act(
            requester,
            |user| async move { user.check_access(target.clone(), false, wanted).await },
        )
    }

    /// chmod, chown, utimens; truncation is [`Mounted::resize`].
    pub fn setattr(&self, requester: Requester, node: u64, changes: Changes) -> Result<Attr> {
        let request = &SetAttr {
            target: self.object(node)?,
            follow: false,
            mode: changes.mode.map(|mode| mode & 0o7777),
            uid: changes.uid,
            gid: changes.gid,
            atime: changes.atime,
            mtime: changes.mtime,
        };
        let changed =
            self.act(requester, |user| async move { user.set_attr_known(request.clone()).await })?;
        if request.mtime.is_some() {
            self.nodes.chose_mtime(node);
        }
        Ok(self.completed(requester, changed)?.attr())
    }

    /// statfs(2), as far as the daemons answer, those left out that did not lately.
    pub fn statfs(&self, requester: Requester) -> Result<(StoreStat, FilesystemStat)> {
        let user = self.identities.user(requester)?;
        let space = wait(requester.pid, async {
            Ok(user.statfs_without(|server| self.is_silent(server)).await)
        })?;
        if space.names.is_none() && space.iods.iter().all(Option::is_none) {
            return Err(Errno::EIO.into());
        }
        if !space.unanswered.is_empty() {
            let silent: Vec<&str> =
                space.unanswered.iter().map(|silent| silent.server.as_str()).collect();
            tracing::warn!("statfs without {}; see pvfs status", silent.join(", "));
        }
        Ok((space.total(), space.names.unwrap_or(NO_FIGURES)))
    }
}

impl Changes {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        let owners = self.uid.is_none() && self.gid.is_none();
        owners && self.mode.is_none() && self.atime.is_none() && self.mtime.is_none()
    }
}

/// What is said of names when the manager does not answer.
const NO_FIGURES: FilesystemStat = FilesystemStat { files: 0, files_free: 0, purging: 0 };

/// `R_OK | W_OK | X_OK`, which the wire counts alike.
const ACCESS_BITS: u32 = 7;
