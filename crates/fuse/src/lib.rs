//! The kernel mount: requests of the kernel's FUSE client, answered through the client library.
//!
//! ```text
//!   kernel ── /dev/fuse ── queue.rs ── filesystem.rs     one method per request, and its reply
//!              protocol/       │          ops/            what each request means here
//!              what is said    │            identity      on whose behalf
//!                              │            nodes         what the kernel knows
//!                              │            handles       what programs have open
//!                              └─ workers.rs     data requests beyond what may block these threads
//! ```
//!
//! What the kernel may keep is decided by [`options::Cache`]. Under a lease (`coherence`) it keeps names and
//! attributes until the manager recalls them, and asks the client's own cache after that. Pages it keeps for as
//! long as nobody wrote the file since, which is looked at when a file is opened ([`pages`]).

#![deny(unsafe_code)]

mod attributes;
mod coherence;
mod device;
mod directory;
mod filesystem;
mod handles;
mod heartbeat;
mod identity;
mod kernel;
mod listings;
mod locks;
pub mod mapped;
pub mod memory;
mod mounted;
mod nodes;
mod notices;
mod ops;
pub mod options;
mod pages;
mod protocol;
mod queue;
mod recent;
mod replaced;
pub mod session;
mod signals;
mod silence;
pub mod table;
mod workers;

pub use options::{MountOptions, OptionError};
pub use session::{MountError, Session, mount, options_at, remount, unmount};
