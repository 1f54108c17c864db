//! Extended attributes.

use std::os::fd::RawFd;

use pvfs_client::{User, block_on};
use pvfs_wire::ops::{Target, XattrFlags};

use crate::errno::Reach;
use crate::paths::At;
use crate::process::Process;
use crate::runtime::Apart;

/// An object, for calls that take a path or a descriptor.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// By its path; a symlink itself unless `follow`.
    Path(&'a [u8], bool),
    /// By a descriptor.
    Open(RawFd),
}

impl Process {
    /// getxattr(2)
    pub fn get_xattr(&self, object: Object<'_>, name: &[u8]) -> Reach<Vec<u8>> {
        self.with(object, |user, target, follow| block_on(user.get_xattr(target, follow, name)))
    }

    /// listxattr(2): names, each ended by a zero byte.
    pub fn list_xattrs(&self, object: Object<'_>) -> Reach<Vec<u8>> {
        let names =
            self.with(object, |user, target, follow| block_on(user.list_xattr(target, follow)))?;
        Ok(names.iter().flat_map(|name| name.0.iter().copied().chain([0])).collect())
    }

    /// setxattr(2)
    pub fn set_xattr(
        &self,
        object: Object<'_>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Reach<()> {
        self.with(object, |user, target, follow| {
            block_on(user.set_xattr(target, follow, name, value, flags))
        })
    }

    /// removexattr(2)
    pub fn remove_xattr(&self, object: Object<'_>, name: &[u8]) -> Reach<()> {
        self.with(object, |user, target, follow| block_on(user.remove_xattr(target, follow, name)))
    }

    fn with<T>(
        &self,
        object: Object<'_>,
        operation: impl Fn(&User<Apart>, Target, bool) -> pvfs_client::Result<T>,
    ) -> Reach<T> {
        match object {
            Object::Path(path, follow) => self.reach(At::Working, path, follow, |user, spot| {
                operation(user, spot.target(), follow)
            }),
            Object::Open(fd) => {
                let description = self.description(fd)?;
                let user = self.user()?;
                Ok(operation(&user, Target::object(description.record.handle), false)?)
            }
        }
    }
}
