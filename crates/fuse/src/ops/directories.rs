//! Reading directories.

use fuser::{FileHandle, ReplyDirectory, ReplyDirectoryPlus};
use pvfs_client::Result;
use pvfs_wire::attr::{Attr, FileKind};
use pvfs_wire::ops::Target;

use fuser::INodeNo;

use crate::attributes::{file_attr, file_type, generation};
use crate::directory::{Line, OpenDirectory};
use crate::identity::Requester;
use crate::mounted::Mounted;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

impl Mounted {
    /// opendir(3). No message for the superuser: the kernel has just looked the directory up.
    pub fn opendir(&self, requester: Requester, node: u64) -> Result<FileHandle> {
        let handle = self.nodes.handle(node)?;
        if requester.uid != 0 && !self.kernel_checks {
            self.access(requester, node, READ)?;
        }
        let user = self.identities.user(requester)?;
        Ok(self.directories.insert(OpenDirectory::new(handle, user)))
    }

    /// Names only.
    pub fn readdir(
        &self,
        requester: Requester,
        number: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectory,
    ) -> Result<()> {
        let directory = self.directories.get(number)?;
        directory.list(self, requester.pid, offset, false, |line| {
            let name = OsStr::from_bytes(line.name);
            reply.add(INodeNo(line.object), line.offset, file_type(line.kind), name)
        })
    }

    /// Names and attributes; the kernel refers to each object from now on, but for the dots.
    pub fn readdirplus(
        &self,
        requester: Requester,
        number: FileHandle,
        offset: u64,
        reply: &mut ReplyDirectoryPlus,
    ) -> Result<()> {
        let directory = self.directories.get(number)?;
        let timeout = self.options.cache.timeout();
        directory.list(self, requester.pid, offset, true, |line| {
            let Some(attr) = self.attr_of(requester, directory.handle.object, line) else {
                return false;
            };
            let name = OsStr::from_bytes(line.name);
            let (inode, shown) = (INodeNo(line.object), file_attr(&attr));
            let full =
                reply.add(inode, line.offset, name, &timeout, &shown, generation(attr.handle));
            if !full && line.entry.is_some() {
                self.nodes.looked_up(&attr);
            }
            full
        })
    }

    /// The attributes of a line; nothing when its object is gone meanwhile.
    ///
    /// Those of a file open here are asked for again unless they are of this moment: were the kernel told an
    /// old size, it would drop pages of its own that lie beyond.
    fn attr_of(&self, requester: Requester, directory: u64, line: &Line<'_>) -> Option<Attr> {
        let Some(entry) = line.entry else { return Some(dot(directory, line)) };
        let outdated = line.stale && self.nodes.is_open(line.object);
        match entry.attr.filter(|_| !outdated) {
            Some(attr) => Some(attr),
            None => match self.stat(requester, &Target::object(entry.handle)) {
                Ok(attr) => Some(attr),
                Err(error) if is_gone(&error) => None,
                Err(_) => Some(nominal(entry.handle, entry.kind)),
            },
        }
    }
}

/// `R_OK`
const READ: i32 = 4;

fn is_gone(error: &pvfs_client::Error) -> bool {
    use pvfs_wire::Errno;
    matches!(error.errno(), Errno::ENOENT | Errno::ESTALE)
}

/// The kernel looks at the number and kind of a dot only.
fn dot(directory: u64, line: &Line<'_>) -> Attr {
    let handle = pvfs_wire::Handle { object: directory, ..Default::default() };
    nominal(pvfs_wire::Handle { object: line.object, ..handle }, FileKind::Directory)
}

/// What is known of an object whose attributes are not to be had: its name must still be listed.
fn nominal(handle: pvfs_wire::Handle, kind: FileKind) -> Attr {
    use pvfs_wire::attr::{Extras, SizeState, Time};
    let never = Time::default();
    Attr {
        handle,
        kind,
        mode: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        size_state: SizeState::Unsettled,
        atime: never,
        mtime: never,
        ctime: never,
        btime: never,
        change: 0,
        extras: Extras::NONE,
    }
}
