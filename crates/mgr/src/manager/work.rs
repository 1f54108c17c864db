//! Requests on their way to the writer, and the line they stand in.
//!
//! Whoever brings requests tries to become the writer. Who does not, leaves them to the one who is and goes back
//! to his connections: no thread waits for another, and what arrives during a commit is the next group.
//! A writer who was kept busy by others for long is relieved by the next one to come. Nobody waits for a
//! writer who is stuck in a disk, so that other connections, and an emergency stop, are still served.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pvfs_net::service::{Peer, Request, Response, Ticket};
use pvfs_wire::Header;
use pvfs_wire::token::Session;

use super::Manager;
use crate::locks::LockTable;
use crate::purge::Purged;

/// A request that the writer executes.
pub struct Pending {
    /// Who sent it.
    pub peer: Arc<Peer>,
    /// On whose behalf.
    pub session: Arc<Session>,
    /// Its header.
    pub header: Header,
    /// The operation's record.
    pub body: Vec<u8>,
    /// When it came, by the monotonic clock.
    pub arrived_ns: u64,
    /// Where the reply goes; absent while it is parked.
    pub ticket: Option<Ticket>,
}

/// What the writer is asked to do.
pub enum Work {
    /// Execute a request.
    Request(Pending),
    /// Look at the clock: expire clients, end waits.
    Clock,
    /// These objects are gone from iods.
    Purged(Vec<Purged>),
    /// Answer by a look at the locks, which must be short: everybody waits for it.
    Look(Ticket, Look),
}

/// What is answered by a look at the locks.
pub type Look = Box<dyn FnOnce(&Manager, &LockTable) -> Response + Send>;

impl Pending {
    /// Keeps what the round only lent.
    pub fn new(request: Request<'_>, session: Arc<Session>, arrived_ns: u64) -> Self {
        Self {
            peer: request.peer.clone(),
            session,
            header: request.header,
            body: request.body.to_vec(),
            arrived_ns,
            ticket: Some(request.ticket),
        }
    }
}

/// The writer's state, and the line before it.
pub struct Line<W> {
    waiting: Mutex<VecDeque<Work>>,
    writer: Mutex<W>,
    /// The writer has served others for long enough.
    weary: AtomicBool,
    /// Somebody stands ready to take over.
    relief: AtomicBool,
}

impl<W> Line<W> {
    /// Nobody in line.
    pub fn new(writer: W) -> Self {
        Self {
            waiting: Mutex::new(VecDeque::new()),
            writer: Mutex::new(writer),
            weary: AtomicBool::new(false),
            relief: AtomicBool::new(false),
        }
    }

    /// Puts `work` in line and sees to it that `execute` is called on all of it, by this thread or by
    /// the one that is at it already.
    pub fn submit(
        &self,
        work: impl IntoIterator<Item = Work>,
        mut execute: impl FnMut(&mut W, Vec<Work>),
    ) {
        self.lock_waiting().extend(work);
        while let Some(mut writer) = self.enter() {
            let relieved = self.serve(&mut writer, &mut execute);
            drop(writer);
            // Somebody may have come after the last look at the line, and found the writer busy. And
            // the relief may have lost patience.
            if self.is_empty() || relieved && self.relief.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    /// Takes everything that stands in line.
    pub fn take_all(&self) -> Vec<Work> {
        self.lock_waiting().drain(..).collect()
    }

    /// How many stand in line.
    pub fn len(&self) -> usize {
        self.lock_waiting().len()
    }

    /// Whether nobody stands in line.
    pub fn is_empty(&self) -> bool {
        self.lock_waiting().is_empty()
    }

    /// Whether somebody could enter now.
    #[cfg(test)]
    pub fn try_writer(&self) -> bool {
        self.try_enter().is_some()
    }

    /// The writer's state, for a look from outside.
    pub fn writer(&self) -> MutexGuard<'_, W> {
        self.writer.lock().expect("a group never panics: what it changed would be half done")
    }

    fn enter(&self) -> Option<MutexGuard<'_, W>> {
        if self.weary.load(Ordering::SeqCst) && !self.relief.swap(true, Ordering::SeqCst) {
            let writer = self.enter_within(RELIEF_WAITS_MAX);
            self.relief.store(false, Ordering::SeqCst);
            // The writer may have left to make room just now.
            return writer.or_else(|| self.try_enter());
        }
        self.try_enter()
    }

    fn enter_within(&self, waits: u32) -> Option<MutexGuard<'_, W>> {
        (0..waits).find_map(|_| {
            std::thread::sleep(RELIEF_WAIT);
            self.try_enter()
        })
    }

    fn try_enter(&self) -> Option<MutexGuard<'_, W>> {
        match self.writer.try_lock() {
            Ok(writer) => Some(writer),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => Some(self.writer()),
        }
    }

    /// Executes until the line is empty or somebody takes over. Says whether somebody does.
    fn serve(&self, writer: &mut W, execute: &mut impl FnMut(&mut W, Vec<Work>)) -> bool {
        for groups in 1.. {
            let work = self.next_group();
            if work.is_empty() {
                break;
            }
            execute(writer, work);
            self.weary.store(groups >= GROUPS_IN_A_ROW, Ordering::SeqCst);
            if groups >= GROUPS_IN_A_ROW && self.relief.load(Ordering::SeqCst) {
                self.weary.store(false, Ordering::SeqCst);
                return true;
            }
        }
        self.weary.store(false, Ordering::SeqCst);
        false
    }

    fn next_group(&self) -> Vec<Work> {
        let mut waiting = self.lock_waiting();
        let mut bytes = 0;
        let mut group = Vec::new();
        while group.len() < GROUP_REQUESTS_MAX
            && bytes < GROUP_BODY_BYTES_MAX
            && let Some(work) = waiting.pop_front()
        {
            bytes += if let Work::Request(request) = &work { request.body.len() } else { 0 };
            group.push(work);
        }
        group
    }

    fn lock_waiting(&self) -> MutexGuard<'_, VecDeque<Work>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// After so many groups a writer lets itself be relieved, so that its own connections get their turn.
const GROUPS_IN_A_ROW: u32 = 4;

/// How often, and after what time each, the relief tries to take over: a few commits in all.
const RELIEF_WAITS_MAX: u32 = 100;
const RELIEF_WAIT: Duration = Duration::from_micros(50);

/// A group is small enough to be written at once, and to be answered soon.
const GROUP_REQUESTS_MAX: usize = 256;

/// Bodies in a group: far below what the store's log holds in one record.
const GROUP_BODY_BYTES_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever is put in line by whomever is executed once, in the order of each.
    #[test]
    fn everything_in_line_is_executed_once_and_in_order() {
        let line = Line::new(Vec::new());
        let execute = |done: &mut Vec<u64>, group: Vec<Work>| {
            for work in group {
                let Work::Purged(numbers) = work else { unreachable!("only numbers are put in") };
                done.extend(numbers.into_iter().map(|purged| purged.object));
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (line, execute) = (&line, &execute);
                scope.spawn(move || {
                    for number in 0..5000 {
                        let purged = Purged { object: thread << 32 | number, left: None };
                        line.submit([Work::Purged(vec![purged])], execute);
                    }
                });
            }
        });
        let done = line.writer();
        assert_eq!(done.len(), 20_000);
        for thread in 0..4u64 {
            let own: Vec<u64> = done.iter().copied().filter(|n| n >> 32 == thread).collect();
            assert!(own.is_sorted() && own.len() == 5000, "thread {thread}");
        }
        assert!(line.is_empty());
    }
}
