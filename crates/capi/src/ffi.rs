//! Where C enters and leaves: one file for each section of the header.
//!
//! The functions' bodies rely on what pvfs.h demands of callers and what can be seen of their arguments, and on nothing
//! else; see [`export`].

#![allow(
    clippy::macro_metavars_in_unsafe,
    reason = "the bodies that `export` is given are unsafe as a whole, for the reason stated there"
)]

mod arguments;
mod blk;
mod enter;
mod group;
mod layout;
mod lite;
mod native;
mod partition;
mod plus;
mod queue;
mod readx;
mod route;
mod version;
