//! What is agreed with the kernel when a mount begins; the same for every file system mounted here.

use rustix::fs::OFlags;

use crate::options::Direct;
use crate::pages::{Caching, Through};
use crate::protocol::Kept;
use crate::protocol::init::{self, Agreement, Offer};

/// Everything we can make use of; what the kernel cannot give is done without.
pub fn agree() -> Agreement {
    Agreement { wanted: WANTED, transfer_bytes: TRANSFER_BYTES, background: BACKGROUND_REQUESTS }
}

/// Whether a file that goes past the page cache can be mapped by several programs.
pub fn can_map_past_pages(offer: &Offer) -> bool {
    offer.has(init::DIRECT_IO_ALLOW_MMAP)
}

/// Where the kernel checks permissions it has to look at access control lists too. It asks for them as for any
/// extended attribute, which costs no message where attributes are cached.
pub fn with_access_lists(agreement: Agreement) -> Agreement {
    Agreement { wanted: agreement.wanted | init::POSIX_ACL, ..agreement }
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
pub fn kept(caching: Caching) -> Kept {
    match caching {
        Caching::Keep => Kept::KEEP_CACHE,
        Caching::Drop => Kept::NONE,
        Caching::Bypass => Kept::KEEP_CACHE | Kept::DIRECT_IO | Kept::PARALLEL_DIRECT_WRITES,
    }
}

/// The flags of an open request.
pub fn open_flags(flags: u32) -> OFlags {
    OFlags::from_bits_retain(flags)
}

/// Without these a mount would be slower, or locks would end at this node, or the umask would be taken off where a
/// directory's default list takes its place. Deliberately absent: the
/// writeback cache (size and order of writes would be this node's secret) and automatic invalidation (each
/// read would ask for attributes first; pages are checked when a file is opened instead).
const WANTED: u64 = init::ASYNC_READ
    | init::POSIX_LOCKS
    | init::FLOCK_LOCKS
    | init::ATOMIC_O_TRUNC
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::HANDLE_KILLPRIV_V2
    | init::MAX_PAGES
    | init::DIRECT_IO_ALLOW_MMAP;

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
