//! Who is next: work that may block, taken client by client so that nobody starves.
//!
//! ```text
//! client a   | j1 j2 j3 j4 |      turns: a, b, c, a, b, ...   one job each
//! client b   | j5 |               a client has at most its share of the workers at once,
//! client c   | j6 j7 |            so that one with slow jobs leaves some for the others
//! ```
//!
//! Pure bookkeeping: no threads, no clock. See [`crate::worker`] for the threads.

use std::collections::{HashMap, VecDeque};

/// How much may wait and run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Jobs waiting in all.
    pub pending_max: usize,
    /// Jobs of one client waiting.
    pub client_pending_max: usize,
    /// Memory held by waiting jobs.
    pub pending_bytes_max: usize,
    /// Jobs of one client running.
    pub client_active_max: usize,
}

/// Waiting and running jobs.
pub struct FairQueue<J> {
    clients: HashMap<u64, Client<J>>,
    /// Clients with waiting jobs, in the order of their turns.
    turns: VecDeque<u64>,
    bounds: Bounds,
    pending: usize,
    pending_bytes: usize,
    active: usize,
}

struct Client<J> {
    jobs: VecDeque<(usize, J)>,
    active: usize,
}

impl<J> FairQueue<J> {
    /// Nothing to do.
    pub fn new(bounds: Bounds) -> Self {
        let (clients, turns) = (HashMap::new(), VecDeque::new());
        Self { clients, turns, bounds, pending: 0, pending_bytes: 0, active: 0 }
    }

    /// Takes a job that holds `bytes` bytes; gives it back when there is no room.
    pub fn push(&mut self, client: u64, bytes: usize, job: J) -> Result<(), J> {
        let waiting = self.clients.get(&client).map_or(0, |entry| entry.jobs.len());
        let full = self.pending >= self.bounds.pending_max
            || waiting >= self.bounds.client_pending_max
            || self.pending_bytes.saturating_add(bytes) > self.bounds.pending_bytes_max;
        if full {
            return Err(job);
        }
        let entry = self.clients.entry(client).or_insert_with(Client::new);
        if entry.jobs.is_empty() {
            self.turns.push_back(client);
        }
        entry.jobs.push_back((bytes, job));
        self.pending += 1;
        self.pending_bytes += bytes;
        Ok(())
    }

    /// The next job to run, and whose it is; to be followed by [`Self::done`].
    pub fn pop(&mut self) -> Option<(u64, J)> {
        for _ in 0..self.turns.len() {
            let client = self.turns.pop_front()?;
            let entry = self.clients.get_mut(&client).expect("who has a turn has jobs");
            if entry.active >= self.bounds.client_active_max {
                self.turns.push_back(client);
                continue;
            }
            let (bytes, job) = entry.jobs.pop_front().expect("who has a turn has jobs");
            entry.active += 1;
            if !entry.jobs.is_empty() {
                self.turns.push_back(client);
            }
            self.pending -= 1;
            self.pending_bytes -= bytes;
            self.active += 1;
            return Some((client, job));
        }
        None
    }

    /// A job of this client has run.
    pub fn done(&mut self, client: u64) {
        let entry = self.clients.get_mut(&client).expect("a client with a running job is known");
        entry.active -= 1;
        self.active -= 1;
        if entry.active == 0 && entry.jobs.is_empty() {
            self.clients.remove(&client);
        }
    }

    /// Takes those waiting jobs of a client out that are `unwanted`.
    pub fn withdraw(&mut self, client: u64, unwanted: impl Fn(&J) -> bool) -> Vec<J> {
        let Some(entry) = self.clients.get_mut(&client) else { return Vec::new() };
        let waiting = std::mem::take(&mut entry.jobs);
        let (out, kept): (VecDeque<_>, VecDeque<_>) =
            waiting.into_iter().partition(|(_, job)| unwanted(job));
        entry.jobs = kept;
        if entry.jobs.is_empty() {
            self.turns.retain(|turn| *turn != client);
        }
        if entry.jobs.is_empty() && entry.active == 0 {
            self.clients.remove(&client);
        }
        self.pending -= out.len();
        self.pending_bytes -= out.iter().map(|(bytes, _)| bytes).sum::<usize>();
        out.into_iter().map(|(_, job)| job).collect()
    }

    /// Takes out whatever waits and is `unwanted`, whoever's it is.
    pub fn withdraw_all(&mut self, unwanted: impl Fn(&J) -> bool) -> Vec<J> {
        let clients: Vec<u64> = self.clients.keys().copied().collect();
        clients.into_iter().flat_map(|client| self.withdraw(client, &unwanted)).collect()
    }

