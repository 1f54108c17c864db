//! Link.

use pvfs_wire::Errno;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::{Link, Made};

use crate::execute::{Context, Execute};

impl Execute for Link {
    fn execute(&self, cx: &mut Context<'_, '_>) -> Result<Made, Errno> {
        let mut node = cx.find(&self.existing, self.follow)?;
        let (mut place, slot) = cx.new_place(&self.new, FileKind::Regular)?;
        if node.inode.is_directory() {
            return Err(Errno::EPERM);
        }
        // Open without a name: its last one is gone for good, unless it is still to get its first.
        let first = node.inode.as_file_mut().is_some_and(|file| std::mem::take(&mut file.linkable));
        if node.inode.nlink == 0 && !first {
            return Err(Errno::ENOENT);
        }
        node.inode.gain_link()?;
        node.inode.touch(cx.now);
        cx.insert(&mut place.dir, slot, &place.name, node.object, node.inode.kind());
        place.dir.inode.touch_data(cx.now);
        cx.save(&place.dir);
        cx.save(&node);
        Ok(Made { attr: cx.attr(&node), directory: cx.attr(&place.dir) })
    }
}
