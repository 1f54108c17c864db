//! The commands of the `pvfs` executable, as a library, so that tests and the documentation see
//! the same tree as users do.

#![forbid(unsafe_code)]

pub mod agent;
pub mod authority;
pub mod bench;
pub mod binary;
pub mod cli;
pub mod connected;
pub mod copying;
pub mod daemon;
pub mod local;
pub mod mounted;
pub mod mounting;
pub mod order;
pub mod show;
pub mod stripes;
