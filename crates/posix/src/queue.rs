//! Operations on our descriptors and paths that are on the way side by side, moved by whoever calls.
//!
//! What can be told without a message (a descriptor that is closed, or not open for it) is told by the call that
//! submits, and then nothing was submitted. An operation holds the file it is on: the program may close its descriptor
//! meanwhile, and then the operation closes the file when it ends.

use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use pvfs_client::{Region, User, Writing};
pub use pvfs_net::queue::{Bell, Ticket};
use pvfs_wire::Errno;
use pvfs_wire::attr::{Attr, Striping};
use rustix::fs::OFlags;

use crate::description::{Description, Own};
use crate::errno::{Reach, Stop};
use crate::open::known;
use crate::paths::At;
use crate::process::Process;
use crate::runtime::Apart;

/// Does something with a task's open, once more with a new one where the manager does not know it any more.
macro_rules! twice {
    ($task:ident, $own:ident => $operation:expr) => {{
        let first = {
            let $own = $task.own()?;
            $operation.await
        };
        match first {
            Err(error) if error.errno() == Errno::EBADF => {
                $task.disown();
                let $own = $task.own()?;
                $operation.await
            }
            first => first,
        }
    }};
}

/// What an operation has to tell.
#[derive(Debug)]
pub enum Told {
    /// How many bytes were read or written.
    Bytes(u64),
    /// A descriptor that is the caller's to close.
    Descriptor(RawFd),
    /// The attributes asked for.
    Attr(Box<Attr>),
    /// What an operation tells that was none of ours ([`Queue::ended`]).
    Foreign(i64),
    /// It is done.
    Done,
}

/// Operations on the way, of one process.
pub struct Queue {
    operations: pvfs_net::queue::Queue<'static, Reach<Told>>,
    process: &'static Process,
    /// Whose small transfers share connections; nobody before the first.
    together: Option<User<Apart>>,
}

/// Memory to be filled, as long as an operation is on the way.
pub type Room = &'static mut [u8];

impl Queue {
    /// With nothing on the way. Contacts nobody.
    pub fn new(process: &'static Process) -> Reach<Self> {
        let operations = pvfs_net::queue::Queue::new(&Apart).map_err(|error| {
            let number = error.raw_os_error().unwrap_or(Errno::EMFILE.0 as i32);
            Stop::Errno(Errno(number.unsigned_abs()))
        })?;
        Ok(Self { operations, process, together: None })
    }

