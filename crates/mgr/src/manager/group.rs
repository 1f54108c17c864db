//! One group: what stands in line, executed on one transaction, committed once, then answered.
//!
//! ```text
//! requests --> execute each, all or nothing --> one batch --> commit --> answers
//!    |              |            |                              |
//!    |        reply records   lock edits                        | fails: locks and counts as before,
//!    v                                                          v every change answered with the error
//! deferred: busy with a truncation, tried again when it has ended
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use pvfs_net::service::{Peer, Response, Ticket};
use pvfs_wire::attr::Time;
use pvfs_wire::ops::{self, Close, Open, OpenFlags, Truncated};
use pvfs_wire::token::KeyRing;
use pvfs_wire::{Effect, Errno, Operation, Wire};

use super::orders::Mode;
use super::quota::OpenQuota;
use super::replies::{REPLY_BYTES_MAX, Replies, Verdict};
use super::work::{Pending, Work};
use super::{Manager, table};
use crate::caching::{self, Footprint, Recorder};
use crate::execute::{Context, Policy, Random, dispatch};
use crate::keys;
use crate::locks::{Edit, LockTable, Place, WaiterId};
use crate::namespace;
use crate::permission::Credentials;
use crate::purge::Purged;
use crate::record::{Inode, Record};
use crate::store::{Savepoint, StoreError, Transaction, View};

/// What only the writer touches.
pub struct Writer {
    /// Who holds and awaits which locks.
    pub locks: LockTable,
    /// What every slot was answered last.
    pub replies: Replies,
    /// Requests for locks that may be asked again, and until when their places are kept.
    pub lapsed: VecDeque<(u64, WaiterId)>,
    /// Requests that wait for a truncation of an object to end, the oldest first.
    pub deferred: BTreeMap<WaiterId, Deferred>,
    /// Numbers waiters.
    pub next_waiter: u64,
    /// Bases and tickets.
    pub random: Random,
    /// How many opens clients may still have.
    pub quota: OpenQuota,
    /// When shared opens were looked at last.
    pub shared_looked_ns: u64,
}

/// A request that waits for a truncation to end.
pub struct Deferred {
    request: Pending,
    object: u64,
}

/// The group under way.
pub struct Group<'a, 'view> {
    pub(super) manager: &'a Manager,
    pub(super) writer: &'a mut Writer,
    pub(super) tx: Transaction<'view>,
    /// Notes what requests read, while somebody caches.
    pub(super) recorder: Option<&'view Recorder>,
    pub(super) policy: Arc<Policy>,
    pub(super) keys: Arc<KeyRing>,
    pub(super) now_ns: u64,
    pub(super) wall: Time,
    pub(super) space_low: bool,
    pub(super) outcome: Outcome,
    /// Some truncation may have ended.
    pub(super) truncation_ended: bool,
}

/// What is done after the commit.
#[derive(Default)]
pub struct Outcome {
    /// Replies.
    pub answers: Vec<Answer>,
    /// What was read and changed on nobody's behalf.
    pub unasked: Vec<Footprint>,
    /// Clients that begin to cache.
    pub began: Vec<(u64, Ticket)>,
    /// Tickets to be kept.
    pub parked: Vec<Waiting>,
    /// How the locks have changed.
    pub edits: Vec<(Place, Edit)>,
    /// Clients whose state is freed by this group.
    pub expired: Vec<u64>,
    /// Clients whose state is to be freed by a later one.
    pub overdue: Vec<u64>,
}

/// A reply to be given after the commit.
pub struct Answer {
    /// To whom.
    pub ticket: Ticket,
    /// What.
    pub response: Response,
    /// Whether it holds even if the commit fails.
    pub holds: bool,
    /// What the request has read and changed.
    pub footprint: Footprint,
}

/// A ticket to be kept until a deadline.
pub struct Waiting {
    pub(super) id: WaiterId,
    pub(super) ticket: Ticket,
    pub(super) peer: Arc<Peer>,
    pub(super) deadline_ns: u64,
}

/// What became of a request.
pub enum Fate {
    /// Answer it after the commit.
    Answer(Response),
    /// Answer it, whatever becomes of the commit.
    AnswerAnyway(Response),
    /// It waits for a lock under this number, at most so many milliseconds.
    AwaitLock(WaiterId, u32),
    /// It waits for the truncation of this object to end.
    AwaitTruncation(u64),
    /// Its client caches from now on.
    BeginLease,
}

