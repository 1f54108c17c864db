//! Unlink, Rmdir.

use pvfs_wire::Errno;
use pvfs_wire::ops::{Rmdir, Unlink, Unlinked};

use crate::execute::{Context, Execute};
use crate::namespace::{Last, Node};

impl Execute for Unlink {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Unlinked, Errno> {
        let mut place = cx.place(&self.target, |_| Errno::EISDIR)?;
        let found = cx.lookup(place.dir.object, &place.name)?.found()?;
        let mut node = cx.load(found.object)?;
        let is_directory = node.inode.is_directory();
        if place.slash {
            return Err(if is_directory { Errno::EISDIR } else { Errno::ENOTDIR });
        }
        cx.who.require_removal(&place.dir.inode, &node.inode)?;
        if is_directory {
            return Err(Errno::EISDIR);
        }
        cx.remove(&mut place.dir, found);
        place.dir.inode.touch_data(cx.now);
        cx.save(&place.dir);
        drop_name(cx, &mut node)?;
        Ok(unlinked(cx, &node, &place.dir))
    }
}

impl Execute for Rmdir {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Unlinked, Errno> {
        let mut place = cx.place(&self.target, |last| match last {
            Last::Dot => Errno::EINVAL,
            Last::DotDot => Errno::ENOTEMPTY,
            _ => Errno::EBUSY,
        })?;
        let found = cx.lookup(place.dir.object, &place.name)?.found()?;
        let mut node = cx.load(found.object)?;
        cx.who.require_removal(&place.dir.inode, &node.inode)?;
        remove_directory(cx, &mut node)?;
        cx.remove(&mut place.dir, found);
        place.dir.inode.lose_link();
        place.dir.inode.touch_data(cx.now);
        cx.save(&place.dir);
        Ok(unlinked(cx, &node, &place.dir))
    }
}

/// Takes one name from what is no directory; with the last one and no open it goes.
pub(super) fn drop_name(cx: &mut Context<'_, '_>, node: &mut Node) -> Result<(), Errno> {
    node.inode.lose_link();
    node.inode.touch(cx.now);
    cx.save_or_remove(node)
}

/// Removes a directory that has lost its name; ENOTDIR or ENOTEMPTY when that cannot be.
pub(super) fn remove_directory(cx: &mut Context<'_, '_>, node: &mut Node) -> Result<(), Errno> {
    let directory = node.inode.as_directory().ok_or(Errno::ENOTDIR)?;
    if directory.entries > 0 {
        return Err(Errno::ENOTEMPTY);
    }
    cx.sweep(node.object, directory)?;
    node.inode.nlink = 0;
    cx.remove_object(node)
}

fn unlinked(cx: &Context<'_, '_>, node: &Node, dir: &Node) -> Unlinked {
    let (handle, nlink) = (cx.fs.handle(node.object), node.inode.nlink);
    Unlinked { handle, nlink, directory: cx.attr(dir) }
}
