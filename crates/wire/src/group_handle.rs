//! Group handles: what openg gives, openfh takes, and programs pass on as they like (003 §3.2, DESIGN §7).
//!
//! ```text
//!  0  magic    "PVFh"
//!  4  version  u8, 1
//!  5  record   fsid, flags, rights, holder, handle, number, placement, attributes, capability, expiry
//!     crc      u32, crc32c of all before
//!     seal     u32 key id, HMAC-SHA256 of all before under the cluster's key for group handles
//! ```
//!
//! Little-endian like everything that travels. Whoever holds the cluster key checks the seal; whoever does not
//! checks form and crc, and a handle that was made up gets no further than its first request, since what daemons
//! believe is the capability in it, which has a code of its own.

use pvfs_layout::Distribution;

use crate::attr::{Attr, Placement};
use crate::codec::{Bytes, Reader, Wire};
use crate::error::Errno;
use crate::handle::Handle;
use crate::header::checksum;
use crate::ops::OpenFlags;
use crate::record;
use crate::token::{CLOCK_SKEW_S, Holder, KeyRing, Rights, SEAL_BYTES};

record! {
    /// Everything it takes to use a file that somebody else opened.
    pub struct GroupHandle {
        /// The file system.
        pub fsid: u32,
        /// How it was opened.
        pub flags: OpenFlags,
        /// What may be done.
        pub rights: Rights,
        /// Who may use it.
        pub holder: Holder,
        /// The file.
        pub handle: Handle,
        /// The manager's number of the shared open.
        pub number: u64,
        /// Where the data lie.
        pub placement: Placement,
        /// The attributes when it was opened.
        pub attr: Attr,
        /// What iods want to see.
        pub capability: Bytes,
        /// Unix seconds after which the handle opens nothing.
        pub expiry: u64,
    }
}

/// Why bytes are no group handle that is good now.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum GroupHandleError {
    /// Not such bytes as openg gives, or not all of them.
    #[error("not a group handle, or not all of it")]
    Malformed,
    /// Changed on its way.
    #[error("the group handle was changed since openg gave it")]
    Changed,
    /// Not sealed with a key of this cluster.
    #[error("the group handle was not made by this cluster")]
    Forged,
    /// Of another file system.
    #[error("the group handle is of another file system")]
    Foreign,
    /// Its time is over.
    #[error("the group handle has expired; open the file again")]
    Expired,
}

impl GroupHandle {
    /// The bytes to give away.
    pub fn seal(&self, ring: &KeyRing) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        self.put(&mut bytes);
        checksum(&bytes).put(&mut bytes);
        let seal = ring.seal_group(&bytes);
        bytes.extend_from_slice(&seal);
        bytes
    }

    /// Reads a handle of file system `fsid` that is in time, as far as that can be told without a key.
    pub fn read(bytes: &[u8], fsid: u32, now_s: u64) -> Result<Self, GroupHandleError> {
        let handle = Self::parse(bytes)?;
        if handle.fsid != fsid {
            return Err(GroupHandleError::Foreign);
        }
        if handle.expiry.saturating_add(CLOCK_SKEW_S) < now_s {
            return Err(GroupHandleError::Expired);
        }
        Ok(handle)
    }

    /// Whether a key of this ring sealed these bytes.
    pub fn check_seal(bytes: &[u8], ring: &KeyRing) -> Result<(), GroupHandleError> {
        let at = bytes.len().checked_sub(SEAL_BYTES).ok_or(GroupHandleError::Malformed)?;
        let (sealed, seal) = bytes.split_at(at);
        ring.check_group(sealed, seal).map_err(|_| GroupHandleError::Forged)
    }

    fn parse(bytes: &[u8]) -> Result<Self, GroupHandleError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(GroupHandleError::Malformed)?;
        let rest = rest.strip_prefix(&[VERSION]).ok_or(GroupHandleError::Malformed)?;
        let record_bytes = rest.len().checked_sub(CRC_BYTES + SEAL_BYTES);
        let record = &rest[..record_bytes.ok_or(GroupHandleError::Malformed)?];
        let checked = bytes.len() - CRC_BYTES - SEAL_BYTES;
        let crc = u32::get(&mut Reader::new(&bytes[checked..]));
        if crc != Ok(checksum(&bytes[..checked])) {
            return Err(GroupHandleError::Changed);
        }
        let handle = Self::from_bytes(record).map_err(|_| GroupHandleError::Malformed)?;
        match handle.is_consistent() {
            true => Ok(handle),
            false => Err(GroupHandleError::Malformed),
        }
    }

    /// Whether its parts speak of one file, dealt to as many iods as it has slots.
    fn is_consistent(&self) -> bool {
        self.handle.fsid == self.fsid
            && self.attr.handle == self.handle
            && self.placement.iods.len() == self.placement.dist.slots()
    }
}

