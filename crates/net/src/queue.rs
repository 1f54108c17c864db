//! Many operations side by side, driven by the calling thread: submit, test, wait, cancel.
//!
//! ```text
//!   submit ──> fresh ── flush, test, wait ──> tasks ──> done ──> wait_any, wait_some, wait
//!                                              │  ▲
//!                             what they wait for  what happened
//!                                              ▼  │
//!                                            one epoll set, whose descriptor a program can poll
//! ```
//!
//! What [`crate::blocking`] is for one operation this is for hundreds: no helper thread, and an operation is
//! looked at only when something it waits for has happened. Operations move only while one of the methods
//! runs; what was submitted begins with the next of them, so that operations submitted together are sent together.

mod alarm;
mod wishes;

pub(crate) use wishes::current;
pub use wishes::is_driving;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::blocking::Blocking;
use crate::runtime::{Instant, KeptFile, Runtime};
use alarm::{Alarm, TaskWaker};
use wishes::{Installed, Wishes};

/// A world whose operations wait for descriptors as those of [`Blocking`] do, so that a queue can move them.
pub trait Polled: Runtime<Stream: Sync> + Clone {}

impl Polled for Blocking {}

/// Names an operation of a queue.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Ticket(pub u64);

/// Operations on the way, each with an outcome of type `T`, which may borrow for `'m`.
pub struct Queue<'m, T> {
    tasks: HashMap<u64, Task<'m, T>>,
    /// Submitted and not begun.
    fresh: VecDeque<u64>,
    alarm: Arc<Alarm>,
    /// Absent while operations are polled.
    wishes: Option<Box<Wishes>>,
    done: HashMap<u64, T>,
    /// Tickets of `done` in the order of their ends; may name some that were taken since.
    order: VecDeque<u64>,
    next: u64,
    /// Whether the program polls the descriptor.
    is_shown: bool,
}

/// Puts a descriptor where it is to be.
type Keep = dyn Fn(OwnedFd) -> io::Result<KeptFile> + Send + Sync;

/// Ends a wait that is under way, or else the next one.
#[derive(Clone)]
pub struct Bell(Arc<Alarm>);

impl Bell {
    /// Does so.
    pub fn ring(&self) {
        self.0.ring();
    }
}

struct Task<'m, T> {
    future: Pin<Box<dyn Future<Output = T> + Send + 'm>>,
    waker: Waker,
    flag: Arc<TaskWaker>,
}

impl<'m, T> Queue<'m, T> {
    /// With nothing on the way. Takes two descriptors, and a third once they are polled, which `world` keeps.
    pub fn new<R: Polled>(world: &R) -> io::Result<Self> {
        let world = world.clone();
        let keep: Box<Keep> = Box::new(move |fd| {
            world.keep(fd).ok_or_else(|| io::Error::from(rustix::io::Errno::MFILE))
        });
        let alarm = Arc::new(Alarm::new(&keep)?);
        Ok(Self {
            tasks: HashMap::new(),
            fresh: VecDeque::new(),
            wishes: Some(Box::new(Wishes::new(alarm.bell(), keep)?)),
            alarm,
            done: HashMap::new(),
            order: VecDeque::new(),
            next: 1,
            is_shown: false,
        })
    }

    /// Puts an operation into the queue. It begins with the next call of another method.
    pub fn submit(&mut self, operation: impl Future<Output = T> + Send + 'm) -> Ticket {
        let id = self.next;
        self.next += 1;
        let flag = Arc::new(TaskWaker::new(id, self.alarm.clone()));
        let waker = Waker::from(flag.clone());
        self.tasks.insert(id, Task { future: Box::pin(operation), waker, flag });
        self.fresh.push_back(id);
        self.show();
        Ticket(id)
    }

    /// Puts the outcome of an operation that has ended already among the others.
    pub fn submit_ended(&mut self, outcome: T) -> Ticket {
        let id = self.next;
        self.next += 1;
        self.done.insert(id, outcome);
        self.order.push_back(id);
        self.show();
        Ticket(id)
    }

    /// Begins what was submitted, and lets all go on as far as they can without waiting.
    pub fn flush(&mut self) {
        self.look();
        self.show();
    }

    /// The outcome of an operation that has ended; `None` while it is on the way. Each outcome is given once.
    pub fn test(&mut self, ticket: Ticket) -> Option<T> {
        if !self.done.contains_key(&ticket.0) {
            self.look();
        }
        let outcome = self.done.remove(&ticket.0);
        self.show();
        outcome
    }

