//! The memfd of an open file: what all who hold a descriptor of it share, and the lock around that.
//!
//! ```text
//!   0  magic     "pvfsfd1\0"
//!   8  version   u32
//!  12  bytes     u32   of the record
//!  16  lock      u32   the thread that holds the position; top bit: others wait
//!  20  status    u32   O_APPEND and other flags that fcntl changes
//!  24  position  u64
//!  32  locked    u32   a lock was taken through it that outlives the process that took it
//!  36  adopted   u32   how often a process has taken part in the open
//! 128  record    see record.rs
//! ```
//!
//! Numbers are the machine's own: a memfd never leaves it. The file is sealed against growing and shrinking,
//! so that a mapping of it stays valid whatever other holders do, and its kernel position is far behind its end: a
//! program that reads it without our help sees an empty file, and one that writes is refused. The position is a random
//! number, by which a descriptor of it is told from others for a third of the price of fstat.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pvfs_net::blocking::Blocking;
use pvfs_net::mapping::memory_file;
use pvfs_net::runtime::Runtime;
use pvfs_wire::Errno;
use rustix::fs::{MemfdFlags, SealFlags, SeekFrom};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::thread::futex;

use crate::errno::Stop;

/// The shared page of an open file.
pub struct Shared {
    page: NonNull<Page>,
}

/// The right to change the position, until it is dropped.
pub struct Hold<'a> {
    shared: &'a Shared,
    own: u32,
}

#[repr(C)]
struct Page {
    magic: AtomicU64,
    version: AtomicU32,
    bytes: AtomicU32,
    lock: AtomicU32,
    status: AtomicU32,
    position: AtomicU64,
    locked: AtomicU32,
    adopted: AtomicU32,
}

/// Makes the memfd of an open file with this record, under the lowest free number.
pub fn create(name: &str, record: &[u8], close_on_exec: bool) -> Result<(OwnedFd, Shared), Stop> {
    let mut flags = MemfdFlags::ALLOW_SEALING;
    flags.set(MemfdFlags::CLOEXEC, close_on_exec);
    let size = (RECORD_AT + record.len() as u64).next_multiple_of(PAGE_BYTES as u64);
    let fd = memory_file(name, size, flags)?;
    let mut at = 0;
    while at < record.len() {
        at += rustix::io::pwrite(&fd, &record[at..], RECORD_AT + at as u64)?;
    }
    let shared = Shared::map(fd.as_fd())?;
    let page = shared.page();
    page.version.store(VERSION, Ordering::Relaxed);
    page.bytes.store(record.len() as u32, Ordering::Relaxed);
    page.magic.store(MAGIC, Ordering::Release);
    rustix::fs::seek(&fd, SeekFrom::Start(MARKS + Blocking.random() % MARKS))?;
    rustix::fs::fcntl_add_seals(&fd, SEALS)?;
    Ok((fd, shared))
}

/// The record and the shared page of a descriptor that may be one of ours.
pub fn open(fd: BorrowedFd<'_>) -> Result<(Vec<u8>, Shared), Stop> {
    let seals = rustix::fs::fcntl_get_seals(fd).map_err(|_| Stop::NotOurs)?;
    let size = rustix::fs::fstat(fd)?.st_size as u64;
    if !seals.contains(SEALS) || size < PAGE_BYTES as u64 {
        return Err(Stop::NotOurs);
    }
    let shared = Shared::map(fd)?;
    let page = shared.page();
    let bytes = u64::from(page.bytes.load(Ordering::Relaxed));
    let known = page.magic.load(Ordering::Acquire) == MAGIC
        && page.version.load(Ordering::Relaxed) == VERSION
        && RECORD_AT + bytes <= size;
    if !known {
        return Err(Stop::NotOurs);
    }
    let mut record = vec![0; bytes as usize];
    let mut at = 0;
    while at < record.len() {
        match rustix::io::pread(fd, &mut record[at..], RECORD_AT + at as u64)? {
            0 => return Err(Stop::NotOurs),
            count => at += count,
        }
    }
    Ok((record, shared))
}

/// What tells one open file from another, whatever descriptors it has; nothing when the number is not open.
pub fn identity(fd: RawFd) -> Option<(u64, u64)> {
    // What is no number of a descriptor would be asked about as if it were 0.
    if fd < 0 {
        return None;
    }
    let stat = rustix::fs::fstat(borrow(fd)).ok()?;
    Some((stat.st_dev, stat.st_ino))
}

