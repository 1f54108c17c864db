//! The space of files: fallocate(2), lseek(2) to data and holes, copy_file_range(2).

use pvfs_client::{Result, Seek};
use pvfs_wire::Errno;
use pvfs_wire::ops::Allocation;
use rustix::fs::FallocateFlags;

use crate::identity::Requester;
use crate::mounted::{Mounted, wait};
use crate::protocol::FileHandle;

/// A place in an open file.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The open file.
    pub number: FileHandle,
    /// Bytes from its beginning.
    pub offset: u64,
}

impl Mounted {
    /// fallocate(2)
    pub fn fallocate(
        &self,
        requester: Requester,
        at: Position,
        bytes: u64,
        flags: u32,
    ) -> Result<()> {
        let (how, grow) = allocation(flags)?;
        let entry = self.files.get(at.number)?;
        let end = at.offset.checked_add(bytes).filter(|end| *end <= i64::MAX as u64);
        let end = end.ok_or(Errno::EFBIG)?;
        let done = entry.user.allocate(&entry.file, how, at.offset, bytes, grow);
        wait(requester.pid, done)?;
        self.nodes.wrote(entry.node, if grow { end } else { 0 }, entry.file.last_write());
        Ok(())
    }

    /// lseek(2) with SEEK_DATA or SEEK_HOLE.
    pub fn seek(&self, requester: Requester, at: Position, what: Seek) -> Result<u64> {
        let entry = self.files.get(at.number)?;
        wait(requester.pid, entry.user.seek(&entry.file, what, at.offset))
    }

    /// copy_file_range(2): how many bytes were copied.
    pub fn copy_range(
        &self,
        requester: Requester,
        from: Position,
        to: Position,
        bytes: u64,
    ) -> Result<u64> {
        let (source, target) = (self.files.get(from.number)?, self.files.get(to.number)?);
        let (read, write) = ((&source.file, from.offset), (&target.file, to.offset));
        // The kernel then drops its pages of the range, and with them what other programs have just written
        // to the rest of the first and the last one through maps. Those it copies by itself.
        let copied = target.user.copy_grains(read, write, bytes, PAGE_BYTES);
        let copied = wait(requester.pid, copied)?;
        self.nodes.wrote(target.node, to.offset + copied, target.file.last_write());
        Ok(copied)
    }
}

/// A page of the kernel's cache, or several.
const PAGE_BYTES: u64 = 64 << 10;

/// What the flags of fallocate(2) mean, and whether the file may grow. Ranges are not taken out of files or put
/// into them: the bytes behind would all change their iods.
fn allocation(flags: u32) -> std::result::Result<(Allocation, bool), Errno> {
    let flags = FallocateFlags::from_bits_retain(flags);
    let grow = !flags.contains(FallocateFlags::KEEP_SIZE);
    match flags - FallocateFlags::KEEP_SIZE {
        rest if rest.is_empty() => Ok((Allocation::Reserve, grow)),
        FallocateFlags::PUNCH_HOLE if !grow => Ok((Allocation::Punch, false)),
        FallocateFlags::ZERO_RANGE => Ok((Allocation::Zero, grow)),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_mean_what_the_man_page_says() {
        assert_eq!(allocation(0), Ok((Allocation::Reserve, true)));
        assert_eq!(allocation(1), Ok((Allocation::Reserve, false)));
        assert_eq!(allocation(3), Ok((Allocation::Punch, false)));
        assert_eq!(allocation(0x10), Ok((Allocation::Zero, true)));
        assert_eq!(allocation(0x11), Ok((Allocation::Zero, false)));
        for refused in [2, 8, 0x20, 0x40, 0x12, 1 << 20] {
            assert_eq!(allocation(refused), Err(Errno::EOPNOTSUPP), "{refused:#x}");
        }
    }
}
