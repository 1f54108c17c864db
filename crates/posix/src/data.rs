//! Reading, writing and the position, as read(2), write(2), lseek(2) and their kin have them.

use std::os::fd::RawFd;
use std::sync::Arc;

use pvfs_client::{Seek, block_on};
use pvfs_wire::Errno;
use pvfs_wire::attr::FileKind;
use pvfs_wire::ops::Allocation;
use rustix::fs::OFlags;

use crate::description::{Description, Own};
use crate::errno::{Reach, Stop};
use crate::limit;
use crate::process::Process;

/// Where a new position counts from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum From {
    /// The beginning.
    Start,
    /// The present position.
    Here,
    /// The end of the file.
    End,
    /// The next data.
    Data,
    /// The next hole.
    Hole,
}

/// What a write asks for beside what its file was opened for: pwritev2(2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Demands {
    /// It goes to the end of the file, wherever it was to go.
    pub append: bool,
    /// It is done when it is durable.
    pub sync: bool,
}

/// A piece of memory to be filled.
pub type Piece<'a> = &'a mut [u8];

impl Process {
    /// read(2)
    pub fn read(&self, fd: RawFd, buffer: &mut [u8]) -> Reach<usize> {
        let description = self.readable(fd)?;
        let hold = description.shared.hold()?;
        let position = description.shared.position();
        let got = self.read_file(&description, position, buffer)?;
        description.shared.set_position(position + got as u64);
        drop(hold);
        Ok(got)
    }

    /// pread(2)
    pub fn read_at(&self, fd: RawFd, offset: u64, buffer: &mut [u8]) -> Reach<usize> {
        let description = self.readable(fd)?;
        self.read_file(&description, offset, buffer)
    }

    /// write(2)
    pub fn write(&self, fd: RawFd, buffer: &[u8]) -> Reach<usize> {
        self.write_as(fd, None, buffer, Demands::default())
    }

    /// pwrite(2). As on Linux, O_APPEND appends all the same.
    pub fn write_at(&self, fd: RawFd, offset: u64, buffer: &[u8]) -> Reach<usize> {
        self.write_as(fd, Some(offset), buffer, Demands::default())
    }

    /// pwritev2(2): at the position, which moves, or at an offset.
    pub fn write_as(
        &self,
        fd: RawFd,
        offset: Option<u64>,
        buffer: &[u8],
        demands: Demands,
    ) -> Reach<usize> {
        let description = self.writable(fd)?;
        if let Some(offset) = offset {
            let buffer = self.within_limit(&description, offset, buffer, demands)?;
            self.write_file(&description, offset, buffer, demands)?;
            return Ok(buffer.len());
        }
        let hold = description.shared.hold()?;
        let position = description.shared.position();
        let buffer = self.within_limit(&description, position, buffer, demands)?;
        let end = self.write_file(&description, position, buffer, demands)?;
        description.shared.set_position(end);
        drop(hold);
        Ok(buffer.len())
    }

    /// lseek(2)
    pub fn seek(&self, fd: RawFd, from: From, offset: i64) -> Reach<u64> {
        let description = self.description(fd)?;
        if description.record.path_only {
            return Err(Errno::EBADF.into());
        }
        let hold = description.shared.hold()?;
        let base = match from {
            From::Start => 0,
            From::Here => description.shared.position(),
            From::End | From::Data | From::Hole if description.kind() == FileKind::Directory => {
                return Err(Errno::EINVAL.into());
            }
            From::End => {
                let size = self.size(&description)?;
                description.view().map_or(size, |view| view.bytes_before(size))
            }
            From::Data | From::Hole if description.view().is_some() => {
                return Err(Errno::EINVAL.into());
            }
            From::Data | From::Hole => {
                let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
                let what = if from == From::Data { Seek::Data } else { Seek::Hole };
                let found = self.with_own(&description, false, |own| {
                    block_on(own.user.seek(&own.file, what, offset))
                })?;
                description.shared.set_position(found);
                return Ok(found);
            }
        };
        let position = base.checked_add_signed(offset).filter(|at| i64::try_from(*at).is_ok());
        let overflow = if offset < 0 { Errno::EINVAL } else { Errno::EOVERFLOW };
        let position = position.ok_or(overflow)?;
        description.shared.set_position(position);
        drop(hold);
        Ok(position)
    }

