//! What goes beyond POSIX with open files: partitions, and many regions in one call.

use std::os::fd::RawFd;
use std::sync::Arc;

use pvfs_client::{Region, View, block_on};
use pvfs_wire::Errno;
use pvfs_wire::attr::Placement;
use rustix::fs::OFlags;

use crate::description::Own;
use crate::errno::Reach;
use crate::process::Process;

impl Process {
    /// From now on this process sees the file through `view`, from its beginning; all of it with none.
    pub fn set_view(&self, fd: RawFd, view: Option<View>) -> Reach<()> {
        let description = self.description(fd)?;
        if !description.record.is_file() {
            return Err(Errno::EINVAL.into());
        }
        let hold = description.shared.hold()?;
        description.set_view(view.filter(|view| *view != View::whole()));
        description.shared.set_position(0);
        drop(hold);
        Ok(())
    }

    /// Through what this process sees the file.
    pub fn view(&self, fd: RawFd) -> Reach<View> {
        let description = self.description(fd)?;
        if !description.record.is_file() {
            return Err(Errno::EINVAL.into());
        }
        Ok(description.view().unwrap_or_else(View::whole))
    }

    /// Reads regions of the file into pieces of memory; how many of the bytes lie before the end of the file.
    pub fn readx(&self, fd: RawFd, memory: &mut [&mut [u8]], regions: &[Region]) -> Reach<u64> {
        let description = self.readable(fd)?;
        let mut read = |own: Arc<Own>| block_on(own.user.readx(&own.file, memory, regions));
        match read(self.own(&description, false)?) {
            // Forgotten by the manager, as in `with_own`.
            Err(error) if error.errno() == Errno::EBADF => {
                description.disown();
                Ok(read(self.own(&description, false)?)?)
            }
            done => Ok(done?),
        }
    }

    /// Writes pieces of memory to regions of the file. EINVAL where the file is open for appending.
    pub fn writex(&self, fd: RawFd, memory: &[&[u8]], regions: &[Region]) -> Reach<u64> {
        let description = self.writable(fd)?;
        let flags = description.flags();
        if flags.contains(OFlags::APPEND) {
            return Err(Errno::EINVAL.into());
        }
        let sync = flags.intersects(OFlags::SYNC | OFlags::DSYNC);
        self.with_own(&description, false, |own| {
            block_on(own.user.writex(&own.file, memory, regions, sync))
        })
    }

    /// Where the data of an open file lie.
    pub fn placement(&self, fd: RawFd) -> Reach<Placement> {
        let description = self.description(fd)?;
        Ok(self.own(&description, false)?.file.placement.clone())
    }
}
