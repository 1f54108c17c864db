//! The kernel mount: requests of the kernel's FUSE client, answered through the client library.
//!
//! ```text
//!   kernel ── /dev/fuse ── fuser threads ── filesystem.rs     one method per request, and its reply
//!                              │                 ops/         what each request means here
//!                              │                   identity   on whose behalf
//!                              │                   nodes      what the kernel knows
//!                              │                   handles    what programs have open
//!                              └─ workers.rs     data requests beyond what may block these threads
//! ```
//!
//! Nothing is cached but what the kernel was told it may keep, and that is decided in [`options::Cache`] and
//! when a file is opened (`nodes::Version`): attributes and names not at all, pages for as long as nobody
//! wrote the file since.

#![deny(unsafe_code)]

mod attributes;
mod device;
mod directory;
mod filesystem;
mod flock;
mod handles;
mod heartbeat;
mod identity;
mod kernel;
mod locks;
pub mod memory;
mod mounted;
mod nodes;
mod ops;
pub mod options;
mod recent;
pub mod session;
mod signals;
mod silence;
pub mod table;
mod workers;

pub use options::{MountOptions, OptionError};
pub use session::{MountError, Session, mount, unmount};