    /// The process it belongs to: a forked child is another.
    pub fn process(&self) -> &'static Process {
        self.process
    }

    /// pread(2)
    pub fn read(&mut self, fd: RawFd, offset: u64, room: Room) -> Reach<Ticket> {
        let description = self.process.readable(fd)?;
        let view = description.view();
        let mut task = self.task(description, false)?;
        Ok(self.operations.submit(async move {
            let read = twice!(task, own => async {
                match view {
                    None => own.user.read_at(&own.file, offset, &mut *room).await,
                    Some(view) => own.user.read_view(&own.file, &view, offset, &mut *room).await,
                }
            });
            task.end(read.map(|bytes| Told::Bytes(bytes as u64))).await
        }))
    }

    /// pwrite(2)
    pub fn write(&mut self, fd: RawFd, offset: u64, bytes: &'static [u8]) -> Reach<Ticket> {
        let description = self.process.writable(fd)?;
        let flags = description.flags();
        let sync = flags.intersects(OFlags::SYNC | OFlags::DSYNC);
        let (view, length) = (description.view(), bytes.len() as u64);
        if view.is_some() && flags.contains(OFlags::APPEND) && !bytes.is_empty() {
            return Err(Errno::EINVAL.into());
        }
        let mut task = self.task(description, flags.contains(OFlags::APPEND))?;
        Ok(self.operations.submit(async move {
            // Where it ends is not known before, through a view or at the end of the file.
            let appending = task.appending;
            let is_elsewhere = appending || view.is_some();
            let end = if is_elsewhere { 0 } else { offset.saturating_add(length) };
            let written = twice!(task, own => async {
                let writing = Writing::new(&own.user, &own.file, end);
                let (user, file) = (&own.user, &own.file);
                let written = match view {
                    _ if bytes.is_empty() => Ok(()),
                    Some(view) => user.write_view(file, &view, offset, bytes, sync).await.map(drop),
                    None if appending => user.append(file, bytes, sync).await.map(drop),
                    None => user.write_at(file, offset, bytes, sync).await,
                };
                writing.ended();
                written
            });
            task.end(written.map(|()| Told::Bytes(length))).await
        }))
    }

    /// [`User::readx`]
    pub fn readx(
        &mut self,
        fd: RawFd,
        mut memory: Vec<Room>,
        regions: Vec<Region>,
    ) -> Reach<Ticket> {
        let description = self.process.readable(fd)?;
        check_sums(memory.iter().map(|room| room.len()), &regions)?;
        let mut task = self.task(description, false)?;
        Ok(self.operations.submit(async move {
            let read = twice!(task, own => own.user.readx(&own.file, &mut memory, &regions));
            task.end(read.map(Told::Bytes)).await
        }))
    }

    /// [`User::writex`]
    pub fn writex(
        &mut self,
        fd: RawFd,
        memory: Vec<&'static [u8]>,
        regions: Vec<Region>,
    ) -> Reach<Ticket> {
        let description = self.process.writable(fd)?;
        let flags = description.flags();
        if flags.contains(OFlags::APPEND) {
            return Err(Errno::EINVAL.into());
        }
        check_sums(memory.iter().map(|bytes| bytes.len()), &regions)?;
        let sync = flags.intersects(OFlags::SYNC | OFlags::DSYNC);
        let mut task = self.task(description, false)?;
        let end = regions.iter().map(Region::end).max().unwrap_or(0);
        Ok(self.operations.submit(async move {
            let written = twice!(task, own => async {
                let writing = Writing::new(&own.user, &own.file, end);
                let written = own.user.writex(&own.file, &memory, &regions, sync).await;
                writing.ended();
                written
            });
            task.end(written.map(Told::Bytes)).await
        }))
    }

    /// fsync(2)
    pub fn sync(&mut self, fd: RawFd) -> Reach<Ticket> {
        let description = self.process.description(fd)?;
        if description.record.path_only {
            return Err(Errno::EBADF.into());
        }
        if !description.record.is_file() {
            let user = self.user()?;
            let synced = async move { Ok(user.sync_names().await.map(|_| Told::Done)?) };
            return Ok(self.operations.submit(synced));
        }
        let mut task = self.task(description, false)?;
        Ok(self.operations.submit(async move {
            let synced = twice!(task, own => own.user.sync(&own.file));
            task.end(synced.map(|()| Told::Done)).await
        }))
    }

    /// open(2). Links that lead out of the file system and in again are followed one message after the other.
    pub fn open(&mut self, path: &[u8], flags: OFlags, mode: u32) -> Reach<Ticket> {
        let (process, at) = (self.process, At::Working);
        if flags.contains(OFlags::PATH) {
            let opened = process.open(at, path, flags, mode).map(Told::Descriptor)?;
            return Ok(self.ended(Ok(opened)));
        }
        let plain = process.user_for(at, path)?;
        let spot = process.spot(&plain, at, path)?;
        let user = plain.beside(self.together()?).masked(process.umask_of(flags));
        let path = path.to_vec();
        Ok(self.operations.submit(async move {
            let (mode_bits, striping) = (mode & 0o7777, Striping::default());
            let fd = match known(&user, spot.target(), flags, mode_bits, striping).await {
                Ok(opening) => {
                    let path = process.prefix().join(&spot.below());
                    process.opened(opening.attr, opening.file, plain, path, flags)
                }
                Err(error) if leads_elsewhere(&error) => process.open(at, &path, flags, mode),
                Err(error) => Err(error.into()),
            };
            Ok(Told::Descriptor(fd?))
        }))
    }

    /// stat(2)
    pub fn stat(&mut self, path: &[u8]) -> Reach<Ticket> {
        let (process, at) = (self.process, At::Working);
        let plain = process.user_for(at, path)?;
        let spot = process.spot(&plain, at, path)?;
        let user = plain.beside(self.together()?);
        let path = path.to_vec();
        Ok(self.operations.submit(async move {
            let attr = match user.stat(spot.target(), true).await {
                Err(error) if leads_elsewhere(&error) => process.stat(at, &path, true)?,
                attr => attr?,
            };
            Ok(Told::Attr(Box::new(attr)))
        }))
    }

    /// An operation that has ended already.
    pub fn ended(&mut self, outcome: Reach<Told>) -> Ticket {
        self.operations.submit_ended(outcome)
    }

    /// Begins what was submitted, and lets all go on as far as they can without waiting.
    pub fn flush(&mut self) {
        self.operations.flush();
    }

    /// The outcome of an operation that has ended; each is given once.
    pub fn test(&mut self, ticket: Ticket) -> Option<Reach<Told>> {
        self.operations.test(ticket)
    }

    /// The next outcome, without looking for news.
    pub fn take_ended(&mut self) -> Option<(Ticket, Reach<Told>)> {
        self.operations.take_ended()
    }

    /// Lets all go on, and waits once for something to happen; a [`Bell`] ends the wait.
    pub fn step(&mut self, patience: Option<Duration>) {
        self.operations.step(patience);
    }

    /// What ends the wait of another thread.
    pub fn bell(&self) -> Bell {
        self.operations.bell()
    }

    /// Gives an operation up; false when it has ended, or is not known.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        self.operations.cancel(ticket)
    }

    /// A descriptor that is readable when a method would do something.
    pub fn descriptor(&mut self) -> Reach<BorrowedFd<'_>> {
        self.operations.descriptor().map_err(|_| Errno::EMFILE.into())
    }

    /// Operations on the way, and outcomes not taken.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn task(&mut self, description: Arc<Description>, appending: bool) -> Reach<Task> {
        let process = self.process;
        let own = process.own(&description, appending)?;
        let together = self.together()?.clone();
        let own = Some(own.beside(&together));
        Ok(Task { process, description, appending, together, own })
    }

    fn user(&mut self) -> Reach<User<Apart>> {
        let user = self.process.user()?;
        Ok(user.beside(self.together()?))
    }

    fn together(&mut self) -> Reach<&User<Apart>> {
        if self.together.is_none() {
            self.together = Some(self.process.user()?.together());
        }
        Ok(self.together.as_ref().expect("it is there by now"))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        while let Some((_, outcome)) = self.operations.take_ended() {
            if let Ok(Told::Descriptor(fd)) = outcome {
                let _ = self.process.close(fd);
            }
        }
        self.operations.clear();
        if let Some(user) = &self.together {
            user.part();
        }
    }
}

