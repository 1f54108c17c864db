//! The manager: name space, attributes, placement, locks and sessions.

pub mod store;
