//! Read: what is in memory is answered at once, the rest by a worker.

use pvfs_net::service::Response;
use pvfs_wire::ops::{Read, ReadDone};
use pvfs_wire::token::Rights;
use pvfs_wire::{Errno, Handle};

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::disk::Waiting;
use crate::plan::Plan;
use crate::shared::Shared;

impl Execute for Read {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        let capability = iod.grant(call, &self.access, Rights::READ)?;
        let plan = Plan::new(&capability.dist, self.slot, &self.regions)?;
        let handle = capability.handle;
        let attempt = if plan.is_long() {
            Err(Errno::EAGAIN)
        } else {
            read(iod, handle, &plan, Waiting::Never)
        };
        match attempt {
            Err(Errno::EAGAIN) => {
                iod.figures.read_misses.one();
                Ok(Next::work(0, move |iod, _| read(iod, handle, &plan, Waiting::Allowed)))
            }
            outcome => {
                iod.figures.read_hits.one();
                outcome
            }
        }
    }
}

fn read(iod: &Shared, handle: Handle, plan: &Plan, waiting: Waiting) -> Outcome {
    let (data, local_size) = iod.engine.read(handle, plan, waiting)?;
    Ok(Next::Answer(Response::with_data::<Read>(&ReadDone { local_size }, data)))
}
