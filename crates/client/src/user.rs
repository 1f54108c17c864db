//! One user's view of a file system; all operations are methods of it, one file each under `ops`.

use std::sync::Arc;

use pvfs_net::call::Principal;
use pvfs_net::pipe::Together;
use pvfs_net::runtime::Runtime;
use pvfs_wire::ops::Asked;
use pvfs_wire::{Handle, Operation};

use crate::error::Result;
use crate::filesystem::Filesystem;

/// A user of a file system: cheap to clone, usable from many threads.
pub struct User<R: Runtime> {
    pub(crate) filesystem: Arc<Filesystem<R>>,
    pub(crate) principal: Arc<Principal>,
    pub(crate) umask: u32,
    /// With whom small transfers share connections.
    pub(crate) together: Option<Together>,
}

impl<R: Runtime> Clone for User<R> {
    fn clone(&self) -> Self {
        let Self { filesystem, principal, umask, together } = self;
        let (filesystem, principal) = (filesystem.clone(), principal.clone());
        Self { filesystem, principal, umask: *umask, together: *together }
    }
}

impl<R: Runtime> User<R> {
    /// `principal` as a user of `filesystem`.
    pub fn new(filesystem: Arc<Filesystem<R>>, principal: Arc<Principal>) -> Self {
        Self { filesystem, principal, umask: 0, together: None }
    }

    /// The same user with these permission bits taken off all that is created, except in directories whose
    /// default list says what it is to have. Without it, a mode has the umask already taken off.
    #[must_use]
    pub fn masked(&self, umask: u32) -> Self {
        Self { umask, ..self.clone() }
    }

    /// A mode to be asked for.
    pub(crate) fn asked(&self, bits: u32) -> u32 {
        Asked { bits, umask: self.umask }.mode()
    }

    /// The same user for operations that one thread moves side by side ([`pvfs_net::runtime::all`],
    /// [`crate::Queue`]): small transfers of theirs share one connection to each iod, and do not wait for one another.
    /// Connections end with [`Self::part`].
    #[must_use]
    pub fn together(&self) -> Self {
        Self { together: Some(Together::new()), ..self.clone() }
    }

    /// Closes the connections of operations that were side by side, and have ended for good.
    pub fn part(&self) {
        if let Some(together) = self.together {
            self.filesystem.iods().iter().for_each(|iod| iod.part(together));
        }
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
