//! The queue of the kernel's requests: threads that read them from /dev/fuse, and how they are answered.

use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::DerefMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use pvfs_net::buffer::Pool;
use pvfs_wire::Errno;
use pvfs_wire::codec::Wire;
use rustix::io::Errno as SystemErrno;

use crate::kernel::TRANSFER_BYTES;
use crate::protocol::answer::error_number;
use crate::protocol::init::{Agreement, MAJOR, MINOR_MIN, Offer};
use crate::protocol::request::{BEFORE_DATA_BYTES, HEADER_BYTES, InHeader, opcode, parse};
use crate::protocol::{Asked, Request, answer};

/// What requests are served by.
pub trait Filesystem: Send + Sync + 'static {
    /// The kernel says what it can do: what is wanted of it?
    fn agree(&self, offer: &Offer) -> Agreement;

    /// Carries a request out, here or elsewhere, and answers it. What needs no answer has a reply that sends none.
    fn serve(&self, asked: Asked, request: Request<'_>, reply: Reply);

    /// Memory for so many threads to read requests to, page-aligned, of so many bytes each.
    fn buffers(&self, count: usize, bytes: usize) -> Vec<Memory> {
        own_buffers(count, bytes)
    }

    /// The mount has ended.
    fn end(&self) {}
}

/// Bytes of whatever kind.
pub type Memory = Box<dyn DerefMut<Target = [u8]> + Send>;

/// Buffers that nobody else sees.
pub fn own_buffers(count: usize, bytes: usize) -> Vec<Memory> {
    let pool = Pool::new();
    (0..count).map(|_| Box::new(pool.take(bytes)) as Memory).collect()
}

/// Where an answer goes. Dropped without one, it says EIO.
pub struct Reply {
    device: Arc<File>,
    unique: u64,
    is_owed: bool,
}

impl Reply {
    /// Done; nothing else to say.
    pub fn ok(self) {
        self.send(None, &[]);
    }

    /// Not done.
    pub fn error(self, errno: Errno) {
        self.send(Some(errno), &[]);
    }

    /// Done, with these bytes.
    pub fn data(self, data: &[u8]) {
        self.send(None, data);
    }

    /// Done, with this record.
    pub fn record(self, record: &impl Wire) {
        self.send(None, &record.to_bytes());
    }

    fn send(mut self, errno: Option<Errno>, body: &[u8]) {
        self.answer(errno, body);
    }

    fn answer(&mut self, errno: Option<Errno>, body: &[u8]) {
        if !std::mem::take(&mut self.is_owed) {
            return;
        }
        let number = errno.map_or(0, error_number);
        let header = answer::header(self.unique, number, body.len());
        // The whole of it goes at once, or nothing. Whoever asked may be gone by now (ENOENT), or the mount (ENODEV).
        match rustix::io::writev(&self.device, &[IoSlice::new(&header), IoSlice::new(body)]) {
            Ok(_) | Err(SystemErrno::NOENT | SystemErrno::NODEV) => {}
            Err(error) => {
                tracing::warn!("the kernel refuses an answer of {} bytes: {error}", body.len());
                // Whoever asked would wait for ever.
                let header = answer::header(self.unique, error_number(Errno::EIO), 0);
                let _ = rustix::io::write(&self.device, &header);
            }
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.answer(Some(Errno::EIO), &[]);
    }
}

/// A connection to the kernel on which everything is agreed.
pub struct Queue<F> {
    device: Arc<File>,
    filesystem: Arc<F>,
}

impl<F: Filesystem> Queue<F> {
    /// Waits for the kernel's first request and agrees with it.
    pub fn open(device: OwnedFd, filesystem: F) -> io::Result<Self> {
        let queue = Self { device: Arc::new(File::from(device)), filesystem: Arc::new(filesystem) };
        let mut buffer = vec![0; BUFFER_BYTES];
        while let Some(bytes) = queue.next(&mut buffer)? {
            if queue.agree(&buffer[REQUEST_AT..REQUEST_AT + bytes])? {
                return Ok(queue);
            }
        }
        Err(io::ErrorKind::NotConnected.into())
    }

