//! The limit to the length of files: `ulimit -f`.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

use pvfs_posix::c::state::is_borrowed;
use pvfs_posix::limit;
use rustix::process::{Resource, getrlimit};

use crate::interpose;

interpose! {
    /// setrlimit(2)
    fn setrlimit(resource: c_uint, limit: *const c_void) -> c_int as real {
        changed(resource, real(resource, limit))
    }
    /// setrlimit(2)
    fn setrlimit64(resource: c_uint, limit: *const c_void) -> c_int as real {
        changed(resource, real(resource, limit))
    }
    /// prlimit(2)
    fn prlimit(pid: libc::pid_t, resource: c_uint, limit: *const c_void, before: *mut c_void) -> c_int as real {
        changed(resource, real(pid, resource, limit, before))
    }
    /// prlimit(2)
    fn prlimit64(pid: libc::pid_t, resource: c_uint, limit: *const c_void, before: *mut c_void) -> c_int as real {
        changed(resource, real(pid, resource, limit, before))
    }
}

/// Reads the limit, which this process was given by the one before it or gave itself.
pub fn note() {
    limit::note(getrlimit(Resource::Fsize).current);
}

/// A child that runs in its parent's memory (vfork) has a limit of its own.
fn changed(resource: c_uint, done: c_int) -> c_int {
    if done == 0 && resource == libc::RLIMIT_FSIZE && !is_borrowed() {
        note();
    }
    done
}
