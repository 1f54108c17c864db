//! Extended attributes. Only `user.*` and `trusted.*` exist; for the rest the kernel and `ls` ask so often
//! that it must not cost a message.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use pvfs_client::Result;
use pvfs_wire::Errno;
use pvfs_wire::ops::XattrFlags;

use crate::identity::Requester;
use crate::mounted::Mounted;

impl Mounted {
    /// getxattr(2)
    pub fn getxattr(&self, requester: Requester, node: u64, name: &OsStr) -> Result<Vec<u8>> {
        let (target, name) = (&self.object(node)?, supported(name)?);
        self.act(requester, |user| async move { user.get_xattr(target.clone(), false, name).await })
    }

    /// listxattr(2): names, each with a zero byte behind it.
    pub fn listxattr(&self, requester: Requester, node: u64) -> Result<Vec<u8>> {
        let target = &self.object(node)?;
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
        flags: i32,
    ) -> Result<()> {
        let (target, name) = (&self.object(node)?, supported(name)?);
        let flags = XattrFlags::from_bits(flags as u32).ok_or(Errno::EINVAL)?;
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

fn supported(name: &OsStr) -> std::result::Result<&[u8], Errno> {
    let name = name.as_bytes();
    let ours = name.starts_with(b"user.") || name.starts_with(b"trusted.");
    if ours { Ok(name) } else { Err(Errno::EOPNOTSUPP) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ls_asks_for_each_file_is_refused_here() {
        for name in ["system.posix_acl_access", "security.selinux", "security.capability", "x"] {
            assert_eq!(supported(OsStr::new(name)), Err(Errno::EOPNOTSUPP));
        }
        assert!(supported(OsStr::new("user.pvfs.ssize")).is_ok());
    }
}
