//! Attributes by mask, and names with attributes, by path and descriptor.

use std::os::fd::RawFd;

use pvfs_client::{LiteAttr, LiteMask, PlusEntry, block_on};
use pvfs_wire::Errno;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::Target;

use crate::errno::Reach;
use crate::paths::At;
use crate::process::Process;

impl Process {
    /// statlite, or lstatlite unless `follow`.
    pub fn statlite(&self, at: At, path: &[u8], follow: bool, wanted: LiteMask) -> Reach<LiteAttr> {
        self.reach(at, path, follow, |user, spot| {
            block_on(user.statlite(spot.target(), follow, wanted))
        })
    }

    /// fstatlite
    pub fn statlite_open(&self, fd: RawFd, wanted: LiteMask) -> Reach<LiteAttr> {
        let target = Target::object(self.description(fd)?.record.handle);
        Ok(block_on(self.user()?.statlite(target, false, wanted))?)
    }

    /// Entries of a directory from its position on, without `.` and `..`. `take` is given one after the other until
    /// it takes no more; the position moves behind what was taken.
    pub fn entries_plus(
        &self,
        fd: RawFd,
        entries_max: u32,
        wanted: LiteMask,
        mut take: impl FnMut(&PlusEntry) -> bool,
    ) -> Reach<()> {
        let description = self.description(fd)?;
        if description.record.path_only {
            return Err(Errno::EBADF.into());
        }
        if description.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let hold = description.shared.hold()?;
        let position = description.shared.position();
        let cookie = if position <= crate::directory::FIRST { 0 } else { position };
        let (user, handle) = (self.user()?, description.record.handle);
        let entries_max = entries_max.max(1);
        let listed = match wanted {
            LiteMask::ALL => block_on(user.getdents_plus(handle, cookie, entries_max)),
            wanted => block_on(user.getdents_plus_lite(handle, cookie, entries_max, wanted)),
        };
        let entries = match listed {
            // A directory that was removed while it is open is empty.
            Err(error) if error.errno() == Errno::ESTALE => Vec::new(),
            listed => listed?.entries,
        };
        for entry in entries.iter().take_while(|entry| take(entry)) {
            description.shared.set_position(entry.cookie);
        }
        drop(hold);
        Ok(())
    }
}
