//! Clients: threads that each repeat one operation for as long as they are told to.
//!
//! The threads live through all turns of a row, so that no turn pays for starting them, and rest in between.
//! Each counts by its own clock: the rate of the crew is the sum of the rates of its members.

use super::error::{Error, Result};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// One operation of one client. [`Next::Exhausted`] when it has nothing left to work on.
pub type Job = Box<dyn FnMut() -> Result<Next> + Send>;

/// Whether there is more to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// One more operation was done.
    Done,
    /// Nothing was done, and nothing is left to do.
    Exhausted,
}

/// Clients that wait for their turn.
pub struct Crew {
    members: Vec<Member>,
    tallies: Receiver<Result<Tally>>,
}

/// What a crew did in one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Operations.
    pub operations: u64,
    /// Operations per second.
    pub rate: f64,
}

struct Member {
    orders: Option<Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl Crew {
    /// One client for each job; profilers see the threads by this name.
    pub fn new(name: &str, jobs: Vec<Job>) -> Self {
        let (results, tallies) = channel();
        let start = |job| Member::start(name, job, results.clone());
        let members = jobs.into_iter().map(start).collect();
        Self { members, tallies }
    }

    /// All clients work for so long.
    pub fn work(&self, turn: Duration) -> Result<Tally> {
        let ordered = self.members.iter().filter(|member| member.order(turn)).count();
        let mut total = Tally::default();
        let mut failure = (ordered < self.members.len()).then(died);
        for _ in 0..ordered {
            let tally = self.tallies.recv_timeout(turn + OPERATION_TIME_MAX);
            match tally.map_err(|_| died()).flatten() {
                Ok(tally) => total = total.plus(tally),
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(total), Err)
    }
}

impl Member {
    fn start(name: &str, mut job: Job, results: Sender<Result<Tally>>) -> Self {
        let (orders, turns) = channel();
        let thread = Builder::new().name(name.into()).spawn(move || {
            for turn in turns {
                // A crew that is gone no longer wants to know.
                let _ = results.send(repeat(&mut job, turn));
            }
        });
        // Without a thread the order finds nobody, and the crew's work fails.
        Self { orders: Some(orders), thread: thread.ok() }
    }

    /// False when nobody is there to hear it.
    fn order(&self, turn: Duration) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.send(turn).is_ok())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Tally {
    fn plus(self, other: Self) -> Self {
        Self { operations: self.operations + other.operations, rate: self.rate + other.rate }
    }
}

fn repeat(job: &mut Job, turn: Duration) -> Result<Tally> {
    let start = Instant::now();
    let mut operations = 0;
    while start.elapsed() < turn && job()? == Next::Done {
        operations += 1;
    }
    Ok(Tally { operations, rate: operations as f64 / start.elapsed().as_secs_f64() })
}

fn died() -> Error {
    Error::Wrong("a client thread ended before its time".into())
}

/// No operation takes longer: those of the file system have deadlines.
const OPERATION_TIME_MAX: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Job {
        Box::new(|| {
            std::thread::sleep(Duration::from_millis(1));
            Ok(Next::Done)
        })
    }

    #[test]
    fn a_crew_is_as_fast_as_its_members_together() {
        let one = Crew::new("test", vec![sleeper()]).work(Duration::from_millis(50)).unwrap();
        let four = Crew::new("test", (0..4).map(|_| sleeper()).collect())
            .work(Duration::from_millis(50))
            .unwrap();
        assert!(one.operations >= 5 && four.rate > one.rate * 1.5, "{one:?} {four:?}");
    }

    #[test]
    fn a_member_with_nothing_left_stops_early() {
        let mut left = 3;
        let job: Job = Box::new(move || {
            left -= 1;
            Ok(if left < 0 { Next::Exhausted } else { Next::Done })
        });
        let crew = Crew::new("test", vec![job]);
        assert_eq!(crew.work(Duration::from_secs(100)).unwrap().operations, 3);
    }

    #[test]
    fn a_failure_is_told_and_the_crew_stays_usable() {
        let mut failed = false;
        let job: Job = Box::new(move || match std::mem::replace(&mut failed, true) {
            false => Err(Error::Wrong("first".into())),
            true => Ok(Next::Exhausted),
        });
        let crew = Crew::new("test", vec![job, sleeper()]);
        assert!(crew.work(Duration::from_millis(5)).is_err());
        assert!(crew.work(Duration::from_millis(5)).is_ok());
    }
}
