//! Why a measurement could not be made.

use std::io;

/// A measurement's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system refused something.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The file system refused something.
    #[error("cannot {doing}: {source}")]
    Filesystem {
        /// What was being done.
        doing: String,
        /// What it said.
        source: pvfs_client::Error,
    },
    /// The private cluster did not come to life.
    #[error("{daemon} did not start: {reason}")]
    Daemon {
        /// Its name.
        daemon: String,
        /// What is known.
        reason: String,
    },
    /// A program that was started for the purpose did not do its part.
    #[error("{program} failed: {reason}")]
    Program {
        /// What was started.
        program: String,
        /// What it said.
        reason: String,
    },
    /// The description of the cluster is wrong.
    #[error(transparent)]
    Config(#[from] pvfs_config::ConfigError),
    /// A signal came.
    #[error("interrupted; nothing is left behind")]
    Interrupted,
    /// Nothing to do.
    #[error(
        "no row has a name with \"{0}\" in it; see --list of pvfs bench io, meta, mpi, parallel and preload"
    )]
    NoRow(String),
    /// A figure came out that cannot be.
    #[error("{0}")]
    Wrong(String),
}

/// Says what was being done when it failed.
pub trait Doing<T> {
    /// `doing` completes "cannot ...".
    fn doing(self, doing: &str) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &str) -> Result<T> {
        self.map_err(|source| Error::System { doing: doing.to_owned(), source })
    }
}

impl<T> Doing<T> for pvfs_client::Result<T> {
    fn doing(self, doing: &str) -> Result<T> {
        self.map_err(|source| Error::Filesystem { doing: doing.to_owned(), source })
    }
}

impl<T> Doing<T> for std::result::Result<T, rustix::io::Errno> {
    fn doing(self, doing: &str) -> Result<T> {
        self.map_err(io::Error::from).doing(doing)
    }
}
