//! The leases of clients that cache, what they hold, and the answers held back until they have let go.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use pvfs_wire::Bytes;
use pvfs_wire::ops::{Recall, RecallKind, Recalled, Recalls};

use super::changes::Changes;
use super::held::Held;
use super::{Footprint, Key};

/// How long leases last, and how much a client may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From one poll to the end, for leases that begin.
    pub lease_ns: u64,
    /// Keys that one client holds; the oldest are recalled beyond that.
    pub keys_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lease_ns: 5_000_000_000, keys_max: 256 << 10 }
    }
}

/// All leases. `A` is an answer, `P` the ticket of a poll.
#[derive(Debug)]
pub struct Leases<A, P> {
    limits: Limits,
    clients: HashMap<u64, Client<P>>,
    /// Those from before a restart: what they believe, and what was not settled then, nobody knows.
    restarted: BTreeSet<u64>,
    /// The manager is about to end: nobody is granted anything any more.
    closing: bool,
    held: Held,
    changes: Changes,
    /// Answers that wait, and what they wait for.
    holds: HashMap<u64, Hold<A>>,
    /// Keys that are not as somebody may still believe, and the hold that says for how long.
    unsettled: HashMap<Key, u64>,
    /// Holds of requests that may be repeated.
    repeatable: HashMap<(u64, u16), u64>,
    next: u64,
    begun: u64,
    committed: u64,
}

#[derive(Debug)]
struct Client<P> {
    /// The number of its lease; 0 for one from before a restart, which holds whatever it held then.
    lease: u64,
    /// How long each poll renews it for.
    lease_ns: u64,
    until_ns: u64,
    /// The number of its last recall.
    number: u64,
    /// The last one it was sent.
    delivered: u64,
    /// Recalls not acknowledged yet.
    queue: VecDeque<(u64, Recall)>,
    /// How many keys it holds.
    held_count: usize,
    /// What it holds, the oldest first, and some it holds no more.
    order: VecDeque<Key>,
    /// Keys recalled for want of room: held until that is acknowledged.
    leaving: VecDeque<(u64, Key)>,
    leaving_keys: HashSet<Key>,
    /// Holds that wait for it, by the recall they wait for.
    waits: BTreeSet<(u64, u64)>,
    poll: Option<Poll<P>>,
}

/// A poll that waits for recalls.
#[derive(Debug)]
pub struct Poll<P> {
    /// Where the reply goes.
    pub ticket: P,
    /// When it is answered though there is nothing to say.
    pub deadline_ns: u64,
    /// For how long the lease was renewed by it.
    renewed_ms: u32,
}

#[derive(Debug)]
struct Hold<A> {
    /// Clients, and the recalls they have to acknowledge.
    needs: BTreeSet<(u64, u64)>,
    /// The keys that are unsettled by it.
    keys: Vec<Key>,
    committed: bool,
    answers: Vec<A>,
    request: Option<(u64, u16)>,
}

/// What has become due: answers to give, polls to answer.
#[derive(Debug)]
pub struct Due<A, P> {
    /// Nobody believes in the old state any more.
    pub answers: Vec<A>,
    /// Replies to polls.
    pub polls: Vec<(P, Recalled)>,
    /// Clients whose leases are over.
    pub ended: Vec<u64>,
}

/// What was decided about a group before its commit, request by request.
#[derive(Debug, Default)]
pub struct Group {
    number: u64,
    /// Of each footprint: its hold, if its answer has to wait.
    pub holds: Vec<Option<u64>>,
    /// Of each footprint: for how many milliseconds its client may cache what it is told.
    pub leased_ms: Vec<u32>,
}

/// What became of a poll.
#[derive(Debug, Eq, PartialEq)]
pub enum Polled<P> {
    /// It is among what is due, or waits.
    Taken,
    /// It begins a lease, which has to be noted before [`Leases::begin`].
    Begins(P),
    /// It would begin one, but none begin any more.
    Refused(P),
}

impl<A, P> Default for Due<A, P> {
    fn default() -> Self {
        Self { answers: Vec::new(), polls: Vec::new(), ended: Vec::new() }
    }
}

impl<P> Client<P> {
    fn new(lease: u64, lease_ns: u64, now_ns: u64) -> Self {
        Self {
            lease,
            lease_ns,
            until_ns: end_of_lease(lease_ns, now_ns),
            number: 0,
            delivered: 0,
            queue: VecDeque::new(),
            held_count: 0,
            order: VecDeque::new(),
            leaving: VecDeque::new(),
            leaving_keys: HashSet::new(),
            waits: BTreeSet::new(),
            poll: None,
        }
    }

