//! Write: from the request's memory to the file, at once where nothing is in the way.

use pvfs_net::service::{KeptData, Response};
use pvfs_wire::ops::{Write, Written};
use pvfs_wire::token::Rights;
use pvfs_wire::{Errno, Handle};

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::connection::Connection;
use crate::disk::Waiting;
use crate::plan::Plan;
use crate::shared::Shared;

/// A write that is allowed and makes sense.
struct Checked {
    handle: Handle,
    plan: Plan,
    sync: bool,
}

impl Execute for Write {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        let capability = iod.grant(call, &self.access, Rights::WRITE)?;
        iod.check_writable()?;
        let plan = Plan::new(&capability.dist, self.slot, &self.regions)?;
        if plan.total_bytes() != call.data().len() as u64 {
            return Err(Errno::EINVAL);
        }
        let checked = Checked { handle: capability.handle, plan, sync: self.sync };
        match checked.write_at_once(iod, call) {
            Err(Errno::EAGAIN) => Ok(checked.later(call.keep_data())),
            outcome => outcome,
        }
    }
}

impl Checked {
    fn write_at_once(&self, iod: &Shared, call: &Call<'_>) -> Outcome {
        if !iod.writes_at_once(&self.plan) {
            return Err(Errno::EAGAIN);
        }
        iod.strain
            .watch(&*iod.clock, || self.write(iod, call.data(), call.connection(), Waiting::Never))
    }

    fn write(&self, iod: &Shared, data: &[u8], client: &Connection, waiting: Waiting) -> Outcome {
        let local_size = iod.engine.write(self.handle, &self.plan, data, client, waiting)?;
        let response = Response::done::<Write>(&Written { local_size });
        Ok(match self.sync {
            true => Next::AfterSync(self.handle, response),
            false => Next::Answer(response),
        })
    }

    /// The data stay where the network put them until they are written.
    fn later(self, data: KeptData) -> Next {
        Next::work(data.len(), move |iod, client| self.write(iod, &data, client, Waiting::Allowed))
    }
}
