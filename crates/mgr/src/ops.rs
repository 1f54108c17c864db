//! What each operation does to the name space, one file per file of `pvfs_wire::ops`.

mod adopt;
mod create;
mod link;
mod open;
mod readdir;
mod rename;
mod setattr;
pub mod shared;
mod size;
mod stat;
mod statfs;
mod unlink;
mod xattr;
