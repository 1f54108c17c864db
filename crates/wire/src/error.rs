//! What can be wrong with bytes, and the error numbers that replies carry.

use crate::codec::{Reader, Wire};

/// Why bytes were not understood.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the value does.
    #[error("message ends before its last field")]
    Short,
    /// Bytes follow the last field.
    #[error("message has bytes after its last field")]
    Trailing,
    /// A field has a value that means nothing.
    #[error("message has a field with a meaningless value")]
    Value,
    /// The frame does not start as ours do.
    #[error("not a pvfs message; is this a pvfs port?")]
    Magic,
    /// The peer speaks another version.
    #[error("peer speaks wire version {0}, this is version {own}; install matching versions", own = crate::VERSION)]
    Version(u8),
    /// A checksum does not match: the bytes changed on their way.
    #[error("message checksum does not match")]
    Checksum,
    /// A length is over the negotiated limit.
    #[error("message is longer than the peer may send")]
    TooLong,
    /// The operation code is not known.
    #[error("unknown operation {0:#06x}")]
    Operation(u16),
}

/// An error number as Linux on x86-64 counts them, whatever the machine.
#[derive(Clone, Copy, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub struct Errno(pub u32);

macro_rules! errnos {
    ($($name:ident = $number:literal $text:literal,)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Self = Self($number);)*

            /// The symbol, such as `ENOENT`.
            pub fn name(self) -> &'static str {
                match self.0 { $($number => stringify!($name),)* _ => "E?" }
            }

            /// What it means, in a few words.
            pub fn text(self) -> &'static str {
                match self.0 { $($number => $text,)* _ => "unknown error" }
            }
        }
    };
}

errnos! {
    EPERM = 1 "operation not permitted",
    ENOENT = 2 "no such file or directory",
    EINTR = 4 "interrupted",
    EIO = 5 "input/output error",
    ENXIO = 6 "no such device or address",
    E2BIG = 7 "argument list too long",
    EBADF = 9 "bad file descriptor",
    EAGAIN = 11 "try again",
    ENOMEM = 12 "out of memory",
    EACCES = 13 "permission denied",
    EFAULT = 14 "bad address",
    EBUSY = 16 "busy",
    EEXIST = 17 "file exists",
    EXDEV = 18 "not the same file system",
    ENODEV = 19 "no such device",
    ENOTDIR = 20 "not a directory",
    EISDIR = 21 "is a directory",
    EINVAL = 22 "invalid argument",
    ENFILE = 23 "too many open files in the system",
    EMFILE = 24 "too many open files",
    ENOTTY = 25 "not a terminal",
    ETXTBSY = 26 "text file busy",
    EFBIG = 27 "file too large",
    ENOSPC = 28 "no space left on device",
    ESPIPE = 29 "illegal seek",
    EROFS = 30 "read-only file system",
    EMLINK = 31 "too many links",
    EPIPE = 32 "broken pipe",
    ERANGE = 34 "result too large",
    EDEADLK = 35 "deadlock avoided",
    ENAMETOOLONG = 36 "file name too long",
    ENOLCK = 37 "no locks available",
    ENOSYS = 38 "not implemented",
    ENOTEMPTY = 39 "directory not empty",
    ELOOP = 40 "too many symbolic links",
    ENODATA = 61 "no data",
    EPROTO = 71 "protocol error",
    EBADMSG = 74 "bad message",
    EOVERFLOW = 75 "value too large",
    EOPNOTSUPP = 95 "not supported",
    EADDRINUSE = 98 "address in use",
    ENETUNREACH = 101 "network unreachable",
    ECONNABORTED = 103 "connection aborted",
    ECONNRESET = 104 "connection reset",
    ENOTCONN = 107 "not connected",
    ETIMEDOUT = 110 "timed out",
    ECONNREFUSED = 111 "connection refused",
    EHOSTDOWN = 112 "host is down",
    EHOSTUNREACH = 113 "host unreachable",
    EALREADY = 114 "already under way",
    ESTALE = 116 "stale handle",
    EDQUOT = 122 "quota exceeded",
    ECANCELED = 125 "canceled",
    ENOKEY = 126 "capability not presented on this connection",
    EKEYEXPIRED = 127 "credential expired",
    EKEYREVOKED = 128 "credential revoked",
    EKEYREJECTED = 129 "credential rejected",
}

impl std::fmt::Debug for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl std::fmt::Display for Errno {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Errno {}

impl Wire for Errno {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        u32::get(from).map(Self)
    }
}

/// An attribute that a file does not have (`getxattr`) is `ENODATA` on Linux.
pub const ENOATTR: Errno = Errno::ENODATA;
