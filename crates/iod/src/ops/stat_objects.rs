//! StatObjects: local sizes of many objects at once.

use pvfs_wire::ops::{OBJECTS_MAX, ObjectStats, StatObjects};
use pvfs_wire::{Errno, Handle};

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::shared::Shared;

impl Execute for StatObjects {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        call.session()?;
        check_handles(iod, &self.handles)?;
        let many = self.handles.len() > AT_ONCE_MAX;
        let bytes = size_of_val(&self.handles[..]);
        let work = move |iod: &Shared| {
            let objects = self.handles.iter().map(|handle| iod.engine.stat(*handle));
            let objects = objects.collect::<Result<_, _>>()?;
            Ok(Next::done::<Self>(&ObjectStats { objects }))
        };
        if many { Ok(Next::work(bytes, move |iod, _| work(iod))) } else { work(iod) }
    }
}

/// Refuses too many, and those of a file system that is not served here.
pub fn check_handles(iod: &Shared, handles: &[Handle]) -> Result<(), Errno> {
    if handles.len() > OBJECTS_MAX {
        return Err(Errno::EINVAL);
    }
    handles.iter().try_for_each(|handle| iod.check_served(*handle))
}

/// A microsecond or two each, when the directories are in memory.
const AT_ONCE_MAX: usize = 32;