    /// The outcome of an operation, for which at most `patience` is waited (`None`: as long as it takes, which
    /// operations bound themselves). `None` when it is on the way still, or not of this queue.
    pub fn wait(&mut self, ticket: Ticket, patience: Option<Duration>) -> Option<T> {
        let until = until(patience);
        while !self.done.contains_key(&ticket.0)
            && self.tasks.contains_key(&ticket.0)
            && self.advance(until)
        {}
        let outcome = self.done.remove(&ticket.0);
        self.show();
        outcome
    }

    /// The next operation to end, if one does within `patience`. `None` at once when there are none.
    pub fn wait_any(&mut self, patience: Option<Duration>) -> Option<(Ticket, T)> {
        let until = until(patience);
        if self.fresh.len() >= BATCH {
            self.look();
        }
        let ended = loop {
            if let Some(ended) = self.take_done() {
                break Some(ended);
            }
            if self.tasks.is_empty() || !self.advance(until) {
                break None;
            }
        };
        self.show();
        ended
    }

    /// At most `count_max` operations that have ended; at least one, if one ends within `patience`.
    pub fn wait_some(&mut self, count_max: usize, patience: Option<Duration>) -> Vec<(Ticket, T)> {
        if self.done.len() < count_max {
            self.look();
        }
        let first = if count_max > 0 { self.wait_any(patience) } else { None };
        let mut ended: Vec<(Ticket, T)> = first.into_iter().collect();
        while ended.len() < count_max
            && let Some(more) = self.take_done()
        {
            ended.push(more);
        }
        self.show();
        ended
    }

    /// The next outcome that is there, without looking for news.
    pub fn take_ended(&mut self) -> Option<(Ticket, T)> {
        let ended = self.take_done();
        self.show();
        ended
    }

    /// Lets all go on, and waits at most `patience` for something to happen to one of them, once. For those who wait in
    /// turns: a [`Bell`] ends the wait.
    pub fn step(&mut self, patience: Option<Duration>) {
        self.advance(until(patience));
        self.show();
    }

    /// What ends the wait of another thread.
    pub fn bell(&self) -> Bell {
        Bell(self.alarm.clone())
    }

    /// Gives an operation up: it has no outcome then. What it has sent may still be carried out. False when it
    /// has ended already, or is not of this queue.
    pub fn cancel(&mut self, ticket: Ticket) -> bool {
        let Some(task) = self.tasks.remove(&ticket.0) else { return false };
        // What it frees as it goes may wake others.
        let mut installed = Installed::new(&mut self.wishes);
        installed.wishes().forget(ticket.0);
        drop(task);
        drop(installed);
        self.show();
        true
    }

    /// Gives all operations up, and forgets all outcomes.
    pub fn clear(&mut self) {
        let mut installed = Installed::new(&mut self.wishes);
        let tasks = std::mem::take(&mut self.tasks);
        tasks.keys().for_each(|id| installed.wishes().forget(*id));
        drop(tasks);
        drop(installed);
        self.fresh.clear();
        self.done.clear();
        self.show();
    }

    /// Operations that have not ended, and outcomes that were not taken.
    pub fn len(&self) -> usize {
        self.tasks.len() + self.done.len()
    }

