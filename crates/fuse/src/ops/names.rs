//! Names: finding, making, removing, moving.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pvfs_client::Result;
use pvfs_wire::Errno;
use pvfs_wire::attr::Attr;
use pvfs_wire::ops::{Asked, RenameFlags, Target};

use crate::attributes::kind_of_mode;
use crate::identity::Requester;
use crate::mounted::{Mounted, Shown};

impl Mounted {
    /// The object of a name, if there is one; the kernel refers to it from now on.
    pub fn lookup(&self, requester: Requester, parent: u64, name: &OsStr) -> Result<Option<Attr>> {
        let target = &self.below(parent, name)?;
        let looked =
            self.act(requester, |user| async move { user.lookup(target.dir, &target.path).await })?;
        let Some(known) = looked.found else { return Ok(None) };
        let shown = self.completed(requester, known)?;
        let attr = self.named(shown.attr())?;
        // What the kernel may keep it does not ask for again at once.
        if self.attr_ttl(&attr).is_zero() && matches!(shown, Shown::Exact(_)) {
            self.recent.told(requester.pid, &attr);
        }
        Ok(Some(attr))
    }

    /// mkdir(2)
    pub fn mkdir(
        &self,
        requester: Requester,
        parent: u64,
        name: &OsStr,
        asked: Asked,
    ) -> Result<Attr> {
        let target = &self.below(parent, name)?;
        let made = self.act(requester, |user| async move {
            user.masked(asked.umask).mkdir(target.clone(), asked.bits & 0o7777).await
        });
        self.named(made?)
    }

    /// mknod(2)
    pub fn mknod(
        &self,
        requester: Requester,
        parent: u64,
        name: &OsStr,
        asked: Asked,
        rdev: u32,
    ) -> Result<Attr> {
        let target = &self.below(parent, name)?;
        let kind = kind_of_mode(asked.bits)?;
        let made = self.act(requester, |user| async move {
            let user = user.masked(asked.umask);
            user.mknod(target.clone(), kind, asked.bits & 0o7777, u64::from(rdev)).await
        });
        self.named(made?)
    }

    /// symlink(2)
    pub fn symlink(
        &self,
        requester: Requester,
        parent: u64,
        name: &OsStr,
        path: &Path,
    ) -> Result<Attr> {
        let target = &self.below(parent, name)?;
        let path = path.as_os_str().as_bytes();
        let made =
            self.act(requester, |user| async move { user.symlink(target.clone(), path).await });
        self.named(made?)
    }

    /// link(2)
    pub fn link(&self, requester: Requester, node: u64, parent: u64, name: &OsStr) -> Result<Attr> {
        let (existing, new) = (&self.object(node)?, &self.below(parent, name)?);
        let made = self.act(requester, |user| async move {
            user.link(existing.clone(), false, new.clone()).await
        });
        self.named(made?)
    }

    /// unlink(2)
    pub fn unlink(&self, requester: Requester, parent: u64, name: &OsStr) -> Result<()> {
        let target = &self.below(parent, name)?;
        self.act(requester, |user| async move { user.unlink(target.clone()).await }).map(|_| ())
    }

    /// rmdir(2)
    pub fn rmdir(&self, requester: Requester, parent: u64, name: &OsStr) -> Result<()> {
        let target = &self.below(parent, name)?;
        self.act(requester, |user| async move { user.rmdir(target.clone()).await }).map(|_| ())
    }

    /// renameat2(2)
    pub fn rename(
        &self,
        requester: Requester,
        from: (u64, &OsStr),
        to: (u64, &OsStr),
        flags: u32,
    ) -> Result<()> {
        let (from, to): (&Target, &Target) =
            (&self.below(from.0, from.1)?, &self.below(to.0, to.1)?);
        // Whiteouts are for overlay's upper layers.
        let flags = RenameFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
        let moved = self.act(requester, |user| async move {
            user.rename(from.clone(), to.clone(), flags).await
        });
        moved.map(|_| ())
    }

    /// readlink(2)
    pub fn readlink(&self, requester: Requester, node: u64) -> Result<Vec<u8>> {
        let target = &self.object(node)?;
        self.act(requester, |user| async move { user.readlink(target.clone()).await })
    }

    /// The kernel is about to be told of an object by name.
    fn named(&self, attr: Attr) -> Result<Attr> {
        self.nodes.looked_up(&attr);
        Ok(attr)
    }
}
