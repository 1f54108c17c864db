//! AllocateObject: sets space aside or gives it back.

use pvfs_wire::ops::{AllocateObject, Written};
use pvfs_wire::token::Rights;

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::plan::local_part;
use crate::shared::Shared;

impl Execute for AllocateObject {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        let capability = iod.grant(call, &self.access, Rights::WRITE)?;
        iod.check_writable()?;
        let part = local_part(&capability.dist, self.slot, self.offset, self.bytes)?;
        let handle = capability.handle;
        Ok(Next::work(0, move |iod, client| {
            let local_size = iod.engine.allocate(handle, self.how, part, self.grow, client)?;
            Ok(Next::done::<Self>(&Written { local_size }))
        }))
    }
}
