//! The working directory, when it is one of ours. The kernel's own stays where it was.

use std::os::fd::RawFd;
use std::sync::PoisonError;

use pvfs_client::block_on;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::{AccessBits, Target};
use pvfs_wire::{Errno, Handle};

use crate::errno::Reach;
use crate::paths::At;
use crate::process::Process;

/// A working directory below the prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Working {
    pub(crate) handle: Handle,
    /// Its path below the prefix; nothing for the root.
    pub(crate) below: Vec<u8>,
}

impl Process {
    /// Whether relative paths begin in the file system.
    pub fn is_inside(&self) -> bool {
        self.read_working().is_some()
    }

    /// The path of the working directory, when it is ours.
    pub fn working(&self) -> Option<Vec<u8>> {
        self.read_working().as_ref().map(|working| self.prefix.join(&working.below))
    }

    /// ENOENT when the working directory was removed.
    pub fn check_working(&self) -> Reach<()> {
        let (handle, _) = self.place(At::Working)?;
        let user = self.user()?;
        match block_on(user.stat_lite(Target::object(handle), false)) {
            Err(error) if error.errno() == Errno::ESTALE => Err(Errno::ENOENT.into()),
            Ok(attr) if attr.nlink == 0 => Err(Errno::ENOENT.into()),
            looked => Ok(looked.map(drop)?),
        }
    }

    /// chdir(2) to a path that may be ours.
    pub fn change_directory(&self, at: At, path: &[u8]) -> Reach<()> {
        let (path, attr) = self.canonical(at, path)?;
        if attr.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        self.enter_directory(attr.handle, &path)
    }

    /// fchdir(2) to a directory of ours.
    pub fn change_to(&self, fd: RawFd) -> Reach<()> {
        let description = self.description(fd)?;
        if description.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        let handle = description.record.handle;
        // The way it was opened may have led through links, or the directory may have moved.
        let path = match self.canonical(At::Working, description.path()) {
            Ok((path, attr)) if attr.handle == handle => path,
            _ => description.path().to_vec(),
        };
        self.enter_directory(handle, &path)
    }

    /// The working directory is another's now.
    pub fn leave(&self) {
        *self.working.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The working directory that a process before this one was in, without asking anyone: should it be gone, the
    /// first call says so.
    pub fn resume_in(&self, text: &str) -> bool {
        let Some((handle, path)) = parse(text) else { return false };
        let Some(below) = self.prefix.below(path.as_bytes()) else { return false };
        let working = Working { handle, below: below.to_vec() };
        *self.working.write().unwrap_or_else(PoisonError::into_inner) = Some(working);
        true
    }

    /// What [`Process::resume_in`] needs, in a form that fits into the environment.
    pub fn working_to_resume(&self) -> Option<Vec<u8>> {
        let working = self.read_working();
        let working = working.as_ref()?;
        Some(resumable(working.handle, &self.prefix.join(&working.below)))
    }

    /// The like for another directory, in which a child is to begin.
    pub fn directory_to_resume(&self, at: At, path: &[u8]) -> Reach<Vec<u8>> {
        let (path, attr) = self.canonical(at, path)?;
        if attr.kind != FileKind::Directory {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(resumable(attr.handle, &path))
    }

    fn enter_directory(&self, handle: Handle, path: &[u8]) -> Reach<()> {
        let user = self.user()?;
        match block_on(user.check_access(Target::object(handle), false, AccessBits::EXECUTE)) {
            // It was removed, and is open: one may be there, where nothing is.
            Err(error) if error.errno() == Errno::ESTALE => {}
            checked => checked?,
        }
        let below = self.prefix.below(path).unwrap_or_default().to_vec();
        *self.working.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Working { handle, below });
        Ok(())
    }

    fn read_working(&self) -> std::sync::RwLockReadGuard<'_, Option<Working>> {
        self.working.read().unwrap_or_else(PoisonError::into_inner)
    }
}

fn resumable(handle: Handle, path: &[u8]) -> Vec<u8> {
    let Handle { fsid, generation, object } = handle;
    [format!("{fsid:x}.{generation:x}.{object:x}:").as_bytes(), path].concat()
}

fn parse(text: &str) -> Option<(Handle, &str)> {
    let (handle, path) = text.split_once(':')?;
    let mut numbers = handle.split('.');
    let mut next = || u64::from_str_radix(numbers.next()?, 16).ok();
    let (fsid, generation, object) = (next()?, next()?, next()?);
    let (fsid, generation) = (u32::try_from(fsid).ok()?, u32::try_from(generation).ok()?);
    Some((Handle { fsid, generation, object }, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn process() -> Process {
        Process::new(Settings { prefix: b"/pvfs".to_vec(), also: None, config: None })
    }

    #[test]
    fn a_working_directory_survives_as_text() {
        let (one, other) = (process(), process());
        assert!(one.resume_in("7.1.2a:/pvfs/a:b"));
        assert_eq!(one.working(), Some(b"/pvfs/a:b".to_vec()));
        let text = String::from_utf8(one.working_to_resume().unwrap()).unwrap();
        assert!(other.resume_in(&text));
        assert_eq!(*one.read_working(), *other.read_working());
        one.leave();
        assert_eq!((one.working(), one.working_to_resume()), (None, None));
    }

    #[test]
    fn text_that_is_none_is_no_directory() {
        let process = process();
        for text in ["", ":/pvfs", "7.1:/pvfs", "7.1.2:/other", "x.y.z:/pvfs", "7.1.2"] {
            assert!(!process.resume_in(text) && !process.is_inside(), "{text}");
        }
    }
}
