//! Many operations on the way: a pvfs_queue, and all that waits for it. What is put into it: [`submit`].
//!
//! A `pvfs_queue *` is a number that [`QUEUES`] knows, so that one that was destroyed is EINVAL and nothing worse.
//! One thread at a time is inside; who waits inside lets others in between. Operations on ordinary files are done when
//! they are submitted; their events wait among the others.

#![allow(unsafe_code)]

mod submit;

use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use libc::{size_t, stat64};
use pvfs_posix::c::answer::{errno, fail};
use pvfs_posix::c::stat::stat_of;
use pvfs_posix::c::state::with;
use pvfs_posix::{Bell, Process, Queue, Reach, Stop, Ticket, Told};
use pvfs_wire::Errno;

use crate::export;
use crate::ffi::arguments::{check_pointer, place};
use crate::ffi::native::attributes::pvfs_stat;
use crate::ffi::native::open::pvfs_open;
use crate::turns::Turns;

/// What a C program calls a queue: never looked into.
#[repr(C)]
pub struct Opaque([u8; 0]);

type Named = *mut Opaque;

/// `struct pvfs_event`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Event {
    ticket: u64,
    result: i64,
    error: c_int,
    data: *mut c_void,
}

/// A queue of one process.
struct Shared {
    process: &'static Process,
    turns: Turns<Inner>,
    bell: Bell,
}

struct Inner {
    /// Gone once it is destroyed, be it while others wait.
    queue: Option<Queue>,
    submitted: HashMap<u64, Submitted>,
}

/// What is kept for an event.
struct Submitted {
    data: *mut c_void,
    kind: Kind,
}

/// What has to be known when an operation ends.
enum Kind {
    Plain,
    /// A path may turn out to lead elsewhere; C strings.
    Open(Vec<u8>, c_int, c_uint),
    /// The like, and where the attributes go.
    Stat(Vec<u8>, *mut stat64),
}

/// An operation that has ended.
struct Ended {
    ticket: u64,
    submitted: Submitted,
    outcome: Reach<Told>,
}

// SAFETY: its pointers are the program's: one is given back as it came, the other is filled by whichever thread takes
// the event, which the header allows.
unsafe impl Send for Submitted {}

export! {
    /// A new queue.
    fn pvfs_queue_create() -> Named {
        made().map_or_else(|stop| fail(stop.errno()), std::ptr::without_provenance_mut)
    }
    /// Gives up what is on the way.
    fn pvfs_queue_destroy(name: Named) -> c_int {
        let removed = queues().and_then(|mut queues| queues.remove(&name.addr()).ok_or(Errno::EINVAL));
        let destroyed = removed.map_err(Stop::from).and_then(destroyed);
        destroyed.map_or_else(|stop| fail(stop.errno()), |()| 0)
    }
    /// What a program polls.
    fn pvfs_queue_fd(name: Named) -> c_int {
        answered(inside(name, |inner| Ok(inner.queue()?.descriptor()?.as_raw_fd())))
    }
    /// Operations on the way, and events not taken.
    fn pvfs_queue_len(name: Named) -> size_t {
        answered(inside(name, |inner| Ok(inner.submitted.len())))
    }
    /// Sends what was submitted.
    fn pvfs_flush(name: Named) -> c_int {
        answered(inside(name, |inner| {
            inner.queue()?.flush();
            Ok(0)
        }))
    }
    /// The event of an operation, if it has ended.
    fn pvfs_test(name: Named, ticket: u64, event: *mut Event) -> c_int {
        waited_one(name, event, 0, |inner| inner.test(ticket))
    }
    /// The event of an operation, for which is waited.
    fn pvfs_wait(name: Named, ticket: u64, event: *mut Event, timeout_ms: c_int) -> c_int {
        waited_one(name, event, timeout_ms, |inner| inner.test(ticket))
    }
    /// The next event.
    fn pvfs_wait_any(name: Named, event: *mut Event, timeout_ms: c_int) -> c_int {
        waited_one(name, event, timeout_ms, |inner| Ok(inner.take(1)?.map(|mut ended| ended.remove(0))))
    }
    /// Events, at least one if one comes in time.
    fn pvfs_wait_some(name: Named, events: *mut Event, count_max: c_int, timeout_ms: c_int) -> c_int {
        let Ok(count) = usize::try_from(count_max) else { return fail(Errno::EINVAL) };
        if let Err(errno) = check_pointer(events) {
            return fail(errno);
        }
        if count == 0 {
            return answered(find(name).map_err(Stop::from).map(|_| 0));
        }
        answered(waited(name, timeout_ms, |inner| inner.take(count)).map(|ended| {
            let ended = ended.unwrap_or_default();
            let taken = ended.len();
            for (at, ended) in ended.into_iter().enumerate() {
                events.add(at).write(ended.event());
            }
            taken as c_int
        }))
    }
    /// Gives an operation up.
    fn pvfs_cancel(name: Named, ticket: u64) -> c_int {
        answered(inside(name, |inner| {
            let is_cancelled = inner.queue()?.cancel(Ticket(ticket));
            if is_cancelled {
                inner.submitted.remove(&ticket);
            }
            Ok(c_int::from(is_cancelled))
        }))
    }
}

