//! Native calls: the names and meanings of PVFS 1, for our files and ordinary ones.

pub mod attributes;
mod control;
mod data;
mod directory;
mod names;
pub mod open;

pub use open::{opened, pvfs_close};
