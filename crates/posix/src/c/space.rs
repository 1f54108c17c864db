//! Space as C's `struct statfs` has it.

#![allow(unsafe_code)]

use pvfs_client::Space;
use pvfs_wire::Errno;

/// Space as statfs(2) tells it; EIO where the manager did not answer.
pub fn statfs_of(space: &Space) -> Result<libc::statfs64, Errno> {
    let (total, names) = (space.total(), space.names.as_ref().ok_or(Errno::EIO)?);
    // SAFETY: it is numbers, for which zeros are valid.
    let mut stat: libc::statfs64 = unsafe { std::mem::zeroed() };
    stat.f_type = MAGIC;
    stat.f_bsize = FRAGMENT_BYTES as _;
    stat.f_frsize = FRAGMENT_BYTES as _;
    stat.f_blocks = total.total_bytes / FRAGMENT_BYTES;
    stat.f_bfree = total.free_bytes / FRAGMENT_BYTES;
    stat.f_bavail = total.available_bytes / FRAGMENT_BYTES;
    stat.f_files = names.files.saturating_add(names.files_free);
    stat.f_ffree = names.files_free;
    stat.f_namelen = pvfs_wire::NAME_BYTES_MAX as _;
    Ok(stat)
}

/// "PVFS"
const MAGIC: libc::__fsword_t = 0x5346_5650;

/// What space is counted in.
pub const FRAGMENT_BYTES: u64 = 4096;