impl Outcome {
    /// What was read and changed, in the order of the answers, and then what nobody is answered for.
    pub fn footprints(&self) -> impl Iterator<Item = &Footprint> {
        self.answers.iter().map(|answer| &answer.footprint).chain(&self.unasked)
    }

    /// Answers something that has nothing to do with what clients cache.
    pub(super) fn answer(&mut self, ticket: Ticket, response: Response, holds: bool) {
        self.answers.push(Answer { ticket, response, holds, footprint: Footprint::default() });
    }
}

impl Writer {
    /// A state that knows of nobody.
    pub fn new(seed: u64) -> Self {
        Self {
            locks: LockTable::default(),
            replies: Replies::default(),
            lapsed: VecDeque::new(),
            deferred: BTreeMap::new(),
            next_waiter: 1,
            random: Random::new(seed),
            quota: OpenQuota::default(),
            shared_looked_ns: 0,
        }
    }

    /// A number for a request that waits.
    pub fn waiter(&mut self) -> WaiterId {
        self.next_waiter += 1;
        WaiterId(self.next_waiter)
    }
}

impl Manager {
    /// Executes what stood in line as one group.
    pub(super) fn execute(&self, writer: &mut Writer, work: Vec<Work>) {
        if self.orders.mode() == Mode::Stopped {
            return work.into_iter().for_each(fail_stopped);
        }
        let requests = work.iter().filter(|work| matches!(work, Work::Request(_))).count();
        let snapshot = self.store.snapshot();
        let recorder = Recorder::default();
        let watch = (!self.caches().is_idle()).then_some(&recorder);
        let mut group = Group::new(self, writer, &*snapshot, watch);
        group.forget_abandoned();
        work.into_iter().for_each(|work| group.run(work));
        group.try_deferred();
        let (outcome, batch) = group.finish();
        // Whoever else looks at the store should not pay for keeping this state alive.
        drop(snapshot);
        let commits = !batch.is_empty();
        let recalls = self.recall_for(&outcome);
        let committed = if commits { self.store.commit(batch).map(drop) } else { Ok(()) };
        self.figures.group(requests as u64, commits, committed.is_ok());
        match committed {
            Ok(()) => self.settle(writer, outcome, recalls),
            Err(error) => self.take_back(writer, outcome, recalls, &error),
        }
    }

    fn settle(&self, writer: &mut Writer, outcome: Outcome, recalls: caching::Group) {
        writer.replies.committed();
        self.clients().keep_overdue(outcome.overdue);
        outcome.parked.into_iter().for_each(|waiting| self.park(waiting));
        self.figures.locks(writer.locks.held_count(), writer.locks.waiting_count());
        self.end_leases(&outcome.expired);
        self.answer_group(recalls, outcome.answers, Ok(()));
        self.begin_leases(outcome.began);
        // An emergency stop that came meanwhile has not seen the tickets parked just now.
        if self.orders.mode() == Mode::Stopped {
            self.parked.fail_all(Errno::EIO);
            self.fail_waiting(Errno::EIO);
        }
    }

    /// Keeps a ticket, unless its connection is gone already and nobody would say so again.
    fn park(&self, waiting: Waiting) {
        let Peer { client, connection, .. } = *waiting.peer;
        self.parked.park(waiting.id, waiting.ticket, connection, waiting.deadline_ns);
        if !self.clients().is_connected(client, connection) {
            self.parked.depart(connection);
        }
    }

    fn take_back(
        &self,
        writer: &mut Writer,
        outcome: Outcome,
        recalls: caching::Group,
        error: &StoreError,
    ) {
        tracing::error!(%error, "a group of changes could not be stored; all of it is refused");
        let status = if error.is_no_space() { Errno::ENOSPC } else { Errno::EIO };
        writer.replies.rolled_back();
        writer.locks.undo(&outcome.edits);
        self.clients().keep_overdue(outcome.expired.into_iter().chain(outcome.overdue));
        for waiting in outcome.parked {
            writer.locks.cancel(waiting.id);
            writer.deferred.remove(&waiting.id);
            waiting.ticket.reply(Response::failed(status));
        }
        for (_, ticket) in outcome.began {
            ticket.reply(Response::failed(status));
        }
        self.answer_group(recalls, outcome.answers, Err(status));
    }
}