    /// Whether there is neither.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A descriptor that is readable (poll, select, epoll) when calling [`Self::flush`], or any method but
    /// [`Self::submit`], would do something; some do it for nothing. To be used for nothing else.
    pub fn descriptor(&mut self) -> io::Result<BorrowedFd<'_>> {
        self.is_shown = true;
        self.wishes().keep_time()?;
        self.show();
        Ok(self.wishes.as_ref().expect(HOME).descriptor())
    }

    /// Begins what is fresh and polls what was woken or has its events, without waiting.
    fn look(&mut self) {
        self.sleep(Instant(0));
        self.run();
    }

    /// Goes on, waiting for events once at most; false when it is `until` already.
    fn advance(&mut self, until: Instant) -> bool {
        let ended = self.order.len();
        self.run();
        if self.order.len() > ended {
            return true;
        }
        self.sleep(until);
        self.run();
        self.order.len() > ended || Blocking.now() < until
    }

    /// Waits for events until then, and wakes whom they concern.
    fn sleep(&mut self, until: Instant) {
        let until = if self.fresh.is_empty() { until } else { Instant(0) };
        let woken = self.alarm.is_woken();
        let wishes = self.wishes.as_mut().expect(HOME);
        let (tasks, mut wake) = (&self.tasks, Vec::new());
        wishes.wait(if woken { Instant(0) } else { until }, &mut |id| wake.push(id));
        for id in wake {
            if let Some(task) = tasks.get(&id) {
                task.flag.note();
            }
        }
    }

    /// Polls what was woken, until nothing is.
    fn run(&mut self) {
        let mut installed = Installed::new(&mut self.wishes);
        loop {
            let woken = self.alarm.take_woken();
            let ids: Vec<u64> = self.fresh.drain(..).chain(woken).collect();
            if ids.is_empty() {
                break;
            }
            for id in ids {
                let Some(task) = self.tasks.get_mut(&id) else { continue };
                task.flag.begin();
                installed.wishes().begin(id);
                let polled = task.future.as_mut().poll(&mut Context::from_waker(&task.waker));
                installed.wishes().end(id);
                if let Poll::Ready(outcome) = polled {
                    let ended = self.tasks.remove(&id);
                    installed.wishes().forget(id);
                    drop(ended);
                    self.done.insert(id, outcome);
                    self.order.push_back(id);
                }
            }
        }
    }

    fn take_done(&mut self) -> Option<(Ticket, T)> {
        while let Some(id) = self.order.pop_front() {
            if let Some(outcome) = self.done.remove(&id) {
                return Some((Ticket(id), outcome));
            }
        }
        None
    }

    /// Makes the descriptor readable if there is something to do.
    fn show(&mut self) {
        if self.done.is_empty() {
            self.order.clear();
        }
        if self.is_shown {
            let busy = !self.done.is_empty() || !self.fresh.is_empty() || self.alarm.is_woken();
            self.alarm.set(busy);
            self.wishes().set_time();
        }
    }

    fn wishes(&mut self) -> &mut Wishes {
        self.wishes.as_mut().expect(HOME)
    }
}

impl<T> Drop for Queue<'_, T> {
    fn drop(&mut self) {
        // Operations that are dropped may wake one another.
        self.clear();
    }
}

fn until(patience: Option<Duration>) -> Instant {
    patience.map_or(Instant(u64::MAX), |patience| Blocking.now().after(patience))
}

/// So many fresh operations are begun although there are outcomes to be taken.
const BATCH: usize = 8;

