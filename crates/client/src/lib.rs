//! The client library: a file system's operations as straight-line code over any transport.
//!
//! ```text
//!   posix      paths and descriptors, errno        blocking: the calling thread drives its operation
//!     user     one user's view: stat, open, mkdir, read, write ...   (async, sans-io)
//!       filesystem   managers, iods, deadlines, credentials
//!         pvfs-net   calls: deadline, repetition, lanes, runtime
//! ```
//!
//! Every operation is an `async fn` generic over [`pvfs_net::runtime::Runtime`]: it holds no socket, clock or
//! thread. [`blocking::Blocking`] drives it on the calling thread; the simulator drives thousands.

#![forbid(unsafe_code)]

pub mod cache;
pub mod credentials;
pub mod error;
pub mod file;
pub mod filesystem;
mod holes;
pub mod lease;
mod loans;
mod ops;
mod presence;
mod progress;
pub mod queue;
mod staging;
mod unsynced;
pub mod user;
pub mod view;
mod writers;

pub use error::{Error, Result};
pub use file::OpenFile;
pub use filesystem::{Filesystem, Options, Transport};
pub use lease::{Leaseholder, Lost};
pub use ops::adopt::Inheritance;
pub use ops::cached::Looked;
pub use ops::group::{Group, GroupOpening};
pub use ops::lite::{LiteAttr, LiteMask, PlusEntry, PlusListing};
pub use ops::locks::Wait;
pub use ops::open::Opening;
pub use ops::readdir::Directory;
pub use ops::space::Seek;
pub use ops::statfs::{Space, Unanswered};
pub use pvfs_layout::{Partition, Region, Regions};
pub use pvfs_net::blocking::{Blocking, block_on};
pub use queue::{Outcome, Queue, Ticket, Writing};
pub use user::User;
pub use view::View;
