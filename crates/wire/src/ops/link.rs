//! A further name for an existing object.

use super::Target;
use crate::record;

record! {
    /// Makes `new` name the object `existing`; answered with [`super::Made`].
    pub struct Link {
        /// The object; a symlink is linked itself unless `follow`.
        pub existing: Target,
        /// Whether a symlink as the last component of `existing` is followed.
        pub follow: bool,
        /// The new name.
        pub new: Target,
    }
}
