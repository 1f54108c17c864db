//! Names: making, removing, moving. One message each.

use pvfs_net::call::Told;
use pvfs_net::runtime::Runtime;
use pvfs_wire::attr::{Attr, FileKind};
use pvfs_wire::ops::{
    Link, Made, Mkdir, Mknod, Rename, RenameFlags, Renamed, Rmdir, Symlink, Target, Unlink,
    Unlinked,
};
use pvfs_wire::{Bytes, Operation};

use super::cached::object;
use crate::cache::{Fact, Key, Mark, Named, OwnChange, name_of, place_of};
use crate::error::Result;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// mkdir(2); `mode` has the umask already taken off unless the user is [`User::masked`], here and below.
    pub async fn mkdir(&self, target: Target, mode: u32) -> Result<Attr> {
        let place = place_of(&target);
        self.make(place, None, &Mkdir { target, mode: self.asked(mode) }).await
    }

    /// mknod(2): special files, and regular ones without opening them.
    pub async fn mknod(
        &self,
        target: Target,
        kind: FileKind,
        mode: u32,
        rdev: u64,
    ) -> Result<Attr> {
        let (place, mode) = (place_of(&target), self.asked(mode));
        self.make(place, None, &Mknod { target, kind, mode, rdev }).await
    }

    /// symlink(2): `target` is the new name, `path` what it points to.
    pub async fn symlink(&self, target: Target, path: impl AsRef<[u8]>) -> Result<Attr> {
        let place = place_of(&target);
        self.make(place, None, &Symlink { target, path: Bytes::from(path) }).await
    }

    /// linkat(2).
    pub async fn link(&self, existing: Target, follow: bool, new: Target) -> Result<Attr> {
        let (place, named) = (place_of(&new), name_of(&existing));
        self.make(place, Some(named), &Link { existing, follow, new }).await
    }

    /// Gives a name to something new, or to what `existing` names.
    async fn make<O: Operation<Reply = Made>>(
        &self,
        place: [Key; 2],
        existing: Option<Key>,
        request: &O,
    ) -> Result<Attr> {
        let touched = place.iter().cloned().chain(existing);
        let mut own = self.filesystem.cache().change(touched);
        let (mark, told) = self.ask_marked(request).await?;
        let Made { attr, directory } = told.outcome?;
        own.touches(object(attr.handle));
        own.done(mark, told.leased_ms, || {
            let ([name, _], made) = (place, attr.handle.object);
            let empty = (attr.kind == FileKind::Directory).then_some(Fact::Empty(made));
            let named = Fact::Name(name, Named::Object(made));
            [Fact::Attributes(attr, None), Fact::Attributes(directory, None), named]
                .into_iter()
                .chain(empty)
                .collect()
        });
        Ok(attr)
    }

    /// unlink(2).
    pub async fn unlink(&self, target: Target) -> Result<Unlinked> {
        let (own, [name, _]) = (self.begin_removal(&target), place_of(&target));
        self.remove(own, name, &Unlink { target }).await
    }

    /// rmdir(2).
    pub async fn rmdir(&self, target: Target) -> Result<Unlinked> {
        let (own, [name, _]) = (self.begin_removal(&target), place_of(&target));
        self.remove(own, name, &Rmdir { target }).await
    }

    async fn remove<O: Operation<Reply = Unlinked>>(
        &self,
        mut own: OwnChange<'_>,
        name: Key,
        request: &O,
    ) -> Result<Unlinked> {
        let (mark, told) = self.ask_marked(request).await?;
        let gone = told.outcome?;
        own.touches(object(gone.handle));
        own.done(mark, told.leased_ms, || {
            vec![Fact::Name(name, Named::Absent), Fact::Attributes(gone.directory, None)]
        });
        Ok(gone)
    }

    /// renameat2(2).
    pub async fn rename(&self, from: Target, to: Target, flags: RenameFlags) -> Result<Attr> {
        let mut own = self.begin_removal(&from);
        self.removal_of(&to).into_iter().for_each(|key| own.touches(key));
        let ([old, _], [new, _]) = (place_of(&from), place_of(&to));
        let (mark, told) = self.ask_marked(&Rename { from, to, flags }).await?;
        let Renamed { attr, other, directories } = told.outcome?;
        own.touches(object(attr.handle));
        other.into_iter().for_each(|other| own.touches(object(other)));
        // Two names of one object both stay.
        if !directories.is_empty() {
            own.done(mark, told.leased_ms, || {
                let swapped = other.filter(|_| flags.has(RenameFlags::EXCHANGE));
                let left = swapped.map_or(Named::Absent, |other| Named::Object(other.object));
                let moved = Named::Object(attr.handle.object);
                let known = [attr].into_iter().chain(directories);
                [Fact::Name(old, left), Fact::Name(new, moved)]
                    .into_iter()
                    .chain(known.map(|attr| Fact::Attributes(attr, None)))
                    .collect()
            });
        }
        Ok(attr)
    }

    /// Asks for a change, and says when that was.
    pub(super) async fn ask_marked<O: Operation>(
        &self,
        request: &O,
    ) -> Result<(Mark, Told<O::Reply>)> {
        let mark = self.filesystem.cache().mark(self.filesystem.runtime().now());
        Ok((mark, self.filesystem.ask_told(&self.principal, request).await?))
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
