//! What the operations of a queue wait for: one epoll set, and their times in order.
//!
//! A descriptor is armed for one event at a time (EPOLLONESHOT), when an operation waits for it: so an operation
//! may leave bytes unread and wait again, and connections that other threads use meanwhile disturb nobody.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::task::Poll;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::Keep;
use crate::blocking::Blocking;
use crate::runtime::{Instant, Interest, KeptFile, Runtime};

/// What all operations wait for.
pub(crate) struct Wishes {
    epoll: KeptFile,
    bell: Arc<KeptFile>,
    keep: Box<Keep>,
    /// By descriptor: who waits for what. One operation each, but for the moment in which one takes over.
    waiting: HashMap<RawFd, Vec<(u64, Interest)>>,
    /// Descriptors that were put into the set, and may have been closed since.
    known: std::collections::HashSet<RawFd>,
    times: BTreeSet<(Instant, u64)>,
    tasks: HashMap<u64, Waits>,
    /// What the operation that is polled now waits for.
    polled: Waits,
    /// Makes the set readable at the earliest time.
    clock: Option<KeptFile>,
    clock_set: Instant,
}

/// What one operation waits for.
struct Waits {
    id: u64,
    descriptors: Vec<RawFd>,
    at: Instant,
    /// What has happened since it was polled last.
    ready: Vec<(RawFd, Interest)>,
}

impl Waits {
    const fn of(id: u64) -> Self {
        Self { id, descriptors: Vec::new(), at: NEVER, ready: Vec::new() }
    }
}

impl Wishes {
    /// Nobody waits for anything. An event of `bell` ends a wait.
    pub fn new(bell: Arc<KeptFile>, keep: Box<Keep>) -> io::Result<Self> {
        let epoll = keep(epoll::create(epoll::CreateFlags::CLOEXEC)?)?;
        epoll::add(&epoll, &*bell, EventData::new_u64(BELL), EventFlags::IN)?;
        Ok(Self {
            epoll,
            bell,
            keep,
            waiting: HashMap::new(),
            known: std::collections::HashSet::new(),
            times: BTreeSet::new(),
            tasks: HashMap::new(),
            polled: Waits::of(0),
            clock: None,
            clock_set: NEVER,
        })
    }

    /// The set.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// From now on the set is readable when a time has come.
    pub fn keep_time(&mut self) -> io::Result<()> {
        if self.clock.is_none() {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let clock = (self.keep)(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
            epoll::add(&self.epoll, &clock, EventData::new_u64(CLOCK), EventFlags::IN)?;
            self.clock = Some(clock);
        }
        Ok(())
    }

    /// Sets the clock to the earliest time, if it is kept.
    pub fn set_time(&mut self) {
        let at = self.times.first().map_or(NEVER, |(at, _)| *at);
        let Some(clock) = &self.clock else { return };
        if at == self.clock_set {
            return;
        }
        let value = match at {
            NEVER => Timespec { tv_sec: 0, tv_nsec: 0 },
            Instant(ns) => timespec(ns.max(1)),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval, it_value: value };
        if timerfd_settime(clock, TimerfdTimerFlags::ABSTIME, &time).is_ok() {
            self.clock_set = at;
        }
    }

    /// This operation is polled from now on; what it waited for is void.
    pub fn begin(&mut self, id: u64) {
        let mut waits = self.tasks.remove(&id).unwrap_or_else(|| Waits::of(id));
        self.withdraw(&mut waits);
        self.polled = waits;
    }

    /// It has been polled, and waits for what it said meanwhile.
    pub fn end(&mut self, id: u64) {
        let mut waits = std::mem::replace(&mut self.polled, Waits::of(0));
        waits.ready.clear();
        if waits.at != NEVER {
            self.times.insert((waits.at, id));
        }
        self.tasks.insert(id, waits);
    }

    /// This operation is no more.
    pub fn forget(&mut self, id: u64) {
        if let Some(mut waits) = self.tasks.remove(&id) {
            self.withdraw(&mut waits);
        }
    }

    /// Waits for events until then at the latest, and says who is to be woken.
    pub fn wait(&mut self, until: Instant, wake: &mut dyn FnMut(u64)) {
        let earliest = self.times.first().map_or(NEVER, |(at, _)| *at);
        let until = until.min(earliest);
        let left = match until {
            NEVER => None,
            Instant(0) => Some(timespec(0)),
            until => Some(timespec(Blocking.now().until(until).as_nanos() as u64)),
        };
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        // A signal ends the wait early, which is a needless look and nothing worse.
        if let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, left.as_ref()) {
            for event in events {
                self.note(event.data.u64(), event.flags, wake);
            }
        }
        let now = if self.times.is_empty() { Instant(0) } else { Blocking.now() };
        while let Some((at, id)) = self.times.first().copied()
            && at <= now
        {
            self.times.pop_first();
            wake(id);
        }
    }

    fn note(&mut self, source: u64, flags: EventFlags, wake: &mut dyn FnMut(u64)) {
        match source {
            BELL => {
                let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
            }
            CLOCK => {
                self.clock_set = NEVER;
                if let Some(clock) = &self.clock {
                    let _ = rustix::io::read(clock, &mut [0; 8]);
                }
            }
            fd => {
                let fd = fd as RawFd;
                for (id, interest) in self.waiting.get(&fd).into_iter().flatten() {
                    // An error or the end is for whoever waits, whatever for.
                    let other = match interest {
                        Interest::Readable => EventFlags::OUT,
                        Interest::Writable => EventFlags::IN,
                    };
                    if !flags.difference(other).is_empty()
                        && let Some(waits) = self.tasks.get_mut(id)
                    {
                        waits.ready.push((fd, *interest));
                    }
                    wake(*id);
                }
            }
        }
    }

