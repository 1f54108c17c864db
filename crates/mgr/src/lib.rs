//! The manager: name space, attributes, placement, locks and sessions.

#![forbid(unsafe_code)]

pub mod acl;
pub mod caching;
pub mod clients;
pub mod execute;
pub mod iods;
pub mod keys;
pub mod locks;
pub mod manager;
pub mod namespace;
pub mod permission;
pub mod purge;
pub mod record;
pub mod space;
pub mod store;

mod ops;