impl<'a, 'view> Group<'a, 'view> {
    fn new(
        manager: &'a Manager,
        writer: &'a mut Writer,
        view: &'view dyn View,
        recorder: Option<&'view Recorder>,
    ) -> Self {
        let tx = match recorder {
            Some(recorder) => Transaction::watched(view, recorder),
            None => Transaction::new(view),
        };
        Self {
            manager,
            writer,
            tx,
            recorder,
            policy: manager.policy(),
            keys: manager.keys(),
            now_ns: manager.clock.monotonic_ns(),
            wall: manager.clock.wall(),
            space_low: manager.store.is_space_low(),
            outcome: Outcome::default(),
            truncation_ended: false,
        }
    }

    fn run(&mut self, work: Work) {
        match work {
            Work::Request(request) => self.request(request),
            Work::Clock => {
                let savepoint = self.begin_footprint();
                self.look_at_the_clock();
                let footprint = self.footprint(0, None, savepoint);
                self.outcome.unasked.push(footprint);
            }
            Work::Purged(entries) => {
                if let Err(error) = self.tx.attempt(|tx| note_purged(tx, entries)) {
                    tracing::error!(%error, "purged objects stay in the queue");
                }
            }
            Work::Look(ticket, look) => {
                let response = look(self.manager, &self.writer.locks);
                self.outcome.answer(ticket, response, true);
            }
        }
    }

    fn request(&mut self, mut request: Pending) {
        let savepoint = self.begin_footprint();
        let fate = self.fate(&request);
        let sequence = request.header.sequence;
        let slot = sequence.is_change().then_some(sequence.slot);
        let footprint = self.footprint(request.peer.client, slot, savepoint);
        let ticket = request.ticket.take().expect("a request in line has its ticket");
        match fate {
            Fate::Answer(response) => {
                self.outcome.answers.push(Answer { ticket, response, holds: false, footprint });
            }
            Fate::AnswerAnyway(response) => {
                self.outcome.answers.push(Answer { ticket, response, holds: true, footprint });
            }
            Fate::BeginLease => self.outcome.began.push((request.peer.client, ticket)),
            Fate::AwaitLock(id, wait_ms) => self.park(id, ticket, &request, wait_ms),
            Fate::AwaitTruncation(object) => {
                let id = self.writer.waiter();
                self.park(id, ticket, &request, DEFERRED_MS);
                self.writer.deferred.insert(id, Deferred { request, object });
            }
        }
        self.note_locks();
    }

    fn begin_footprint(&self) -> Savepoint {
        if let Some(recorder) = self.recorder {
            recorder.take();
        }
        self.tx.savepoint()
    }

    /// What was read and changed since `savepoint`, as far as somebody may cache it.
    fn footprint(&self, client: u64, slot: Option<u16>, savepoint: Savepoint) -> Footprint {
        let Some(recorder) = self.recorder else { return Footprint::default() };
        let read = recorder.take();
        let differences = self.tx.differences(savepoint, |key| caching::Key::of(key).is_some());
        let differences = differences.unwrap_or_else(|error| {
            tracing::error!(%error, "what a request changed cannot be told to those who cache it");
            Vec::new()
        });
        let changed = differences.iter().filter_map(caching::Changed::of).collect();
        Footprint { client, slot, read, changed }
    }

    fn fate(&mut self, request: &Pending) -> Fate {
        let result = self.require_lease(request.peer.client).and_then(|()| {
            match (table::effect(request.header.operation), request.header.operation) {
                (Some(Effect::Change), _) => self.change(request),
                (Some(_), ops::Lock::CODE) => self.lock(request),
                (Some(_), ops::TestLock::CODE) => self.test_lock(request),
                (Some(_), ops::InheritLocks::CODE) => self.inherit_locks(request),
                (Some(_), ops::Recalls::CODE) => self.begin_lease(request),
                (Some(_), _) => self.repeatable(request),
                (None, _) => Err(Errno::ENOSYS),
            }
        });
        result.unwrap_or_else(|status| Fate::AnswerAnyway(Response::failed(status)))
    }

