//! What a caller knows after an operation: its result, or nothing.

use pvfs_client::{Error, Result};
use pvfs_net::call::CallError;
use pvfs_wire::Errno;

/// The result, when the caller knows it; `None` when the operation may or may not have happened.
pub fn known<T>(result: Result<T>) -> Option<std::result::Result<T, Errno>> {
    match result {
        Ok(value) => Some(Ok(value)),
        Err(Error::Call(CallError::Timeout { .. } | CallError::Unreachable { .. })) => None,
        Err(error) => Some(Err(error.errno())),
    }
}
