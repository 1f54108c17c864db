//! The locks of all files, and the graph of who waits for whom across them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use pvfs_wire::ops::LockFamily;

use super::held::{Edit, Held, Holder};
use super::queue::{FileLocks, Waiter, Waits};

/// A request that waits, numbered by the caller in the order they came.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub struct WaiterId(pub u64);

/// Where a lock is: an object of this file system, and a family.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash, Ord, PartialOrd)]
pub struct Place {
    /// Which object.
    pub object: u64,
    /// Which of the two families.
    pub family: LockFamily,
}

/// What a manager has room for.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Ranges one client may hold.
    pub held_per_client_max: usize,
    /// Ranges all clients together may hold.
    pub held_max: usize,
    /// Requests of one client that may wait.
    pub waiting_per_client_max: usize,
    /// Requests that may wait in all.
    pub waiting_max: usize,
}

/// What became of a request for a lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It is held now.
    Granted,
    /// It stands in the queue under its number.
    Waits,
}

/// Why a lock was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// Somebody else's is in the way and the caller would not wait.
    #[error("somebody else holds a lock in the way")]
    Conflict,
    /// Waiting would close a circle of owners who wait for one another.
    #[error("waiting for the lock would never end")]
    Deadlock,
    /// The table is full.
    #[error("no room for a further lock")]
    Full,
}

/// What has happened to the table since it was last asked.
#[derive(Debug, Default)]
pub struct Changes {
    /// What is held anew or no longer, in order.
    pub edits: Vec<(Place, Edit)>,
    /// Requests whose turn has come: they hold what they waited for.
    pub granted: Vec<WaiterId>,
}

/// All locks of a file system.
#[derive(Debug, Default)]
pub struct LockTable {
    limits: Limits,
    files: HashMap<Place, FileLocks>,
    clients: HashMap<u64, ClientLocks>,
    waiting: HashMap<WaiterId, (Place, Holder)>,
    waits_of: BTreeMap<Holder, Vec<WaiterId>>,
    held_count: usize,
    changes: Changes,
}

/// Where one client holds how much.
#[derive(Debug, Default)]
struct ClientLocks {
    held: BTreeMap<Place, usize>,
    held_count: usize,
    waiting_count: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            held_per_client_max: 16 << 10,
            held_max: 1 << 20,
            waiting_per_client_max: 1 << 10,
            waiting_max: 16 << 10,
        }
    }
}

impl LockTable {
    /// An empty table.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Takes `wanted`, or waits for it under the number `waiter` if that is given.
    pub fn lock(
        &mut self,
        place: Place,
        wanted: Held,
        waiter: Option<WaiterId>,
    ) -> Result<Verdict, Refusal> {
        self.check_room(wanted.holder.client)?;
        let again = self.files.get(&place).and_then(|file| file.lapsed(&wanted));
        if self.is_free(place, &wanted, again) {
            again.into_iter().for_each(|position| self.drop_waiter(place, position));
            self.take(place, wanted);
            self.grant_waiting(place);
            return Ok(Verdict::Granted);
        }
        let id = waiter.filter(|_| self.may_wait(wanted.holder.client)).ok_or(Refusal::Conflict)?;
        if place.family == LockFamily::Flock {
            // As flock(2) says, a conversion that cannot be done at once gives up the old lock
            // first; two readers who both want to write would wait for each other otherwise.
            self.unlock(place, wanted);
        } else if !wanted.holder.by_open && self.closes_circle(place, &wanted) {
            // Several may wait for one open file, each for another lock: a circle need not be one (fcntl(2)).
            return Err(Refusal::Deadlock);
        }
        let again = self.files.get(&place).and_then(|file| file.lapsed(&wanted));
        let position = again.unwrap_or(usize::MAX);
        again.into_iter().for_each(|position| self.drop_waiter(place, position));
        self.wait(place, Waiter { id, wanted, lapsed: false }, position);
        Ok(Verdict::Waits)
    }

    /// Gives up the bytes of `given`, held or not.
    pub fn unlock(&mut self, place: Place, given: Held) {
        let Some(file) = self.files.get(&place) else { return };
        let edits = file.held.giving_up(&given);
        if !edits.is_empty() {
            self.carry_out(place, edits);
            self.grant_waiting(place);
        }
    }

    /// A lock that would be in the way of `wanted`.
    pub fn test(&self, place: Place, wanted: &Held) -> Option<Held> {
        self.files.get(&place)?.held.conflicts(wanted).next().copied()
    }

    /// The waiter gives up: its time is over or its connection is gone.
    pub fn cancel(&mut self, id: WaiterId) -> bool {
        let Some(place) = self.stop_waiting(id) else { return false };
        self.grant_waiting(place);
        self.forget_if_empty(place);
        true
    }

    /// The waiter's turn is over, but it may ask again: it keeps its place until it is cancelled.
    pub fn lapse(&mut self, id: WaiterId) -> bool {
        let Some((place, _)) = self.waiting.get(&id) else { return false };
        let waiter = self.files.get_mut(place).and_then(|file| file.waiter_mut(id));
        waiter.map(|waiter| waiter.lapsed = true).is_some()
    }

