//! What POSIX and the man pages of Linux promise of a file system, as cases made of plain system calls.
//!
//! ```text
//!   runner.rs   one process per case, in a directory of its own, ended when it takes too long
//!   cases/      an area each; a case is a function whose name is the sentence it shows
//!   stream.rs   random operations on one file, held against an array of bytes
//!   tree.rs     random operations on names, held against a plain directory
//!   wants.rs    what cases say: expectations, other users, things made in passing
//!   sys.rs      the system calls; sys/rust.rs: the like in the library for Rust
//!   library.rs  another library than the C library to make them through, and what it lacks
//! ```
//!
//! The same cases run on a plain local directory, which shows that they are right, and on whatever else is to
//! be a file system. What differs is printed as a table.

#![deny(unsafe_code)]

pub mod cases;
pub mod chance;
pub mod library;
mod listing;
pub mod runner;
pub mod stream;
pub mod sys;
pub mod tree;
pub mod wants;

pub use runner::{Outcome, Place, Table, run_case_if_asked};

/// One thing that a file system is to do.
#[derive(Clone, Copy)]
pub struct Case {
    /// What it is about: chmod, rename, locks...
    pub area: &'static str,
    /// The sentence.
    pub name: &'static str,
    /// Whether only root can show it.
    pub needs_root: bool,
    /// Shows it: returns when all is as it should be, panics otherwise. Its working directory is empty
    /// and its own.
    pub run: fn(),
}

impl Case {
    /// `area/name`
    pub fn path(&self) -> String {
        format!("{}/{}", self.area, self.name)
    }
}
