//! The file system as a whole, and the cluster it lives on.

use crate::record;

record! {
    /// Figures of the name space; space is asked from the iods.
    pub struct Statfs {}
}

record! {
    /// Figures of the name space.
    pub struct FilesystemStat {
        /// Objects of every kind.
        pub files: u64,
        /// Objects that could still be created, by the manager's free space (an estimate).
        pub files_free: u64,
        /// Unlinked objects whose data still have to be removed from iods.
        pub purging: u64,
    }
}

record! {
    /// Waits until every change of names and attributes done so far is on stable storage: the manager's
    /// part of fsync.
    pub struct SyncNames {}
}

record! {
    /// The iods and defaults of this file system.
    pub struct Map {}
}

record! {
    /// The cluster as the manager sees it.
    pub struct ClusterMap {
        /// Version, carried in headers.
        pub version: u32,
        /// Name of the file system.
        pub filesystem: String,
        /// Ordered; the position is the iod's id.
        pub iods: Vec<MapIod>,
        /// Default distribution in its textual form.
        pub dist: String,
        /// Default number of iods per file.
        pub pcount: u32,
        /// Default strip size in bytes.
        pub ssize: u64,
    }
}

record! {
    /// One iod of the map.
    pub struct MapIod {
        /// Name in the cluster file.
        pub name: String,
        /// Where it listens: `tcp://host:port`, `unix:///path`.
        pub endpoints: Vec<String>,
    }
}