    /// A change runs once; its answer, success or not, is stored with what it changed.
    fn change(&mut self, request: &Pending) -> Result<Fate, Errno> {
        let (client, sequence) = (request.peer.client, request.header.sequence);
        match self.writer.replies.check(&self.tx, client, sequence)? {
            Verdict::Run => {}
            Verdict::Refuse => return Err(Errno::EPROTO),
            Verdict::Repeat(response, true) => return Ok(self.repeated(response)),
            Verdict::Repeat(response, false) => return Ok(Fate::Answer(response)),
        }
        self.refuse_growth(request)?;
        self.refuse_opens(request)?;
        let response = match self.dispatch(request) {
            Ok(body) => Response::encoded(body),
            Err(Refusal::Busy(object)) => return self.defer(request, object),
            Err(Refusal::Error(status)) => Response::failed(status),
        };
        self.writer.replies.note(&mut self.tx, client, sequence, &response);
        Ok(Fate::Answer(response))
    }

    fn repeatable(&mut self, request: &Pending) -> Result<Fate, Errno> {
        let ends_truncations = [Truncated::CODE, Close::CODE].contains(&request.header.operation);
        self.truncation_ended |= ends_truncations;
        self.note_closes(request);
        match self.dispatch(request) {
            Ok(body) => Ok(Fate::Answer(Response::encoded(body))),
            Err(Refusal::Busy(_)) => Err(Errno::EAGAIN),
            Err(Refusal::Error(status)) => Err(status),
        }
    }

    fn repeated(&self, response: Response) -> Fate {
        self.manager.figures.repeated();
        Fate::AnswerAnyway(response)
    }

    /// When the store is nearly full, what makes it grow is refused, so that files can be removed.
    /// And a manager about to exit opens nothing.
    fn refuse_growth(&self, request: &Pending) -> Result<(), Errno> {
        let code = request.header.operation;
        if code == Open::CODE && self.manager.orders.mode() == Mode::Stopping {
            return Err(Errno::EHOSTDOWN);
        }
        if self.space_low && grows(request) { Err(Errno::ENOSPC) } else { Ok(()) }
    }

    /// A client may have only so many opens.
    fn refuse_opens(&mut self, request: &Pending) -> Result<(), Errno> {
        if ![Open::CODE, ops::Adopt::CODE].contains(&request.header.operation) {
            return Ok(());
        }
        let client = request.peer.client;
        let count = |most| self.tx.scan_prefix(&keys::opens(client)).take(most).count();
        self.writer.quota.take(client, count)
    }

    fn note_closes(&mut self, request: &Pending) {
        let client = request.peer.client;
        if request.header.operation == Close::CODE
            && self.writer.quota.is_exhausted(client)
            && let Ok(close) = Close::from_bytes(&request.body)
        {
            self.writer.quota.closed(client, close.opens.len());
        }
    }

    fn dispatch(&mut self, request: &Pending) -> Result<Vec<u8>, Refusal> {
        let who = Credentials::from(&*request.session);
        let savepoint = self.tx.savepoint();
        let mut cx = Context {
            tx: &mut self.tx,
            fs: &self.manager.fs,
            who: &who,
            client: request.peer.client,
            now: self.wall,
            policy: &self.policy,
            keys: &self.keys,
            random: &mut self.writer.random,
            busy: None,
            left: Vec::new(),
        };
        let result = dispatch(request.header.operation, &request.body, &mut cx);
        let (busy, left) = (cx.busy, cx.left);
        if result.is_ok() {
            self.release_left(left)?;
        }
        match (result, busy) {
            (Ok(body), _) if body.len() <= REPLY_BYTES_MAX => Ok(body),
            (Ok(body), _) if table::effect(request.header.operation) != Some(Effect::Change) => {
                Ok(body)
            }
            (Ok(_), _) => {
                // An answer that could not be given again is not given at all.
                self.tx.rollback(savepoint);
                Err(Refusal::Error(Errno::EOVERFLOW))
            }
            (Err(Errno::EAGAIN), Some(object)) => Err(Refusal::Busy(object)),
            (Err(status), _) => Err(Refusal::Error(status)),
        }
    }

    fn defer(&self, request: &Pending, object: u64) -> Result<Fate, Errno> {
        let own = |deferred: &&Deferred| deferred.request.peer.client == request.peer.client;
        let deferred = &self.writer.deferred;
        let room = deferred.len() < DEFERRED_MAX
            && deferred.values().filter(own).count() < DEFERRED_PER_CLIENT_MAX;
        if room { Ok(Fate::AwaitTruncation(object)) } else { Err(Errno::EAGAIN) }
    }