impl GroupHandleError {
    /// The error number that a program is given.
    pub fn errno(self) -> Errno {
        match self {
            Self::Malformed | Self::Changed => Errno::EINVAL,
            Self::Forged => Errno::EKEYREJECTED,
            Self::Foreign => Errno::EXDEV,
            Self::Expired => Errno::ESTALE,
        }
    }
}

const MAGIC: &[u8] = b"PVFh";
const VERSION: u8 = 1;
const CRC_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::{FileKind, SizeState, Time};
    use pvfs_layout::{Dist, IodId, IodList};

    const NOW_S: u64 = 1_000_000;

    fn ring() -> KeyRing {
        KeyRing::new(&[[1; 32]])
    }

    fn sample() -> GroupHandle {
        let handle = Handle { fsid: 7, generation: 1, object: 99 };
        let time = Time::default();
        let (mode, nlink, uid, gid) = (0o644, 1, 1000, 100);
        let (size, size_state) = (5, SizeState::Unsettled);
        let attr = Attr {
            handle,
            kind: FileKind::Regular,
            mode,
            nlink,
            uid,
            gid,
            rdev: 0,
            size,
            size_state,
            disk_bytes: Some(4096),
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            change: 3,
            extras: crate::attr::Extras::NONE,
        };
        GroupHandle {
            fsid: 7,
            flags: OpenFlags::READ,
            rights: Rights::READ,
            holder: Holder::User(1000),
            handle,
            number: 12,
            placement: Placement {
                dist: Dist::simple_stripe(1024, 3).unwrap(),
                iods: IodList::new([0, 1, 2].map(IodId)).unwrap(),
            },
            attr,
            capability: b"capability".into(),
            expiry: NOW_S,
        }
    }

    #[test]
    fn what_was_sealed_is_read_again() {
        let bytes = sample().seal(&ring());
        assert_eq!(GroupHandle::read(&bytes, 7, NOW_S), Ok(sample()));
        assert_eq!(GroupHandle::check_seal(&bytes, &ring()), Ok(()));
        let rolled = KeyRing::new(&[[2; 32], [1; 32]]);
        assert_eq!(GroupHandle::check_seal(&bytes, &rolled), Ok(()));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_refused_with_a_key_and_before_the_seal_without() {
        let bytes = sample().seal(&ring());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(GroupHandle::check_seal(&changed, &ring()).is_err(), "byte {at}");
            assert!(GroupHandle::read(&bytes[..at], 7, NOW_S).is_err(), "cut at {at}");
            if at < bytes.len() - SEAL_BYTES {
                assert!(GroupHandle::read(&changed, 7, NOW_S).is_err(), "byte {at}");
            }
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(GroupHandle::read(&longer, 7, NOW_S).is_err());
    }

    #[test]
    fn a_handle_that_was_made_up_is_told_by_its_seal() {
        let forged = GroupHandle { rights: Rights::READ | Rights::WRITE, ..sample() };
        let bytes = forged.seal(&KeyRing::new(&[[9; 32]]));
        assert_eq!(GroupHandle::read(&bytes, 7, NOW_S), Ok(forged));
        assert_eq!(GroupHandle::check_seal(&bytes, &ring()), Err(GroupHandleError::Forged));
    }

    #[test]
    fn expired_and_foreign_handles_are_refused() {
        let bytes = sample().seal(&ring());
        let late = NOW_S + CLOCK_SKEW_S + 1;
        assert_eq!(GroupHandle::read(&bytes, 7, late), Err(GroupHandleError::Expired));
        assert_eq!(GroupHandle::read(&bytes, 8, NOW_S), Err(GroupHandleError::Foreign));
    }

    #[test]
    fn parts_that_do_not_fit_together_are_refused() {
        let other = sample().handle.sibling(5);
        let iods = IodList::new([0, 1].map(IodId)).unwrap();
        let placement = Placement { iods, ..sample().placement };
        for wrong in
            [GroupHandle { handle: other, ..sample() }, GroupHandle { placement, ..sample() }]
        {
            let bytes = wrong.seal(&ring());
            assert_eq!(GroupHandle::read(&bytes, 7, NOW_S), Err(GroupHandleError::Malformed));
        }
    }
}
