//! Copying one file: both ends opened once, big ones in several streams of ranges side by side. Of a file with
//! holes only what lies between them is read and written.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use pvfs_client::{OpenFile, Seek, User, block_on};
use pvfs_net::blocking::Blocking;
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::OpenFlags;
use rustix::fs::SeekFrom;

use super::walk::{keep, local_failure, look};
use super::{About, Job, Progress, Wishes};
use crate::cli::exit::Failure;
use crate::connected::{Inner, Location};

/// Copies one file.
pub fn copy(job: &Job, wishes: &Wishes, progress: &Progress) -> Result<(), Failure> {
    if wishes.update && is_there(job) {
        progress.skip();
        return Ok(());
    }
    let from = End::open(&job.from)?;
    let to = End::create(&job.to, job.about.mode & 0o777 & !wishes.umask, wishes)?;
    let copied = copy_ranges(&from, &to, &job.about, wishes, progress);
    let synced = copied.and_then(|()| if wishes.sync { to.sync() } else { Ok(()) });
    let closed = to.close();
    from.close()?;
    synced.and(closed)?;
    if wishes.preserve {
        keep(&job.to, &job.about)?;
    }
    progress.finish_file();
    Ok(())
}

fn is_there(job: &Job) -> bool {
    let there = look(&job.to, false);
    there.is_ok_and(|(_, to)| to.size == job.about.size && to.mtime_ns >= job.about.mtime_ns)
}

fn copy_ranges(
    from: &End,
    to: &End,
    about: &About,
    wishes: &Wishes,
    progress: &Progress,
) -> Result<(), Failure> {
    let size = about.size;
    let streams = (size / STREAM_BYTES_MIN).clamp(1, wishes.streams as u64);
    let part = size.div_ceil(streams).next_multiple_of(wishes.transfer_bytes as u64);
    let copy_part = |range| match about.has_holes {
        true => copy_between_holes(from, to, range, wishes, progress),
        false => copy_range(from, to, range, wishes, progress),
    };
    let outcomes: Vec<Result<u64, Failure>> = std::thread::scope(|scope| {
        let running: Vec<_> = (1..streams)
            .map(|index| {
                let range = index * part..((index + 1) * part).min(size);
                scope.spawn(move || copy_part(range))
            })
            .collect();
        let first = copy_part(0..part.min(size));
        let others = running.into_iter().map(|one| one.join().expect("a stream does not panic"));
        [first].into_iter().chain(others).collect()
    });
    let ends = outcomes.into_iter().collect::<Result<Vec<u64>, Failure>>()?;
    let end = ends.into_iter().max().unwrap_or(0);
    if end < size {
        return Ok(());
    }
    if about.has_holes {
        // Nothing was written where the file ends with a hole.
        to.set_size(size)?;
    }
    match from {
        // It has told its size, and each of its iods would have to be asked whether there is more now.
        End::Inside(..) => Ok(()),
        // What was appended since we looked, or all of a file whose size is not told beforehand (/proc).
        End::Local(..) => copy_range(from, to, end..u64::MAX, wishes, progress).map(|_| ()),
    }
}

/// Copies what is no hole until the end of the range or of the file; returns where that was.
fn copy_between_holes(
    from: &End,
    to: &End,
    range: Range<u64>,
    wishes: &Wishes,
    progress: &Progress,
) -> Result<u64, Failure> {
    let mut offset = range.start;
    while let Some(data) = from.next_data(offset)?.filter(|data| data.start < range.end) {
        progress.pass_over(data.start - offset);
        let end = data.end.min(range.end);
        offset = copy_range(from, to, data.start..end, wishes, progress)?;
        if offset < end || end == range.end {
            return Ok(offset);
        }
    }
    progress.pass_over(range.end.saturating_sub(offset));
    Ok(range.end)
}

/// Copies until the end of the range or of the file; returns where that was.
fn copy_range(
    from: &End,
    to: &End,
    range: Range<u64>,
    wishes: &Wishes,
    progress: &Progress,
) -> Result<u64, Failure> {
    let bytes = range.end.saturating_sub(range.start).min(wishes.transfer_bytes as u64);
    let mut buffer = vec![0; bytes as usize];
    let mut offset = range.start;
    while offset < range.end {
        let wanted = (range.end - offset).min(bytes) as usize;
        let got = from.read_at(offset, &mut buffer[..wanted])?;
        if got == 0 {
            break;
        }
        to.write_at(offset, &buffer[..got])?;
        progress.advance(got as u64);
        offset += got as u64;
    }
    Ok(offset)
}

/// An open file at either end.
enum End {
    Local(File, PathBuf),
    Inside(Inner, User<Blocking>, Box<OpenFile>),
}

