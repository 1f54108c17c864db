//! statfs.

use std::os::fd::RawFd;

use pvfs_client::{Space, block_on};

use crate::errno::Reach;
use crate::paths::At;
use crate::process::Process;

impl Process {
    /// statfs(2): whoever can be reached is counted.
    pub fn space(&self, at: At, path: &[u8]) -> Reach<Space> {
        self.reach(at, path, true, |user, spot| {
            block_on(user.stat_lite(spot.target(), true))?;
            Ok(block_on(user.statfs()))
        })
    }

    /// fstatfs(2)
    pub fn space_open(&self, fd: RawFd) -> Reach<Space> {
        self.description(fd)?;
        Ok(block_on(self.user()?.statfs()))
    }
}
