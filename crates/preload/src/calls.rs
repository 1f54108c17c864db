//! The functions, by kind.

mod aio;
mod copy;
mod data;
mod descriptors;
mod directories;
pub mod execute;
mod fcntl;
// Nothing calls `dlopen` elsewhere.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
mod libraries;
pub mod limits;
mod mapping;
mod names;
mod open;
mod printing;
mod sockets;
mod space;
mod spawn;
mod stat;
pub mod stdio;
#[cfg(target_arch = "x86_64")]
mod system;
mod temporary;
mod times;
mod trees;
mod walks;
mod working;
mod xattrs;
