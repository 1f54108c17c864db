//! TruncateObject: cuts or extends the object to its part of the file.

use pvfs_wire::ops::TruncateObject;
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
        if let Some(stat) = iod.engine.with_size(handle, local_size) {
            return Ok(Next::done::<Self>(&stat));
        }
        Ok(Next::work(0, move |iod, client| {
            Ok(Next::done::<Self>(&iod.engine.truncate(handle, local_size, client)?))
        }))
    }
}
