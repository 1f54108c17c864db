//! Control: a signed order to stop, estop, resume or deny.

use pvfs_wire::ops::{Control, Controlled};

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::shared::Shared;

impl Execute for Control {
    fn execute(self, iod: &Shared, _: &Call<'_>) -> Outcome {
        let now_s = iod.clock.unix().as_secs();
        // The same order again, be it resent or replayed, is answered but not carried out.
        if let Some(order) = iod.orders.accept(&self.order, &iod.ring(), now_s)? {
            iod.obey(&order);
        }
        Ok(Next::done::<Self>(&Controlled { state: iod.health.state() }))
    }
}