/// The mark of an open file of ours behind this descriptor; nothing when a program has moved it, or it is no such file.
pub fn mark(fd: RawFd) -> Option<u64> {
    if fd < 0 {
        return None;
    }
    rustix::fs::tell(borrow(fd)).ok().filter(|position| *position >= MARKS)
}

/// A descriptor that a program named. It may be closed at any time, so it is good only for asking the kernel.
#[allow(unsafe_code)]
pub fn borrow<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: -1 is the one number that may not be; any other only goes to system calls, for which a number
    // that is not open, or means another file by now, is an error or another answer, never undefined.
    unsafe { BorrowedFd::borrow_raw(fd.max(0)) }
}

/// Closes what came into this process with a fork or exec and is nobody's here: a connection of the parent's, or a memfd
/// with a name of ours. It may not be open: a fork copies the descriptors first and the memory later, and a thread of the
/// parent may have made the connection in between.
#[allow(unsafe_code)]
pub fn close_copy(fd: RawFd) {
    // SAFETY: the number was in the set of our own connections when the process forked, or was handed on to this library by
    // the process before exec; the object that owned it there is never dropped here, and nobody else closes or uses it.
    let _ = unsafe { rustix::io::try_close(fd) };
}

impl Shared {
    #[allow(unsafe_code)]
    fn map(fd: BorrowedFd<'_>) -> Result<Self, Stop> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; it is taken back only in drop.
        let page = unsafe {
            rustix::mm::mmap(null_mut(), PAGE_BYTES, protection, MapFlags::SHARED, fd, 0)
        };
        let page = NonNull::new(page?.cast()).ok_or(Errno::ENOMEM)?;
        Ok(Self { page })
    }

    /// Takes the position. Waits for another thread or process that reads or writes, but not for a dead one.
    pub fn hold(&self) -> Result<Hold<'_>, Errno> {
        let own = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
        let lock = &self.page().lock;
        let hold = Hold { shared: self, own };
        if lock.compare_exchange(FREE, own, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Ok(hold);
        }
        let deadline = Blocking.now().after(HELD_MAX);
        let mut suspected = FREE;
        loop {
            let seen = lock.load(Ordering::Relaxed);
            let holder = seen & !WAITED_FOR;
            if holder == FREE || holder == suspected && !lives(holder) {
                let taken = own | (seen & WAITED_FOR);
                if lock.compare_exchange(seen, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
                {
                    return Ok(hold);
                }
                continue;
            }
            if Blocking.now() >= deadline {
                std::mem::forget(hold);
                return Err(Errno::EIO);
            }
            let waited = seen | WAITED_FOR;
            if seen == waited
                || lock.compare_exchange(seen, waited, Ordering::Relaxed, Ordering::Relaxed).is_ok()
            {
                let woken = futex::wait(lock, futex::Flags::empty(), waited, Some(&LOOK_AGAIN));
                suspected = if woken.is_err() { holder } else { FREE };
            }
        }
    }

    /// Where the next read or write goes.
    pub fn position(&self) -> u64 {
        self.page().position.load(Ordering::Relaxed)
    }

    /// Moves it. The caller holds it.
    pub fn set_position(&self, position: u64) {
        self.page().position.store(position, Ordering::Relaxed);
    }

    /// The status flags, as open(2) numbers them.
    pub fn status(&self) -> u32 {
        self.page().status.load(Ordering::Relaxed)
    }

    /// Sets them.
    pub fn set_status(&self, status: u32) {
        self.page().status.store(status, Ordering::Relaxed);
    }

    /// A lock was taken through it that belongs to all who hold it.
    pub fn note_locked(&self) {
        self.page().locked.store(1, Ordering::Relaxed);
    }

    /// Whether one ever was.
    pub fn is_locked(&self) -> bool {
        self.page().locked.load(Ordering::Relaxed) != 0
    }

    /// This process takes part in the open now; whoever waits for that goes on.
    pub fn note_adopted(&self) {
        self.page().adopted.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.page().adopted, futex::Flags::empty(), u32::MAX >> 1);
    }

    /// How often processes have taken part in the open.
    pub fn adopted(&self) -> u32 {
        self.page().adopted.load(Ordering::Acquire)
    }

    /// Waits until one more has than `before`, while `lives` says that it may yet.
    pub fn await_adoption(&self, before: u32, lives: impl Fn() -> bool) {
        while self.adopted() == before && lives() {
            let counter = &self.page().adopted;
            let _ = futex::wait(counter, futex::Flags::empty(), before, Some(&LOOK_AGAIN));
        }
    }

    #[allow(unsafe_code)]
    fn page(&self) -> &Page {
        // SAFETY: the mapping is a page long, aligned to one, and stays until drop; the seals keep the file
        // from shrinking under it. All its fields are atomics, for which any bytes are valid.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for Shared {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and no reference to it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), PAGE_BYTES) };
    }
}

