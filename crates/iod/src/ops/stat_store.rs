//! StatStore: space of the store.

use pvfs_wire::ops::StatStore;

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::shared::Shared;

impl Execute for StatStore {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        call.session()?;
        Ok(Next::done::<Self>(&iod.engine.disk().space()?))
    }
}
