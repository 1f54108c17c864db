//! Asynchronous operations: submit many, wait for any (paper 002 §3.2.3; docs/parallel.md).
//!
//! ```text
//!   let a = queue.read(&file, 0, &mut first);       nothing is sent yet
//!   let b = queue.read(&file, 4096, &mut second);
//!   queue.flush();                                  both are on their way, over one connection
//!   queue.wait_any(None)                            whichever ends first
//! ```
//!
//! One thread drives hundreds of operations without a helper: they go on while a method of the queue runs. Small
//! transfers share one connection to each iod, so that sixteen of them cost little more than one.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use pvfs_layout::Region;
use pvfs_net::blocking::Blocking;
use pvfs_net::queue::Polled;
pub use pvfs_net::queue::Ticket;
use pvfs_net::runtime::Runtime;
use pvfs_wire::attr::{Attr, Striping};
use pvfs_wire::ops::{OpenFlags, Target};

use crate::error::Result;
use crate::file::OpenFile;
use crate::ops::open::Opening;
use crate::user::User;

/// What an operation that succeeded has to tell.
#[derive(Debug)]
pub enum Outcome {
    /// How many bytes were read or written.
    Bytes(u64),
    /// The file that was opened.
    Opened(Box<Opening>),
    /// The attributes asked for.
    Attr(Box<Attr>),
    /// It is done.
    Done,
}

/// One thread's operations that are on the way, for one user; memory is borrowed for `'m`.
pub struct Queue<'m, R: Runtime = Blocking> {
    operations: pvfs_net::queue::Queue<'m, Result<Outcome>>,
    user: User<R>,
}

impl<'m, R: Polled> Queue<'m, R> {
    /// An empty queue. Takes two descriptors, and a connection to each daemon that it talks to.
    pub fn new(user: &User<R>) -> io::Result<Self> {
        let operations = pvfs_net::queue::Queue::new(user.filesystem().runtime())?;
        Ok(Self { operations, user: user.together() })
    }

    /// Reads from `offset` into `buffer` ([`User::read_at`]).
    pub fn read(&mut self, file: &Arc<OpenFile>, offset: u64, buffer: &'m mut [u8]) -> Ticket {
        let (user, file) = (self.user.clone(), file.clone());
        self.operations.submit(async move {
            Ok(Outcome::Bytes(user.read_at(&file, offset, buffer).await? as u64))
        })
    }

    /// Writes all of `buffer` at `offset` ([`User::write_at`]).
    pub fn write(
        &mut self,
        file: &Arc<OpenFile>,
        offset: u64,
        buffer: &'m [u8],
        sync: bool,
    ) -> Ticket {
        let (user, file) = (self.user.clone(), file.clone());
        let bytes = buffer.len() as u64;
        self.operations.submit(async move {
            let writing = Writing::new(&user, &file, offset.saturating_add(bytes));
            let written = user.write_at(&file, offset, buffer, sync).await;
            writing.ended();
            written.map(|()| Outcome::Bytes(bytes))
        })
    }

    /// Reads regions into slices of memory ([`User::readx`]).
    pub fn readx(
        &mut self,
        file: &Arc<OpenFile>,
        mut memory: Vec<&'m mut [u8]>,
        regions: Vec<Region>,
    ) -> Ticket {
        let (user, file) = (self.user.clone(), file.clone());
        self.operations.submit(async move {
            Ok(Outcome::Bytes(user.readx(&file, &mut memory, &regions).await?))
        })
    }

    /// Writes slices of memory to regions ([`User::writex`]).
    pub fn writex(
        &mut self,
        file: &Arc<OpenFile>,
        memory: Vec<&'m [u8]>,
        regions: Vec<Region>,
        sync: bool,
    ) -> Ticket {
        let (user, file) = (self.user.clone(), file.clone());
        self.operations.submit(async move {
            let end = regions.iter().map(Region::end).max().unwrap_or(0);
            let writing = Writing::new(&user, &file, end);
            let written = user.writex(&file, &memory, &regions, sync).await;
            writing.ended();
            written.map(Outcome::Bytes)
        })
    }

