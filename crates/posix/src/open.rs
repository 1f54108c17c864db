//! Opening.

use std::os::fd::{AsFd, RawFd};
use std::sync::Arc;

use pvfs_client::{OpenFile, Opening, User, block_on};
use pvfs_wire::attr::{Attr, FileKind, Striping};
use pvfs_wire::ops::{OpenFlags, Target};
use pvfs_wire::{Bytes, Errno};
use rustix::fs::OFlags;

use crate::attributes::removed;
use crate::description::Own;
use crate::errno::Reach;
use crate::paths::{At, Spot};
use crate::process::{Process, number};
use crate::record::Record;
use crate::runtime::Apart;

impl Process {
    /// openat(2). `mode` is taken as given by the program: the umask is taken off here. What O_TMPFILE makes is given a
    /// name by [`Self::link_open`].
    pub fn open(&self, at: At, path: &[u8], flags: OFlags, mode: u32) -> Reach<RawFd> {
        self.open_striped(at, path, flags, mode, &Striping::default())
    }

    /// openat(2); a file that it creates lies on the iods as wished.
    pub fn open_striped(
        &self,
        at: At,
        path: &[u8],
        flags: OFlags,
        mode: u32,
        striping: &Striping,
    ) -> Reach<RawFd> {
        if flags.contains(OFlags::PATH) {
            return self.open_path(at, path, flags);
        }
        let (mode, umask) = (mode & 0o7777, self.umask_of(flags));
        let (attr, file, user, below) = self.reach(at, path, follows(flags), |user, spot| {
            let masked = user.masked(umask);
            let opened = known(&masked, spot.target(), flags, mode, striping.clone());
            let (attr, file) = match block_on(opened) {
                Err(error) if error.errno() == Errno::ESTALE && is_looked_at(spot, flags) => {
                    (removed(spot.dir), None)
                }
                opened => opened.map(|opening| (opening.attr, opening.file))?,
            };
            Ok((attr, file, user.clone(), spot.below()))
        })?;
        self.opened(attr, file, user, self.prefix.join(&below), flags)
    }

    /// Puts all bytes of a program that this user may execute into a file, without a descriptor of it here.
    pub fn copy_program(&self, at: At, path: &[u8], to: impl AsFd) -> Reach<()> {
        // To execute a program is not to read it, for those who ask.
        self.copy_whole(at, path, OpenFlags::EXECUTE, to)
    }

    /// The like of a library, which to load is to read.
    pub fn copy_library(&self, at: At, path: &[u8], to: impl AsFd) -> Reach<()> {
        self.copy_whole(at, path, OpenFlags::READ, to)
    }

    /// The like of a program that is open (fexecve).
    pub fn copy_open_program(&self, fd: RawFd, to: impl AsFd) -> Reach<()> {
        let (user, handle) = (self.user()?, self.description(fd)?.record.handle);
        let target = Target::object(handle);
        let opened = user.open(target, OpenFlags::EXECUTE, 0, Striping::default());
        copy(&user, block_on(opened)?, to)
    }

    fn copy_whole(&self, at: At, path: &[u8], access: OpenFlags, to: impl AsFd) -> Reach<()> {
        let (opening, user) = self.reach(at, path, true, |user, spot| {
            let opened = user.open(spot.target(), access, 0, Striping::default());
            Ok((block_on(opened)?, user.clone()))
        })?;
        copy(&user, opening, to)
    }

    /// Opens what a descriptor is of once more (/proc/self/fd, /dev/stdin): with a position of its own. `mode` counts for
    /// a file without a name in the directory that the descriptor is of.
    pub fn open_again(&self, fd: RawFd, flags: OFlags, mode: u32) -> Reach<RawFd> {
        let description = self.description(fd)?;
        let (user, target) = (self.user()?, Target::object(description.record.handle));
        let creating = OFlags::CREATE | OFlags::EXCL;
        let wanted = if is_nameless(flags) { flags } else { flags.difference(creating) };
        let masked = user.masked(self.umask_of(wanted));
        let opened = known(&masked, target, wanted, mode & 0o7777, Striping::default());
        let opening = block_on(opened)?;
        let path = description.path().to_vec();
        self.opened(opening.attr, opening.file, user, path, flags)
    }

