//! Stat, Readlink, CheckAccess.

use pvfs_wire::ops::{Allowed, CheckAccess, LinkTarget, Readlink, Stat, Stated};
use pvfs_wire::{Bytes, Errno};

use crate::execute::{Context, Execute};
use crate::record::Body;

impl Execute for Stat {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Stated, Errno> {
        let node = cx.find(&self.target, self.follow)?;
        Ok(cx.stated(&node, self.placement))
    }
}

impl Execute for Readlink {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<LinkTarget, Errno> {
        match cx.find(&self.target, false)?.inode.body {
            Body::Symlink(path) => Ok(LinkTarget { path: Bytes(path) }),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl Execute for CheckAccess {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Allowed, Errno> {
        let node = cx.find(&self.target, self.follow)?;
        cx.who.require(&node.inode, self.wanted)?;
        Ok(Allowed {})
    }
}