    /// Waits for stable storage ([`User::sync`]).
    pub fn sync(&mut self, file: &Arc<OpenFile>) -> Ticket {
        let (user, file) = (self.user.clone(), file.clone());
        self.operations.submit(async move { user.sync(&file).await.map(|()| Outcome::Done) })
    }

    /// Opens, and creates if asked ([`User::open`]).
    pub fn open(
        &mut self,
        target: Target,
        flags: OpenFlags,
        mode: u32,
        striping: Striping,
    ) -> Ticket {
        let user = self.user.clone();
        self.operations.submit(async move {
            let opening = user.open(target, flags, mode, striping).await?;
            Ok(Outcome::Opened(Box::new(opening)))
        })
    }

    /// Attributes, complete ([`User::stat`]).
    pub fn stat(&mut self, target: Target, follow: bool) -> Ticket {
        let user = self.user.clone();
        self.operations
            .submit(async move { Ok(Outcome::Attr(Box::new(user.stat(target, follow).await?))) })
    }

    /// Any other operation, which is given the user to do it as.
    pub fn submit<F>(&mut self, operation: impl FnOnce(User<R>) -> F) -> Ticket
    where
        F: Future<Output = Result<Outcome>> + Send + 'm,
    {
        self.operations.submit(operation(self.user.clone()))
    }

    /// See [`pvfs_net::queue::Queue::flush`].
    pub fn flush(&mut self) {
        self.operations.flush();
    }

    /// The outcome of an operation that has ended; `None` while it is on the way. Each is given once.
    pub fn test(&mut self, ticket: Ticket) -> Option<Result<Outcome>> {
        self.operations.test(ticket)
    }

    /// The outcome of an operation, waiting at most `patience` for it. Without patience it is waited for as long as it
    /// takes, which its deadline bounds.
    pub fn wait(&mut self, ticket: Ticket, patience: Option<Duration>) -> Option<Result<Outcome>> {
        self.operations.wait(ticket, patience)
    }

    /// The next operation to end.
    pub fn wait_any(&mut self, patience: Option<Duration>) -> Option<(Ticket, Result<Outcome>)> {
        self.operations.wait_any(patience)
    }

    /// Operations that have ended, at least one and at most `count_max`.
    pub fn wait_some(
        &mut self,
        count_max: usize,
        patience: Option<Duration>,
    ) -> Vec<(Ticket, Result<Outcome>)> {
        self.operations.wait_some(count_max, patience)
    }

    /// Gives an operation up; false when it has ended already. A write that was given up may have been done in
    /// part or in whole, or not at all, but will not be done later than the next operation on the file.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        self.operations.cancel(ticket)
    }

    /// A descriptor to poll for events: readable when one of the methods above would do something.
    pub fn descriptor(&mut self) -> io::Result<BorrowedFd<'_>> {
        self.operations.descriptor()
    }

    /// Operations on the way, and outcomes that were not taken.
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
}

impl<R: Runtime> Drop for Queue<'_, R> {
    fn drop(&mut self) {
        self.operations.clear();
        self.user.part();
    }
}

/// A write that is on the way. Should it be given up (dropped), the file is told that its fate is not known.
pub struct Writing<R: Runtime> {
    user: User<R>,
    file: Arc<OpenFile>,
    end: u64,
    has_ended: bool,
}

impl<R: Runtime> Writing<R> {
    /// A write that will end at `end`.
    pub fn new(user: &User<R>, file: &Arc<OpenFile>, end: u64) -> Self {
        Self { user: user.clone(), file: file.clone(), end, has_ended: false }
    }

    /// The write has noted by itself how it ended.
    pub fn ended(mut self) {
        self.has_ended = true;
    }
}

impl<R: Runtime> Drop for Writing<R> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.file.abandoned_write(self.end, self.user.now());
        }
    }
}
