//! Names: making, removing, moving.

use std::os::fd::RawFd;

use pvfs_client::{User, block_on};
use pvfs_wire::Errno;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::{RenameFlags, Target};

use crate::errno::{Reach, Stop};
use crate::paths::{At, Spot};
use crate::process::Process;
use crate::runtime::Apart;

impl Process {
    /// mkdirat(2)
    pub fn make_directory(&self, at: At, path: &[u8], mode: u32) -> Reach<()> {
        let (mode, umask) = (mode & 0o7777, self.umask());
        self.reach(at, path, false, |user, spot| {
            block_on(user.masked(umask).mkdir(spot.target(), mode)).map(drop)
        })
    }

    /// mknodat(2)
    pub fn make_node(
        &self,
        at: At,
        path: &[u8],
        kind: FileKind,
        mode: u32,
        rdev: u64,
    ) -> Reach<()> {
        let (mode, umask) = (mode & 0o7777, self.umask());
        self.reach(at, path, false, |user, spot| {
            block_on(user.masked(umask).mknod(spot.target(), kind, mode, rdev)).map(drop)
        })
    }

    /// symlinkat(2)
    pub fn make_symlink(&self, link: &[u8], at: At, path: &[u8]) -> Reach<()> {
        self.reach(at, path, false, |user, spot| {
            block_on(user.symlink(spot.target(), link)).map(drop)
        })
    }

    /// readlinkat(2)
    pub fn read_link(&self, at: At, path: &[u8]) -> Reach<Vec<u8>> {
        self.reach(at, path, false, |user, spot| block_on(user.readlink(spot.target())))
    }

    /// unlinkat(2) of a file.
    pub fn unlink(&self, at: At, path: &[u8]) -> Reach<()> {
        self.reach(at, path, false, |user, spot| block_on(user.unlink(spot.target())).map(drop))
    }

    /// unlinkat(2) of a directory.
    pub fn remove_directory(&self, at: At, path: &[u8]) -> Reach<()> {
        self.reach(at, path, false, |user, spot| block_on(user.rmdir(spot.target())).map(drop))
    }

    /// renameat2(2). EXDEV when only one of the two is ours.
    pub fn rename(&self, from: (At, &[u8]), to: (At, &[u8]), flags: RenameFlags) -> Reach<()> {
        self.pair(from, to, false, |user, from, to| {
            block_on(user.rename(from.target(), to.target(), flags)).map(drop)
        })
    }

    /// linkat(2). EXDEV when only one of the two is ours.
    pub fn link(&self, from: (At, &[u8]), to: (At, &[u8]), follow: bool) -> Reach<()> {
        self.pair(from, to, follow, |user, from, to| {
            block_on(user.link(from.target(), follow, to.target())).map(drop)
        })
    }

    /// linkat(2) of what a descriptor is of: /proc/self/fd/3, or AT_EMPTY_PATH.
    pub fn link_open(&self, fd: RawFd, to: (At, &[u8])) -> Reach<()> {
        let existing = Target::object(self.description(fd)?.record.handle);
        self.reach(to.0, to.1, false, |user, spot| {
            match block_on(user.link(existing.clone(), false, spot.target())) {
                // Its last name is gone.
                Err(error) if error.errno() == Errno::ESTALE => Err(Errno::ENOENT.into()),
                linked => linked.map(drop),
            }
        })
    }

    /// Does something with two names.
    fn pair(
        &self,
        from: (At, &[u8]),
        to: (At, &[u8]),
        follow: bool,
        operation: impl Fn(&User<Apart>, &Spot, &Spot) -> pvfs_client::Result<()>,
    ) -> Reach<()> {
        let spot = |(at, path): (At, &[u8])| {
            let user = self.user_for(at, path)?;
            self.spot(&user, at, path)
        };
        let (from, to) = match (spot(from), spot(to)) {
            (Err(Stop::NotOurs), Err(Stop::NotOurs)) => return Err(Stop::NotOurs),
            (Err(Stop::NotOurs), Ok(_)) | (Ok(_), Err(Stop::NotOurs)) => {
                return Err(Errno::EXDEV.into());
            }
            (from, to) => (from?, to?),
        };
        let user = self.user()?;
        match operation(&user, &from, &to) {
            Err(error) if error.errno() == Errno::EXDEV => {
                // A link on the way to one of them leaves the file system, perhaps to come back.
                let from = self.walk(&user, from, follow)?.spot;
                let to = self.walk(&user, to, false)?.spot;
                Ok(operation(&user, &from, &to)?)
            }
            Err(error) if error.errno() == Errno::ESTALE => Err(Errno::ENOENT.into()),
            done => Ok(done?),
        }
    }
}