fn answered<T: pvfs_posix::c::answer::Answer>(reach: Reach<T>) -> T {
    reach.unwrap_or_else(|stop| fail(stop.errno()))
}

/// A new queue and its name.
fn made() -> Reach<usize> {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let shared = with(|process| {
        let queue = Queue::new(process)?;
        let bell = queue.bell();
        let turns = Turns::new(Inner { queue: Some(queue), submitted: HashMap::new() });
        Ok(Shared { process, turns, bell })
    })?;
    let name = NEXT.fetch_add(1, Ordering::Relaxed) * NAME_STEP;
    queues()?.insert(name, Arc::new(shared));
    Ok(name)
}

fn destroyed(shared: Arc<Shared>) -> Reach<()> {
    with(|process| {
        // In a child: the connections are the parent's, and not to be ended here.
        if !std::ptr::eq(process, shared.process) {
            std::mem::forget(shared);
            return Ok(());
        }
        let mut turn = shared.turns.take(|| shared.bell.ring());
        let submitted = std::mem::take(&mut turn.submitted);
        let Some(mut queue) = turn.queue.take() else { return Ok(()) };
        while let Some((ticket, outcome)) = queue.take_ended() {
            let is_open =
                matches!(submitted.get(&ticket.0), Some(Submitted { kind: Kind::Open(..), .. }));
            match outcome {
                Ok(Told::Descriptor(fd)) => drop(process.close(fd)),
                // SAFETY: it was opened for an event that nobody will have.
                Ok(Told::Foreign(fd)) if is_open => drop(unsafe { libc::close(fd as c_int) }),
                _ => {}
            }
        }
        Ok(())
    })
}

/// All queues of this process, by their names. A child that was forked while another thread held the list cannot have it.
fn queues() -> Result<MutexGuard<'static, HashMap<usize, Arc<Shared>>>, Errno> {
    for _ in 0..LOOKS_MAX {
        match QUEUES.try_lock() {
            Ok(queues) => return Ok(queues),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_AGAIN),
        }
    }
    Err(Errno::EAGAIN)
}

fn find(name: Named) -> Result<Arc<Shared>, Errno> {
    if name.is_null() {
        return Err(Errno::EFAULT);
    }
    queues()?.get(&name.addr()).cloned().ok_or(Errno::EINVAL)
}

/// Does something with a queue, when it is this thread's turn.
fn inside<T>(name: Named, operation: impl FnOnce(&mut Inner) -> Reach<T>) -> Reach<T> {
    let shared = find(name)?;
    with(|process| {
        shared.check_process(process)?;
        operation(&mut shared.turns.take(|| shared.bell.ring()))
    })
}

/// Waits until `look` finds something, or it is time, or nothing is on the way.
fn waited<T>(
    name: Named,
    timeout_ms: c_int,
    mut look: impl FnMut(&mut Inner) -> Reach<Option<T>>,
) -> Reach<Option<T>> {
    let shared = find(name)?;
    let patience = u64::try_from(timeout_ms).ok().map(Duration::from_millis);
    let until = patience.map(|patience| Instant::now() + patience);
    with(|process| {
        shared.check_process(process)?;
        loop {
            let mut turn = shared.turns.take(|| shared.bell.ring());
            let found = look(&mut turn)?;
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if found.is_some() || left == Some(Duration::ZERO) || turn.submitted.is_empty() {
                return Ok(found);
            }
            // Whoever waits to come in has rung, maybe before we looked.
            if !turn.is_awaited() {
                turn.queue()?.step(left);
            }
        }
    })
}