// SAFETY: the page is shared memory of atomics; threads are no different from the processes that share it.
#[allow(unsafe_code)]
unsafe impl Send for Shared {}

// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Sync for Shared {}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let lock = &self.shared.page().lock;
        // Somebody who took us for dead may hold it by now.
        for seen in [self.own, self.own | WAITED_FOR] {
            if lock.compare_exchange(seen, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
                if seen & WAITED_FOR != 0 {
                    let _ = futex::wake(lock, futex::Flags::empty(), u32::MAX >> 1);
                }
                return;
            }
        }
    }
}

/// Whether a thread is there, and more than a zombie that nobody has waited for.
fn lives(thread: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{thread}/stat")) else { return false };
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// Marks begin here, and end at twice this: far behind the end of any file of ours.
const MARKS: u64 = 1 << 60;

const MAGIC: u64 = u64::from_ne_bytes(*b"pvfsfd1\0");
const VERSION: u32 = 2;
const RECORD_AT: u64 = 128;
const PAGE_BYTES: usize = 4096;
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

const FREE: u32 = 0;

/// Thread numbers have 22 bits at most.
const WAITED_FOR: u32 = 1 << 31;

/// Whoever holds a position for longer hangs: an operation ends at its deadline, which is well before.
const HELD_MAX: std::time::Duration = std::time::Duration::from_secs(120);

/// How often a waiter looks whether the holder lives.
const LOOK_AGAIN: rustix::time::Timespec =
    rustix::time::Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;
    use std::time::{Duration, Instant};

    fn memfd() -> (OwnedFd, Shared) {
        create("pvfs:test", b"record", true).unwrap()
    }

    #[test]
    fn a_copy_that_the_fork_did_not_make_need_not_be_closed() {
        let (fd, _) = memfd();
        let number = rustix::io::fcntl_dupfd_cloexec(&fd, 900).unwrap().into_raw_fd();
        for _ in 0..2 {
            close_copy(number);
            assert_eq!(identity(number), None);
        }
    }

    #[test]
    fn every_holder_sees_the_same_position_and_record() {
        let (fd, shared) = memfd();
        let (record, other) = open(fd.as_fd()).unwrap();
        assert_eq!(record, b"record");
        shared.set_position(7);
        other.set_status(9);
        assert_eq!((other.position(), shared.status()), (7, 9));
    }

    #[test]
    fn other_files_are_not_taken_for_ours() {
        let plain = rustix::fs::memfd_create("pvfs:7", MemfdFlags::ALLOW_SEALING).unwrap();
        assert_eq!(open(plain.as_fd()).err(), Some(Stop::NotOurs));
        rustix::fs::ftruncate(&plain, 8192).unwrap();
        rustix::fs::fcntl_add_seals(&plain, SEALS).unwrap();
        assert_eq!(open(plain.as_fd()).err(), Some(Stop::NotOurs));
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(open(null.as_fd()).err(), Some(Stop::NotOurs));
    }

    #[test]
    fn who_does_not_know_us_reads_nothing_and_writes_nothing() {
        let (fd, _shared) = memfd();
        assert_eq!(rustix::io::read(&fd, &mut [0; 10]), Ok(0));
        assert_eq!(rustix::io::write(&fd, b"x"), Err(rustix::io::Errno::PERM));
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        assert_eq!(open(fd.as_fd()).unwrap().0, b"record");
    }

    #[test]
    fn one_thread_at_a_time_holds_the_position() {
        let (_fd, shared) = memfd();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let _hold = shared.hold().unwrap();
                        let position = shared.position();
                        std::hint::spin_loop();
                        shared.set_position(position + 1);
                    }
                });
            }
        });
        assert_eq!(shared.position(), 4000);
    }

    #[test]
    fn a_holder_that_died_is_not_waited_for() {
        let (_fd, shared) = memfd();
        std::thread::scope(|scope| {
            scope.spawn(|| std::mem::forget(shared.hold().unwrap()));
        });
        let start = Instant::now();
        drop(shared.hold().unwrap());
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_eq!(shared.page().lock.load(Ordering::Relaxed), FREE);
    }
}
