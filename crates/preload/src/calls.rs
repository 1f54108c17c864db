//! The functions, by kind.

mod aio;
mod copy;
mod data;
mod descriptors;
mod directories;
mod execute;
mod fcntl;
mod mapping;
mod names;
mod open;
mod printing;
mod sockets;
mod space;
mod spawn;
mod stat;
pub mod stdio;
mod temporary;
mod times;
mod working;
mod xattrs;
