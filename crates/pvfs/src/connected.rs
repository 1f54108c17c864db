//! A command's connection to the file system, and how its failures become sentences and exit codes.

use std::fmt::Display;
use std::path::Path;

use pvfs_client::credentials::{Identity, Issuer};
use pvfs_client::{Blocking, Error, Filesystem, Options, User, block_on};
use pvfs_config::Cluster;
use pvfs_net::call::CallError;
use pvfs_wire::ops::Target;
use pvfs_wire::token::SessionRights;
use pvfs_wire::{Errno, Handle};

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};

/// The file system, as the user who runs the command sees it.
pub struct Connected {
    /// The cluster it lives on.
    pub cluster: Cluster,
    /// The user.
    pub user: User<Blocking>,
}

impl Connected {
    /// Gets ready; contacts nobody yet. `config` is the cluster file that a mount named.
    pub fn new(context: &Context, config: Option<&Path>) -> Result<Self, Failure> {
        let cluster = context.cluster_of(config)?;
        let options = Options::of(&cluster);
        Self::with(cluster, options)
    }

    /// The like, with other options than the cluster file's.
    pub fn with(cluster: Cluster, options: Options) -> Result<Self, Failure> {
        let principal = Issuer::of(&cluster)
            .and_then(|issuer| issuer.principal(Identity::of_process(), SessionRights::NONE))
            .map_err(|error| failure("cannot get a session", &error))?;
        let filesystem = Filesystem::new(Blocking, &cluster, options)
            .map_err(|error| failure("cannot use the file system", &error))?;
        Ok(Self { cluster, user: User::new(filesystem, principal) })
    }

    /// The root directory.
    pub fn root(&self) -> Result<Handle, Failure> {
        block_on(self.user.root()).map_err(|error| failure("cannot reach the file system", &error))
    }

    /// The object of a path from the root.
    pub fn target(&self, path: &str) -> Result<Target, Failure> {
        let relative = path.trim_matches('/');
        Ok(Target::below(self.root()?, relative))
    }
}

/// A failure: what could not be done, why, and the exit code that tells scripts.
pub fn failure(doing: impl Display, error: &Error) -> Failure {
    Failure::new(exit_of(error), format!("{doing}: {error}"))
}

fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Setup(_) => Exit::Usage,
        Error::Call(CallError::Timeout { .. } | CallError::Unreachable { .. }) => Exit::Unreachable,
        Error::Call(CallError::Refused { .. }) => Exit::Denied,
        Error::Call(CallError::Status(Errno::EACCES | Errno::EPERM)) => Exit::Denied,
        Error::Call(CallError::Status(_)) => Exit::Failed,
    }
}
