//! Which family a lock request belongs to, which fuser's interface leaves out.
//!
//! A whole-file fcntl lock and a flock(2) differ only in one flag of the request. Taking one for the other
//! would let them conflict, and programs that take both (mail delivery does) would deadlock with themselves.

#![allow(unsafe_code)]

use fuser::Request;
use pvfs_wire::ops::LockFamily;

/// The family of the lock request that `request` is the head of. Only for `setlk`.
pub fn family(request: &Request) -> LockFamily {
    let head = std::ptr::from_ref(request).cast::<u8>();
    // SAFETY: fuser 0.18 hands out a reference to the `fuse_in_header` within the buffer that the kernel
    // filled, and calls `setlk` only after it has found a whole `fuse_lk_in` behind it in that buffer, so
    // 88 bytes from `head` on are initialised and stay so while `request` is borrowed; `lk_flags` is at
    // offset 40 of `fuse_lk_in`, which the kernel's ABI fixes. The version is pinned in Cargo.toml.
    let flags = unsafe { head.add(HEADER_BYTES + LOCK_FLAGS_AT).cast::<u32>().read_unaligned() };
    if flags & FLOCK != 0 { LockFamily::Flock } else { LockFamily::Range }
}

/// `sizeof(struct fuse_in_header)`
const HEADER_BYTES: usize = 40;

/// `offsetof(struct fuse_lk_in, lk_flags)`: fh, owner, start and end (8 bytes each), type and pid (4 each).
const LOCK_FLAGS_AT: usize = 40;

/// `FUSE_LK_FLOCK`
const FLOCK: u32 = 1;

// The header is all there is in a `Request`; if that ever changes, so must this file.
const _: () = assert!(size_of::<Request>() == HEADER_BYTES);
