//! How a call ends when it does not succeed.

use pvfs_client::Error;
use pvfs_wire::Errno;

/// The result of a call on a path or a descriptor.
pub type Reach<T> = Result<T, Stop>;

/// Why a call did not succeed here.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stop {
    /// It failed.
    Errno(Errno),
    /// The path leads out of the file system, to this one.
    Outside(Vec<u8>),
    /// The path or the descriptor is none of ours.
    NotOurs,
}

impl Stop {
    /// The error number, for callers to whom there is nothing outside.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Errno(errno) => *errno,
            Self::Outside(_) => Errno::EXDEV,
            Self::NotOurs => Errno::EBADF,
        }
    }
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Errno(program_errno(&error))
    }
}

impl From<rustix::io::Errno> for Stop {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Errno(Errno(error.raw_os_error().unsigned_abs()))
    }
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.errno().fmt(f)
    }
}

impl std::error::Error for Stop {}

/// The number a program is given. Those that mean something only between daemons are EIO or EACCES.
pub fn program_errno(error: &Error) -> Errno {
    match error.errno() {
        Errno::ETIMEDOUT | Errno::EPROTO | Errno::ENOKEY | Errno::EHOSTDOWN => Errno::EIO,
        Errno::ENOTCONN | Errno::ECONNRESET | Errno::ECONNABORTED | Errno::ECONNREFUSED => {
            Errno::EIO
        }
        Errno::EKEYEXPIRED | Errno::EKEYREJECTED | Errno::EKEYREVOKED => Errno::EACCES,
        errno => errno,
    }
}
