//! What can be wrong with a configuration, each said in one sentence with what to do.

use crate::hosts::HostListError;
use crate::key::KeyError;
use std::io;
use std::path::PathBuf;

/// Why there is no valid configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// None of the usual places has a file.
    #[error("no configuration in {}; start a file system with pvfs up, \
             write a configuration with pvfs genconfig, or name one with --config", join(.looked_in))]
    NotFound {
        /// Every path tried, in order.
        looked_in: Vec<PathBuf>,
    },
    /// A file found by itself in the working directory belongs to somebody else.
    #[error("{} belongs to another user; name it with --config if you trust it", path.display())]
    NotYours {
        /// The file.
        path: PathBuf,
    },
    /// The file could not be read.
    #[error("cannot read the configuration {}: {source}; name another with --config", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The text says something impossible; the reason says what to write instead.
    #[error("{}:{line}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// One sentence.
        reason: String,
    },
    /// A daemon was started under a name that is not in the file.
    #[error("there is no [[{role}]] named \"{name}\" in {}; its names are {}", path.display(), known.join(", "))]
    NoSuchServer {
        /// `manager` or `iod`.
        role: &'static str,
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
        /// The file.
        path: PathBuf,
    },
    /// The cluster key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A host list given to a recipe cannot be read.
    #[error(transparent)]
    Hosts(#[from] HostListError),
    /// A recipe names a number of managers other than one.
    #[error("\"{hosts}\" stands for {count} manager hosts; name exactly one")]
    OneManager {
        /// The host list.
        hosts: String,
        /// How many it stands for.
        count: usize,
    },
    /// A recipe puts more daemons on one host than there are ports.
    #[error("no port is left on {host}; start from a lower port or place fewer daemons there")]
    NoPortLeft {
        /// The crowded host.
        host: String,
    },
    /// The system gave no random bytes.
    #[error("the system gave no random bytes: {0}; check that getrandom(2) is allowed here")]
    NoRandom(getrandom::Error),
}

fn join(paths: &[PathBuf]) -> String {
    let texts: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    texts.join(", ")
}
