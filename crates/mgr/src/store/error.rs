//! Why the store refused: one variant per thing a manager would do differently.

use std::io;
use std::path::{Path, PathBuf};

/// Why the store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process, or another handle in this one, has the store open.
    #[error("the store in {} is in use by {holder}; stop that manager first", directory.display())]
    InUse {
        /// Where the store is.
        directory: PathBuf,
        /// Who said to hold it.
        holder: String,
    },
    /// Written by a version of PVFS that this one does not know.
    #[error(
        "{} has format version {found}, this manager reads version {known}; use the PVFS version \
         that wrote it", path.display()
    )]
    UnknownVersion {
        /// The file that says so.
        path: PathBuf,
        /// What it says.
        found: u64,
        /// What this build reads.
        known: u64,
    },
    /// Bytes that were safe on the disk are gone or changed. Going on would lose acknowledged work.
    #[error("{} is damaged: {damage}; restore the store from a backup", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// What is wrong with it.
        damage: String,
    },
    /// The disk is full. Nothing of the group was done; it may be tried again when there is space.
    #[error("no space left for the store in {}", directory.display())]
    NoSpace {
        /// Where the store is.
        directory: PathBuf,
    },
    /// A read or write failed. Nothing of the group was done.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A sync failed or the log could not be repaired: what the disk holds is unknown. Every
    /// further commit is refused until the store is opened anew.
    #[error("the store takes no more changes since {reason}; restart the manager")]
    Suspect {
        /// What failed first.
        reason: String,
    },
    /// The state file failed.
    #[error("cannot {doing} the state file: {source}")]
    State {
        /// What was being done.
        doing: &'static str,
        /// What redb said.
        source: Box<redb::Error>,
    },
    /// Memory for changes is used up and the checkpoint that would free it did not come in time.
    #[error("the store could not take the change within {waited_ms} ms: {reason}")]
    Overloaded {
        /// How long the commit waited.
        waited_ms: u64,
        /// What the checkpoint was doing.
        reason: String,
        /// Whether it lacks space on the disk.
        no_space: bool,
    },
    /// A key, value or group beyond what the log's format can hold.
    #[error("a {what} of {bytes} bytes exceeds the limit of {bytes_max}")]
    TooLarge {
        /// Key, value or group.
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The largest allowed.
        bytes_max: usize,
    },
    /// The options contradict one another or the limits.
    #[error("store option {option} is {value}, allowed is {allowed}")]
    BadOption {
        /// Which one.
        option: &'static str,
        /// What it was set to.
        value: u64,
        /// What it may be.
        allowed: String,
    },
}

impl StoreError {
    /// Wraps an I/O error on a file of the store.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull {
            let directory = path.parent().unwrap_or(path).to_path_buf();
            return Self::NoSpace { directory };
        }
        Self::Io { doing, path: path.to_path_buf(), source }
    }

    /// Wraps an error of redb.
    pub(crate) fn state(doing: &'static str, source: impl Into<redb::Error>) -> Self {
        Self::State { doing, source: Box::new(source.into()) }
    }

    /// Whether the cause is a full disk: the caller answers `ENOSPC`, not `EIO`.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { .. } | Self::Overloaded { no_space: true, .. } => true,
            Self::State { source, .. } => {
                matches!(&**source, redb::Error::Io(e) if e.kind() == io::ErrorKind::StorageFull)
            }
            _ => false,
        }
    }
}
