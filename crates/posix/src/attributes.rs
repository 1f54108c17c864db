//! Attributes of paths and of open files.

use std::os::fd::RawFd;

use pvfs_client::block_on;
use pvfs_wire::attr::{Attr, Extras, FileKind, SizeState, Time};
use pvfs_wire::ops::{AccessBits, SetAttr, SetTime, Target};
use pvfs_wire::{Errno, Handle};

use crate::errno::Reach;
use crate::paths::At;
use crate::process::Process;

/// New access and modification times; what is absent stays.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Times {
    /// The last access.
    pub access: Option<SetTime>,
    /// The last modification.
    pub modification: Option<SetTime>,
}

impl Process {
    /// stat(2), or lstat(2) unless `follow`.
    pub fn stat(&self, at: At, path: &[u8], follow: bool) -> Reach<Attr> {
        self.reach(at, path, follow, |user, spot| {
            match block_on(user.stat(spot.target(), follow)) {
                Err(error) if error.errno() == Errno::ESTALE && spot.is_start() => {
                    Ok(removed(spot.dir))
                }
                stated => stated,
            }
        })
    }

    /// fstat(2)
    pub fn stat_open(&self, fd: RawFd) -> Reach<Attr> {
        let description = self.description(fd)?;
        let handle = description.record.handle;
        match description.kind() {
            FileKind::Directory => self.stat_directory(handle),
            _ => Ok(block_on(self.user()?.stat_open(handle))?),
        }
    }

    /// stat(2) of the working directory itself.
    pub fn stat_working(&self) -> Reach<Attr> {
        let (handle, _) = self.place(At::Working)?;
        self.stat_directory(handle)
    }

    fn stat_directory(&self, handle: Handle) -> Reach<Attr> {
        match block_on(self.user()?.stat(Target::object(handle), false)) {
            Err(error) if error.errno() == Errno::ESTALE => Ok(removed(handle)),
            stated => Ok(stated?),
        }
    }

    /// faccessat(2), by the effective identity.
    pub fn access(&self, at: At, path: &[u8], follow: bool, wanted: AccessBits) -> Reach<()> {
        self.reach(at, path, follow, |user, spot| {
            block_on(user.check_access(spot.target(), follow, wanted))
        })
    }

    /// fchmodat(2)
    pub fn set_mode(&self, at: At, path: &[u8], follow: bool, mode: u32) -> Reach<()> {
        let changes = Changes { mode: Some(mode & 0o7777), ..Changes::default() };
        self.change(at, path, follow, changes)
    }

    /// fchmod(2)
    pub fn set_mode_open(&self, fd: RawFd, mode: u32) -> Reach<()> {
        self.change_open(fd, Changes { mode: Some(mode & 0o7777), ..Changes::default() })
    }

    /// fchownat(2); what is absent stays.
    pub fn set_owner(
        &self,
        at: At,
        path: &[u8],
        follow: bool,
        owner: (Option<u32>, Option<u32>),
    ) -> Reach<()> {
        self.change(at, path, follow, Changes { owner, ..Changes::default() })
    }

    /// fchown(2)
    pub fn set_owner_open(&self, fd: RawFd, owner: (Option<u32>, Option<u32>)) -> Reach<()> {
        self.change_open(fd, Changes { owner, ..Changes::default() })
    }

    /// utimensat(2)
    pub fn set_times(&self, at: At, path: &[u8], follow: bool, times: Times) -> Reach<()> {
        if times == Times::default() {
            return self.stat(at, path, follow).map(drop);
        }
        self.change(at, path, follow, Changes { times, ..Changes::default() })
    }

    /// futimens(3)
    pub fn set_times_open(&self, fd: RawFd, times: Times) -> Reach<()> {
        if times == Times::default() {
            return self.stat_open(fd).map(drop);
        }
        self.change_open(fd, Changes { times, ..Changes::default() })
    }

    fn change(&self, at: At, path: &[u8], follow: bool, changes: Changes) -> Reach<()> {
        self.reach(at, path, follow, |user, spot| {
            block_on(user.set_attr_known(changes.of(spot.target(), follow))).map(drop)
        })
    }

    fn change_open(&self, fd: RawFd, changes: Changes) -> Reach<()> {
        let description = self.description(fd)?;
        if description.record.path_only {
            return Err(Errno::EBADF.into());
        }
        let user = self.user()?;
        let target = Target::object(description.record.handle);
        Ok(block_on(user.set_attr_known(changes.of(target, false))).map(drop)?)
    }
}

/// What is left of a directory that was removed while this process is in it or has it open: it has no name and
/// nothing in it. The manager keeps nothing of it.
pub(crate) fn removed(handle: Handle) -> Attr {
    Attr {
        handle,
        kind: FileKind::Directory,
        mode: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        size: 0,
        size_state: SizeState::Settled,
        disk_bytes: None,
        atime: Time::default(),
        mtime: Time::default(),
        ctime: Time::default(),
        btime: Time::default(),
        change: 0,
        extras: Extras::NONE,
    }
}

#[derive(Clone, Copy, Default)]
struct Changes {
    mode: Option<u32>,
    owner: (Option<u32>, Option<u32>),
    times: Times,
}

impl Changes {
    fn of(self, target: Target, follow: bool) -> SetAttr {
        SetAttr {
            target,
            follow,
            mode: self.mode,
            uid: self.owner.0,
            gid: self.owner.1,
            atime: self.times.access,
            mtime: self.times.modification,
        }
    }
}
