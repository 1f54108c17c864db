//! Objects without their data: sizes, removal, space. These need a session, not a capability.

use crate::attr::Time;
use crate::handle::Handle;
use crate::record;

record! {
    /// Local sizes of many objects at once (listattr, 003 §3.5).
    pub struct StatObjects {
        /// Which; at most [`OBJECTS_MAX`].
        pub handles: Vec<Handle>,
    }
}

record! {
    /// Answers in the order of the question.
    pub struct ObjectStats {
        /// One each.
        pub objects: Vec<ObjectStat>,
    }
}

record! {
    /// What one iod holds of one file. An object never written is empty.
    #[derive(Copy, Default)]
    pub struct ObjectStat {
        /// Bytes up to the last one written.
        pub local_size: u64,
        /// Bytes of disk it takes.
        pub disk_bytes: u64,
        /// Last write.
        pub mtime: Time,
    }
}

record! {
    /// Removes objects for good. Managers only.
    pub struct RemoveObjects {
        /// Which; at most [`OBJECTS_MAX`].
        pub handles: Vec<Handle>,
    }
}

record! {
    /// Space of the iod's store.
    pub struct StatStore {}
}

record! {
    /// Space of an iod's store.
    #[derive(Copy, Default)]
    pub struct StoreStat {
        /// The disk: equal where two iods share one. 0 when that is not known.
        pub disk: u64,
        /// Size in bytes.
        pub total_bytes: u64,
        /// Free for the superuser.
        pub free_bytes: u64,
        /// Free for us.
        pub available_bytes: u64,
    }
}

/// Objects in one request.
pub const OBJECTS_MAX: usize = 16 << 10;