    /// Runs what waited for truncations that have ended.
    fn try_deferred(&mut self) {
        if !std::mem::take(&mut self.truncation_ended) {
            return;
        }
        let ids: Vec<WaiterId> = self.writer.deferred.keys().copied().collect();
        for id in ids {
            if !self.is_busy(self.writer.deferred[&id].object) {
                self.retry(id);
            }
        }
    }

    fn retry(&mut self, id: WaiterId) {
        let Some(mut deferred) = self.writer.deferred.remove(&id) else { return };
        deferred.request.ticket = self.take_ticket(id);
        if deferred.request.ticket.is_some() {
            self.request(deferred.request);
        }
    }

    /// Whether a truncation of the object is under way. An inode that cannot be read is not busy: the
    /// request will find out what is wrong.
    fn is_busy(&self, object: u64) -> bool {
        let bytes = self.tx.get(&keys::inode(object)).ok().flatten();
        let inode = bytes.and_then(|bytes| Inode::decode(&bytes).ok());
        inode
            .as_ref()
            .and_then(Inode::as_file)
            .is_some_and(|file| file.writing.truncation.is_some())
    }

    /// The ticket of a request that waits, if somebody still waits on it.
    pub(super) fn take_ticket(&mut self, id: WaiterId) -> Option<Ticket> {
        let here = self.outcome.parked.iter().position(|waiting| waiting.id == id);
        match here {
            Some(at) => Some(self.outcome.parked.swap_remove(at).ticket),
            None => self.manager.parked.take(id),
        }
    }

    /// Requests whose connection is gone wait no longer.
    fn forget_abandoned(&mut self) {
        for id in self.manager.parked.take_abandoned() {
            self.writer.deferred.remove(&id);
            self.writer.locks.cancel(id);
        }
        self.note_locks();
    }

    /// Holds a request back: as long as it wants, and while its sender waits.
    fn park(&mut self, id: WaiterId, ticket: Ticket, request: &Pending, wanted_ms: u32) {
        let wait_ms = match request.header.timeout_ms {
            0 => wanted_ms,
            timeout_ms => wanted_ms.min(timeout_ms),
        };
        let deadline_ns = request.arrived_ns.saturating_add(u64::from(wait_ms) * 1_000_000);
        let peer = request.peer.clone();
        self.outcome.parked.push(Waiting { id, ticket, peer, deadline_ns });
    }

    fn finish(mut self) -> (Outcome, crate::store::Batch) {
        self.note_locks();
        (self.outcome, self.tx.into_batch())
    }
}

/// Whether the request makes the store grow for good.
fn grows(request: &Pending) -> bool {
    match request.header.operation {
        Open::CODE => Open::from_bytes(&request.body)
            .is_ok_and(|open| open.flags.any(OpenFlags::CREATE | OpenFlags::NAMELESS)),
        code => table::grows(code),
    }
}

impl From<Errno> for Refusal {
    fn from(status: Errno) -> Self {
        Self::Error(status)
    }
}

/// Why the name space did not do it.
enum Refusal {
    /// A truncation of this object is under way.
    Busy(u64),
    /// Anything else.
    Error(Errno),
}

fn note_purged(tx: &mut Transaction<'_>, entries: Vec<Purged>) -> Result<(), StoreError> {
    let gone = entries.iter().filter(|entry| entry.left.is_none()).map(|entry| entry.object);
    namespace::purged(tx, gone)?;
    for Purged { object, left } in &entries {
        let key = keys::purge(*object);
        if let Some(left) = left
            && tx.contains(&key)?
        {
            tx.put(key, left.encode());
        }
    }
    Ok(())
}

pub(super) fn fail_stopped(work: Work) {
    if let Work::Request(Pending { ticket: Some(ticket), .. }) = work {
        ticket.reply(Response::failed(Errno::EIO));
    }
}

/// Requests that may wait for truncations.
const DEFERRED_MAX: usize = 1024;

/// Of one client: as many as it has slots.
const DEFERRED_PER_CLIENT_MAX: usize = 64;

/// How long they wait when their sender does not say.
const DEFERRED_MS: u32 = 10_000;
