//! RemoveObjects: the manager purges what nobody names or uses any more.

use pvfs_wire::ops::{Done, RemoveObjects};
use pvfs_wire::token::SessionRights;
use pvfs_wire::{Errno, Handle};

use super::stat_objects::check_handles;
use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::shared::Shared;

impl Execute for RemoveObjects {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        if !call.session()?.rights.has(SessionRights::DAEMON) {
            return Err(Errno::EPERM);
        }
        iod.check_writable()?;
        check_handles(iod, &self.handles)?;
        let bytes = size_of_val(&self.handles[..]);
        Ok(Next::work(bytes, move |iod, _| remove_all(iod, &self.handles)))
    }
}

/// Goes on after an error, so that one bad object does not keep the others; the manager asks again.
fn remove_all(iod: &Shared, handles: &[Handle]) -> Outcome {
    let removed = handles.iter().map(|handle| iod.engine.remove(*handle));
    removed.fold(Ok(()), Result::and)?;
    Ok(Next::done::<RemoveObjects>(&Done {}))
}