    /// The client is gone: it holds and waits for nothing any more.
    pub fn release_client(&mut self, client: u64) {
        let waiters: Vec<WaiterId> = self
            .waits_of
            .range(Holder { client, ..Holder::default() }..=last_holder(client))
            .filter(|(holder, _)| !holder.by_open)
            .flat_map(|(_, ids)| ids.iter().copied())
            .collect();
        waiters.into_iter().for_each(|id| {
            self.cancel(id);
        });
        self.release(client, |holder| holder.client == client && !holder.by_open);
    }

    /// Nobody takes part in this open file any more.
    pub fn release_open(&mut self, holder: Holder) {
        for id in self.waits_of.get(&holder).cloned().unwrap_or_default() {
            self.cancel(id);
        }
        self.release(holder.client, |other| other == holder);
    }

    /// The byte ranges of one holder are another's from now on. How many that one has then.
    pub fn hand_over(&mut self, from: Holder, to: Holder) -> usize {
        if from != to {
            for (place, range) in self.ranges_of(from) {
                self.carry_out(place, vec![Edit::Removed(range)]);
                self.take(place, Held { holder: to, ..range });
            }
        }
        self.ranges_of(to).len()
    }

    fn ranges_of(&self, holder: Holder) -> Vec<(Place, Held)> {
        let Some(locks) = self.clients.get(&holder.client) else { return Vec::new() };
        let places = locks.held.keys().filter(|place| place.family == LockFamily::Range);
        let own = |held: &&Held| held.holder == holder;
        places.flat_map(|place| self.held(*place).filter(own).map(|held| (*place, *held))).collect()
    }

    /// Whether a client, or an open file that it opened first, holds or awaits anything.
    pub fn concerns(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    fn release(&mut self, client: u64, whose: impl Fn(Holder) -> bool) {
        let held = self.clients.get(&client).map(|locks| locks.held.clone()).unwrap_or_default();
        for place in held.into_keys() {
            let edits = self.files[&place].held.leaving(&whose);
            self.carry_out(place, edits);
            self.grant_waiting(place);
        }
    }

    /// Looks again whether anybody's turn has come. A wait out of courtesy can become pointless by
    /// what happens in another file; nothing else needs this.
    pub fn review(&mut self) {
        let places: BTreeSet<Place> = self.waiting.values().map(|(place, _)| *place).collect();
        places.into_iter().for_each(|place| self.grant_waiting(place));
    }

    /// What has happened since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Takes back `edits`, the last ones made: they could not be stored.
    pub fn undo(&mut self, edits: &[(Place, Edit)]) {
        edits.iter().rev().for_each(|(place, edit)| self.apply(*place, edit.inverse()));
    }

    /// Holds what was held before a restart.
    pub fn restore(&mut self, place: Place, held: Held) {
        self.apply(place, Edit::Added(held));
    }

    /// Ranges held by all clients.
    pub fn held_count(&self) -> usize {
        self.held_count
    }

    /// Requests that wait.
    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// The clients that hold something.
    pub fn clients(&self) -> impl Iterator<Item = u64> + '_ {
        self.clients.iter().filter(|(_, locks)| locks.held_count > 0).map(|(client, _)| *client)
    }

    /// How many ranges a client, or open files that it opened first, hold and wait for.
    pub fn counts(&self, client: u64) -> (usize, usize) {
        self.clients.get(&client).map_or((0, 0), |locks| (locks.held_count, locks.waiting_count))
    }

    /// What is waited for at one place, the longest first.
    pub fn awaited(&self, place: Place) -> impl Iterator<Item = &Held> {
        let files = self.files.get(&place).into_iter();
        files.flat_map(|file| file.queue.iter().map(|waiter| &waiter.wanted))
    }

    /// Everything held at one place.
    pub fn held(&self, place: Place) -> impl Iterator<Item = &Held> {
        self.files.get(&place).into_iter().flat_map(|file| file.held.iter())
    }

    /// A change may split one range into three, so room for two more is asked for.
    fn check_room(&self, client: u64) -> Result<(), Refusal> {
        let own = self.clients.get(&client).map_or(0, |locks| locks.held_count);
        let fits = own + 2 <= self.limits.held_per_client_max
            && self.held_count + 2 <= self.limits.held_max;
        if fits { Ok(()) } else { Err(Refusal::Full) }
    }

    fn may_wait(&self, client: u64) -> bool {
        let own = self.clients.get(&client).map_or(0, |locks| locks.waiting_count);
        own < self.limits.waiting_per_client_max && self.waiting.len() < self.limits.waiting_max
    }

    /// Whether `wanted` can be held at once: nothing held is in its way, nor an earlier request to
    /// which it owes courtesy. `position` is its place in the queue, `None` behind all.
    fn is_free(&self, place: Place, wanted: &Held, position: Option<usize>) -> bool {
        let Some(file) = self.files.get(&place) else { return true };
        if file.held.conflicts(wanted).next().is_some() {
            return false;
        }
        let position = position.unwrap_or(file.queue.len());
        file.earlier(wanted, position)
            .all(|earlier| self.reaches(earlier, wanted.holder, Waits::All))
    }

