//! The same operations on names, in the file system and in a local directory.

use super::Crowd;
use crate::bench::error::{Doing, Result};
use crate::bench::testbed::Testbed;
use pvfs_client::{Blocking, Transport, User, block_on};
use pvfs_wire::Handle;
use pvfs_wire::attr::{FileKind, Striping};
use pvfs_wire::ops::{OpenFlags, RenameFlags, Target};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

/// One client in one directory.
pub trait Names: Send + Sync {
    /// A new file, opened and closed.
    fn create(&self, name: &str) -> Result<()>;
    /// Attributes.
    fn stat(&self, name: &str) -> Result<()>;
    /// Another name.
    fn rename(&self, from: &str, to: &str) -> Result<()>;
    /// Away with it.
    fn unlink(&self, name: &str) -> Result<()>;
    /// A new directory.
    fn mkdir(&self, name: &str) -> Result<()>;
    /// Away with it.
    fn rmdir(&self, name: &str) -> Result<()>;
    /// What its names begin with, so that clients in one directory stay apart.
    fn prefix(&self) -> &str;
}

/// A client of the file system.
pub struct Product {
    user: User<Blocking>,
    directory: Handle,
    prefix: String,
}

/// A directory beside the stores.
pub struct Local {
    directory: PathBuf,
    prefix: String,
}

impl Product {
    /// Clients that each have connections of their own.
    pub fn crowd(testbed: &Testbed, crowd: Crowd) -> Result<Vec<Self>> {
        let title = format!("names-{}-{}", crowd.clients, crowd.together);
        let shared = testbed.directory(&title)?;
        (0..crowd.clients).map(|client| Self::start(testbed, shared, crowd, client)).collect()
    }

    fn start(testbed: &Testbed, shared: Handle, crowd: Crowd, client: u32) -> Result<Self> {
        let user = testbed.client(Transport::Tcp)?;
        let prefix = format!("c{client}-");
        let directory = match crowd.together {
            true => shared,
            false => {
                block_on(user.mkdir(Target::below(shared, &prefix), 0o700))
                    .doing("make a directory")?
                    .handle
            }
        };
        Ok(Self { user, directory, prefix })
    }

    /// A client in a directory.
    pub fn within(testbed: &Testbed, directory: Handle, client: u32) -> Result<Self> {
        Ok(Self { user: testbed.client(Transport::Tcp)?, directory, prefix: format!("c{client}-") })
    }

    /// A new file that nobody opens.
    pub fn make(&self, name: &str) -> Result<()> {
        block_on(self.user.mknod(self.target(name), FileKind::Regular, 0o600, 0))
            .doing("make a file")
            .map(drop)
    }

    fn target(&self, name: &str) -> Target {
        Target::below(self.directory, name)
    }
}

impl Names for Product {
    fn create(&self, name: &str) -> Result<()> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
        let file =
            block_on(self.user.open_regular(self.target(name), flags, 0o600, Striping::default()));
        block_on(self.user.close(file.doing("create a file")?)).doing("close a file")
    }

    fn stat(&self, name: &str) -> Result<()> {
        block_on(self.user.stat(self.target(name), true)).doing("stat a file").map(drop)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renamed =
            block_on(self.user.rename(self.target(from), self.target(to), RenameFlags::default()));
        renamed.doing("rename a file").map(drop)
    }

    fn unlink(&self, name: &str) -> Result<()> {
        block_on(self.user.unlink(self.target(name))).doing("unlink a file").map(drop)
    }

    fn mkdir(&self, name: &str) -> Result<()> {
        block_on(self.user.mkdir(self.target(name), 0o700)).doing("make a directory").map(drop)
    }

    fn rmdir(&self, name: &str) -> Result<()> {
        block_on(self.user.rmdir(self.target(name))).doing("remove a directory").map(drop)
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl Local {
    /// As many threads as there are clients, in as many directories.
    pub fn crowd(testbed: &Testbed, crowd: Crowd) -> Result<Vec<Self>> {
        let shared =
            testbed.place().directory().join(format!("names-{}-{}", crowd.clients, crowd.together));
        fs::create_dir_all(&shared).doing("make a local directory")?;
        Self::below(&shared, crowd)
    }

    /// In a given directory.
    pub fn below(shared: &Path, crowd: Crowd) -> Result<Vec<Self>> {
        (0..crowd.clients).map(|client| Self::start(shared, crowd, client)).collect()
    }

    fn start(shared: &Path, crowd: Crowd, client: u32) -> Result<Self> {
        let prefix = format!("c{client}-");
        let directory = if crowd.together { shared.to_owned() } else { shared.join(&prefix) };
        fs::create_dir_all(&directory).doing("make a local directory")?;
        Ok(Self { directory, prefix })
    }
}

impl Names for Local {
    fn create(&self, name: &str) -> Result<()> {
        let path = self.directory.join(name);
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .doing("create a local file")
            .map(drop)
    }

    fn stat(&self, name: &str) -> Result<()> {
        fs::metadata(self.directory.join(name)).doing("stat a local file").map(drop)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        fs::rename(self.directory.join(from), self.directory.join(to)).doing("rename a local file")
    }

    fn unlink(&self, name: &str) -> Result<()> {
        fs::remove_file(self.directory.join(name)).doing("unlink a local file")
    }

    fn mkdir(&self, name: &str) -> Result<()> {
        fs::create_dir(self.directory.join(name)).doing("make a local directory")
    }

    fn rmdir(&self, name: &str) -> Result<()> {
        fs::remove_dir(self.directory.join(name)).doing("remove a local directory")
    }

    fn prefix(&self) -> &str {
        &self.prefix
    }
}