impl End {
    fn open(place: &Location) -> Result<Self, Failure> {
        match place {
            Location::Local(path) => {
                let file = File::open(path).map_err(|error| local_failure("open", path, &error))?;
                Ok(Self::Local(file, path.clone()))
            }
            Location::Inside(inner) => inside(inner, OpenFlags::READ, 0, Striping::default()),
        }
    }

    fn create(place: &Location, mode: u32, wishes: &Wishes) -> Result<Self, Failure> {
        let flags = OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE;
        match place {
            Location::Local(path) => create_local(path.clone(), mode, wishes.force),
            Location::Inside(inner) => {
                let opened = inside(inner, flags, mode, wishes.striping.clone());
                match opened {
                    Err(_) if wishes.force && unlink(inner) => {
                        inside(inner, flags, mode, wishes.striping.clone())
                    }
                    opened => opened,
                }
            }
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, Failure> {
        match self {
            Self::Inside(inner, user, file) => {
                inner.done("read", block_on(user.read_at(file, offset, buffer)))
            }
            Self::Local(file, path) => retried(|| file.read_at(buffer, offset))
                .map_err(|error| local_failure("read", path, &error)),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Inside(inner, user, file) => {
                inner.done("write", block_on(user.write_at(file, offset, bytes, false)))
            }
            Self::Local(file, path) => file
                .write_all_at(bytes, offset)
                .map_err(|error| local_failure("write", path, &error)),
        }
    }

    /// The next bytes from an offset on that are no hole, up to the next hole; none if only a hole is left.
    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        let Some(start) = self.seek(Seek::Data, offset)? else { return Ok(None) };
        // What was there a moment ago may be cut off by now.
        Ok(self.seek(Seek::Hole, start)?.map(|end| start..end))
    }

    /// Where the next data, or the next hole, begins; nowhere behind the end of the file.
    fn seek(&self, what: Seek, offset: u64) -> Result<Option<u64>, Failure> {
        match self {
            Self::Inside(inner, user, file) => match block_on(user.seek(file, what, offset)) {
                Err(error) if error.errno() == Errno::ENXIO => Ok(None),
                sought => inner.done("look for holes in", sought).map(Some),
            },
            Self::Local(file, path) => seek_local(file, what, offset)
                .map_err(|error| local_failure("look for holes in", path, &error)),
        }
    }

    fn set_size(&self, size: u64) -> Result<(), Failure> {
        match self {
            Self::Inside(inner, user, file) => {
                inner.done("extend", block_on(user.truncate_file(file, size))).map(|_| ())
            }
            Self::Local(file, path) => {
                file.set_len(size).map_err(|error| local_failure("extend", path, &error))
            }
        }
    }

    fn sync(&self) -> Result<(), Failure> {
        match self {
            Self::Inside(inner, user, file) => inner.done("sync", block_on(user.sync(file))),
            Self::Local(file, path) => {
                file.sync_all().map_err(|error| local_failure("sync", path, &error))
            }
        }
    }

    fn close(self) -> Result<(), Failure> {
        match self {
            Self::Inside(inner, user, file) => inner.done("close", block_on(user.close(*file))),
            Self::Local(..) => Ok(()),
        }
    }
}

fn inside(inner: &Inner, flags: OpenFlags, mode: u32, striping: Striping) -> Result<End, Failure> {
    let user = inner.user().clone();
    let opened = block_on(user.open_regular(inner.target()?, flags, mode, striping));
    Ok(End::Inside(inner.clone(), user, Box::new(inner.done("open", opened)?)))
}

fn create_local(path: PathBuf, mode: u32, force: bool) -> Result<End, Failure> {
    let open = || OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path);
    let opened = match open() {
        Err(_) if force && fs::remove_file(&path).is_ok() => open(),
        opened => opened,
    };
    let file = opened.map_err(|error| local_failure("open", &path, &error))?;
    Ok(End::Local(file, path))
}

/// On a file system that cannot tell holes all is data.
fn seek_local(file: &File, what: Seek, offset: u64) -> io::Result<Option<u64>> {
    let (position, all_is_data) = match what {
        Seek::Data => (SeekFrom::Data(offset), offset),
        Seek::Hole => (SeekFrom::Hole(offset), u64::MAX),
    };
    match rustix::fs::seek(file, position) {
        Ok(found) => Ok(Some(found)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(rustix::io::Errno::INVAL) => Ok(Some(all_is_data)),
        Err(error) => Err(error.into()),
    }
}

fn unlink(inner: &Inner) -> bool {
    let target = inner.target();
    target.is_ok_and(|target| block_on(inner.user().unlink(target)).is_ok())
}

fn retried(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// A smaller share of a file is not worth a stream of its own.
const STREAM_BYTES_MIN: u64 = 64 << 20;