    /// A descriptor of what was opened by this path.
    pub(crate) fn opened(
        &self,
        attr: Attr,
        file: Option<OpenFile>,
        user: User<Apart>,
        mut path: Vec<u8>,
        flags: OFlags,
    ) -> Reach<RawFd> {
        if is_nameless(flags) {
            // As /proc shows such a file, below the directory that the path led to.
            path.extend_from_slice(format!("/#{} (deleted)", attr.handle.object).as_bytes());
        }
        let mut record = record(&attr, path, flags);
        let own = file.map(|file| {
            let inheritance = user.bequeath(&file);
            record.flags = inheritance.flags;
            record.capability = inheritance.capability;
            record.client = inheritance.client;
            record.open = inheritance.open;
            Arc::new(Own { user, file: Arc::new(file) })
        });
        let closing = own.clone();
        let installed = self.install(record, own, status(flags), flags.contains(OFlags::CLOEXEC));
        match (installed, closing) {
            (Ok(fd), _) => Ok(number(fd)),
            (Err(stop), None) => Err(stop),
            (Err(stop), Some(own)) => {
                if let Some((user, file)) = Own::unused(own) {
                    let _ = block_on(user.close(file));
                }
                Err(stop)
            }
        }
    }

    /// O_PATH: a place in the name space; the object itself is not opened.
    fn open_path(&self, at: At, path: &[u8], flags: OFlags) -> Reach<RawFd> {
        let follow = !flags.contains(OFlags::NOFOLLOW);
        let (attr, below) = self.reach(at, path, follow, |user, spot| {
            let attr = match block_on(user.stat_lite(spot.target(), follow)) {
                Err(error) if error.errno() == Errno::ESTALE && is_looked_at(spot, flags) => {
                    removed(spot.dir)
                }
                attr => attr?,
            };
            Ok((attr, spot.below()))
        })?;
        if flags.contains(OFlags::DIRECTORY) && attr.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let record = record(&attr, self.prefix.join(&below), flags);
        let close_on_exec = flags.contains(OFlags::CLOEXEC);
        self.install(record, None, OFlags::PATH.bits(), close_on_exec).map(number)
    }
}

/// Whether the directory where a path begins is opened as one: also when it was removed.
fn is_looked_at(spot: &Spot, flags: OFlags) -> bool {
    let changes = OFlags::ACCMODE | OFlags::CREATE;
    spot.is_start() && !flags.intersects(changes) && !is_nameless(flags)
}

/// Opens what is there or is to be created, if this user may use these flags.
pub(crate) async fn known(
    user: &User<Apart>,
    target: Target,
    flags: OFlags,
    mode: u32,
    striping: Striping,
) -> pvfs_client::Result<Opening> {
    let opening = user.open_known(target, wire_flags(flags), mode, striping).await?;
    if flags.contains(OFlags::NOATIME) && !may_leave_times(&opening.attr) {
        if let Some(file) = opening.file {
            user.close(file).await?;
        }
        return Err(Errno::EPERM.into());
    }
    Ok(opening)
}

/// O_NOATIME is for owners, as open(2) says.
fn may_leave_times(attr: &Attr) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || user.as_raw() == attr.uid
}

/// Whether a symlink at the end of the path is followed.
pub(crate) fn follows(flags: OFlags) -> bool {
    !flags.contains(OFlags::NOFOLLOW) && !flags.contains(OFlags::CREATE | OFlags::EXCL)
}

pub(crate) fn record(attr: &Attr, path: Vec<u8>, flags: OFlags) -> Record {
    Record {
        handle: attr.handle,
        kind: attr.kind,
        path_only: flags.contains(OFlags::PATH),
        access: flags.intersection(OFlags::ACCMODE).bits(),
        path: Bytes(path),
        flags: OpenFlags::NONE,
        capability: Bytes::default(),
        client: 0,
        open: 0,
        group: Bytes::default(),
    }
}

