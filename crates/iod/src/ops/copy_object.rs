//! CopyObject: from one object of this store to another.

use pvfs_wire::Errno;
use pvfs_wire::ops::{CopyObject, Written};
use pvfs_wire::token::Rights;

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::plan::local_part;
use crate::shared::Shared;

impl Execute for CopyObject {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        let target = iod.grant(call, &self.access, Rights::WRITE)?;
        let source = iod.grant_shown(call, &self.source, Rights::READ)?;
        iod.check_writable()?;
        let to = local_part(&target.dist, self.slot, self.offset, self.bytes)?;
        let from = local_part(&source.dist, self.source_slot, self.source_offset, self.bytes)?;
        let bytes = to.end - to.start;
        let too_many = bytes > u64::from(pvfs_wire::DATA_BYTES_MAX);
        if bytes != from.end - from.start || too_many {
            return Err(Errno::EINVAL);
        }
        let (source, target) = ((source.handle, from.start), (target.handle, to.start));
        Ok(Next::work(0, move |iod, client| {
            let local_size = iod.engine.copy(source, target, bytes, client)?;
            Ok(Next::done::<Self>(&Written { local_size }))
        }))
    }
}
