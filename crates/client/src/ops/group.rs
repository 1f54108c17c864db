//! Group opens: one process opens a file for all, the others need no server for it (openg and openfh of the HEC
//! extensions, paper 003 §3.2).
//!
//! ```text
//! process 0      openg ---> manager           one message
//!                  | handle: bytes, sent to the others by MPI_Bcast, a file, a pipe ...
//! 1, 2, 3 ...    openfh                       no message at all
//! ```
//!
//! The manager keeps one open for all of them, with an end instead of a lease. See docs/parallel.md.

use pvfs_net::call::Shown;
use pvfs_net::runtime::Runtime;
use pvfs_wire::attr::{Attr, Striping};
use pvfs_wire::group_handle::{GroupHandle, GroupHandleError};
use pvfs_wire::ops::{
    CloseShared, Count, CountShared, OpenFlags, OpenShared, RenewShared, Sharers, Target,
};
use pvfs_wire::token::KeyRing;
use pvfs_wire::{Bytes, Errno};

use crate::error::Result;
use crate::file::{OpenFile, Registration};
use crate::user::User;

/// For whom a file is opened, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Group {
    /// Who may use the handle.
    pub sharers: Sharers,
    /// How long it is open when nobody uses it; at most a day.
    pub lifetime_s: u32,
}

/// A file opened for many.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GroupOpening {
    /// What the others need: opaque, to be passed on as it is.
    pub handle: Vec<u8>,
    /// The file's attributes.
    pub attr: Attr,
    /// Whether this open created it.
    pub created: bool,
}

impl Default for Group {
    /// The user's own processes, for an hour after the last use.
    fn default() -> Self {
        Self { sharers: Sharers::User, lifetime_s: 3600 }
    }
}

impl<R: Runtime> User<R> {
    /// Opens a regular file for a group of processes, and creates it if asked. `mode` has the umask already
    /// taken off. EINVAL with APPEND: appenders need an open of their own.
    ///
    /// One message; with TRUNCATE those of an open and a close too.
    pub async fn openg(
        &self,
        target: Target,
        flags: OpenFlags,
        mode: u32,
        striping: Striping,
        group: Group,
    ) -> Result<GroupOpening> {
        if !flags.has(OpenFlags::TRUNCATE) {
            return self.open_shared(target, flags, mode, striping, group).await;
        }
        if flags.has(OpenFlags::APPEND) {
            return Err(Errno::EINVAL.into());
        }
        let opening = self.open(target, flags, mode, striping).await?;
        let file = opening.file.ok_or(Errno::EISDIR)?;
        let same = Target::object(file.handle);
        let shared = flags_without_creation(flags);
        let opened = self.open_shared(same, shared, 0, Striping::default(), group).await;
        self.close(file).await?;
        Ok(GroupOpening { created: opening.created, ..opened? })
    }

    /// The file of a group handle, open as it was opened by [`Self::openg`]. Contacts nobody.
    ///
    /// What can be told without a key is checked: form, checksum, file system and time. A handle that somebody
    /// made up passes, and then is refused by every daemon; see [`Self::openfh_sealed`].
    pub fn openfh(&self, handle: &[u8]) -> Result<OpenFile> {
        let now_s = self.filesystem.runtime().wall_s();
        let group = self.group_of(handle, now_s)?;
        let number = self.filesystem.next_number();
        let shown = Shown { number, version: 1, token: group.capability };
        let registration = Registration::Shared(handle.into(), group.number);
        Ok(OpenFile::new(&group.attr, group.flags, group.placement, registration, shown))
    }

    /// The like for whoever holds the cluster's keys: a handle that was made up is refused at once.
    pub fn openfh_sealed(&self, handle: &[u8], ring: &KeyRing) -> Result<OpenFile> {
        GroupHandle::check_seal(handle, ring).map_err(GroupHandleError::errno)?;
        self.openfh(handle)
    }

    /// The attributes that the file had when it was opened for the group. Contacts nobody.
    pub fn group_attr(&self, handle: &[u8]) -> Result<Attr> {
        Ok(self.group_of(handle, 0)?.attr)
    }

    /// A handle for the same open that is good for longer. The old one stays good for its own time.
    ///
    /// One that was damaged on its way is refused here: the manager would take it for an attempt to break in.
    pub async fn renewg(&self, handle: &[u8]) -> Result<Vec<u8>> {
        self.group_of(handle, 0)?;
        let renewed = self.ask(&RenewShared { handle: handle.into() }).await?;
        Ok(renewed.handle.0)
    }

    /// Ends the open for all who share it, when they are done. Only its opener may; it ends by itself too.
    /// Damaged handles are refused as [`Self::renewg`] does it.
    pub async fn closeg(&self, handle: &[u8]) -> Result<()> {
        self.group_of(handle, 0)?;
        self.ask(&CloseShared { handle: handle.into() }).await.map(|_| ())
    }

    /// Adds to the number that all who share this open have in common, and returns what it was before: no two who add
    /// get the same piece. It begins at 0, is never below, and ends with the open.
    ///
    /// EINVAL when the file was not opened by [`Self::openfh`], or the number would be below 0; EOVERFLOW beyond `i64`.
    /// ETIMEDOUT and EIO leave open whether it was added.
    pub async fn fetch_and_add(&self, file: &OpenFile, by: i64) -> Result<i64> {
        self.count(file, Count::Add, by).await
    }

    /// The like, setting the number.
    pub async fn fetch_and_set(&self, file: &OpenFile, to: i64) -> Result<i64> {
        self.count(file, Count::Set, to).await
    }

    async fn count(&self, file: &OpenFile, count: Count, number: i64) -> Result<i64> {
        let Registration::Shared(handle, _) = &file.registration else {
            return Err(Errno::EINVAL.into());
        };
        let request = CountShared { handle: handle.clone(), count, number };
        Ok(self.ask(&request).await?.before)
    }

    /// A fresh capability of a shared open, which by that stays open for longer.
    pub(crate) async fn renewed_share(&self, handle: &Bytes) -> Result<Bytes> {
        let renewed = self.ask(&RenewShared { handle: handle.clone() }).await?;
        Ok(self.group_of(&renewed.handle, 0)?.capability)
    }

    /// What a handle says that was good at this time; 0 for whenever.
    fn group_of(&self, handle: &[u8], now_s: u64) -> Result<GroupHandle> {
        Ok(GroupHandle::read(handle, self.filesystem.fsid(), now_s)
            .map_err(GroupHandleError::errno)?)
    }

    async fn open_shared(
        &self,
        target: Target,
        flags: OpenFlags,
        mode: u32,
        striping: Striping,
        group: Group,
    ) -> Result<GroupOpening> {
        let Group { sharers, lifetime_s } = group;
        let request = OpenShared { target, flags, mode, striping, sharers, lifetime_s };
        let opened = self.ask(&request).await?;
        let (attr, created) = (opened.attr, opened.created);
        Ok(GroupOpening { handle: opened.handle.0, attr, created })
    }
}

/// How a file is opened that is there by now.
fn flags_without_creation(flags: OpenFlags) -> OpenFlags {
    let kept = [OpenFlags::READ, OpenFlags::WRITE, OpenFlags::EXECUTE];
    kept.into_iter().fold(OpenFlags::NONE, |all, flag| all.with_if(flags.has(flag), flag))
}
