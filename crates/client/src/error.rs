//! What a caller is told when something fails.

use pvfs_net::call::CallError;
use pvfs_wire::Errno;

/// An operation's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// A daemon did not do as asked, or could not be asked.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The file system itself cannot be used as described.
    #[error("{0}")]
    Setup(String),
    /// This user may not use the file system from here.
    #[error("{0}")]
    NoSession(String),
}

impl Error {
    /// The error number that a program is given.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Call(error) => error.errno(),
            Self::Setup(_) => Errno::EINVAL,
            Self::NoSession(_) => Errno::EACCES,
        }
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::Call(CallError::Status(errno))
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::from_raw_os_error(error.errno().0 as i32)
    }
}
