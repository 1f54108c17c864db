//! The space of a file: fallocate(2), SEEK_DATA and SEEK_HOLE.

use pvfs_layout::{Distribution, FILE_SIZE_MAX};
use pvfs_net::call::Data;
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::Errno;
use pvfs_wire::ops::{AllocateObject, Allocation, OpenFlags, SeekObject, Sought};

use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

/// What lseek(2) looks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Seek {
    /// SEEK_DATA
    Data,
    /// SEEK_HOLE; the end of the file counts as one.
    Hole,
}

impl<R: Runtime> User<R> {
    /// Sets space of a range aside, or gives it back. The file grows to the range's end only if `grow`, and
    /// only once all of the range has its space: after ENOSPC its size is what it was.
    pub async fn allocate(
        &self,
        file: &OpenFile,
        how: Allocation,
        offset: u64,
        bytes: u64,
        grow: bool,
    ) -> Result<()> {
        if !file.flags.has(OpenFlags::WRITE) {
            return Err(Errno::EBADF.into());
        }
        self.filesystem.check_lock(file.handle)?;
        // It never ends: what becomes of the size is asked from the iods.
        file.progress().begin();
        let end = offset.checked_add(bytes).filter(|end| *end <= FILE_SIZE_MAX);
        let end = end.ok_or(Errno::EFBIG)?;
        let slots: Vec<u32> = file.placement.dist.slots_in(offset..end).collect();
        let make = |slot, access| AllocateObject { access, slot, offset, bytes, how, grow: false };
        let done = self.allocate_slots(file, &slots, make).await;
        file.changes().holes.changed();
        file.note_write(0..0, self.now(), done.is_err());
        done?;
        if grow && how != Allocation::Punch && bytes > 0 {
            self.grow_to(file, end).await?;
        }
        Ok(())
    }

    /// SEEK_DATA and SEEK_HOLE: the next offset at or behind this one; ENXIO when there is none.
    pub async fn seek(&self, file: &OpenFile, what: Seek, offset: u64) -> Result<u64> {
        let answers = self.seek_slots(file, what == Seek::Hole, offset).await?;
        let local_sizes: Vec<u64> = answers.iter().map(|answer| answer.local_size).collect();
        let size = file.placement.file_size(&local_sizes);
        if offset >= size {
            return Err(Errno::ENXIO.into());
        }
        let nearest = answers.iter().filter_map(|answer| answer.offset).min();
        match what {
            Seek::Hole => Ok(nearest.unwrap_or(size).clamp(offset, size)),
            Seek::Data => match nearest.map(|found| found.max(offset)) {
                Some(found) if found < size => Ok(found),
                _ => Err(Errno::ENXIO.into()),
            },
        }
    }

    /// The object that has the file's last byte decides how long the file is.
    async fn grow_to(&self, file: &OpenFile, end: u64) -> Result<()> {
        let slot = file.placement.dist.locate(end - 1).slot;
        let make = |slot, access| AllocateObject {
            access,
            slot,
            offset: end - 1,
            bytes: 1,
            how: Allocation::Reserve,
            grow: true,
        };
        let grown = self.allocate_slots(file, &[slot], make).await;
        file.note_write(end - 1..end, self.now(), grown.is_err());
        grown
    }

    async fn allocate_slots(
        &self,
        file: &OpenFile,
        slots: &[u32],
        make: impl Fn(u32, pvfs_wire::ops::Access) -> AllocateObject,
    ) -> Result<()> {
        loop {
            let asked = slots.iter().map(|slot| self.allocate_slot(file, *slot, &make));
            let done: Result<()> = all(asked).await.into_iter().collect();
            match done {
                Err(error) if error.errno() == Errno::EKEYEXPIRED => self.renew(file).await?,
                done => return done,
            }
        }
    }

    async fn allocate_slot(
        &self,
        file: &OpenFile,
        slot: u32,
        make: &impl Fn(u32, pvfs_wire::ops::Access) -> AllocateObject,
    ) -> Result<()> {
        let iod = self.filesystem.iod_of(&file.placement, slot)?;
        let (caller, patience) = (self.filesystem.caller(), self.filesystem.data_patience());
        let (shown, data) = (file.shown(), &mut Data::default());
        let make = |access| make(slot, access);
        let done = caller.transfer(iod, &self.principal, &shown, make, data, patience).await?;
        file.changes().unsynced.wrote(slot, done.boot, false);
        Ok(())
    }

    async fn seek_slots(&self, file: &OpenFile, hole: bool, offset: u64) -> Result<Vec<Sought>> {
        loop {
            let asked = (0..file.slots()).map(|slot| self.seek_slot(file, slot, hole, offset));
            let answers: Result<Vec<Sought>> = all(asked).await.into_iter().collect();
            match answers {
                Err(error) if error.errno() == Errno::EKEYEXPIRED => self.renew(file).await?,
                answers => return answers,
            }
        }
    }

    async fn seek_slot(
        &self,
        file: &OpenFile,
        slot: u32,
        hole: bool,
        offset: u64,
    ) -> Result<Sought> {
        let iod = self.filesystem.iod_of(&file.placement, slot)?;
        let (caller, patience) = (self.filesystem.caller(), self.filesystem.data_patience());
        let (shown, data) = (file.shown(), &mut Data::default());
        let make = |access| SeekObject { access, slot, offset, hole };
        Ok(caller.transfer(iod, &self.principal, &shown, make, data, patience).await?.reply)
    }
}
