//! copy_file_range(2): by the iods themselves where both files have their bytes on the same ones, else through
//! this client's memory.
//!
//! ```text
//!   from   |0   |1   |2   |3   |0   |      strips, numbered by slot
//!   to               |3   |0   |1   |2      the same strips of the same iods, under other numbers:
//!                                           no byte has to leave its iod
//! ```

use std::ops::Range;

use pvfs_layout::{Dist, Distribution};
use pvfs_net::call::Data;
use pvfs_net::runtime::{Runtime, all};
use pvfs_wire::attr::Placement;
use pvfs_wire::ops::{CopyObject, OpenFlags};
use pvfs_wire::{Bytes, Errno};

use super::pieces::windows;
use crate::error::Result;
use crate::file::OpenFile;
use crate::user::User;

impl<R: Runtime> User<R> {
    /// Copies up to `bytes` bytes from one file, or another place of the same one, to `to`. Returns how many:
    /// fewer at the end of the file read, and for a large copy as many as one call is worth.
    pub async fn copy_range(
        &self,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        bytes: u64,
    ) -> Result<u64> {
        self.copy_grains(from, to, bytes, 1).await
    }

    /// The like, for a caller who keeps pages of `grain` bytes of the file written and will drop those that the
    /// copy touches: bytes that are not of the copy may be in them too, so only whole pages are copied.
    /// EOPNOTSUPP when there are none, or the first is not whole; a last one is whole at the end of the file.
    pub async fn copy_grains(
        &self,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        bytes: u64,
        grain: u64,
    ) -> Result<u64> {
        let readable = from.0.flags.any(OpenFlags::READ | OpenFlags::EXECUTE);
        if !readable || !to.0.flags.has(OpenFlags::WRITE) {
            return Err(Errno::EBADF.into());
        }
        self.filesystem.check_lock(from.0.handle)?;
        self.filesystem.check_lock(to.0.handle)?;
        // It never ends: what becomes of the size is asked from the iods.
        to.0.progress().begin();
        to.1.checked_add(bytes)
            .filter(|end| *end <= pvfs_layout::FILE_SIZE_MAX)
            .ok_or(Errno::EFBIG)?;
        let source = self.size_by_iods(from.0.handle, &from.0.placement).await?;
        let bytes = bytes.min(source.size.saturating_sub(from.1));
        if from.0.handle == to.0.handle && from.1.abs_diff(to.1) < bytes {
            return Err(Errno::EINVAL.into());
        }
        if bytes == 0 {
            return Ok(0);
        }
        let bytes = self.whole_grains(to, bytes, grain).await?;
        match shift(from.0, from.1, to.0, to.1) {
            Some(shift) => {
                // What the iods copy keeps its holes.
                if from.0.placement.disk_figure(source.size, source.disk_bytes).is_some() {
                    to.0.changes().holes.changed();
                }
                self.copy_in_place(from, to, bytes.min(IN_PLACE_MAX), shift).await
            }
            None => self.copy_through(from, to, bytes.min(THROUGH_MAX)).await,
        }
    }

    async fn whole_grains(&self, to: (&OpenFile, u64), bytes: u64, grain: u64) -> Result<u64> {
        let end = to.1 + bytes;
        if !to.1.is_multiple_of(grain) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let ragged = end % grain;
        if ragged == 0 || self.size_by_iods(to.0.handle, &to.0.placement).await?.size <= end {
            return Ok(bytes);
        }
        match bytes.saturating_sub(ragged) {
            0 => Err(Errno::EOPNOTSUPP.into()),
            whole => Ok(whole),
        }
    }

    /// Each iod copies its own part.
    async fn copy_in_place(
        &self,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        bytes: u64,
        shift: u32,
    ) -> Result<u64> {
        let dist = &to.0.placement.dist;
        let largest = u64::from(pvfs_wire::DATA_BYTES_MAX);
        for window in windows(dist, to.1..to.1 + bytes, largest) {
            let source_offset = from.1 + (window.start - to.1);
            let copied = self.copy_window(from.0, source_offset, to.0, &window, shift).await;
            to.0.note_write(window, self.now(), copied.is_err());
            copied?;
        }
        Ok(bytes)
    }

    async fn copy_window(
        &self,
        from: &OpenFile,
        source_offset: u64,
        to: &OpenFile,
        window: &Range<u64>,
        shift: u32,
    ) -> Result<()> {
        loop {
            let slots: Vec<u32> = to.placement.dist.slots_in(window.clone()).collect();
            let copies = slots.iter().map(|slot| {
                let source_slot = (slot + shift) % from.slots();
                self.copy_slot(from, (source_offset, source_slot), to, (window, *slot))
            });
            let done: Result<()> = all(copies).await.into_iter().collect();
            match done {
                Err(error) if error.errno() == Errno::EKEYEXPIRED => {
                    self.renew(from).await?;
                    self.renew(to).await?;
                }
                done => return done,
            }
        }
    }

