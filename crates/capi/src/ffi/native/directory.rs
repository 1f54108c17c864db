//! Names in a directory.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use libc::{size_t, ssize_t};
use pvfs_posix::c::entries::entries;

use crate::export;
use crate::ffi::arguments::room;
use crate::ffi::route::at_descriptor;

export! {
    /// getdents64(2)
    fn pvfs_getdents(fd: c_int, to: *mut c_void, bytes: size_t) -> ssize_t {
        let real = || libc::syscall(libc::SYS_getdents64, fd, to, bytes) as ssize_t;
        at_descriptor(fd, real, |process| {
            entries(process, fd, room(to, bytes)?).map(|used| used as ssize_t)
        })
    }
}
