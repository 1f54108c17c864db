//! The few threads that may block, so that reactors never have to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::queue::{Bounds, FairQueue};

/// Where jobs are handed in.
pub struct Board<J> {
    state: Mutex<State<J>>,
    /// A job came, or the end.
    changed: Condvar,
    /// The last job was done.
    idle: Condvar,
}

struct State<J> {
    queue: FairQueue<J>,
    closing: bool,
}

/// The threads; they end when this is dropped.
pub struct Workers<J> {
    board: Arc<Board<J>>,
    threads: Vec<JoinHandle<()>>,
}

impl<J> Board<J> {
    /// With nothing on it.
    pub fn new(bounds: Bounds) -> Self {
        let state = State { queue: FairQueue::new(bounds), closing: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), idle: Condvar::new() }
    }

    /// Hands in a job that holds `bytes` bytes; gives it back when there is no room.
    pub fn submit(&self, client: u64, bytes: usize, job: J) -> Result<(), J> {
        self.lock().queue.push(client, bytes, job)?;
        self.changed.notify_one();
        Ok(())
    }

    /// Takes all jobs that wait off. Those that run are left to end.
    pub fn clear(&self) -> Vec<J> {
        self.lock().queue.clear()
    }

    /// Takes those waiting jobs off that are `unwanted`.
    pub fn withdraw(&self, unwanted: impl Fn(&J) -> bool) -> Vec<J> {
        self.lock().queue.withdraw_all(unwanted)
    }

    /// Waits until nothing waits or runs; says whether that came about in time.
    pub fn wait_until_idle(&self, patience: Duration) -> bool {
        let busy = |state: &mut State<J>| state.queue.pending() + state.queue.active() > 0;
        let waited = self.idle.wait_timeout_while(self.lock(), patience, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Jobs waiting, and jobs running.
    pub fn depths(&self) -> (usize, usize) {
        let state = self.lock();
        (state.queue.pending(), state.queue.active())
    }

    fn work(&self, run: impl Fn(J)) {
        while let Some((client, job)) = self.next() {
            if catch_unwind(AssertUnwindSafe(|| run(job))).is_err() {
                tracing::error!(
                    "a request made the daemon panic and was answered EIO; please report it"
                );
            }
            self.done(client);
        }
    }

    fn next(&self) -> Option<(u64, J)> {
        let mut state = self.lock();
        loop {
            if let Some(taken) = state.queue.pop() {
                return Some(taken);
            }
            if state.closing {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, client: u64) {
        let mut state = self.lock();
        state.queue.done(client);
        let (pending, active) = (state.queue.pending(), state.queue.active());
        drop(state);
        // The client may have waited for its share.
        if pending > 0 {
            self.changed.notify_one();
        }
        if pending + active == 0 {
            self.idle.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Send + 'static> Workers<J> {
    /// Starts `count` threads that `run` the jobs of `board`.
    pub fn start(
        board: &Arc<Board<J>>,
        count: usize,
        run: impl Fn(J) + Clone + Send + 'static,
    ) -> Self {
        let start = |number: usize| {
            let (board, run) = (Arc::clone(board), run.clone());
            let named = std::thread::Builder::new().name(format!("pvfs-disk-{number}"));
            named.spawn(move || board.work(run)).expect("the system starts a thread at start-up")
        };
        Self { board: Arc::clone(board), threads: (0..count).map(start).collect() }
    }
}

impl<J> Drop for Workers<J> {
    fn drop(&mut self) {
        self.board.clear();
        self.board.lock().closing = true;
        self.board.changed.notify_all();
        for thread in self.threads.drain(..) {
            // Panics of jobs were caught and logged.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    type Job = Box<dyn FnOnce() + Send>;

    const BOUNDS: Bounds = Bounds {
        pending_max: 1000,
        client_pending_max: 1000,
        pending_bytes_max: 1000,
        client_active_max: 2,
    };

    fn board() -> Arc<Board<Job>> {
        Arc::new(Board::new(BOUNDS))
    }

    #[test]
    fn every_job_runs_once_also_after_one_that_panics() {
        let board = board();
        let workers = Workers::start(&board, 3, |job: Job| job());
        let (sender, receiver) = channel();
        assert!(board.submit(1, 0, Box::new(|| panic!("on purpose"))).is_ok());
        for number in 0..200u64 {
            let sender = sender.clone();
            let job: Job = Box::new(move || sender.send(number).unwrap());
            assert!(board.submit(number % 7, 1, job).is_ok());
        }
        assert!(board.wait_until_idle(Duration::from_secs(20)));
        let mut seen: Vec<u64> = receiver.try_iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, (0..200).collect::<Vec<_>>());
        assert_eq!(board.depths(), (0, 0));
        drop(workers);
    }

    #[test]
    fn cleared_jobs_are_dropped_unrun() {
        let board = board();
        let (sender, receiver) = channel::<()>();
        for _ in 0..5 {
            let sender = sender.clone();
            let job: Job = Box::new(move || sender.send(()).unwrap());
            assert!(board.submit(1, 0, job).is_ok());
        }
        drop(sender);
        assert_eq!(board.clear().len(), 5);
        assert!(receiver.recv().is_err(), "all senders are gone and none sent");
    }
}
