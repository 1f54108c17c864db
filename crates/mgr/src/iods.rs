//! What the manager asks of I/O daemons. It never moves data; it removes objects and looks at space.

use pvfs_layout::IodId;
use pvfs_wire::ops::StoreStat;
use pvfs_wire::{Errno, Handle};

/// The I/O daemons of the cluster. Every call ends within a deadline of its own.
pub trait Iods: Send + Sync {
    /// Removes objects for good; those it does not have are removed already. At most
    /// [`pvfs_wire::ops::OBJECTS_MAX`].
    fn remove(&self, iod: IodId, handles: &[Handle]) -> Result<(), Errno>;

    /// Space of the iod's store.
    fn stat_store(&self, iod: IodId) -> Result<StoreStat, Errno>;
}
