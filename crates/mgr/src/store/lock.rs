//! One store, one manager: a lock that ends with the process that holds it.

use super::error::StoreError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// Held while a store is open.
#[derive(Debug)]
pub(crate) struct StoreLock {
    file: File,
}

impl Drop for StoreLock {
    /// Closing the file is not enough: a process forked meanwhile has it open until it execs.
    fn drop(&mut self) {
        // A lock that cannot be given back ends with the process.
        let _ = self.file.unlock();
    }
}

impl StoreLock {
    /// Locks the store in `directory`, which is created if need be.
    pub(crate) fn take(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join("lock");
        let failed = |error| StoreError::io("lock", &path, error);
        fs::create_dir_all(directory).map_err(failed)?;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                sign(&mut file).map_err(failed)?;
                Ok(Self { file })
            }
            Err(TryLockError::WouldBlock) => Err(StoreError::InUse {
                directory: directory.to_path_buf(),
                holder: holder(&mut file),
            }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// Writes who holds the lock, for the message that the next one gets.
fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "{}", std::process::id())
}

fn holder(file: &mut File) -> String {
    let mut pid = String::new();
    match file.take(20).read_to_string(&mut pid) {
        Ok(length) if length > 0 => format!("process {pid}"),
        _ => "another process".to_owned(),
    }
}
