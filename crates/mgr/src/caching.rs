//! What clients cache, and who has to hear of a change before anybody is answered.
//!
//! ```text
//!  query    snapshot ──> what it read ──┬─ changed since the snapshot? ── yes ──> answered, not to be cached
//!                                       └─ no: the client holds it ─────────────> answered, may be cached
//!  change   executed ──> what it changed ──> held by others? ── recalled ──> committed ──> acknowledged by
//!                                                                            all, or their leases over
//!                                                                                  └──> answered
//!  query    reads what is changed but not acknowledged yet ── waits for the same
//! ```
//!
//! Grants are implicit: whatever a client with a lease reads, it holds, until it is recalled. Recalls are made
//! from what a group writes. Pure: no store, clock or connection; tickets are whatever the caller wants back.

mod changes;
mod footprint;
mod held;
mod key;
mod leases;
mod recorder;

pub use footprint::{Changed, Footprint};
pub use key::Key;
pub use leases::{Due, Group, Leases, Limits, Poll, Polled};
pub use recorder::Recorder;

#[cfg(test)]
mod tests;
