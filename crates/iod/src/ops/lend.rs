//! Lend: the object itself, for reading or for writing, for a process of this node.

use pvfs_net::service::Response;
use pvfs_wire::ops::{Lend, Lent, LoanFor};
use pvfs_wire::token::Rights;
use pvfs_wire::{Errno, Handle};

use super::{Execute, Next, Outcome};
use crate::call::Call;
use crate::loans::LOAN_S_MAX;
use crate::shared::Shared;

impl Execute for Lend {
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome {
        let purpose = self.purpose;
        let right = match purpose {
            LoanFor::Reading => Rights::READ,
            LoanFor::Writing => Rights::WRITE,
        };
        let capability = iod.grant(call, &self.access, right)?;
        if !call.shares_node() {
            return Err(Errno::EOPNOTSUPP);
        }
        let (handle, now_s) = (capability.handle, iod.clock.unix().as_secs());
        let left_s = capability.expiry.saturating_sub(now_s).min(LOAN_S_MAX);
        // Opening it may wait for the disk.
        Ok(Next::work(0, move |iod, _| lend(iod, handle, purpose, left_s as u32 * 1000)))
    }
}

fn lend(iod: &Shared, handle: Handle, purpose: LoanFor, valid_ms: u32) -> Outcome {
    let loan = iod.engine.lend(handle, purpose)?;
    let terms = loan.terms;
    let reply = Lent {
        words: terms.words,
        whole: terms.whole,
        word: terms.word,
        value: terms.value,
        in_memory: loan.in_memory,
        valid_ms,
    };
    Ok(Next::Answer(Response::with_files::<Lend>(&reply, loan.files)))
}
