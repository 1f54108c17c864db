//! Status: how are you?

use pvfs_wire::ops::{Status, StatusReport};

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::shared::Shared;

impl Execute for Status {
    fn execute(self, iod: &Shared, _: &Call<'_>) -> Outcome {
        Ok(Next::done::<Self>(&StatusReport {
            name: iod.name.clone(),
            role: "iod".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            state: iod.health.state(),
            reason: iod.health.reason(),
            uptime_s: iod.uptime().as_secs(),
            figures: iod.figures(),
        }))
    }
}
