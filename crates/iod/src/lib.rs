//! The I/O daemon: objects on a local file system.
//!
//! ```text
//!   pvfs-net      requests of one round
//!      |
//!   iod           state, order, bounds
//!      |  ops/*   one file per operation: right? sense? -> engine
//!      |  capability                      plan (pure: which bytes of the object)
//!      v
//!   engine        locks, inline or by a worker, shared syncs
//!      |
//!   disk          LocalDisk: files in directories; MemoryDisk: for simulation, with faults
//! ```
//!
//! The daemon keeps nothing in memory that it could not lose: a request carries the object's handle, the
//! right to touch it and how the file is dealt. What is on disk is described in docs/disk.md.

#![forbid(unsafe_code)]

mod call;
mod capability;
pub mod clock;
mod connection;
pub mod disk;
mod engine;
mod figures;
mod health;
pub mod iod;
mod loans;
mod lock;
mod ops;
pub mod plan;
mod queue;
mod recent;
mod shared;
mod strain;
mod sync;
mod worker;

pub use disk::{Disk, LocalDisk, MemoryDisk};
pub use iod::{Config, Iod};