    /// F_SETFL: of the flags only those change that may.
    pub fn set_flags(&self, fd: RawFd, flags: OFlags) -> Reach<()> {
        let may_change = OFlags::APPEND | OFlags::NONBLOCK | OFlags::DIRECT | OFlags::NOATIME;
        let description = self.description(fd)?;
        let kept = OFlags::from_bits_retain(description.shared.status()).difference(may_change);
        description.shared.set_status((kept | flags.intersection(may_change)).bits());
        Ok(())
    }

    /// ftruncate(2)
    pub fn truncate_open(&self, fd: RawFd, size: u64) -> Reach<()> {
        let description = self.writable(fd).map_err(|stop| match stop {
            Stop::Errno(Errno::EBADF) => Stop::Errno(Errno::EINVAL),
            stop => stop,
        })?;
        if limit::is_set() {
            limit::check_growth(size, self.size(&description)?)?;
        }
        self.with_own(&description, false, |own| {
            block_on(own.user.truncate_file(&own.file, size)).map(drop)
        })
    }

    /// truncate(2)
    pub fn truncate(&self, at: crate::At, path: &[u8], size: u64) -> Reach<()> {
        if limit::is_set() {
            limit::check_growth(size, self.stat(at, path, true)?.size)?;
        }
        self.reach(at, path, true, |user, spot| {
            block_on(user.truncate(spot.target(), true, size)).map(drop)
        })
    }

    /// fallocate(2): sets space aside or gives it back; the file grows only if `grow`.
    pub fn allocate(
        &self,
        fd: RawFd,
        how: Allocation,
        (offset, bytes): (u64, u64),
        grow: bool,
    ) -> Reach<()> {
        let description = self.writable(fd)?;
        if grow && limit::is_set() {
            limit::check_growth(offset.saturating_add(bytes), self.size(&description)?)?;
        }
        self.with_own(&description, false, |own| {
            block_on(own.user.allocate(&own.file, how, offset, bytes, grow))
        })
    }

    /// copy_file_range(2) between files of ours. Offsets that are given are used instead of the positions, which
    /// then stay.
    pub fn copy(
        &self,
        from: (RawFd, Option<u64>),
        to: (RawFd, Option<u64>),
        bytes: u64,
    ) -> Reach<u64> {
        let (source, target) = (self.readable(from.0)?, self.writable(to.0)?);
        if target.flags().contains(OFlags::APPEND) {
            return Err(Errno::EBADF.into());
        }
        // In an order that is the same for all, so that two copies never wait for each other.
        let (first, second) = match source.identity <= target.identity {
            true => (&source, &target),
            false => (&target, &source),
        };
        let moves = |description: &Description| {
            description.identity == source.identity && from.1.is_none()
                || description.identity == target.identity && to.1.is_none()
        };
        let _first = if moves(first) { Some(first.shared.hold()?) } else { None };
        let is_one = first.identity == second.identity;
        let _second = if moves(second) && !is_one { Some(second.shared.hold()?) } else { None };
        let from_offset = from.1.unwrap_or_else(|| source.shared.position());
        let to_offset = to.1.unwrap_or_else(|| target.shared.position());
        let bytes = if limit::is_set() { limit::within(to_offset, bytes)? } else { bytes };
        let read = self.own(&source, false)?;
        let copied = self.with_own(&target, false, |write| {
            let ends = ((&*read.file, from_offset), (&*write.file, to_offset));
            block_on(write.user.copy_range(ends.0, ends.1, bytes))
        })?;
        if from.1.is_none() {
            source.shared.set_position(from_offset + copied);
        }
        if to.1.is_none() {
            target.shared.set_position(to_offset + copied);
        }
        Ok(copied)
    }

