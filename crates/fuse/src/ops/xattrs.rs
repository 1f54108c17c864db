//! Extended attributes. The kernel and `ls` ask for some that nobody has so often that it must not cost a message.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pvfs_client::Result;
use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, Extras, FileKind};
use pvfs_wire::ops::XattrFlags;

use crate::identity::Requester;
use crate::mounted::Mounted;

impl Mounted {
    /// getxattr(2). `extras` is what the same system call was just told when it looked the name up.
    pub fn getxattr(
        &self,
        requester: Requester,
        node: u64,
        name: &OsStr,
        extras: Option<Extras>,
    ) -> Result<Vec<u8>> {
        let (target, name) = (&self.object(node)?, supported(name)?);
        let extras = extras.or_else(|| self.kept(node).map(|attr| attr.extras));
        let absent = |extras: Extras| has(name).is_some_and(|one| !extras.has(one));
        if extras.is_some_and(absent) {
            return Err(Errno::ENODATA.into());
        }
        self.act(requester, |user| async move { user.get_xattr(target.clone(), false, name).await })
    }

    /// listxattr(2): names, each with a zero byte behind it.
    pub fn listxattr(&self, requester: Requester, node: u64) -> Result<Vec<u8>> {
        let target = &self.object(node)?;
        // Directories list the striping they pass on, too.
        let bare = |attr: Attr| attr.extras == Extras::NONE && attr.kind != FileKind::Directory;
        if self.kept(node).is_some_and(bare) {
            return Ok(Vec::new());
        }
        let listed =
            self.act(requester, |user| async move { user.list_xattr(target.clone(), false).await });
        Ok(listed?.into_iter().flat_map(|name| name.0.into_iter().chain([0])).collect())
    }

    /// setxattr(2)
    pub fn setxattr(
        &self,
        requester: Requester,
        node: u64,
        name: &OsStr,
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        let (target, name) = (&self.object(node)?, supported(name)?);
        let flags = XattrFlags::from_bits(flags).ok_or(Errno::EINVAL)?;
        self.act(requester, |user| async move {
            user.set_xattr(target.clone(), false, name, value, flags).await
        })
    }

    /// removexattr(2)
    pub fn removexattr(&self, requester: Requester, node: u64, name: &OsStr) -> Result<()> {
        let (target, name) = (&self.object(node)?, supported(name)?);
        self.act(
            requester,
            |user| async move { user.remove_xattr(target.clone(), false, name).await },
        )
    }
}

/// What the kernel asks for with every write, or for every file, is not supported, which costs nothing.
fn supported(name: &OsStr) -> std::result::Result<&[u8], Errno> {
    let name = name.as_bytes();
    let ours = name == ACCESS_LIST
        || name == DEFAULT_LIST
        || FAMILIES.iter().any(|family| name.starts_with(family));
    if ours && !THE_KERNELS.contains(&name) { Ok(name) } else { Err(Errno::EOPNOTSUPP) }
}

/// What an object has that has this attribute; striping parameters are there without being stored.
fn has(name: &[u8]) -> Option<Extras> {
    match name {
        ACCESS_LIST => Some(Extras::ACCESS_LIST),
        DEFAULT_LIST => Some(Extras::DEFAULT_LIST),
        _ if name.starts_with(b"user.pvfs.") => None,
        _ => Some(Extras::XATTRS),
    }
}

const ACCESS_LIST: &[u8] = b"system.posix_acl_access";
const DEFAULT_LIST: &[u8] = b"system.posix_acl_default";
const FAMILIES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
const THE_KERNELS: [&[u8]; 4] =
    [b"security.capability", b"security.selinux", b"security.ima", b"security.evm"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_asks_for_by_itself_is_refused_here() {
        for name in ["security.selinux", "security.capability", "system.nfs4_acl", "x", "user"] {
            assert_eq!(supported(OsStr::new(name)), Err(Errno::EOPNOTSUPP));
        }
        for name in ["user.pvfs.ssize", "security.mine", "trusted.a", "system.posix_acl_access"] {
            assert!(supported(OsStr::new(name)).is_ok());
        }
    }
}
