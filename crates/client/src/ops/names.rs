//! Names: making, removing, moving. One message each.

use pvfs_net::runtime::Runtime;
use pvfs_wire::Bytes;
use pvfs_wire::attr::{Attr, FileKind};
use pvfs_wire::ops::{
    Link, Mkdir, Mknod, Rename, RenameFlags, Rmdir, Symlink, Target, Unlink, Unlinked,
};

use crate::error::Result;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// mkdir(2); `mode` has the umask already taken off, here and below.
    pub async fn mkdir(&self, target: Target, mode: u32) -> Result<Attr> {
        Ok(self.ask(&Mkdir { target, mode }).await?.attr)
    }

    /// mknod(2): special files, and regular ones without opening them.
    pub async fn mknod(
        &self,
        target: Target,
        kind: FileKind,
        mode: u32,
        rdev: u64,
    ) -> Result<Attr> {
        Ok(self.ask(&Mknod { target, kind, mode, rdev }).await?.attr)
    }

    /// symlink(2): `target` is the new name, `path` what it points to.
    pub async fn symlink(&self, target: Target, path: impl AsRef<[u8]>) -> Result<Attr> {
        Ok(self.ask(&Symlink { target, path: Bytes::from(path) }).await?.attr)
    }

    /// linkat(2).
    pub async fn link(&self, existing: Target, follow: bool, new: Target) -> Result<Attr> {
        Ok(self.ask(&Link { existing, follow, new }).await?.attr)
    }

    /// unlink(2).
    pub async fn unlink(&self, target: Target) -> Result<Unlinked> {
        self.ask(&Unlink { target }).await
    }

    /// rmdir(2).
    pub async fn rmdir(&self, target: Target) -> Result<Unlinked> {
        self.ask(&Rmdir { target }).await
    }

    /// renameat2(2).
    pub async fn rename(&self, from: Target, to: Target, flags: RenameFlags) -> Result<Attr> {
        Ok(self.ask(&Rename { from, to, flags }).await?.attr)
    }
}
