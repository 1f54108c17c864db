//! SeekObject: where data or holes begin.

use pvfs_layout::{Distribution, FILE_SIZE_MAX};
use pvfs_wire::Errno;
use pvfs_wire::ops::{SeekObject, Sought};
use pvfs_wire::token::Rights;

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::plan::local_part;
use crate::shared::Shared;

impl Execute for SeekObject {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        let capability = iod.grant(call, &self.access, Rights::READ | Rights::WRITE)?;
        let rest = FILE_SIZE_MAX.checked_sub(self.offset).ok_or(Errno::ENXIO)?;
        let start = local_part(&capability.dist, self.slot, self.offset, rest)?.start;
        Ok(Next::work(0, move |iod, _| {
            let (found, local_size) = iod.engine.seek(capability.handle, start, self.hole)?;
            let in_file =
                |local| capability.dist.file_offset(self.slot, local).unwrap_or(FILE_SIZE_MAX);
            Ok(Next::done::<Self>(&Sought { offset: found.map(in_file), local_size }))
        }))
    }
}