    fn lease_ms(&self) -> u32 {
        u32::try_from(self.lease_ns / 1_000_000).unwrap_or(u32::MAX)
    }

    fn recall(&mut self, recall: Recall) -> u64 {
        self.number += 1;
        self.queue.push_back((self.number, recall));
        self.number
    }

    fn reply(&mut self, renewed_ms: u32) -> Recalled {
        let recalls: Vec<(u64, Recall)> = self.queue.iter().take(RECALLS_MAX).cloned().collect();
        self.delivered = recalls.last().map_or(self.delivered, |last| last.0.max(self.delivered));
        let recalls = recalls.into_iter().map(|(_, recall)| recall).collect();
        Recalled { lease: self.lease, number: self.delivered, lease_ms: renewed_ms, recalls }
    }
}

impl<A, P> Leases<A, P> {
    /// No client caches anything.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            clients: HashMap::new(),
            restarted: BTreeSet::new(),
            closing: false,
            held: Held::default(),
            changes: Changes::default(),
            holds: HashMap::new(),
            unsettled: HashMap::new(),
            repeatable: HashMap::new(),
            next: 1,
            begun: 0,
            committed: 0,
        }
    }

    /// Leases that begin from now on last so long.
    pub fn set_lease(&mut self, lease_ns: u64) {
        self.limits.lease_ns = lease_ns;
    }

    /// How long leases last that begin now.
    pub fn lease_ns(&self) -> u64 {
        self.limits.lease_ns
    }

    /// Whether nobody caches, so that nothing has to be noted.
    pub fn is_idle(&self) -> bool {
        self.clients.is_empty() && self.holds.is_empty()
    }

    /// Whether what this client reads has to be noted.
    pub fn concerns(&self, client: u64) -> bool {
        let may_wait = !self.unsettled.is_empty() || !self.restarted.is_empty();
        may_wait || self.clients.contains_key(&client)
    }

    /// Whether this client has a lease, or had one when the manager last ran.
    pub fn has_lease(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    /// The last group of which snapshots taken from now on are certain to show all.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// Clients with a lease.
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Keys that are held.
    pub fn key_count(&self) -> usize {
        self.held.len()
    }

    /// How many keys this client holds; nothing if it has no lease.
    pub fn held_by(&self, client: u64) -> Option<usize> {
        self.clients.get(&client).map(|known| known.held_count)
    }

    /// Answers that wait.
    pub fn hold_count(&self) -> usize {
        self.holds.len()
    }

    /// This client held a lease when the manager last ran, and may believe in it for as long as that lasts.
    pub fn remember(&mut self, client: u64, lease_ns: u64, now_ns: u64) {
        self.clients.insert(client, Client::new(0, lease_ns, now_ns));
        self.restarted.insert(client);
    }

    /// Begins a lease, now that it is noted. The client holds nothing.
    pub fn begin(&mut self, client: u64, ticket: P, now_ns: u64, due: &mut Due<A, P>) {
        self.drop_client(client, due);
        if self.clients.is_empty() {
            // What was changed while nobody cached was not noted.
            self.begun += 1;
            self.committed = self.begun;
            self.changes.begin_after(self.begun);
        }
        let lease = self.number();
        let mut new = Client::new(lease, self.limits.lease_ns, now_ns);
        due.polls.push((ticket, new.reply(new.lease_ms())));
        self.clients.insert(client, new);
    }

    /// A client polls: it lets go of what it was sent, renews, and waits for more.
    pub fn poll(
        &mut self,
        client: u64,
        request: &Recalls,
        ticket: P,
        now_ns: u64,
        due: &mut Due<A, P>,
    ) -> Polled<P> {
        // Who asks for a lease holds nothing.
        if request.ends || (request.lease == 0 && self.closing) {
            self.drop_client(client, due);
            due.ended.push(client);
            if !request.ends {
                return Polled::Refused(ticket);
            }
            due.polls.push((ticket, Recalled::of_no_lease()));
            return Polled::Taken;
        }
        if request.lease == 0 {
            return Polled::Begins(ticket);
        }
        let known = self.clients.get_mut(&client);
        let known = known.filter(|known| known.lease == request.lease && !self.closing);
        let Some(known) = known else {
            due.polls.push((ticket, Recalled::of_no_lease()));
            return Polled::Taken;
        };
        if let Some(older) = known.poll.take() {
            let reply = Recalled {
                lease: known.lease,
                number: request.acknowledged,
                lease_ms: older.renewed_ms,
                recalls: Vec::new(),
            };
            due.polls.push((older.ticket, reply));
        }
        // Who does not let go of what was recalled does not gain time by asking.
        let renews = request.acknowledged >= known.delivered;
        let lease_ms = known.lease_ms();
        if renews {
            known.until_ns = end_of_lease(known.lease_ns, now_ns);
        }
        let renewed_ms = if renews { lease_ms } else { 0 };
        let wait_ns = u64::from(request.wait_ms.min(lease_ms / 3)) * 1_000_000;
        let deadline_ns = now_ns.saturating_add(wait_ns);
        known.poll = Some(Poll { ticket, deadline_ns, renewed_ms });
        self.acknowledge(client, request.acknowledged, due);
        self.answer_poll(client, now_ns, due);
        Polled::Taken
    }

    /// Tells all who cache that their leases are over. They hold what they held until they ask for another, which
    /// none gets any more.
    pub fn close(&mut self, due: &mut Due<A, P>) {
        self.closing = true;
        let polls =
            self.clients.iter_mut().filter_map(|(id, known)| Some((id, known.poll.take()?)));
        let mut polls: Vec<_> = polls.collect();
        polls.sort_unstable_by_key(|(client, _)| **client);
        due.polls.extend(polls.into_iter().map(|(_, poll)| (poll.ticket, Recalled::of_no_lease())));
    }

    /// Whether no lease begins any more.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Decides about a group that is about to be committed: who holds what it changes is told, and it is
    /// noted which of its answers have to wait for them.
    pub fn begin_group<'f>(
        &mut self,
        footprints: impl IntoIterator<Item = &'f Footprint>,
        now_ns: u64,
        due: &mut Due<A, P>,
    ) -> Group {
        self.begun += 1;
        let mut group = Group { number: self.begun, ..Group::default() };
        let mut told = BTreeSet::new();
        for footprint in footprints {
            let needs = self.needs_of(footprint, &mut told);
            group.holds.push(self.hold(footprint, needs));
            group.leased_ms.push(self.grant(footprint, now_ns));
        }
        for client in told {
            self.answer_poll(client, now_ns, due);
        }
        group
    }

    /// The group is committed: every snapshot from now on shows it.
    pub fn committed_group(&mut self, group: &Group) {
        self.committed = self.committed.max(group.number);
        for hold in group.holds.iter().flatten() {
            if let Some(hold) = self.holds.get_mut(hold) {
                hold.committed = true;
            }
        }
    }

    /// The group was not committed: what it changed is as it was.
    pub fn rolled_back(&mut self, group: &Group) {
        self.committed = self.committed.max(group.number);
        for hold in group.holds.iter().flatten() {
            let keys = self.holds.get(hold).map(|hold| hold.keys.clone()).unwrap_or_default();
            self.remove_hold(*hold);
            for key in keys {
                let earlier = self.holds.iter().filter(|(_, hold)| hold.keys.contains(&key));
                if let Some(earlier) = earlier.map(|(number, _)| *number).max() {
                    self.unsettled.insert(key, earlier);
                }
            }
        }
    }

    /// Keeps an answer until its hold is over; hands it back when it is.
    pub fn keep(&mut self, hold: u64, answer: A) -> Option<A> {
        let Some(known) = self.holds.get_mut(&hold) else { return Some(answer) };
        if known.needs.is_empty() {
            self.remove_hold(hold);
            return Some(answer);
        }
        known.answers.push(answer);
        None
    }

    /// Ends the hold of a group that nobody is to be answered for, if it is over.
    pub fn let_go(&mut self, hold: u64) {
        if self.holds.get(&hold).is_some_and(|hold| hold.needs.is_empty()) {
            self.remove_hold(hold);
        }
    }

    /// A query has read these keys of a snapshot that shows all groups up to `committed`. Returns how long its
    /// client may cache what it is told, and the hold that its answer has to wait for.
    pub fn query(
        &mut self,
        client: u64,
        read: Vec<Key>,
        committed: u64,
        now_ns: u64,
    ) -> (u32, Option<u64>) {
        let needs = self.needs_of_reader(client, &read);
        let certain = read.iter().all(|key| {
            !self.unsettled.contains_key(key) && self.changes.is_unchanged(key, committed)
        });
        let footprint = Footprint { client, read, ..Footprint::default() };
        if needs.is_empty() {
            return (if certain { self.grant(&footprint, now_ns) } else { 0 }, None);
        }
        let hold = self.hold(&footprint, needs);
        self.holds.get_mut(&hold.expect("it has needs")).expect("just made").committed = true;
        (0, hold)
    }

    /// Ends what is over by the clock.
    pub fn look_at_the_clock(&mut self, now_ns: u64, due: &mut Due<A, P>) {
        let over = self.clients.iter().filter(|(_, known)| known.until_ns <= now_ns);
        let mut over: Vec<u64> = over.map(|(client, _)| *client).collect();
        over.sort_unstable();
        for client in over {
            self.drop_client(client, due);
            due.ended.push(client);
        }
        let waiting = self.clients.iter().filter(|(_, known)| known.poll.is_some());
        let mut waiting: Vec<u64> = waiting.map(|(client, _)| *client).collect();
        waiting.sort_unstable();
        for client in waiting {
            self.answer_poll(client, now_ns, due);
        }
    }

    /// The client is gone, and with it what it cached.
    pub fn drop_client(&mut self, client: u64, due: &mut Due<A, P>) {
        let Some(mut known) = self.clients.remove(&client) else { return };
        self.restarted.remove(&client);
        for key in known.order.drain(..).chain(known.leaving.drain(..).map(|(_, key)| key)) {
            self.held.remove(&key, client);
        }
        for (number, hold) in std::mem::take(&mut known.waits) {
            self.satisfy(hold, (client, number), due);
        }
        if let Some(poll) = known.poll.take() {
            due.polls.push((poll.ticket, Recalled::of_no_lease()));
        }
    }

    /// Everything that waits, to be failed.
    pub fn take_waiting(&mut self) -> (Vec<A>, Vec<P>) {
        let answers = self.holds.values_mut().flat_map(|hold| hold.answers.drain(..)).collect();
        let polls = self.clients.values_mut().filter_map(|known| known.poll.take());
        (answers, polls.map(|poll| poll.ticket).collect())
    }

    fn needs_of(
        &mut self,
        footprint: &Footprint,
        told: &mut BTreeSet<u64>,
    ) -> BTreeSet<(u64, u64)> {
        let mut needs = self.needs_of_reader(footprint.client, &footprint.read);
        if let Some(slot) = footprint.slot
            && let Some(hold) = self.repeatable.get(&(footprint.client, slot))
        {
            needs.extend(&self.holds[hold].needs);
        }
        if footprint.slot.is_some() {
            // It may be the repetition of one that was not answered before the restart.
            needs.extend(self.restarted_needs(footprint.client));
        }
        for changed in &footprint.changed {
            self.changes.note(changed.key, self.begun);
            needs.extend(self.unsettled_needs(&[changed.key]));
            for client in self.held.take_others(&changed.key, footprint.client) {
                let Some(known) = self.clients.get_mut(&client) else { continue };
                known.held_count -= 1;
                for recall in &changed.recalls {
                    needs.insert((client, known.recall(recall.clone())));
                    told.insert(client);
                }
            }
            needs.extend(self.restarted_needs(footprint.client));
        }
        needs
    }

    /// What the answer to a reader of these keys has to wait for.
    fn needs_of_reader(&self, client: u64, read: &[Key]) -> BTreeSet<(u64, u64)> {
        let mut needs = self.unsettled_needs(read);
        if !read.is_empty() {
            needs.extend(self.restarted_needs(client));
        }
        needs
    }

    /// All who may still believe in what was before a restart, but for the one who asks.
    fn restarted_needs(&self, client: u64) -> impl Iterator<Item = (u64, u64)> {
        let others = self.restarted.iter().filter(move |other| **other != client);
        others.map(|other| (*other, u64::MAX))
    }

    fn unsettled_needs(&self, keys: &[Key]) -> BTreeSet<(u64, u64)> {
        if self.unsettled.is_empty() {
            return BTreeSet::new();
        }
        let holds = keys.iter().filter_map(|key| self.unsettled.get(key));
        holds.flat_map(|hold| self.holds[hold].needs.iter().copied()).collect()
    }

    fn hold(&mut self, footprint: &Footprint, needs: BTreeSet<(u64, u64)>) -> Option<u64> {
        if needs.is_empty() {
            return None;
        }
        let number = self.number();
        let keys: Vec<Key> = footprint.changed.iter().map(|changed| changed.key).collect();
        for key in &keys {
            self.unsettled.insert(*key, number);
        }
        let request = footprint.slot.map(|slot| (footprint.client, slot));
        if let Some(request) = request {
            self.repeatable.insert(request, number);
        }
        for (client, recall) in &needs {
            if let Some(known) = self.clients.get_mut(client) {
                known.waits.insert((*recall, number));
            }
        }
        let (committed, answers) = (false, Vec::new());
        self.holds.insert(number, Hold { needs, keys, committed, answers, request });
        Some(number)
    }

    /// The client holds what it was told, if it has a lease.
    fn grant(&mut self, footprint: &Footprint, now_ns: u64) -> u32 {
        let (keys_max, client) = (self.limits.keys_max, footprint.client);
        let Some(known) = self.clients.get_mut(&client) else { return 0 };
        let changed = footprint.changed.iter().map(|changed| changed.key);
        let keys = || footprint.read.iter().copied().chain(changed.clone());
        let leaves = keys().any(|key| known.leaving_keys.contains(&key));
        if known.lease == 0 || known.until_ns <= now_ns || leaves || known.leaving.len() >= keys_max
        {
            return 0;
        }
        for key in keys() {
            if self.held.add(key, client) {
                known.held_count += 1;
                known.order.push_back(key);
            }
        }
        while known.order.len() > keys_max
            && let Some(key) = known.order.pop_front()
        {
            if self.held.contains(&key, client) {
                let (kind, object) = match key {
                    Key::Object(object) => (RecallKind::Attributes, object),
                    Key::Name(dir, _) => (RecallKind::Names, dir),
                };
                let number = known.recall(Recall { kind, object, name: Bytes::default() });
                known.leaving.push_back((number, key));
                known.leaving_keys.insert(key);
            }
        }
        known.lease_ms()
    }

    fn acknowledge(&mut self, client: u64, number: u64, due: &mut Due<A, P>) {
        let Some(known) = self.clients.get_mut(&client) else { return };
        let number = number.min(known.delivered);
        while known.queue.front().is_some_and(|(own, _)| *own <= number) {
            known.queue.pop_front();
        }
        while let Some((own, key)) = known.leaving.front().copied()
            && own <= number
        {
            known.leaving.pop_front();
            known.leaving_keys.remove(&key);
            known.held_count -= usize::from(self.held.remove(&key, client));
        }
        let later = known.waits.split_off(&(number + 1, 0));
        for (recall, hold) in std::mem::replace(&mut known.waits, later) {
            self.satisfy(hold, (client, recall), due);
        }
    }

    fn satisfy(&mut self, hold: u64, need: (u64, u64), due: &mut Due<A, P>) {
        let Some(known) = self.holds.get_mut(&hold) else { return };
        known.needs.remove(&need);
        // Before the commit, nobody can be answered; what is settled then is found out then.
        if known.needs.is_empty() && known.committed {
            due.answers.extend(self.remove_hold(hold));
        }
    }

    fn remove_hold(&mut self, hold: u64) -> Vec<A> {
        let Some(known) = self.holds.remove(&hold) else { return Vec::new() };
        for key in &known.keys {
            if self.unsettled.get(key) == Some(&hold) {
                self.unsettled.remove(key);
            }
        }
        for (client, recall) in &known.needs {
            if let Some(known) = self.clients.get_mut(client) {
                known.waits.remove(&(*recall, hold));
            }
        }
        if let Some(request) = known.request
            && self.repeatable.get(&request) == Some(&hold)
        {
            self.repeatable.remove(&request);
        }
        known.answers
    }

    fn answer_poll(&mut self, client: u64, now_ns: u64, due: &mut Due<A, P>) {
        let Some(known) = self.clients.get_mut(&client) else { return };
        let has_news = !known.queue.is_empty();
        let is_over = |poll: &mut Poll<P>| poll.deadline_ns <= now_ns;
        if let Some(poll) = known.poll.take_if(|poll| has_news || is_over(poll)) {
            due.polls.push((poll.ticket, known.reply(poll.renewed_ms)));
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// A little longer than what the client is told: clocks do not run equally fast.
fn end_of_lease(lease_ns: u64, now_ns: u64) -> u64 {
    now_ns.saturating_add(lease_ns).saturating_add(lease_ns >> 6)
}

/// Recalls in one reply, so that it fits into a message with names of 255 bytes.
const RECALLS_MAX: usize = 4096;