/// The flags that stay with an open file and are shown by fcntl.
pub(crate) fn status(flags: OFlags) -> u32 {
    let kept = OFlags::APPEND
        | OFlags::NONBLOCK
        | OFlags::SYNC
        | OFlags::DSYNC
        | OFlags::DIRECT
        | OFlags::NOATIME
        | OFlags::DIRECTORY
        | NAMELESS
        | OFlags::LARGEFILE;
    flags.intersection(kept).bits()
}

/// Puts all bytes of a file that was opened into another, and closes it.
fn copy(user: &User<Apart>, opening: Opening, to: impl AsFd) -> Reach<()> {
    let (file, size) = (opening.file.ok_or(Errno::EACCES)?, opening.attr.size);
    let copied = match size <= COPY_BYTES_MAX {
        true => copy_bytes(user, &file, size, to),
        false => Err(Errno::ENOMEM.into()),
    };
    let closed = block_on(user.close(file));
    copied?;
    Ok(closed?)
}

fn copy_bytes(user: &User<Apart>, file: &OpenFile, size: u64, to: impl AsFd) -> Reach<()> {
    let mut buffer = vec![0; size.min(COPIED_AT_ONCE) as usize];
    let mut start = 0;
    while start < size {
        let got = block_on(user.read_at(file, start, &mut buffer))?;
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&to, rest)?..];
        }
        if got == 0 {
            break;
        }
        start += got as u64;
    }
    Ok(())
}

pub(crate) fn wire_flags(flags: OFlags) -> OpenFlags {
    let access = match flags.intersection(OFlags::ACCMODE) {
        OFlags::WRONLY => OpenFlags::WRITE,
        OFlags::RDWR => OpenFlags::READ.with(OpenFlags::WRITE),
        _ => OpenFlags::READ,
    };
    access
        .with_if(flags.contains(OFlags::CREATE), OpenFlags::CREATE)
        .with_if(flags.contains(OFlags::EXCL), OpenFlags::EXCLUSIVE)
        .with_if(flags.contains(OFlags::TRUNC), OpenFlags::TRUNCATE)
        .with_if(flags.contains(OFlags::APPEND), OpenFlags::APPEND)
        .with_if(flags.contains(OFlags::NOFOLLOW), OpenFlags::NOFOLLOW)
        .with_if(flags.contains(OFlags::DIRECTORY), OpenFlags::DIRECTORY)
        .with_if(is_nameless(flags), OpenFlags::NAMELESS)
}

/// Whether a file without a name is wanted. Where the rest of O_TMPFILE is missing, the manager refuses.
pub(crate) fn is_nameless(flags: OFlags) -> bool {
    flags.contains(NAMELESS)
}

/// What O_TMPFILE has beside O_DIRECTORY.
const NAMELESS: OFlags = OFlags::TMPFILE.difference(OFlags::DIRECTORY);

/// Bytes that are held twice meanwhile.
const COPIED_AT_ONCE: u64 = 4 << 20;

/// Programs and libraries are copied into memory.
const COPY_BYTES_MAX: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lasts_is_shown_by_fcntl() {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND | OFlags::CLOEXEC;
        assert_eq!(status(flags), OFlags::APPEND.bits());
        assert_eq!(wire_flags(OFlags::RDONLY), OpenFlags::READ);
        let expected = [OpenFlags::WRITE, OpenFlags::CREATE, OpenFlags::TRUNCATE];
        let wire = wire_flags(OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC);
        assert_eq!(wire, expected.into_iter().fold(OpenFlags::NONE, OpenFlags::with));
    }

    #[test]
    fn a_file_without_a_name_is_asked_for_with_all_that_open_says() {
        let wire = wire_flags(OFlags::WRONLY | OFlags::TMPFILE | OFlags::EXCL);
        let expected = OpenFlags::WRITE | OpenFlags::DIRECTORY | OpenFlags::NAMELESS;
        assert_eq!(wire, expected | OpenFlags::EXCLUSIVE);
        assert!(!is_nameless(OFlags::RDONLY | OFlags::DIRECTORY));
    }
}