/// # Safety
///
/// `event` is null, misaligned or has room.
unsafe fn waited_one(
    name: Named,
    event: *mut Event,
    timeout_ms: c_int,
    look: impl FnMut(&mut Inner) -> Reach<Option<Ended>>,
) -> c_int {
    // SAFETY: the caller's promise.
    let event = match unsafe { place(event) } {
        Ok(event) => event,
        Err(errno) => return fail(errno),
    };
    answered(waited(name, timeout_ms, look).map(|ended| match ended {
        Some(ended) => {
            *event = ended.event();
            1
        }
        None => 0,
    }))
}

impl Shared {
    /// A forked child has its parent's queues in its memory, and no use of them.
    fn check_process(&self, process: &'static Process) -> Result<(), Errno> {
        if std::ptr::eq(process, self.process) { Ok(()) } else { Err(Errno::EINVAL) }
    }
}

impl Inner {
    fn queue(&mut self) -> Result<&mut Queue, Errno> {
        self.queue.as_mut().ok_or(Errno::EINVAL)
    }

    /// The event of this operation, if it is there.
    fn test(&mut self, ticket: u64) -> Reach<Option<Ended>> {
        if !self.submitted.contains_key(&ticket) {
            return Err(Errno::EINVAL.into());
        }
        let outcome = self.queue()?.test(Ticket(ticket));
        Ok(outcome.and_then(|outcome| self.ended(ticket, outcome)))
    }

    /// The events that are there, `None` when there is none.
    fn take(&mut self, count_max: usize) -> Reach<Option<Vec<Ended>>> {
        self.queue()?.flush();
        let mut taken = Vec::new();
        while taken.len() < count_max
            && let Some((ticket, outcome)) = self.queue()?.take_ended()
        {
            taken.extend(self.ended(ticket.0, outcome));
        }
        Ok((!taken.is_empty()).then_some(taken))
    }

    fn ended(&mut self, ticket: u64, outcome: Reach<Told>) -> Option<Ended> {
        let submitted = self.submitted.remove(&ticket)?;
        Some(Ended { ticket, submitted, outcome })
    }
}

impl Ended {
    /// For the program. Outside of everything: a path may have turned out to be an ordinary one.
    fn event(self) -> Event {
        let Self { ticket, submitted: Submitted { data, kind }, outcome } = self;
        let result = match (outcome, kind) {
            (Ok(Told::Bytes(bytes)), _) => Ok(bytes as i64),
            (Ok(Told::Descriptor(fd)), _) => Ok(fd.into()),
            (Ok(Told::Foreign(result)), _) => Ok(result),
            (Ok(Told::Attr(attr)), Kind::Stat(_, to)) => {
                // SAFETY: it was looked at when it was submitted, and is the queue's until now.
                unsafe { to.write(stat_of(&attr)) };
                Ok(0)
            }
            (Ok(Told::Done | Told::Attr(_)), _) => Ok(0),
            (Err(Stop::Errno(errno)), _) => Err(errno),
            (Err(_), Kind::Open(path, flags, mode)) => {
                let nothing = std::ptr::null_mut();
                // SAFETY: the path is a C string; the flags name no further argument.
                let fd = unsafe { pvfs_open(path.as_ptr().cast(), flags, mode, nothing, nothing) };
                returned(fd.into())
            }
            (Err(_), Kind::Stat(path, to)) => {
                // SAFETY: as above.
                returned(unsafe { pvfs_stat(path.as_ptr().cast(), to) }.into())
            }
            (Err(stop), Kind::Plain) => Err(stop.errno()),
        };
        let (result, error) =
            result.map_or_else(|errno| (-1, errno.0 as c_int), |result| (result, 0));
        Event { ticket, result, error, data }
    }
}

/// What a function of C returned.
fn returned(result: i64) -> Result<i64, Errno> {
    if result < 0 { Err(errno()) } else { Ok(result) }
}

static QUEUES: LazyLock<Mutex<HashMap<usize, Arc<Shared>>>> = LazyLock::new(Mutex::default);

/// Names look like aligned addresses, which some programs check.
const NAME_STEP: usize = 64;

const LOOKS_MAX: u32 = 10_000;
const LOOK_AGAIN: Duration = Duration::from_millis(1);
