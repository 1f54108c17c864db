//! One user's view of a file system; all operations are methods of it, one file each under `ops`.

use std::sync::Arc;

use pvfs_net::call::Principal;
use pvfs_net::runtime::Runtime;
use pvfs_wire::{Handle, Operation};

use crate::error::Result;
use crate::filesystem::Filesystem;

/// A user of a file system: cheap to clone, usable from many threads.
pub struct User<R: Runtime> {
    pub(crate) filesystem: Arc<Filesystem<R>>,
    pub(crate) principal: Arc<Principal>,
}

impl<R: Runtime> Clone for User<R> {
    fn clone(&self) -> Self {
        Self { filesystem: self.filesystem.clone(), principal: self.principal.clone() }
    }
}

impl<R: Runtime> User<R> {
    /// `principal` as a user of `filesystem`.
    pub fn new(filesystem: Arc<Filesystem<R>>, principal: Arc<Principal>) -> Self {
        Self { filesystem, principal }
    }

    /// The file system used.
    pub fn filesystem(&self) -> &Arc<Filesystem<R>> {
        &self.filesystem
    }

    /// On whose behalf daemons are asked.
    pub(crate) fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The root directory.
    pub async fn root(&self) -> Result<Handle> {
        self.filesystem.root(&self.principal).await
    }

    pub(crate) async fn ask<O: Operation>(&self, request: &O) -> Result<O::Reply> {
        self.filesystem.ask(&self.principal, request).await
    }
}
