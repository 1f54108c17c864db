//! Ping: are you there?

use pvfs_wire::ops::{Ping, Pong};

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::shared::Shared;

impl Execute for Ping {
    fn execute(self, iod: &Shared, _: &Call<'_>) -> Outcome {
        let time_ns = i64::try_from(iod.clock.unix().as_nanos()).unwrap_or(i64::MAX);
        Ok(Next::done::<Self>(&Pong {
            time_ns,
            state: iod.health.state(),
            start: iod.orders.start(),
        }))
    }
}
