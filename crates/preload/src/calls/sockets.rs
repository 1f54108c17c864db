//! Sockets: descriptors that arrive through them, and names of theirs, which only the kernel can give.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_uint};
use std::os::fd::RawFd;

use libc::{mmsghdr, msghdr, sockaddr, socklen_t, ssize_t, timespec};
use pvfs_wire::Errno;

use super::open::followed;
use crate::interpose;
use pvfs_posix::c::answer::fail;
use pvfs_posix::c::route::leads_in;
use pvfs_posix::c::state::{is_borrowed, with};

interpose! {
    /// recvmsg(2)
    fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t as real {
        let received = real(socket, message, flags);
        if received >= 0 {
            discover(&*message);
        }
        received
    }
    /// bind(2): a name in the file system is refused with EOPNOTSUPP.
    fn bind(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int as real {
        if names_ours(address, length) {
            return fail(Errno::EOPNOTSUPP);
        }
        real(socket, address, length)
    }
    /// connect(2): nobody listens at a name in the file system.
    fn connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int as real {
        if names_ours(address, length) {
            return fail(Errno::ECONNREFUSED);
        }
        real(socket, address, length)
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

/// Whether it is the address of a local socket below the prefix.
///
/// # Safety
///
/// `address` points to `length` readable bytes, or is null.
unsafe fn names_ours(address: *const sockaddr, length: socklen_t) -> bool {
    // SAFETY: the caller's promise.
    let bytes = unsafe { pvfs_posix::c::memory::bytes(address.cast(), length as usize) };
    let family = (libc::AF_UNIX as u16).to_ne_bytes();
    let Some(path) = bytes.strip_prefix(&family) else { return false };
    let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
    // SAFETY: a C string of ours.
    !path.is_empty()
        && CString::new(path).is_ok_and(|path| unsafe { leads_in(libc::AT_FDCWD, path.as_ptr()) })
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
