//! Inodes: loading, saving, making and removing objects.

use pvfs_wire::attr::{Attr, Placement};
use pvfs_wire::ops::Stated;
use pvfs_wire::{Errno, Handle};

use crate::acl::Lists;
use crate::execute::Context;
use crate::keys;
use crate::record::{Body, Counters, Inode, Record};

/// An object and its inode.
#[derive(Clone, Debug)]
pub struct Node {
    /// Which object.
    pub object: u64,
    /// What is known of it.
    pub inode: Inode,
}

impl Context<'_, '_> {
    /// The object of a handle; ESTALE when it is gone or of another file system.
    pub fn node(&self, handle: Handle) -> Result<Node, Errno> {
        if !self.fs.owns(handle) {
            return Err(Errno::ESTALE);
        }
        self.load(handle.object)
    }

    /// The object of this number.
    pub fn load(&self, object: u64) -> Result<Node, Errno> {
        let inode = self.record(&keys::inode(object))?.ok_or(Errno::ESTALE)?;
        Ok(Node { object, inode })
    }

    /// Stores what was changed in the inode.
    pub fn save(&mut self, node: &Node) {
        self.tx.put(keys::inode(node.object), node.inode.encode());
    }

    /// A new object with no name yet, saved by the caller.
    pub fn create(
        &mut self,
        uid: u32,
        gid: u32,
        mode: u32,
        lists: Lists,
        body: Body,
    ) -> Result<Node, Errno> {
        let mut counters = self.counters()?;
        let object = counters.next_object;
        counters.next_object = object.checked_add(1).ok_or(Errno::ENOSPC)?;
        counters.objects = counters.objects.saturating_add(1);
        self.put_counters(&counters);
        let now = self.now;
        let (nlink, change, xattrs) = (0, 1, 0);
        let (atime, mtime, ctime, btime) = (now, now, now, now);
        let inode = Inode {
            mode,
            nlink,
            uid,
            gid,
            atime,
            mtime,
            ctime,
            btime,
            change,
            xattrs,
            lists,
            body,
        };
        Ok(Node { object, inode })
    }

    /// Saves an object that lost a name or an open, or removes it when neither is left.
    pub fn save_or_remove(&mut self, node: &Node) -> Result<(), Errno> {
        let opens = node.inode.as_file().map_or(0, |file| file.writing.opens);
        if node.inode.nlink > 0 || opens > 0 {
            self.save(node);
            return Ok(());
        }
        self.remove_object(node)
    }

    /// Removes an object; its data go to the purge queue in the same batch.
    pub fn remove_object(&mut self, node: &Node) -> Result<(), Errno> {
        let mut counters = self.counters()?;
        counters.objects = counters.objects.saturating_sub(1);
        if let Some(file) = node.inode.as_file() {
            if let Some(truncation) = file.writing.truncation {
                self.tx.delete(keys::ticket(truncation.client, node.object));
            }
            if file.stored {
                counters.purging = counters.purging.saturating_add(1);
                self.tx.put(keys::purge(node.object), file.placement.encode());
            }
        }
        self.put_counters(&counters);
        self.remove_xattrs(node)?;
        self.tx.delete(keys::inode(node.object));
        Ok(())
    }

    /// How many objects there are.
    pub fn counters(&self) -> Result<Counters, Errno> {
        self.record(keys::COUNTERS)?.ok_or(Errno::EIO)
    }

    /// Stores the counters.
    pub fn put_counters(&mut self, counters: &Counters) {
        self.tx.put(keys::COUNTERS, counters.encode());
    }

    /// What `stat` tells of a node.
    pub fn attr(&self, node: &Node) -> Attr {
        node.inode.attr(self.fs.handle(node.object))
    }

    /// Attributes, and the placement when it is asked for or needed to learn the size.
    pub fn stated(&self, node: &Node, placement_wanted: bool) -> Stated {
        Stated { attr: self.attr(node), placement: placement(node, placement_wanted) }
    }

    fn remove_xattrs(&mut self, node: &Node) -> Result<(), Errno> {
        if node.inode.xattrs > 0 {
            for key in self.keys_below(&keys::xattrs(node.object))? {
                self.tx.delete(key);
            }
        }
        Ok(())
    }
}

/// The placement of a regular file, when it is `wanted` or the size has to be asked from iods.
pub fn placement(node: &Node, wanted: bool) -> Option<Placement> {
    let file = node.inode.as_file()?;
    (wanted || !file.is_settled()).then(|| file.placement.clone())
}