    /// fsync(2), also of a directory.
    pub fn sync(&self, fd: RawFd) -> Reach<()> {
        let description = self.description(fd)?;
        if description.record.path_only {
            return Err(Errno::EBADF.into());
        }
        if !description.record.is_file() {
            let user = self.user()?;
            return Ok(block_on(user.sync_names())?);
        }
        self.with_own(&description, false, |own| block_on(own.user.sync(&own.file)))
    }

    /// The size of an open file.
    pub(crate) fn size(&self, description: &Description) -> Reach<u64> {
        let user = self.user()?;
        Ok(block_on(user.stat_open(description.record.handle))?.size)
    }

    pub(crate) fn readable(&self, fd: RawFd) -> Reach<Arc<Description>> {
        let description = self.description(fd)?;
        if description.may_read() { Ok(description) } else { Err(Errno::EBADF.into()) }
    }

    pub(crate) fn writable(&self, fd: RawFd) -> Reach<Arc<Description>> {
        let description = self.description(fd)?;
        if description.may_write() { Ok(description) } else { Err(Errno::EBADF.into()) }
    }

    fn read_file(&self, description: &Description, offset: u64, buffer: &mut [u8]) -> Reach<usize> {
        let view = description.view();
        let read = |own: &Own, buffer: &mut [u8]| match view {
            None if own.user.read_at_once(&own.file, offset, buffer)? => Ok(buffer.len()),
            None => block_on(own.user.read_at(&own.file, offset, buffer)),
            Some(view) => block_on(own.user.read_view(&own.file, &view, offset, buffer)),
        };
        let own = self.own(description, false)?;
        match read(&own, buffer) {
            // Forgotten by the manager, as in `with_own`, which cannot lend a buffer twice.
            Err(error) if error.errno() == Errno::EBADF => {
                description.disown();
                let own = self.own(description, false)?;
                Ok(read(&own, buffer)?)
            }
            read => Ok(read?),
        }
    }

    /// As much of what is to be written as the process's limit allows.
    fn within_limit<'b>(
        &self,
        description: &Description,
        offset: u64,
        buffer: &'b [u8],
        demands: Demands,
    ) -> Reach<&'b [u8]> {
        if !limit::is_set() {
            return Ok(buffer);
        }
        let append = demands.append || description.flags().contains(OFlags::APPEND);
        let start = if append { self.size(description)? } else { offset };
        Ok(&buffer[..limit::within(start, buffer.len() as u64)? as usize])
    }

    /// Writes all, at the end if that is demanded or the file is open for appending; returns where the write ended.
    fn write_file(
        &self,
        description: &Description,
        offset: u64,
        buffer: &[u8],
        demands: Demands,
    ) -> Reach<u64> {
        let flags = description.flags();
        let sync = demands.sync || flags.intersects(OFlags::SYNC | OFlags::DSYNC);
        let append = demands.append || flags.contains(OFlags::APPEND);
        let length = buffer.len() as u64;
        if buffer.is_empty() {
            return Ok(offset);
        }
        if let Some(view) = description.view() {
            if append {
                return Err(Errno::EINVAL.into());
            }
            return self.with_own(description, false, |own| {
                block_on(own.user.write_view(&own.file, &view, offset, buffer, sync))?;
                Ok(offset + length)
            });
        }
        self.with_own(description, append, |own| {
            if append {
                let offset = block_on(own.user.append(&own.file, buffer, sync))?;
                return Ok(offset + length);
            }
            if sync || !own.user.write_at_once(&own.file, offset, buffer)? {
                block_on(own.user.write_at(&own.file, offset, buffer, sync))?;
            }
            Ok(offset + length)
        })
    }
}
