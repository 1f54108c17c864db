//! Sync: an answer once everything written is on stable storage.

use pvfs_net::service::Response;
use pvfs_wire::ops::{Done, Sync};
use pvfs_wire::token::Rights;

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::shared::Shared;

impl Execute for Sync {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        // Who may only read may still want to know that what they read will last.
        let capability = iod.grant(call, &self.access, Rights::READ | Rights::WRITE)?;
        Ok(Next::AfterSync(capability.handle, Response::done::<Self>(&Done {})))
    }
}
