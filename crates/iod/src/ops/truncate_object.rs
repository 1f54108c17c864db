//! TruncateObject: cuts or extends the object to its part of the file.

use pvfs_wire::ops::{TruncateObject, Written};
use pvfs_wire::token::Rights;

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::plan::truncated_size;
use crate::shared::Shared;

impl Execute for TruncateObject {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        let capability = iod.grant(call, &self.access, Rights::TRUNCATE | Rights::WRITE)?;
        iod.check_writable()?;
        let local_size = truncated_size(&capability.dist, self.slot, self.size)?;
        let handle = capability.handle;
        let done = move || Next::done::<Self>(&Written { local_size });
        if iod.engine.has_size(handle, local_size) {
            return Ok(done());
        }
        Ok(Next::work(0, move |iod, client| {
            iod.engine.truncate(handle, local_size, client)?;
            Ok(done())
        }))
    }
}
