//! Extended attributes; `user.pvfs.*` are striping parameters.

use pvfs_net::runtime::Runtime;
use pvfs_wire::Bytes;
use pvfs_wire::ops::{GetXattr, ListXattr, RemoveXattr, SetXattr, Target, XattrFlags};

use crate::cache::name_of;
use crate::error::Result;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// getxattr(2).
    pub async fn get_xattr(&self, target: Target, follow: bool, name: &[u8]) -> Result<Vec<u8>> {
        let name = Bytes::from(name);
        Ok(self.ask(&GetXattr { target, follow, name }).await?.value.0)
    }

    /// listxattr(2).
    pub async fn list_xattr(&self, target: Target, follow: bool) -> Result<Vec<Bytes>> {
        Ok(self.ask(&ListXattr { target, follow }).await?.names)
    }

    /// setxattr(2).
    pub async fn set_xattr(
        &self,
        target: Target,
        follow: bool,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        let _own = self.filesystem.cache().change([name_of(&target)]);
        let (name, value) = (Bytes::from(name), Bytes::from(value));
        self.ask(&SetXattr { target, follow, name, value, flags }).await.map(|_| ())
    }

    /// removexattr(2).
    pub async fn remove_xattr(&self, target: Target, follow: bool, name: &[u8]) -> Result<()> {
        let name = Bytes::from(name);
        let _own = self.filesystem.cache().change([name_of(&target)]);
        self.ask(&RemoveXattr { target, follow, name }).await.map(|_| ())
    }
}
