//! Truncate, Truncated, Settle, Append.

use pvfs_layout::FILE_SIZE_MAX;
use pvfs_wire::attr::{Attr, SizeState};
use pvfs_wire::ops::{
    AccessBits, Append, Appended, Settle, Stated, Truncate, Truncated, Truncating,
};
use pvfs_wire::token::Rights;
use pvfs_wire::{Bytes, Errno};

use super::open::note_cut;
use crate::execute::{Context, Execute};
use crate::keys;
use crate::namespace::{Node, latest};

impl Execute for Truncate {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Truncating, Errno> {
        if self.size > FILE_SIZE_MAX {
            return Err(Errno::EFBIG);
        }
        let mut node = match self.open {
            Some(open) => through_open(self, cx, open)?,
            None => by_name(self, cx)?,
        };
        let attr = cx.attr(&node);
        let ticket = cx.begin_truncation(&mut node, self.size, self.open, 0)?;
        cx.save(&node);
        let (capability, _) = cx.capability(&node, Rights::TRUNCATE)?;
        let placement = cx.stated(&node, true).placement.ok_or(Errno::EINVAL)?;
        Ok(Truncating { attr, placement, capability: Bytes(capability), ticket })
    }
}

fn through_open(truncate: &Truncate, cx: &Context<'_, '_>, open: u64) -> Result<Node, Errno> {
    let open = cx.open_file(open)?;
    let is_that_file = truncate.target.path.is_empty() && truncate.target.dir.object == open.object;
    if !open.writes() || !is_that_file {
        return Err(Errno::EINVAL);
    }
    cx.node(truncate.target.dir)
}

fn by_name(truncate: &Truncate, cx: &Context<'_, '_>) -> Result<Node, Errno> {
    let node = cx.find(&truncate.target, truncate.follow)?;
    if node.inode.is_directory() {
        return Err(Errno::EISDIR);
    }
    if node.inode.as_file().is_none() {
        return Err(Errno::EINVAL);
    }
    cx.who.require(&node.inode, AccessBits::WRITE)?;
    Ok(node)
}

impl Execute for Truncated {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Stated, Errno> {
        let mut node = cx.node(self.handle)?;
        let client = cx.client;
        let file = node.inode.as_file_mut().ok_or(Errno::EINVAL)?;
        // An unknown ticket was reported before, or was lost with its client's lease.
        let Some(exact) = file.end_truncation(client, self) else {
            return Ok(cx.stated(&node, false));
        };
        cx.tx.delete(keys::ticket(client, node.object));
        note_cut(cx, &mut node);
        cx.save(&node);
        Ok(if exact { settled_now(cx, &node) } else { cx.stated(&node, false) })
    }
}

/// At this moment the size is known, though an open for writing may change it in the next.
fn settled_now(cx: &Context<'_, '_>, node: &Node) -> Stated {
    let attr = Attr { size_state: SizeState::Settled, ..cx.attr(node) };
    Stated { attr, placement: None }
}

impl Execute for Settle {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Stated, Errno> {
        let mut node = cx.node(self.handle)?;
        // Whoever could not write the file is not believed either.
        let believed = cx.who.may(&node.inode, AccessBits::WRITE) || cx.who.owns(&node.inode);
        if believed && self.change == node.inode.change {
            let mtime = self.mtime.min(latest(cx.now));
            let mtime_known = node.inode.mtime;
            let file = node.inode.as_file_mut().ok_or(Errno::EINVAL)?;
            let mtime = file.mtime_after(mtime_known, mtime);
            if file.settle(self.size, self.disk_bytes) {
                node.inode.mtime = mtime;
                node.inode.touch(node.inode.ctime.max(node.inode.mtime));
                cx.save(&node);
            }
        }
        Ok(cx.stated(&node, false))
    }
}

impl Execute for Append {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Appended, Errno> {
        let open = cx.open_file(self.open)?;
        if !open.appends() {
            return Err(Errno::EBADF);
        }
        let mut node = cx.load(open.object)?;
        let file = node.inode.as_file_mut().ok_or(Errno::EINVAL)?;
        let offset = file.reserve(self.bytes, self.end);
        if offset.is_some_and(|offset| offset > FILE_SIZE_MAX - self.bytes.min(FILE_SIZE_MAX)) {
            return Err(Errno::EFBIG);
        }
        if offset.is_some() {
            cx.save(&node);
        }
        Ok(Appended { offset })
    }
}
