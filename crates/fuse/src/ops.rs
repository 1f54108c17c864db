//! What each request of the kernel means, one idea a file. All are methods of [`crate::mounted::Mounted`].

mod attributes;
mod data;
mod directories;
mod files;
mod locks;
mod names;
mod space;
mod xattrs;

pub use attributes::Changes;
pub use data::Transfer;
pub use files::{Opened, Pin};
pub use locks::WantedLock;
pub use space::Position;
