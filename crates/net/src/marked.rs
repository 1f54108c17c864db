//! Descriptors that a program may close behind our back, and open another file in their place.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::SeekFrom;

use crate::runtime::KeptFile;

/// A descriptor that is looked at before it is used. Where a program may close it another file must not take its place:
/// its kernel position, which nobody needs, is then a number that no other file has.
#[derive(Debug)]
pub struct MarkedFile {
    pub(crate) file: KeptFile,
    mark: Option<u64>,
}

impl MarkedFile {
    /// One that is kept; `None` when it cannot be positioned.
    pub fn new(file: KeptFile, random: u64) -> Option<Self> {
        if !file.is_exposed() {
            return Some(Self { file, mark: None });
        }
        // Any local file system has files so large, and no program is there.
        let mark = (1 << 40) + random % (1 << 42);
        rustix::fs::seek(&file, SeekFrom::Start(mark)).ok()?;
        Some(Self { file, mark: Some(mark) })
    }

    /// Whether the descriptor is still this file's. A third of the price of fstat.
    pub fn is_there(&self) -> bool {
        self.mark.is_none_or(|mark| rustix::fs::tell(&self.file) == Ok(mark))
    }

    /// How long the file is.
    pub fn size(&self) -> Option<u64> {
        Some(rustix::fs::fstat(&self.file).ok()?.st_size as u64)
    }
}

impl AsFd for MarkedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