    /// Whether waiting for what is in the way of `wanted` would never end.
    fn closes_circle(&self, place: Place, wanted: &Held) -> bool {
        let Some(file) = self.files.get(&place) else { return false };
        file.held
            .conflicts(wanted)
            .any(|held| self.reaches(held.holder, wanted.holder, Waits::ForHeld))
    }

    /// Whether `from` waits for `to`, directly or through others.
    fn reaches(&self, from: Holder, to: Holder, which: Waits) -> bool {
        let mut seen = HashSet::from([from]);
        let mut open = vec![from];
        while let Some(holder) = open.pop() {
            if holder == to {
                return true;
            }
            open.extend(
                self.waits_for(holder, which).into_iter().filter(|next| seen.insert(*next)),
            );
        }
        false
    }

    fn waits_for(&self, holder: Holder, which: Waits) -> Vec<Holder> {
        let ids = self.waits_of.get(&holder).map_or(&[][..], Vec::as_slice);
        ids.iter()
            .map(|id| (id, self.waiting[id].0))
            .filter(|(_, place)| which == Waits::All || place.family == LockFamily::Range)
            .flat_map(|(id, place)| self.files[&place].waits_for(*id, which))
            .collect()
    }

    fn take(&mut self, place: Place, wanted: Held) {
        let edits = self.files.entry(place).or_default().held.taking(wanted);
        self.carry_out(place, edits);
    }

    /// Takes a lapsed waiter out, without a look at whose turn that makes it.
    fn drop_waiter(&mut self, place: Place, position: usize) {
        if let Some(waiter) = self.waiter_at(place, position) {
            self.stop_waiting(waiter.id);
        }
    }

    fn wait(&mut self, place: Place, waiter: Waiter, position: usize) {
        let holder = waiter.wanted.holder;
        self.clients.entry(holder.client).or_default().waiting_count += 1;
        let queue = &mut self.files.entry(place).or_default().queue;
        queue.insert(position.min(queue.len()), waiter);
        self.waiting.insert(waiter.id, (place, holder));
        self.waits_of.entry(holder).or_default().push(waiter.id);
    }

    /// Gives everybody in the queue whose turn has come what he waits for, the longest wait first.
    fn grant_waiting(&mut self, place: Place) {
        let mut position = 0;
        while let Some(waiter) = self.waiter_at(place, position) {
            if !waiter.lapsed && self.is_free(place, &waiter.wanted, Some(position)) {
                self.stop_waiting(waiter.id);
                self.take(place, waiter.wanted);
                self.changes.granted.push(waiter.id);
                // A downgrade may let earlier ones in.
                position = 0;
            } else {
                position += 1;
            }
        }
    }

    fn waiter_at(&self, place: Place, position: usize) -> Option<Waiter> {
        self.files.get(&place)?.queue.get(position).copied()
    }

    fn stop_waiting(&mut self, id: WaiterId) -> Option<Place> {
        let (place, holder) = self.waiting.remove(&id)?;
        self.files.get_mut(&place)?.leave(id);
        let ids = self.waits_of.get_mut(&holder)?;
        ids.retain(|other| *other != id);
        if ids.is_empty() {
            self.waits_of.remove(&holder);
        }
        self.clients.get_mut(&holder.client)?.waiting_count -= 1;
        self.forget_client_if_idle(holder.client);
        Some(place)
    }

    fn carry_out(&mut self, place: Place, edits: Vec<Edit>) {
        for edit in edits {
            self.apply(place, edit);
            self.changes.edits.push((place, edit));
        }
    }

    fn apply(&mut self, place: Place, edit: Edit) {
        self.files.entry(place).or_default().held.apply(edit);
        match edit {
            Edit::Added(held) => self.count_added(place, held.holder.client),
            Edit::Removed(held) => self.count_removed(place, held.holder.client),
        }
        self.forget_if_empty(place);
    }

    fn count_added(&mut self, place: Place, client: u64) {
        let locks = self.clients.entry(client).or_default();
        *locks.held.entry(place).or_default() += 1;
        locks.held_count += 1;
        self.held_count += 1;
    }

    fn count_removed(&mut self, place: Place, client: u64) {
        let locks = self.clients.get_mut(&client).expect("who holds a range is counted");
        let here = locks.held.get_mut(&place).expect("where a range is held is counted");
        *here -= 1;
        if *here == 0 {
            locks.held.remove(&place);
        }
        locks.held_count -= 1;
        self.held_count -= 1;
        self.forget_client_if_idle(client);
    }

    fn forget_if_empty(&mut self, place: Place) {
        if self.files.get(&place).is_some_and(FileLocks::is_empty) {
            self.files.remove(&place);
        }
    }

    fn forget_client_if_idle(&mut self, client: u64) {
        let idle = |locks: &ClientLocks| locks.held_count == 0 && locks.waiting_count == 0;
        if self.clients.get(&client).is_some_and(idle) {
            self.clients.remove(&client);
        }
    }
}

fn last_holder(client: u64) -> Holder {
    Holder { client, owner: u64::MAX, by_open: true }
}
