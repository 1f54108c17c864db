//! Extended attributes. Those named `user.pvfs.*` are striping parameters: virtual on files, kept on
//! directories as defaults for what is created in them.

use super::Target;
use crate::codec::Bytes;
use crate::{bits, record};

record! {
    /// The value of one attribute; ENODATA when absent.
    pub struct GetXattr {
        /// Which object.
        pub target: Target,
        /// Whether a symlink as the last component is followed.
        pub follow: bool,
        /// Which attribute.
        pub name: Bytes,
    }
}

record! {
    /// An attribute's value.
    pub struct XattrValue {
        /// At most [`XATTR_VALUE_BYTES_MAX`].
        pub value: Bytes,
    }
}

record! {
    /// The names of all attributes.
    pub struct ListXattr {
        /// Which object.
        pub target: Target,
        /// Whether a symlink as the last component is followed.
        pub follow: bool,
    }
}

record! {
    /// The attributes' names.
    pub struct XattrNames {
        /// In no order.
        pub names: Vec<Bytes>,
    }
}

bits! {
    /// The flags of setxattr(2).
    pub struct XattrFlags {
        /// Fail with EEXIST when present.
        CREATE = 1,
        /// Fail with ENODATA when absent.
        REPLACE = 2,
    }
}

record! {
    /// Sets an attribute.
    pub struct SetXattr {
        /// Which object.
        pub target: Target,
        /// Whether a symlink as the last component is followed.
        pub follow: bool,
        /// Which attribute.
        pub name: Bytes,
        /// Its new value.
        pub value: Bytes,
        /// How.
        pub flags: XattrFlags,
    }
}

record! {
    /// Removes an attribute.
    pub struct RemoveXattr {
        /// Which object.
        pub target: Target,
        /// Whether a symlink as the last component is followed.
        pub follow: bool,
        /// Which attribute.
        pub name: Bytes,
    }
}

/// The longest value (as in Linux).
pub const XATTR_VALUE_BYTES_MAX: usize = 64 << 10;

/// The longest name (as in Linux).
pub const XATTR_NAME_BYTES_MAX: usize = 255;
