//! Names: making, removing, moving. One message each.

use pvfs_net::runtime::Runtime;
use pvfs_wire::Bytes;
use pvfs_wire::attr::{Attr, FileKind};
use pvfs_wire::ops::{
    Link, Mkdir, Mknod, Rename, RenameFlags, Rmdir, Symlink, Target, Unlink, Unlinked,
};

use super::cached::object;
use crate::cache::{Key, Named, OwnChange, name_of, place_of};
use crate::error::Result;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// mkdir(2); `mode` has the umask already taken off unless the user is [`User::masked`], here and below.
    pub async fn mkdir(&self, target: Target, mode: u32) -> Result<Attr> {
        let _own = self.filesystem.cache().change(place_of(&target));
        Ok(self.ask(&Mkdir { target, mode: self.asked(mode) }).await?.attr)
    }

    /// mknod(2): special files, and regular ones without opening them.
    pub async fn mknod(
        &self,
        target: Target,
        kind: FileKind,
        mode: u32,
        rdev: u64,
    ) -> Result<Attr> {
        let _own = self.filesystem.cache().change(place_of(&target));
        let mode = self.asked(mode);
        Ok(self.ask(&Mknod { target, kind, mode, rdev }).await?.attr)
    }

    /// symlink(2): `target` is the new name, `path` what it points to.
    pub async fn symlink(&self, target: Target, path: impl AsRef<[u8]>) -> Result<Attr> {
        let _own = self.filesystem.cache().change(place_of(&target));
        Ok(self.ask(&Symlink { target, path: Bytes::from(path) }).await?.attr)
    }

    /// linkat(2).
    pub async fn link(&self, existing: Target, follow: bool, new: Target) -> Result<Attr> {
        let touched = place_of(&new).into_iter().chain([name_of(&existing)]);
        let _own = self.filesystem.cache().change(touched);
        Ok(self.ask(&Link { existing, follow, new }).await?.attr)
    }

    /// unlink(2).
    pub async fn unlink(&self, target: Target) -> Result<Unlinked> {
        let mut own = self.begin_removal(&target);
        let gone = self.ask(&Unlink { target }).await?;
        own.touches(object(gone.handle));
        Ok(gone)
    }

    /// rmdir(2).
    pub async fn rmdir(&self, target: Target) -> Result<Unlinked> {
        let mut own = self.begin_removal(&target);
        let gone = self.ask(&Rmdir { target }).await?;
        own.touches(object(gone.handle));
        Ok(gone)
    }

    /// renameat2(2).
    pub async fn rename(&self, from: Target, to: Target, flags: RenameFlags) -> Result<Attr> {
        let mut own = self.begin_removal(&from);
        self.removal_of(&to).into_iter().for_each(|key| own.touches(key));
        let moved = self.ask(&Rename { from, to, flags }).await?;
        own.touches(object(moved.attr.handle));
        moved.other.into_iter().for_each(|other| own.touches(object(other)));
        Ok(moved.attr)
    }

    fn begin_removal(&self, target: &Target) -> OwnChange<'_> {
        self.filesystem.cache().change(self.removal_of(target))
    }

    /// What the removal of a name touches, as far as is known before.
    fn removal_of(&self, target: &Target) -> Vec<Key> {
        let (cache, now) = (self.filesystem.cache(), self.filesystem.runtime().now());
        let named = cache.name(target.dir.object, &target.path, now);
        let known = match named {
            Some((Named::Object(object), _)) => Some(Key::Object(object)),
            _ => None,
        };
        place_of(target).into_iter().chain(known).collect()
    }
}
