//! What is said between clients and daemons, and nothing about how it gets there.
//!
//! A message is a 64-byte [`header::Header`], a body (the operation's record, see [`codec`]) and data
//! (file bytes). Every operation is one file under [`ops`] and one line in its table. Nothing here does
//! I/O, and no bytes from outside can make it panic or allocate more than they are long.

#![forbid(unsafe_code)]

pub mod attr;
pub mod codec;
pub mod error;
pub mod group_handle;
pub mod handle;
pub mod header;
pub mod ops;
pub mod token;

pub use codec::{Bytes, Reader, Wire};
pub use error::{DecodeError, Errno};
pub use handle::Handle;
pub use header::{HEADER_BYTES, Header, Kind, OK, Sequence};
pub use ops::{Effect, Operation};

/// The version of frames and operations; peers agree on it at hello.
pub const VERSION: u8 = 1;

/// No body is longer.
pub const BODY_BYTES_MAX: u32 = 2 << 20;

/// No message carries more data; a longer transfer is several requests per iod.
pub const DATA_BYTES_MAX: u32 = 4 << 20;

/// The longest name in a directory.
pub const NAME_BYTES_MAX: usize = 255;

/// The longest path, and the longest target of a symlink.
pub const PATH_BYTES_MAX: usize = 4095;
