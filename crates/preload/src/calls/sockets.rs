//! Descriptors that arrive through sockets.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};
use std::os::fd::RawFd;

use libc::{mmsghdr, msghdr, ssize_t, timespec};

use super::open::followed;
use crate::interpose;
use crate::state::{is_borrowed, with};

interpose! {
    /// recvmsg(2)
    fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t as real {
        let received = real(socket, message, flags);
        if received >= 0 {
            discover(&*message);
        }
        received
    }
    /// recvmmsg(2)
    fn recvmmsg(socket: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int as real {
        let received = real(socket, messages, count, flags, timeout);
        for index in 0..received.max(0) {
            discover(&(*messages.add(index as usize)).msg_hdr);
        }
        received
    }
}

/// Looks at each descriptor that came with a message: it may be one of ours.
///
/// # Safety
///
/// The message was just received.
unsafe fn discover(message: &msghdr) {
    if message.msg_controllen == 0 || is_borrowed() {
        return;
    }
    // SAFETY: the kernel has just written the control messages, as these functions read them.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while let Some(header) = control.as_ref() {
            if (header.cmsg_level, header.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data = libc::CMSG_DATA(control).cast::<RawFd>();
                let bytes = header.cmsg_len - libc::CMSG_LEN(0) as usize;
                for index in 0..bytes / size_of::<RawFd>() {
                    let fd = data.add(index).read_unaligned();
                    if with(|process| process.discover(fd)).is_ok() {
                        followed(fd);
                    }
                }
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
}
