//! The log: every group since the last checkpoint, in files called segments.
//!
//! ```text
//! log.0000000000000001   header | 1 | 2 | ... | 700 |      removed once the state file holds 700
//! log.00000000000002bd   header | 701 | 702 | 7 torn       where commits go
//! ```
//!
//! A record is one group. It is written with one system call before the commit returns, so a killed
//! process loses nothing; the [sync](super::sync) makes it survive a power loss. Formats are in
//! docs/design/metadata-store.md.

pub(crate) mod format;
pub(crate) mod recovery;
mod segment;

pub(crate) use segment::{AppendError, Segment, segments_in};
