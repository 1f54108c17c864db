//! What the kernel and a mount say to each other over /dev/fuse: fuse(4), `linux/fuse.h`, version 7.31 and later.
//!
//! Records of fixed width in the byte order of the machine, which is little-endian as everything of ours. Pure: bytes in,
//! values out, and the other way. Why this is not a library's is told in docs/design/kernel.md.

pub mod answer;
pub mod init;
pub mod listing;
pub mod request;

pub use answer::{Attributes, Kept};
pub use request::{Asked, Request};

/// What the kernel calls an open file or directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
pub struct FileHandle(pub u64);

#[cfg(target_endian = "big")]
compile_error!("records of /dev/fuse are read and written as little-endian");