const HOME: &str = "it is away only while operations are polled";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{all, sleep_until};
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::time::Timespec;
    use std::future::{pending, poll_fn, ready};
    use std::sync::Mutex;

    const MS: Duration = Duration::from_millis(1);

    async fn sleep(time: Duration) {
        sleep_until(&Blocking, Blocking.now().after(time)).await;
    }

    fn is_readable(queue: &mut Queue<'_, u32>, patience: Duration) -> bool {
        let descriptor = queue.descriptor().unwrap();
        let patience = Timespec { tv_sec: 0, tv_nsec: patience.as_nanos() as i64 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&patience)).unwrap() > 0
    }

    #[test]
    fn operations_end_in_their_own_order_and_each_outcome_is_given_once() {
        let mut queue = Queue::new(&Blocking).unwrap();
        let slow = queue.submit(async { (sleep(40 * MS).await, 1).1 });
        let quick = queue.submit(async { (sleep(5 * MS).await, 2).1 });
        assert_eq!(queue.test(slow), None);
        assert_eq!(queue.wait_any(None), Some((quick, 2)));
        assert_eq!(queue.test(quick), None);
        assert_eq!(queue.wait(slow, None), Some(1));
        assert_eq!(queue.wait_any(None), None);
        assert!(queue.is_empty());
    }

    #[test]
    fn patience_ends_and_a_cancelled_operation_has_no_outcome() {
        let mut queue: Queue<'_, u32> = Queue::new(&Blocking).unwrap();
        let stuck = queue.submit(pending());
        let begun = Blocking.now();
        assert_eq!(queue.wait(stuck, Some(20 * MS)), None);
        assert_eq!(queue.wait_any(Some(20 * MS)), None);
        assert!(queue.wait_some(5, Some(5 * MS)).is_empty());
        assert!(begun.until(Blocking.now()) >= 45 * MS);
        assert!(queue.cancel(stuck));
        assert!(!queue.cancel(stuck));
        assert_eq!(queue.wait(stuck, None), None);
        assert_eq!(queue.wait_any(None), None);
    }

    #[test]
    fn some_are_as_many_as_have_ended() {
        let mut queue = Queue::new(&Blocking).unwrap();
        for number in 0..10u32 {
            queue.submit(ready(number));
        }
        queue.submit(pending());
        assert_eq!(queue.wait_some(4, None).len(), 4);
        assert_eq!(queue.wait_some(0, None).len(), 0);
        let rest: Vec<u32> = queue.wait_some(100, None).into_iter().map(|(_, out)| out).collect();
        assert_eq!(rest, [4, 5, 6, 7, 8, 9]);
        assert_eq!(queue.len(), 1);
    }

    #[test]
    fn a_bell_ends_a_wait_and_what_has_ended_already_is_there_at_once() {
        let mut queue: Queue<'_, u32> = Queue::new(&Blocking).unwrap();
        queue.submit(pending());
        let bell = queue.bell();
        let begun = Blocking.now();
        bell.ring();
        queue.step(None);
        let ringer = std::thread::spawn(move || {
            std::thread::sleep(20 * MS);
            bell.ring();
        });
        queue.step(Some(20_000 * MS));
        ringer.join().unwrap();
        assert!(begun.until(Blocking.now()) < Duration::from_secs(15));
        assert_eq!(queue.take_ended(), None);
        let ended = queue.submit_ended(4);
        assert!(is_readable(&mut queue, Duration::ZERO));
        assert!(!queue.cancel(ended));
        assert_eq!(queue.take_ended(), Some((ended, 4)));
        assert!(!is_readable(&mut queue, Duration::ZERO));
    }

    #[test]
    fn an_operation_may_wait_for_several_things_and_for_other_operations() {
        let mut queue = Queue::new(&Blocking).unwrap();
        let parked: Arc<Mutex<Option<Waker>>> = Arc::default();
        let (waiter, waker) = (parked.clone(), parked.clone());
        let mut polls = 0;
        let waits = queue.submit(async move {
            poll_fn(|cx| {
                polls += 1;
                *waiter.lock().unwrap() = Some(cx.waker().clone());
                if polls == 2 { Poll::Ready(7) } else { Poll::Pending }
            })
            .await
        });
        queue.submit(async move {
            all((0..50).map(|_| sleep(3 * MS))).await;
            waker.lock().unwrap().take().unwrap().wake();
            1
        });
        assert_eq!(queue.wait(waits, Some(5000 * MS)), Some(7));
    }

    #[test]
    fn another_thread_can_wake_an_operation() {
        let mut queue = Queue::new(&Blocking).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel::<Waker>();
        let thread = std::thread::spawn(move || {
            let waker = receiver.recv().unwrap();
            std::thread::sleep(20 * MS);
            waker.wake();
        });
        let mut woken = false;
        let ticket = queue.submit(poll_fn(move |cx| {
            if woken {
                return Poll::Ready(3);
            }
            woken = true;
            sender.send(cx.waker().clone()).unwrap();
            Poll::Pending
        }));
        assert_eq!(queue.wait(ticket, Some(5000 * MS)), Some(3));
        thread.join().unwrap();
    }

    #[test]
    fn the_descriptor_is_readable_when_there_is_something_to_do() {
        let mut queue = Queue::new(&Blocking).unwrap();
        assert!(!is_readable(&mut queue, Duration::ZERO));
        let timed = queue.submit(async { (sleep(20 * MS).await, 5).1 });
        assert!(is_readable(&mut queue, Duration::ZERO), "it has to be begun");
        queue.flush();
        assert!(!is_readable(&mut queue, Duration::ZERO));
        assert!(is_readable(&mut queue, 900 * MS), "its time has come");
        queue.flush();
        assert!(is_readable(&mut queue, Duration::ZERO), "its outcome is there");
        assert_eq!(queue.test(timed), Some(5));
        assert!(!is_readable(&mut queue, Duration::ZERO));
    }

    #[test]
    fn a_blocking_operation_inside_of_one_waits_by_itself() {
        let mut queue = Queue::new(&Blocking).unwrap();
        let ticket = queue.submit(async {
            crate::blocking::block_on(sleep(5 * MS));
            sleep(5 * MS).await;
            9
        });
        assert_eq!(queue.wait(ticket, Some(5000 * MS)), Some(9));
    }

    #[test]
    fn what_operations_hold_is_dropped_with_them() {
        let held = Arc::new(());
        let mut queue: Queue<'_, u32> = Queue::new(&Blocking).unwrap();
        for _ in 0..3 {
            let held = held.clone();
            queue.submit(async move { (pending::<()>().await, held, 1).2 });
        }
        queue.flush();
        queue.cancel(Ticket(1));
        assert_eq!(Arc::strong_count(&held), 3);
        drop(queue);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