    fn ready_or_wait(&mut self, stream: BorrowedFd<'_>, interest: Interest) -> Poll<()> {
        let fd = stream.as_raw_fd();
        if let Some(at) = self.polled.ready.iter().position(|seen| *seen == (fd, interest)) {
            self.polled.ready.swap_remove(at);
            return Poll::Ready(());
        }
        let waiting = self.waiting.entry(fd).or_default();
        waiting.push((self.polled.id, interest));
        let flags =
            waiting.iter().fold(EventFlags::ONESHOT, |flags, (_, interest)| match interest {
                Interest::Readable => flags | EventFlags::IN,
                Interest::Writable => flags | EventFlags::OUT,
            });
        self.polled.descriptors.push(fd);
        match self.arm(stream, flags) {
            Ok(()) => Poll::Pending,
            // The stream itself will tell what is wrong.
            Err(_) => Poll::Ready(()),
        }
    }

    /// A number that was closed may have come to be another descriptor's since.
    fn arm(&mut self, stream: BorrowedFd<'_>, flags: EventFlags) -> rustix::io::Result<()> {
        let fd = stream.as_raw_fd();
        let data = EventData::new_u64(fd as u64);
        if self.known.contains(&fd) {
            match epoll::modify(&self.epoll, stream, data, flags) {
                Err(rustix::io::Errno::NOENT) => {}
                done => return done,
            }
        }
        epoll::add(&self.epoll, stream, data, flags)?;
        self.known.insert(fd);
        Ok(())
    }

    fn withdraw(&mut self, waits: &mut Waits) {
        if waits.at != NEVER {
            self.times.remove(&(waits.at, waits.id));
            waits.at = NEVER;
        }
        for fd in waits.descriptors.drain(..) {
            if let Some(waiting) = self.waiting.get_mut(&fd) {
                waiting.retain(|(id, _)| *id != waits.id);
                if waiting.is_empty() {
                    self.waiting.remove(&fd);
                }
            }
        }
    }
}

/// Makes the wishes of a queue those of the operation that this thread polls, for as long as it lives.
pub(super) struct Installed<'a> {
    home: &'a mut Option<Box<Wishes>>,
    outer: Option<Box<Wishes>>,
}

impl<'a> Installed<'a> {
    pub fn new(home: &'a mut Option<Box<Wishes>>) -> Self {
        let outer = replace(home.take());
        Self { home, outer }
    }

    /// The wishes, between two operations.
    pub fn wishes(&mut self) -> Borrowed {
        Borrowed(replace(None))
    }
}

impl Drop for Installed<'_> {
    fn drop(&mut self) {
        *self.home = replace(self.outer.take());
    }
}

/// The wishes that are installed, for a moment.
pub(super) struct Borrowed(Option<Box<Wishes>>);

impl std::ops::Deref for Borrowed {
    type Target = Wishes;
    fn deref(&self) -> &Wishes {
        self.0.as_deref().expect("an installed queue has its wishes here")
    }
}

impl std::ops::DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut Wishes {
        self.0.as_deref_mut().expect("an installed queue has its wishes here")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        replace(self.0.take());
    }
}

fn replace(wishes: Option<Box<Wishes>>) -> Option<Box<Wishes>> {
    CURRENT.with_borrow_mut(|current| std::mem::replace(&mut **current, wishes))
}

/// For the runtime: what the queue whose operation is polled by this thread says, if there is one.
pub(crate) mod current {
    use super::*;

    /// Whether `stream` may be ready.
    pub fn poll_ready(stream: BorrowedFd<'_>, interest: Interest) -> Option<Poll<()>> {
        with(|wishes| wishes.ready_or_wait(stream, interest))
    }

    /// The operation wants to be polled again at this time, which is yet to come.
    pub fn wake_at(at: Instant) -> Option<()> {
        with(|wishes| wishes.polled.at = wishes.polled.at.min(at))
    }

    /// Lets no queue be asked until [`unmask`]: whoever waits here waits by itself.
    pub fn mask() -> Masked {
        Masked(replace(None))
    }

    /// See [`mask`].
    pub struct Masked(Option<Box<Wishes>>);

    impl Drop for Masked {
        fn drop(&mut self) {
            replace(self.0.take());
        }
    }

    fn with<T>(ask: impl FnOnce(&mut Wishes) -> T) -> Option<T> {
        CURRENT.with_borrow_mut(|current| current.as_deref_mut().map(ask))
    }
}

/// Whether this thread is polling an operation of a queue, which hears wakers by itself.
pub fn is_driving() -> bool {
    CURRENT.with_borrow(|current| current.is_some())
}

thread_local! {
    /// Has no destructor, like the runtime's own: see [`crate::blocking`]. It is empty outside of a queue's methods.
    static CURRENT: RefCell<ManuallyDrop<Option<Box<Wishes>>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

const NEVER: Instant = Instant(u64::MAX);

/// Sources that are no descriptor of an operation.
const BELL: u64 = u64::MAX;
const CLOCK: u64 = u64::MAX - 1;

const EVENTS_MAX: usize = 128;