    /// Takes all waiting jobs out.
    pub fn clear(&mut self) -> Vec<J> {
        let entries = self.clients.values_mut();
        let jobs = entries.flat_map(|entry| entry.jobs.drain(..)).map(|(_, job)| job).collect();
        self.clients.retain(|_, entry| entry.active > 0);
        self.turns.clear();
        (self.pending, self.pending_bytes) = (0, 0);
        jobs
    }

    /// Jobs waiting.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// Jobs running.
    pub fn active(&self) -> usize {
        self.active
    }
}

impl<J> Client<J> {
    fn new() -> Self {
        Self { jobs: VecDeque::new(), active: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        pending_max: 100,
        client_pending_max: 50,
        pending_bytes_max: 1000,
        client_active_max: 3,
    };

    fn run_all(queue: &mut FairQueue<u32>) -> Vec<u64> {
        let step = |queue: &mut FairQueue<u32>| {
            let (client, _) = queue.pop()?;
            queue.done(client);
            Some(client)
        };
        std::iter::from_fn(|| step(queue)).collect()
    }

    #[test]
    fn clients_take_turns_however_much_one_asks_for() {
        let mut queue = FairQueue::new(BOUNDS);
        (0..50).for_each(|job| queue.push(1, 0, job).unwrap());
        (0..3).for_each(|job| queue.push(2, 0, job).unwrap());
        let order = run_all(&mut queue);
        assert_eq!(order[..7], [1, 2, 1, 2, 1, 2, 1]);
        assert_eq!(order.len(), 53);
    }

    #[test]
    fn jobs_of_one_client_keep_their_order() {
        let mut queue = FairQueue::new(BOUNDS);
        (0..10).for_each(|job| queue.push(1, 0, job).unwrap());
        for job in 0..10 {
            assert_eq!(queue.pop(), Some((1, job)));
            queue.done(1);
        }
    }

    #[test]
    fn nobody_has_more_than_its_share_of_the_workers() {
        let mut queue = FairQueue::new(BOUNDS);
        (0..9).for_each(|job| queue.push(1, 0, job).unwrap());
        (0..3).for_each(|_| assert!(queue.pop().is_some()));
        assert_eq!(queue.pop(), None, "three are running");
        queue.push(2, 0, 9).unwrap();
        assert_eq!(queue.pop(), Some((2, 9)));
        queue.done(1);
        assert_eq!(queue.pop(), Some((1, 3)));
    }

    #[test]
    fn jobs_and_bytes_are_bounded_and_given_back_when_they_do_not_fit() {
        let mut queue = FairQueue::new(BOUNDS);
        assert_eq!(queue.push(1, 1001, 0), Err(0));
        queue.push(1, 600, 1).unwrap();
        assert_eq!(queue.push(2, 600, 2), Err(2));
        (0..49).for_each(|job| queue.push(1, 0, job).unwrap());
        assert_eq!(queue.push(1, 0, 3), Err(3));
        (0..50).for_each(|job| queue.push(2, 0, job).unwrap());
        assert_eq!(queue.push(3, 0, 4), Err(4));
        assert_eq!(queue.clear().len(), 100);
        queue.push(3, 1000, 5).unwrap();
    }

    #[test]
    fn withdrawn_jobs_leave_the_others_in_order() {
        let mut queue = FairQueue::new(BOUNDS);
        (0..10).for_each(|job| queue.push(1, 10, job).unwrap());
        queue.push(2, 10, 99).unwrap();
        assert_eq!(queue.withdraw(1, |job| job % 2 == 0), [0, 2, 4, 6, 8]);
        assert_eq!(queue.withdraw(3, |_| true), []);
        assert_eq!((queue.pending(), queue.pending_bytes), (6, 60));
        assert_eq!(queue.withdraw(2, |_| true), [99]);
        assert_eq!(run_all(&mut queue), [1; 5]);
        assert!(queue.clients.is_empty());
    }

    #[test]
    fn nothing_is_remembered_of_clients_without_jobs() {
        let mut queue = FairQueue::new(BOUNDS);
        for client in 0..1000 {
            queue.push(client, 1, 0).unwrap();
            run_all(&mut queue);
        }
        queue.push(7, 1, 0).unwrap();
        let (client, _) = queue.pop().unwrap();
        queue.push(7, 1, 0).unwrap();
        queue.clear();
        queue.done(client);
        assert!(queue.clients.is_empty() && queue.turns.is_empty());
        assert_eq!((queue.pending(), queue.active(), queue.pending_bytes), (0, 0, 0));
    }
}
