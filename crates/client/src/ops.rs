//! The operations of a [`crate::User`], one idea a file.

pub(crate) mod access;
pub mod adopt;
pub mod append;
pub mod borrow;
pub mod copy;
pub(crate) mod dealing;
pub mod group;
pub mod lite;
pub mod locks;
mod memory;
pub mod names;
pub mod open;
pub mod pieces;
pub mod read;
pub mod readdir;
pub mod readx;
pub mod sizes;
pub mod space;
mod staging;
pub mod stat;
pub mod statfs;
pub mod sync;
pub mod truncate;
pub mod vouch;
pub mod write;
pub mod writex;
pub mod xattr;
