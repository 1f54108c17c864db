//! Threads for requests that may wait long.
//!
//! The threads that read requests from the kernel also carry them out, which saves a switch and a copy. But
//! only so many of them may wait for data at a time; whatever comes beyond that is handed to threads made
//! for it, so that one silent iod never keeps the kernel from asking for names and attributes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// A pool that grows when asked and shrinks when idle.
pub struct Workers {
    shared: Arc<Shared>,
    inline: Arc<AtomicUsize>,
    inline_max: usize,
}

/// The right of a reading thread to wait for data, until dropped.
pub struct Inline(Arc<AtomicUsize>);

struct Shared {
    name: &'static str,
    threads_max: usize,
    queue_max: usize,
    state: Mutex<State>,
    work: Condvar,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    waiting: usize,
}

type Job = Box<dyn FnOnce() + Send>;

impl Workers {
    /// A pool of at most `threads_max` threads, for which at most `queue_max` jobs wait.
    pub fn new(name: &'static str, threads_max: usize, queue_max: usize) -> Self {
        let (state, work, idle) = (Mutex::default(), Condvar::new(), Condvar::new());
        let shared = Arc::new(Shared { name, threads_max, queue_max, state, work, idle });
        Self { shared, inline: Arc::default(), inline_max: 0 }
    }

    /// The like; `inline_max` of the callers' threads may do long requests besides.
    #[must_use]
    pub fn with_inline(self, inline_max: usize) -> Self {
        Self { inline_max, ..self }
    }

    /// Whether the calling thread may carry out a long request itself.
    pub fn inline(&self) -> Option<Inline> {
        let before = self.inline.fetch_add(1, Ordering::Relaxed);
        let permit = Inline(self.inline.clone());
        (before < self.inline_max).then_some(permit)
    }

    /// Has a job done by a thread of the pool. A queue that is full drops the job, and with it the reply it
    /// holds, which the kernel then hears of as EIO.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        if state.queue.len() >= self.shared.queue_max {
            return;
        }
        state.queue.push_back(Box::new(job));
        if state.waiting < state.queue.len() && state.threads < self.shared.threads_max {
            state.threads += 1;
            drop(state);
            self.start_thread();
        } else {
            self.shared.work.notify_one();
        }
    }

    /// Waits until nothing is left to do, but not for ever.
    pub fn drain(&self, timeout: Duration) {
        let state = self.shared.lock();
        let busy = |state: &mut State| !state.queue.is_empty() || state.waiting < state.threads;
        drop(self.shared.idle.wait_timeout_while(state, timeout, busy));
    }

    fn start_thread(&self) {
        let shared = self.shared.clone();
        let started = thread::Builder::new().name(shared.name.into()).spawn(move || shared.run());
        if started.is_err() {
            // Out of threads: those there are will come to it.
            self.shared.lock().threads -= 1;
            self.shared.work.notify_one();
        }
    }
}

impl Drop for Inline {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    fn run(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    /// The next job; `None` when there was none for a while.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        state.waiting += 1;
        if state.queue.is_empty() {
            self.idle.notify_all();
            let empty = |state: &mut State| state.queue.is_empty();
            let waited = self.work.wait_timeout_while(state, IDLE, empty);
            state = waited.expect(NO_PANIC).0;
        }
        state.waiting -= 1;
        let job = state.queue.pop_front();
        if job.is_none() {
            state.threads -= 1;
        }
        job
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }
}

const NO_PANIC: &str = "no code panics while it holds the queue";

/// How long a thread waits for work before it ends.
const IDLE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn every_job_is_done() {
        let workers = Workers::new("test", 4, usize::MAX);
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..500 {
            let done = done.clone();
            workers.spawn(move || {
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        workers.drain(Duration::from_secs(10));
        assert_eq!(done.load(Ordering::Relaxed), 500);
    }

    /// All of them wait for one another: with a thread fewer this would never end.
    #[test]
    fn the_pool_grows_to_its_limit() {
        let workers = Workers::new("test", 8, usize::MAX);
        let barrier = Arc::new(Barrier::new(8));
        for _ in 0..8 {
            let barrier = barrier.clone();
            workers.spawn(move || {
                barrier.wait();
            });
        }
        workers.drain(Duration::from_secs(10));
        assert_eq!(workers.shared.lock().queue.len(), 0);
    }

    #[test]
    fn a_full_queue_drops_what_comes_beyond() {
        let workers = Workers::new("test", 1, 3);
        let barrier = Arc::new(Barrier::new(2));
        let held = barrier.clone();
        workers.spawn(move || {
            held.wait();
        });
        while !workers.shared.lock().queue.is_empty() {
            thread::yield_now();
        }
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let done = done.clone();
            workers.spawn(move || {
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        barrier.wait();
        workers.drain(Duration::from_secs(10));
        assert_eq!(done.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn only_so_many_callers_may_wait() {
        let workers = Workers::new("test", 1, 0).with_inline(2);
        let first = workers.inline().unwrap();
        let second = workers.inline().unwrap();
        assert!(workers.inline().is_none());
        drop(first);
        let third = workers.inline().unwrap();
        assert!(workers.inline().is_none());
        drop((second, third));
        assert_eq!(workers.inline.load(Ordering::Relaxed), 0);
    }
}
