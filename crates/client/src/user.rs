//! One user's view of a file system; all operations are methods of it, one file each under `ops`.

use std::sync::Arc;

use pvfs_net::call::{CallError, Patience, Pipelined, Principal, Server};
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
    /// [`crate::Queue`]): small requests of theirs share one connection to each daemon, and do not wait for one another.
    /// Connections end with [`Self::part`].
    #[must_use]
    pub fn together(&self) -> Self {
        Self { together: Some(Together::new()), ..self.clone() }
    }

    /// The same user for operations that are moved side by side with those of `other`.
    #[must_use]
    pub fn beside(&self, other: &Self) -> Self {
        Self { together: other.together, ..self.clone() }
    }

    /// Closes the connections of operations that were side by side, and have ended for good.
    pub fn part(&self) {
        if let Some(together) = self.together {
            self.filesystem.manager().part(together);
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

    /// The like for requests of which many are asked side by side, and whose replies are short.
    pub(crate) async fn ask_together<O: Operation>(&self, request: &O) -> Result<O::Reply> {
        let patience = self.filesystem.metadata_patience();
        Ok(self.call_together(self.filesystem.manager(), request, patience).await?)
    }

    /// The like of any daemon.
    pub(crate) async fn call_together<O: Operation>(
        &self,
        server: &Server<R>,
        request: &O,
        patience: Patience,
    ) -> std::result::Result<O::Reply, CallError> {
        let (caller, principal) = (self.filesystem.caller(), &self.principal);
        match self.together {
            None => caller.call(server, principal, request, patience).await,
            Some(together) => {
                let how = Pipelined { patience, together };
                caller.call_pipelined(server, principal, request, how).await
            }
        }
    }
}
