//! Group opens by descriptor: one process opens for all, the others make descriptors of the handle without asking
//! anyone. The memfd of such a descriptor holds the handle, so that a forked or executed process needs no server
//! either.

use std::os::fd::RawFd;
use std::sync::Arc;

use pvfs_client::{Group, block_on};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::OpenFlags;
use pvfs_wire::{Bytes, Errno};
use rustix::fs::OFlags;

use crate::description::Own;
use crate::errno::Reach;
use crate::open::{follows, record, wire_flags};
use crate::paths::At;
use crate::process::{Process, number};

impl Process {
    /// Opens a file for a group of processes; the handle to be passed on.
    pub fn openg(
        &self,
        at: At,
        path: &[u8],
        flags: OFlags,
        mode: u32,
        striping: &Striping,
        group: Group,
    ) -> Reach<Vec<u8>> {
        if flags.contains(OFlags::APPEND) || flags.contains(OFlags::PATH) {
            return Err(Errno::EINVAL.into());
        }
        let (mode, umask, wire) = (mode & 0o7777, self.umask_of(flags), wire_flags(flags));
        let opened = self.reach(at, path, follows(flags), |user, spot| {
            let user = user.masked(umask);
            block_on(user.openg(spot.target(), wire, mode, striping.clone(), group))
        })?;
        Ok(opened.handle)
    }

    /// Adds to the number that all who share a group open have in common; what it was before. EINVAL for a descriptor
    /// that is not of [`Self::openfh`].
    pub fn fetch_and_add(&self, fd: RawFd, by: i64) -> Reach<i64> {
        let own = self.group_file(fd)?;
        Ok(block_on(own.user.fetch_and_add(&own.file, by))?)
    }

    /// The like, setting it.
    pub fn fetch_and_set(&self, fd: RawFd, to: i64) -> Reach<i64> {
        let own = self.group_file(fd)?;
        Ok(block_on(own.user.fetch_and_set(&own.file, to))?)
    }

    fn group_file(&self, fd: RawFd) -> Reach<Arc<Own>> {
        let description = self.description(fd)?;
        if description.record.group.is_empty() {
            return Err(Errno::EINVAL.into());
        }
        self.own(&description, false)
    }

    /// A descriptor of the file of a group handle. Contacts no server.
    pub fn openfh(&self, handle: &[u8]) -> Reach<RawFd> {
        let user = self.user()?;
        let file = user.openfh(handle)?;
        let attr = user.group_attr(handle)?;
        let access = match (file.flags.has(OpenFlags::READ), file.flags.has(OpenFlags::WRITE)) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            _ => OFlags::RDONLY,
        };
        let mut record = record(&attr, Vec::new(), access);
        record.flags = file.flags;
        record.group = Bytes(handle.to_vec());
        let own = Arc::new(Own { user, file: Arc::new(file) });
        self.install(record, Some(own), 0, false).map(number)
    }

    /// A handle for the same group open that is good for longer.
    pub fn renewg(&self, handle: &[u8]) -> Reach<Vec<u8>> {
        Ok(block_on(self.user()?.renewg(handle))?)
    }

    /// Ends a group open for all.
    pub fn closeg(&self, handle: &[u8]) -> Reach<()> {
        Ok(block_on(self.user()?.closeg(handle))?)
    }
}
