//! What is agreed with the kernel when a mount begins; the same for every file system mounted here.

use std::io;

use fuser::{FopenFlags, InitFlags, KernelConfig};
use rustix::fs::OFlags;

use crate::options::Direct;
use crate::pages::{Caching, Through};

/// Asks for everything we can make use of and the kernel can give.
pub fn agree(config: &mut KernelConfig) -> io::Result<()> {
    for flag in WANTED.iter() {
        // Older kernels lack some; each does without.
        let _ = config.add_capabilities(flag);
    }
    let refused =
        |nearest: u32| io::Error::other(format!("the kernel allows {nearest} bytes only"));
    config.set_max_write(TRANSFER_BYTES).map_err(refused)?;
    let _ = config.set_max_background(BACKGROUND_REQUESTS);
    let _ = config.set_congestion_threshold(BACKGROUND_REQUESTS);
    Ok(())
}

/// Whether a file that goes past the page cache can be mapped by several programs.
pub fn can_map_past_pages(config: &KernelConfig) -> bool {
    config.capabilities().contains(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP)
}

/// Where the kernel checks permissions it has to look at access control lists too. It asks for them as for any
/// extended attribute, which costs no message where attributes are cached.
pub fn agree_on_access_lists(config: &mut KernelConfig) {
    // Kernels before 4.9 check the mode alone.
    let _ = config.add_capabilities(InitFlags::FUSE_POSIX_ACL);
}

/// What an open with these flags has to do with the page cache.
///
/// Going past it is two to three times faster for large transfers and loses nothing when a file is only
/// written, since writes go through at once either way. Appends must go past it: the kernel would put them
/// where it believes the end to be. Reads go through it, for its readahead.
pub fn through(policy: Direct, flags: OFlags) -> Through {
    let write_only = flags.contains(OFlags::WRONLY);
    let direct = match policy {
        Direct::On => true,
        Direct::Auto => write_only,
        Direct::Off => false,
    };
    if direct || flags.intersects(OFlags::APPEND | OFlags::DIRECT) {
        Through::Not
    } else if flags.intersects(OFlags::WRONLY | OFlags::RDWR) {
        Through::Writing
    } else {
        Through::Reading
    }
}

/// What the kernel is to do with its pages, in its words. Who goes past them leaves them alone: others may be
/// writing through them.
pub fn flags_of(caching: Caching) -> FopenFlags {
    match caching {
        Caching::Keep => FopenFlags::FOPEN_KEEP_CACHE,
        Caching::Drop => FopenFlags::empty(),
        Caching::Bypass => FopenFlags::FOPEN_KEEP_CACHE
            .union(FopenFlags::FOPEN_DIRECT_IO)
            .union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES),
    }
}

/// The flags of an open request.
pub fn open_flags(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags as u32)
}

/// Without these a mount would be slower, or locks would end at this node, or the umask would be taken off where a
/// directory's default list takes its place. Deliberately absent: the
/// writeback cache (size and order of writes would be this node's secret) and automatic invalidation (each
/// read would ask for attributes first; pages are checked when a file is opened instead).
const WANTED: InitFlags = InitFlags::FUSE_ASYNC_READ
    .union(InitFlags::FUSE_POSIX_LOCKS)
    .union(InitFlags::FUSE_FLOCK_LOCKS)
    .union(InitFlags::FUSE_ATOMIC_O_TRUNC)
    .union(InitFlags::FUSE_BIG_WRITES)
    .union(InitFlags::FUSE_DONT_MASK)
    .union(InitFlags::FUSE_DO_READDIRPLUS)
    .union(InitFlags::FUSE_READDIRPLUS_AUTO)
    .union(InitFlags::FUSE_ASYNC_DIO)
    .union(InitFlags::FUSE_PARALLEL_DIROPS)
    .union(InitFlags::FUSE_HANDLE_KILLPRIV_V2)
    .union(InitFlags::FUSE_MAX_PAGES)
    .union(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);

/// Bytes of one read or write request; what the kernel allows by default (fs.fuse.max_pages_limit).
pub const TRANSFER_BYTES: u32 = 1 << 20;

/// Readahead and asynchronous requests outstanding at once.
const BACKGROUND_REQUESTS: u16 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_only_written_bypasses_the_page_cache() {
        assert_eq!(through(Direct::Auto, OFlags::WRONLY), Through::Not);
        assert_eq!(through(Direct::Auto, OFlags::RDWR), Through::Writing);
        assert_eq!(through(Direct::Auto, OFlags::RDONLY), Through::Reading);
        assert_eq!(through(Direct::Off, OFlags::WRONLY), Through::Writing);
        assert_eq!(through(Direct::On, OFlags::RDONLY), Through::Not);
        for policy in [Direct::Auto, Direct::On, Direct::Off] {
            assert_eq!(through(policy, OFlags::RDWR | OFlags::APPEND), Through::Not);
            assert_eq!(through(policy, OFlags::RDONLY | OFlags::DIRECT), Through::Not);
        }
    }
}
