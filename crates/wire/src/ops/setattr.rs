//! Changing attributes; answered with [`super::Stated`].

use super::Target;
use crate::attr::Time;
use crate::codec::{Reader, Wire};
use crate::error::DecodeError;
use crate::record;

record! {
    /// chmod, chown, utimens. What is absent stays.
    pub struct SetAttr {
        /// Which object.
        pub target: Target,
        /// Whether a symlink as the last component is followed.
        pub follow: bool,
        /// New permission bits.
        pub mode: Option<u32>,
        /// New owner.
        pub uid: Option<u32>,
        /// New group.
        pub gid: Option<u32>,
        /// New access time.
        pub atime: Option<SetTime>,
        /// New modification time.
        pub mtime: Option<SetTime>,
    }
}

/// A time to set.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SetTime {
    /// The manager's now; needs only write permission.
    Now,
    /// This; needs ownership.
    At(Time),
}

impl Wire for SetTime {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Now => None,
            Self::At(time) => Some(*time),
        }
        .put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Option::get(from)?.map_or(Self::Now, Self::At))
    }
}