/// An operation on an open file.
struct Task {
    process: &'static Process,
    description: Arc<Description>,
    appending: bool,
    together: User<Apart>,
    own: Option<Arc<Own>>,
}

impl Task {
    /// The open to work on: at first that of the submitting call.
    fn own(&mut self) -> Reach<Arc<Own>> {
        if let Some(own) = &self.own {
            return Ok(own.clone());
        }
        let own = self.process.own(&self.description, self.appending)?;
        let own = own.beside(&self.together);
        self.own = Some(own.clone());
        Ok(own)
    }

    /// The manager has forgotten the open, whose lease was lost while it was idle.
    fn disown(&mut self) {
        self.own = None;
        self.description.disown();
    }

    /// Lets go of the file, which may have no descriptor any more.
    async fn end(mut self, outcome: pvfs_client::Result<Told>) -> Reach<Told> {
        if let Some((user, file)) = self.own.take().and_then(Own::unused) {
            let _ = user.close(file).await;
        }
        Ok(outcome?)
    }
}

fn leads_elsewhere(error: &pvfs_client::Error) -> bool {
    matches!(error.errno(), Errno::EXDEV | Errno::ESTALE)
}

fn check_sums(memory: impl Iterator<Item = usize>, regions: &[Region]) -> Result<(), Errno> {
    let mut room = 0u64;
    for bytes in memory {
        room = room.checked_add(bytes as u64).ok_or(Errno::EINVAL)?;
    }
    let mut wanted = 0u64;
    for region in regions {
        wanted = wanted.checked_add(region.len).ok_or(Errno::EINVAL)?;
    }
    if room == wanted { Ok(()) } else { Err(Errno::EINVAL) }
}
