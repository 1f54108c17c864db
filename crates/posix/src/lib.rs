//! POSIX calls over the client: paths below a prefix, descriptors, a working directory, errno.
//!
//! ```text
//!   preload, libpvfs          C's types and names
//!     Process                 paths, users, the table of descriptors, the working directory
//!       Description           one open file: a memfd, shared by all who hold a descriptor of it
//!         User                the client library
//! ```
//!
//! A descriptor is one of the kernel's: a memfd that holds the record of what is open, so that dup, fork, exec,
//! close-on-exec, select and passing through sockets need no help of ours. What all holders share (the
//! position, the status flags and the lock around them) lies in the memfd's first page; see [`shared`].
//! Each process is a client of its own and takes part in an inherited open by [`pvfs_wire::ops::Adopt`].
//!
//! ```no_run
//! use pvfs_posix::{At, Process, Settings};
//! use rustix::fs::OFlags;
//!
//! let process = Process::new(Settings { prefix: b"/pvfs".to_vec(), also: None, config: None });
//! let fd = process.open(At::Working, b"/pvfs/hello", OFlags::CREATE | OFlags::RDWR, 0o644)?;
//! process.write(fd, b"hello")?;
//! process.close(fd)?;
//! # Ok::<(), pvfs_posix::Stop>(())
//! ```

#![deny(unsafe_code)]

mod attributes;
pub mod blocks;
pub mod c;
mod data;
mod description;
mod directory;
mod errno;
mod group;
mod handover;
mod inherit;
mod layout;
pub mod limit;
mod lite;
mod locks;
pub mod mounts;
mod names;
pub mod numbers;
mod open;
mod parallel;
mod paths;
mod process;
mod queue;
mod record;
mod runtime;
mod settings;
pub mod shared;
mod space;
mod working;
mod xattrs;

pub use attributes::Times;
pub use data::{Demands, From, Piece};
pub use description::{Description, Kind};
pub use directory::{Item, Stream};
pub use errno::{Reach, Stop, program_errno};
pub use layout::Layout;
pub use locks::{Conflict, Family, Wanted};
pub use paths::{At, Prefix};
pub use process::Process;
pub use queue::{Bell, Queue, Room, Ticket, Told};
pub use runtime::{Apart, lowest};
pub use settings::{PREFIX, PREFIX_VARIABLE, Settings, TAB_VARIABLE};
pub use xattrs::Object;
