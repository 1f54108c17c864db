//! Where a daemon listens and is reached: the cluster file's type, used here as it is.

pub use pvfs_config::{Endpoint, EndpointError};
