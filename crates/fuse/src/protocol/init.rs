//! The first exchange: what the kernel can do, and what of it we want.

use pvfs_wire::codec::{Reader, Wire};
use pvfs_wire::error::DecodeError;
use pvfs_wire::record;

/// What the kernel offers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Offer {
    /// Version of the protocol, of which the first number is 7.
    pub version: (u32, u32),
    /// Bytes it reads ahead.
    pub readahead_bytes: u32,
    /// What it can do: the bits below.
    pub can: u64,
}

/// What is agreed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Agreement {
    /// Of the bits below.
    pub wanted: u64,
    /// Bytes of the longest read and write.
    pub transfer_bytes: u32,
    /// Readahead and asynchronous requests outstanding at once.
    pub background: u16,
}

record! {
    /// `struct fuse_init_out`
    #[allow(missing_docs)]
    pub struct InitOut {
        pub major: u32,
        pub minor: u32,
        pub max_readahead: u32,
        pub flags: u32,
        pub max_background: u16,
        pub congestion_threshold: u16,
        pub max_write: u32,
        pub time_gran: u32,
        pub max_pages: u16,
        pub map_alignment: u16,
        pub flags2: u32,
        pub max_stack_depth: u32,
        pub request_timeout: u16,
        pub unused: [u16; 11],
    }
}

impl Offer {
    /// The offer in the body of an init request.
    pub fn parse(body: &[u8]) -> Result<Self, DecodeError> {
        let mut body = Reader::new(body);
        let [major, minor, readahead_bytes, flags] = Wire::get(&mut body)?;
        // Kernels before 5.17 have no second half.
        let flags2 = if u64::from(flags) & INIT_EXT != 0 { u32::get(&mut body)? } else { 0 };
        let can = u64::from(flags2) << 32 | u64::from(flags);
        Ok(Self { version: (major, minor), readahead_bytes, can })
    }

    /// Whether it can do all of these.
    pub fn has(&self, bits: u64) -> bool {
        self.can & bits == bits
    }
}

impl Agreement {
    /// How the kernel is told.
    pub fn answer(&self, offer: &Offer) -> InitOut {
        let flags = (self.wanted | INIT_EXT) & offer.can;
        InitOut {
            major: MAJOR,
            minor: MINOR.min(offer.version.1),
            max_readahead: offer.readahead_bytes,
            flags: flags as u32,
            max_background: self.background,
            congestion_threshold: self.background,
            max_write: self.transfer_bytes,
            time_gran: 1,
            max_pages: self.transfer_bytes.div_ceil(PAGE_BYTES) as u16,
            map_alignment: 0,
            flags2: (flags >> 32) as u32,
            max_stack_depth: 0,
            request_timeout: 0,
            unused: [0; 11],
        }
    }
}

/// First number of the version.
pub const MAJOR: u32 = 7;

/// The least second number that is served (Linux 5.4): what came before lacks no request, but was never tried.
pub const MINOR_MIN: u32 = 31;

/// The second number up to which records are as they are here (Linux 6.16).
const MINOR: u32 = 44;

const PAGE_BYTES: u32 = 4096;

/// Several reads of one file at a time.
pub const ASYNC_READ: u64 = 1 << 0;
/// Locks of fcntl(2) are ours.
pub const POSIX_LOCKS: u64 = 1 << 1;
/// An open with O_TRUNC is one request.
pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
/// Writes of more than a page.
pub const BIG_WRITES: u64 = 1 << 5;
/// The umask is told instead of applied.
pub const DONT_MASK: u64 = 1 << 6;
/// Locks of flock(2) are ours.
pub const FLOCK_LOCKS: u64 = 1 << 10;
/// Listings bring attributes.
pub const DO_READDIRPLUS: u64 = 1 << 13;
/// When somebody asks for them.
pub const READDIRPLUS_AUTO: u64 = 1 << 14;
/// Several requests for one direct transfer at a time.
pub const ASYNC_DIO: u64 = 1 << 15;
/// Several lookups in one directory at a time.
pub const PARALLEL_DIROPS: u64 = 1 << 18;
/// The kernel checks access control lists.
pub const POSIX_ACL: u64 = 1 << 20;
/// Requests may be longer than 128 KiB.
pub const MAX_PAGES: u64 = 1 << 22;
/// We are told when setuid is to go.
pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
/// Flags have a second half.
const INIT_EXT: u64 = 1 << 30;
/// Files that go past the page cache can be mapped and shared.
pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(minor: u32, can: u64) -> Vec<u8> {
        let mut words = vec![MAJOR, minor, 1 << 17, can as u32, (can >> 32) as u32];
        words.resize(16, 0);
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn nothing_is_wanted_that_the_kernel_cannot_do() {
        let can = ASYNC_READ | MAX_PAGES | INIT_EXT | DIRECT_IO_ALLOW_MMAP | 1 << 50;
        let offer = Offer::parse(&offered(99, can)).unwrap();
        assert!(offer.has(DIRECT_IO_ALLOW_MMAP) && !offer.has(POSIX_ACL | ASYNC_READ));
        let wanted = ASYNC_READ | MAX_PAGES | DIRECT_IO_ALLOW_MMAP | POSIX_ACL;
        let agreement = Agreement { wanted, transfer_bytes: 1 << 20, background: 64 };
        let out = agreement.answer(&offer);
        assert_eq!(u64::from(out.flags), ASYNC_READ | MAX_PAGES | INIT_EXT);
        assert_eq!(u64::from(out.flags2) << 32, DIRECT_IO_ALLOW_MMAP);
        assert_eq!((out.minor, out.max_write, out.max_pages), (MINOR, 1 << 20, 256));
        assert_eq!(out.to_bytes().len(), 64, "sizeof(struct fuse_init_out)");
    }

    #[test]
    fn an_older_kernel_has_half_the_flags() {
        let bytes = offered(MINOR_MIN, ASYNC_READ | DIRECT_IO_ALLOW_MMAP);
        let offer = Offer::parse(&bytes[..16]).unwrap();
        assert_eq!((offer.version, offer.can), ((MAJOR, MINOR_MIN), ASYNC_READ));
        assert!(Offer::parse(&bytes[..15]).is_err());
    }
}