    async fn copy_slot(
        &self,
        from: &OpenFile,
        (source_offset, source_slot): (u64, u32),
        to: &OpenFile,
        (window, slot): (&Range<u64>, u32),
    ) -> Result<()> {
        let iod = self.filesystem.iod_of(&to.placement, slot)?;
        let source: Bytes = from.shown().token;
        let make = |access| CopyObject {
            access,
            slot,
            offset: window.start,
            bytes: window.end - window.start,
            source: source.clone(),
            source_slot,
            source_offset,
        };
        let (caller, patience) = (self.filesystem.caller(), self.filesystem.data_patience());
        let (shown, data) = (to.shown(), &mut Data::default());
        let done = caller.transfer(iod, &self.principal, &shown, make, data, patience).await?;
        to.changes().unsynced.wrote(slot, done.boot, false);
        Ok(())
    }

    async fn copy_through(
        &self,
        from: (&OpenFile, u64),
        to: (&OpenFile, u64),
        bytes: u64,
    ) -> Result<u64> {
        let mut buffer = vec![0; bytes.min(BUFFER_BYTES) as usize];
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(BUFFER_BYTES) as usize;
            let got = self.read_at(from.0, from.1 + done, &mut buffer[..piece]).await?;
            if got == 0 {
                break; // It was cut meanwhile.
            }
            self.write_at(to.0, to.1 + done, &buffer[..got], false).await?;
            done += got as u64;
        }
        Ok(done)
    }
}

/// By how many slots the file read is ahead of the one written, when every byte of the copy stays on its iod.
fn shift(from: &OpenFile, from_offset: u64, to: &OpenFile, to_offset: u64) -> Option<u32> {
    let strips = strips_between(&from.placement.dist, from_offset, &to.placement.dist, to_offset)?;
    stays(&from.placement, &to.placement, strips).then_some(strips)
}

/// The difference of the two offsets in strips, modulo the slots, when both are equally far into a strip.
fn strips_between(from: &Dist, from_offset: u64, to: &Dist, to_offset: u64) -> Option<u32> {
    if from != to {
        return None;
    }
    match from {
        Dist::SimpleStripe(stripe) => {
            let (ssize, slots) = (stripe.ssize(), u64::from(stripe.slots()));
            let aligned = from_offset % ssize == to_offset % ssize;
            let ahead = (from_offset / ssize) % slots + slots - (to_offset / ssize) % slots;
            aligned.then_some((ahead % slots) as u32)
        }
        Dist::Basic(_) => Some(0),
        _ => (from_offset == to_offset).then_some(0),
    }
}

fn stays(from: &Placement, to: &Placement, shift: u32) -> bool {
    let slots = to.iods.len();
    slots == from.iods.len()
        && (0..slots).all(|slot| to.iods.get(slot) == from.iods.get((slot + shift) % slots))
}

/// Bytes that iods copy in one call: some seconds of a disk's time, after which a program may be killed.
const IN_PLACE_MAX: u64 = 1 << 30;

/// Bytes that go through our memory in one call.
const THROUGH_MAX: u64 = 64 << 20;
const BUFFER_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use pvfs_layout::{IodId, IodList};

    fn placement(iods: &[u32]) -> Placement {
        Placement {
            dist: Dist::simple_stripe(10, iods.len() as u32).unwrap(),
            iods: IodList::new(iods.iter().map(|iod| IodId(*iod))).unwrap(),
        }
    }

    /// Whether the two files keep every byte of a copy on its iod, looked at byte by byte.
    fn stays_byte_by_byte(
        from: &Placement,
        from_offset: u64,
        to: &Placement,
        to_offset: u64,
    ) -> bool {
        (0..100).all(|at| {
            let (source, target) =
                (from.dist.locate(from_offset + at), to.dist.locate(to_offset + at));
            from.iods.get(source.slot) == to.iods.get(target.slot)
                && source.local % 10 == target.local % 10
        })
    }

    #[test]
    fn a_copy_is_the_iods_own_exactly_when_every_byte_stays_on_its_iod() {
        let files = [&[0, 1, 2][..], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0], &[0, 1, 3]].map(placement);
        let mut in_place = 0;
        for (from, to) in files.iter().flat_map(|from| files.iter().map(move |to| (from, to))) {
            for (from_offset, to_offset) in (0..40).flat_map(|a| (0..40).map(move |b| (a, b))) {
                let strips = strips_between(&from.dist, from_offset, &to.dist, to_offset);
                let found = strips.is_some_and(|strips| stays(from, to, strips));
                assert_eq!(
                    found,
                    stays_byte_by_byte(from, from_offset, to, to_offset),
                    "{from:?} {from_offset} {to:?} {to_offset}"
                );
                in_place += u32::from(found);
            }
        }
        assert!(in_place > 100);
    }
}
