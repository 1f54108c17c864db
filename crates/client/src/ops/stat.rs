//! Attributes: one message, and one to each iod of the file only while somebody writes it.

use pvfs_net::runtime::Runtime;
use pvfs_wire::Handle;
use pvfs_wire::attr::{Attr, Placement};
use pvfs_wire::ops::{AccessBits, CheckAccess, Readlink, SetAttr, Stat, Target};

use super::cached::object;
use super::sizes::Known;
use crate::cache::{Fact, name_of};
use crate::error::Result;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// Attributes, complete.
    pub async fn stat(&self, target: Target, follow: bool) -> Result<Attr> {
        let (attr, placement) = self.stat_known(target, follow).await?;
        self.completed(attr, placement.as_ref()).await
    }

    /// Attributes of an open file, complete (fstat): an iod that is away is waited for as for its data.
    pub async fn stat_open(&self, handle: Handle) -> Result<Attr> {
        let (attr, placement) = self.stat_known(Target::object(handle), false).await?;
        self.completed_patiently(attr, placement.as_ref()).await
    }

    /// Attributes as the manager knows them, without asking iods: `size_state` says whether the size is
    /// exact (statlite).
    pub async fn stat_lite(&self, target: Target, follow: bool) -> Result<Attr> {
        Ok(self.ask_together(&Stat { target, follow, placement: false }).await?.attr)
    }

    /// The like, and where the data lie if the size has to be asked from iods ([`Self::completed`]).
    pub async fn stat_known(
        &self,
        target: Target,
        follow: bool,
    ) -> Result<(Attr, Option<Placement>)> {
        let asked = self.filesystem.writers().ask();
        let stated = self.ask_together(&Stat { target, follow, placement: false }).await?;
        let Known { attr, placement, .. } = self.known(stated, asked);
        Ok((attr, placement))
    }

    /// Attributes, complete, and where a regular file's data lie.
    pub async fn stat_layout(
        &self,
        target: Target,
        follow: bool,
    ) -> Result<(Attr, Option<Placement>)> {
        let stated = self.ask_together(&Stat { target, follow, placement: true }).await?;
        let attr = self.completed(stated.attr, stated.placement.as_ref()).await?;
        Ok((attr, stated.placement))
    }

    /// chmod, chown, utimens.
    pub async fn set_attr(&self, request: SetAttr) -> Result<Attr> {
        let (attr, placement) = self.set_attr_known(request).await?;
        self.completed(attr, placement.as_ref()).await
    }

    /// The like, with the attributes as [`Self::stat_known`] gives them.
    pub async fn set_attr_known(&self, request: SetAttr) -> Result<(Attr, Option<Placement>)> {
        let mut own = self.filesystem.cache().change([name_of(&request.target)]);
        let asked = self.filesystem.writers().ask();
        let (mark, told) = self.ask_marked(&request).await?;
        let Known { attr, placement, progress } = self.known(told.outcome?, asked);
        own.touches(object(attr.handle));
        own.done(mark, told.leased_ms, || vec![Fact::Attributes(attr, progress)]);
        Ok((attr, placement))
    }

    /// The target of a symlink.
    pub async fn readlink(&self, target: Target) -> Result<Vec<u8>> {
        Ok(self.ask(&Readlink { target }).await?.path.0)
    }

    /// Whether this user may (access(2)).
    pub async fn check_access(
        &self,
        target: Target,
        follow: bool,
        wanted: AccessBits,
    ) -> Result<()> {
        self.ask(&CheckAccess { target, follow, wanted }).await.map(|_| ())
    }
}
