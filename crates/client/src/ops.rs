//! The operations of a [`crate::User`], one idea a file.

pub mod append;
pub mod locks;
pub mod names;
pub mod open;
pub mod pieces;
pub mod read;
pub mod readdir;
pub mod sizes;
pub mod stat;
pub mod statfs;
pub mod sync;
pub mod truncate;
pub mod write;
pub mod xattr;
