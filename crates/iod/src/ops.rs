//! The operations an I/O daemon understands: one file each, dispatched by the tables of `pvfs-wire`.
//!
//! An operation never sees whom it answers. It says what comes [`Next`]: an answer, work that may block, or
//! an answer once the object is on stable storage.

mod allocate_object;
mod control;
mod copy_object;
mod greeting;
mod lend;
mod ping;
mod read;
mod remove_objects;
mod seek_object;
mod stat_objects;
mod stat_store;
mod status;
mod sync;
mod truncate_object;
mod write;

use pvfs_net::service::Response;
use pvfs_wire::ops::DaemonState;
use pvfs_wire::{Errno, Handle, Operation};

use crate::call::Call;
use crate::connection::Connection;
use crate::shared::Shared;

macro_rules! rows {
    ($($name:ident -> $reply:ident = $code:literal $effect:ident;)*) => {
        &[$(($code, decode_and_execute::<pvfs_wire::ops::$name> as Row)),*]
    };
}

/// What an operation does with a request.
pub trait Execute: Operation {
    /// Does what can be done without waiting.
    fn execute(self, iod: &Shared, call: &Call<'_>) -> Outcome;
}

/// The error is the answer.
pub type Outcome = Result<Next, Errno>;

/// How a request goes on.
pub enum Next {
    /// This is the answer.
    Answer(Response),
    /// A worker does the rest.
    Work {
        /// Memory held until then.
        bytes: usize,
        /// The rest.
        work: Work,
    },
    /// This is the answer once everything written to the object is on stable storage.
    AfterSync(Handle, Response),
}

/// What a worker does. It is told which connection asked.
pub type Work = Box<dyn FnOnce(&Shared, &Connection) -> Outcome + Send>;

impl Next {
    /// The operation is done, with this reply.
    pub fn done<O: Operation>(reply: &O::Reply) -> Self {
        Self::Answer(Response::done::<O>(reply))
    }

    /// Work that holds `bytes` bytes.
    pub fn work(
        bytes: usize,
        work: impl FnOnce(&Shared, &Connection) -> Outcome + Send + 'static,
    ) -> Self {
        Self::Work { bytes, work: Box::new(work) }
    }
}

/// Finds the operation of this code, decodes the body and executes it.
pub fn dispatch(iod: &Shared, call: &Call<'_>) -> Outcome {
    let code = call.operation();
    if let Some(row) = find(pvfs_wire::daemon_operations!(rows), code) {
        return row(iod, call);
    }
    let row = find(pvfs_wire::iod_operations!(rows), code).ok_or(Errno::EOPNOTSUPP)?;
    match iod.health.state() {
        DaemonState::Down => Err(Errno::EIO),
        _ => row(iod, call),
    }
}

type Row = fn(&Shared, &Call<'_>) -> Outcome;

fn find(rows: &[(u16, Row)], code: u16) -> Option<Row> {
    rows.iter().find(|row| row.0 == code).map(|row| row.1)
}

fn decode_and_execute<O: Execute>(iod: &Shared, call: &Call<'_>) -> Outcome {
    O::from_bytes(call.body()).map_err(|_| Errno::EPROTO)?.execute(iod, call)
}
