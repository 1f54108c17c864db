//! The files under the store, behind a trait, so that tests can fail any of them at any byte.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// A directory of files that the store may create, open and remove.
pub trait Media: Debug + Send + Sync {
    /// Opens `path` for reading and writing; creates it, empty, if it is not there.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediaFile>>;

    /// Removes `path`.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in `directory` survive a power loss.
    fn sync_directory(&self, directory: &Path) -> io::Result<()>;

    /// The size of the disk that `directory` is on, and how much of it is free.
    fn space(&self, directory: &Path) -> io::Result<Space>;
}

/// How large a disk is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Space {
    /// In all.
    pub capacity_bytes: u64,
    /// May still be written.
    pub free_bytes: u64,
}

/// One open file.
pub trait MediaFile: Debug + Send + Sync {
    /// Its length.
    fn len(&self) -> io::Result<u64>;

    /// Whether nothing is in it.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `bytes` from `offset`; a file that ends before is an error.
    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes some of `bytes` at `offset`, in one system call, and says how many.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Cuts or extends the file.
    fn set_len(&self, length: u64) -> io::Result<()>;

    /// Returns when all that was written survives a power loss.
    fn sync_data(&self) -> io::Result<()>;

    /// Writes all of `bytes`, going on after short writes.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write_at(&bytes[written..], offset + written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => written += length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The local file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalMedia;

impl Media for LocalMedia {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediaFile>> {
        let mut options = OpenOptions::new();
        Ok(Arc::new(options.read(true).write(true).create(true).truncate(false).open(path)?))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }

    fn space(&self, directory: &Path) -> io::Result<Space> {
        let space = rustix::fs::statvfs(directory)?;
        Ok(Space {
            capacity_bytes: space.f_blocks.saturating_mul(space.f_frsize),
            free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        })
    }
}

impl MediaFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        File::set_len(self, length)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }
}

/// A file as redb wants it. redb's own locks are not needed: the store's lock file keeps others out.
#[derive(Debug)]
pub(crate) struct StateFile(pub(crate) Arc<dyn MediaFile>);

impl redb::StorageBackend for StateFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}
