//! SetAttr: chmod, chown, utimens.

use pvfs_wire::Errno;
use pvfs_wire::attr::{FileKind, Time};
use pvfs_wire::ops::{AccessBits, SetAttr, SetTime, Stated};

use crate::execute::{Context, Execute};
use crate::namespace::Node;
use crate::permission::{Credentials, without_privileges};

impl Execute for SetAttr {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Stated, Errno> {
        let mut node = cx.find(&self.target, self.follow)?;
        check(self, cx, &node)?;
        change_owner(cx.who, &mut node, self.uid, self.gid);
        if let Some(mode) = self.mode {
            node.inode.set_mode(cx.who.chmod(mode, node.inode.gid));
        }
        set_times(&mut node, self.atime, self.mtime, cx.now);
        // chown(-1, -1) arrives with nothing to set, and is a change of attributes all the same.
        node.inode.touch(cx.now);
        cx.save(&node);
        Ok(cx.stated(&node, false))
    }
}

fn check(change: &SetAttr, cx: &Context<'_, '_>, node: &Node) -> Result<(), Errno> {
    if change.mode.is_some() && node.inode.kind() == FileKind::Symlink {
        return Err(Errno::EOPNOTSUPP);
    }
    cx.who.require_chown(&node.inode, change.uid, change.gid)?;
    if change.mode.is_some() {
        cx.who.require_owner(&node.inode)?;
    }
    check_times(cx, node, change.atime, change.mtime)?;
    [change.atime, change.mtime].into_iter().try_for_each(check_time)
}

/// Both now is what touch(1) does, also to files of others; anything else is the owner's.
fn check_times(
    cx: &Context<'_, '_>,
    node: &Node,
    atime: Option<SetTime>,
    mtime: Option<SetTime>,
) -> Result<(), Errno> {
    match (atime, mtime) {
        (None, None) => Ok(()),
        (Some(SetTime::Now), Some(SetTime::Now)) if !cx.who.owns(&node.inode) => {
            cx.who.require(&node.inode, AccessBits::WRITE)
        }
        _ => cx.who.require_owner(&node.inode),
    }
}

fn check_time(time: Option<SetTime>) -> Result<(), Errno> {
    match time {
        Some(SetTime::At(time)) if time.nanos >= 1_000_000_000 => Err(Errno::EINVAL),
        _ => Ok(()),
    }
}

fn change_owner(who: &Credentials, node: &mut Node, uid: Option<u32>, gid: Option<u32>) {
    if uid.is_none() && gid.is_none() {
        return;
    }
    let in_group = who.is_root() || who.is_in(node.inode.gid);
    node.inode.uid = uid.unwrap_or(node.inode.uid);
    node.inode.gid = gid.unwrap_or(node.inode.gid);
    if !node.inode.is_directory() {
        node.inode.mode = without_privileges(node.inode.mode, in_group);
    }
}

fn set_times(node: &mut Node, atime: Option<SetTime>, mtime: Option<SetTime>, now: Time) {
    let value = |time: SetTime| match time {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    node.inode.atime = atime.map_or(node.inode.atime, value);
    let Some(mtime) = mtime else { return };
    node.inode.mtime = value(mtime);
    if let (SetTime::At(_), Some(file)) = (mtime, node.inode.as_file_mut()) {
        file.choose_mtime(now);
    }
}