    /// Serves until the mount ends, by so many threads.
    pub fn serve(&self, threads: usize) -> io::Result<()> {
        let buffers = self.filesystem.buffers(threads, BUFFER_BYTES);
        let served = thread::scope(|scope| {
            let mut started = Vec::with_capacity(threads);
            for (index, mut buffer) in buffers.into_iter().enumerate() {
                let thread = thread::Builder::new().name(format!("pvfs-fuse-{index}"));
                let serving = move || self.read_and_serve(&mut buffer);
                started.push(thread.spawn_scoped(scope, serving)?);
            }
            let panicked = |_| Err(io::Error::other("a thread that serves the kernel panicked"));
            started.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
        });
        self.filesystem.end();
        served
    }

    fn read_and_serve(&self, buffer: &mut [u8]) -> io::Result<()> {
        while let Some(bytes) = self.next(buffer)? {
            let message = &buffer[REQUEST_AT..REQUEST_AT + bytes];
            match parse(message) {
                Ok((asked, Request::Destroy)) => {
                    self.reply(asked.unique, true).ok();
                    return Ok(());
                }
                Ok((asked, request)) => {
                    let reply = self.reply(asked.unique, is_answered(&request));
                    self.filesystem.serve(asked, request, reply);
                }
                Err(error) => self.refuse(message, &error),
            }
        }
        Ok(())
    }

    /// Reads a request; `None` when the mount has ended.
    fn next(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.device, &mut buffer[REQUEST_AT..]) {
                Ok(bytes) => return Ok(Some(bytes)),
                // Who asked has gone (ENOENT), or a signal came.
                Err(SystemErrno::NOENT | SystemErrno::INTR | SystemErrno::AGAIN) => {}
                Err(SystemErrno::NODEV | SystemErrno::CONNABORTED) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Answers the first request; false if the kernel is to ask again in an older version.
    fn agree(&self, message: &[u8]) -> io::Result<bool> {
        let malformed = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let (asked, request) = parse(message).map_err(malformed)?;
        let Request::Init(offer) = request else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel did not begin"));
        };
        let reply = self.reply(asked.unique, true);
        if offer.version.0 > MAJOR {
            reply.record(&[MAJOR, MINOR_MIN]);
            return Ok(false);
        }
        if offer.version < (MAJOR, MINOR_MIN) {
            reply.error(Errno::EPROTO);
            let (major, minor) = offer.version;
            let sentence =
                format!("the kernel speaks FUSE {major}.{minor}, too old: Linux 5.4 is needed");
            return Err(io::Error::new(io::ErrorKind::Unsupported, sentence));
        }
        reply.record(&self.filesystem.agree(&offer).answer(&offer));
        Ok(true)
    }

    /// A request that makes no sense ends that request, not the mount.
    fn refuse(&self, message: &[u8], error: &pvfs_wire::error::DecodeError) {
        let header = message.get(..HEADER_BYTES).map(InHeader::from_bytes);
        let Some(Ok(header)) = header else { return };
        tracing::warn!("request {} of the kernel: {error}", header.opcode);
        let silent = [opcode::FORGET, opcode::BATCH_FORGET];
        drop(self.reply(header.unique, !silent.contains(&header.opcode)));
    }

    fn reply(&self, unique: u64, is_owed: bool) -> Reply {
        Reply { device: self.device.clone(), unique, is_owed }
    }
}

fn is_answered(request: &Request<'_>) -> bool {
    !matches!(request, Request::Forget { .. } | Request::BatchForget(_))
}

/// Room for one request.
const BUFFER_BYTES: usize = PAGE_BYTES + TRANSFER_BYTES as usize;

/// Where a request is read to, so that the data of a write begin at a page.
const REQUEST_AT: usize = PAGE_BYTES - BEFORE_DATA_BYTES;

const PAGE_BYTES: usize = 4096;
