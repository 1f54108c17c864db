//! Which clients are there, and when one that is not has lost its lease.
//!
//! ```text
//!            arrived                 last connection closed: 1 s
//!   new ───────────────> here ──────────────────────────────────> gone ──── time over ───> expired
//!                          ^         one of them broke: 30 s        │                         │
//!                          └────────── arrived, lease kept ─────────┘                         │
//!                          └────────── arrived, lease lost: told until it asks for a change ──┘
//! ```
//!
//! A client stands by its connections; it sends nothing to stay. Its node's agent can stand for it too: the
//! agent's connection counts as one more of the client's, as long as the agent repeats its word within a lease
//! (docs/design/leases-of-idle-clients.md). Those that the store knows when the manager starts are gone, with
//! a longer time before them: an idle one does not know that the manager was away. Pure: the time is passed in.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};

use pvfs_net::service::{ConnectionId, Departure};
use pvfs_wire::ops::{ClientReport, Denial, LockCounts, SessionReport};
use pvfs_wire::token::{CLOCK_SKEW_S, Session, SessionRights};

/// How long clients are waited for, and how many are known.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// After a connection broke: the process may well live and come back.
    pub lease_ns: u64,
    /// After the manager was started: a client that is idle, on a node without an agent, comes back only
    /// with its next call.
    pub restart_ns: u64,
    /// After all connections were closed: the process has ended, or reconnects at once.
    pub closed_grace_ns: u64,
    /// How long an expired client is told so when it comes back.
    pub expired_kept_ns: u64,
    /// Clients known at once.
    pub clients_max: usize,
    /// Expired clients remembered.
    pub expired_max: usize,
    /// What clients may cache.
    pub caches: crate::caching::Limits,
}

/// No room for a further client.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the manager knows as many clients as it may")]
pub struct TooManyClients;

/// What the client held before it lost its lease is not freed yet.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the client's old state is not freed yet")]
pub struct Overdue;

/// All clients that hold a lease, or held one lately.
#[derive(Debug)]
pub struct Clients {
    terms: Terms,
    known: HashMap<u64, Client>,
    /// The same by the numbers under which they are told of.
    numbers: BTreeMap<u64, u64>,
    number_last: u64,
    /// Those without a connection, by the end of their lease.
    gone: BTreeSet<(u64, u64)>,
    /// Those whose lease ended but whose state could not be freed yet.
    overdue: HashSet<u64>,
    expired: Expired,
    /// Agents, by their connections.
    vouchers: HashMap<ConnectionId, Voucher>,
}

/// For whom an agent stands.
#[derive(Debug, Default)]
struct Voucher {
    living: HashSet<u64>,
    /// When its word is over.
    until_ns: u64,
}

#[derive(Debug, Default)]
struct Client {
    connections: Vec<ConnectionId>,
    /// Some connection broke and has not come back.
    broken: bool,
    /// When the lease ends, while there is no connection.
    gone_until_ns: Option<u64>,
    /// It does not know yet that it lost its lease.
    lease_lost: bool,
    /// When the first of its connections came.
    here_since_ns: u64,
    /// Under which it is told of: its identity is nobody else's business.
    number: u64,
    /// What it says of itself.
    software: Box<str>,
    /// Where it came from last.
    address: Box<str>,
    /// What it has proven to own, the latest last.
    sessions: Vec<SessionReport>,
}

/// Who is told of which clients.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sight {
    /// An administrator, of all.
    All,
    /// This user, of what is its own.
    Own(u32),
}

/// Clients in the order of their numbers, as far as one look goes.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct Page {
    /// The clients; what others know of them is left out.
    pub clients: Vec<ClientReport>,
    /// Who they are, in the same order.
    pub identities: Vec<u64>,
    /// The last one looked at; absent when there are no more.
    pub next: Option<u64>,
}

/// Who lost its lease, the longest ago first.
#[derive(Debug, Default)]
struct Expired {
    since_ns: HashMap<u64, u64>,
    order: VecDeque<(u64, u64)>,
    forgotten: Vec<u64>,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            lease_ns: 30 * SECOND_NS,
            restart_ns: 300 * SECOND_NS,
            closed_grace_ns: SECOND_NS,
            expired_kept_ns: 3600 * SECOND_NS,
            clients_max: 256 << 10,
            expired_max: 64 << 10,
            caches: crate::caching::Limits::default(),
        }
    }
}

impl Clients {
    /// Nobody is known.
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            known: HashMap::new(),
            numbers: BTreeMap::new(),
            number_last: 0,
            gone: BTreeSet::new(),
            overdue: HashSet::new(),
            expired: Expired::default(),
            vouchers: HashMap::new(),
        }
    }

    /// The store knows this client from before a restart: it is waited for.
    pub fn remember(&mut self, client: u64, now_ns: u64) {
        if !self.known.contains_key(&client) {
            self.meet(client);
            self.leave_until(client, now_ns.saturating_add(self.terms.restart_ns));
        }
    }

    /// A connection of the client is there. Tells whether its lease was kept.
    pub fn arrived(
        &mut self,
        client: u64,
        connection: ConnectionId,
        now_ns: u64,
    ) -> Result<bool, TooManyClients> {
        if !self.known.contains_key(&client) && self.known.len() >= self.terms.clients_max {
            return Err(TooManyClients);
        }
        let lost = self.expired.take(client, now_ns, self.terms.expired_kept_ns);
        let known = self.meet(client);
        known.lease_lost |= lost;
        known.broken = false;
        if known.connections.is_empty() {
            known.here_since_ns = now_ns;
        }
        known.connections.push(connection);
        if let Some(until_ns) = known.gone_until_ns.take() {
            self.gone.remove(&(until_ns, client));
        }
        Ok(!self.known[&client].lease_lost)
    }

    /// What the client says of itself, and where it comes from.
    pub fn introduced(&mut self, client: u64, software: &str, address: &str) {
        let Some(known) = self.known.get_mut(&client) else { return };
        let end = software.floor_char_boundary(SOFTWARE_BYTES_MAX);
        known.software = software[..end].into();
        known.address = address.into();
    }

    /// The client has proven to own this session.
    pub fn believed(&mut self, client: u64, session: &Session, now_s: u64) {
        let Some(known) = self.known.get_mut(&client) else { return };
        let Session { id, uid, issued, expiry, .. } = *session;
        known.sessions.retain(|other| other.id != id && !is_over(other, now_s));
        if known.sessions.len() >= SESSIONS_MAX {
            known.sessions.remove(0);
        }
        known.sessions.push(SessionReport { id, uid, issued, expiry });
    }

    /// Some sessions are not believed any more.
    pub fn deny(&mut self, denial: &Denial) {
        for known in self.known.values_mut() {
            known.sessions.retain(|session| !denial.covers(&of_report(session)));
        }
    }

    /// The clients with greater numbers than `after`, as far as one look goes.
    pub fn page(&self, after: Option<u64>, sight: Sight, now_ns: u64, now_s: u64) -> Page {
        let mut page = Page::default();
        let mut bytes = 0;
        let rest = (after.map_or(Unbounded, Excluded), Unbounded);
        for (looked, (number, client)) in self.numbers.range(rest).enumerate() {
            if looked >= PAGE_CLIENTS_MAX || bytes >= PAGE_BYTES {
                return page;
            }
            page.next = Some(*number);
            if let Some(report) = self.known[client].report(sight, now_ns, now_s) {
                bytes += REPORT_BYTES + report.sessions.len() * SESSION_BYTES;
                page.identities.push(*client);
                page.clients.push(report);
            }
        }
        Page { next: None, ..page }
    }

    /// Numbers from `first` on, and whose they are, as far as one look goes; where to go on.
    pub fn numbered(&self, first: u64) -> (Vec<(u64, u64)>, Option<u64>) {
        let mut all = self.numbers.range(first..).map(|(number, client)| (*number, *client));
        let looked = all.by_ref().take(PAGE_CLIENTS_MAX).collect();
        (looked, all.next().map(|(number, _)| number))
    }

    /// The number of a client that is known.
    pub fn number_of(&self, client: u64) -> Option<u64> {
        self.known.get(&client).map(|known| known.number)
    }

    /// Whether all that the client does is told to whoever sees so much.
    pub fn is_open_to(&self, client: u64, sight: Sight, now_s: u64) -> bool {
        let known = self.known.get(&client);
        sight == Sight::All || known.is_some_and(|known| known.is_open_to(sight, now_s))
    }

    /// A connection of the client is over. One that was replaced says nothing about the client.
    pub fn departed(&mut self, client: u64, connection: ConnectionId, how: Departure, now_ns: u64) {
        let Some(known) = self.known.get_mut(&client) else { return };
        let before = known.connections.len();
        known.connections.retain(|other| *other != connection);
        known.broken |= how == Departure::Broken;
        if before == 0 || !known.connections.is_empty() {
            return;
        }
        let process_ended = how == Departure::Closed && !known.broken;
        let wait_ns = if process_ended { self.terms.closed_grace_ns } else { self.terms.lease_ns };
        self.leave_until(client, now_ns.saturating_add(wait_ns));
    }

    /// An agent says, over this connection, which clients of its node live, all of them, and which ended.
    pub fn vouched(&mut self, voucher: ConnectionId, living: &[u64], gone: &[u64], now_ns: u64) {
        let until_ns = now_ns.saturating_add(self.terms.lease_ns);
        let word = Voucher { living: living.iter().copied().collect(), until_ns };
        let before = self.vouchers.insert(voucher, word).unwrap_or_default();
        living.iter().for_each(|client| self.stand_for(*client, voucher));
        let living = &self.vouchers[&voucher].living;
        let dropped: Vec<u64> = before.living.difference(living).copied().collect();
        dropped.into_iter().for_each(|id| self.departed(id, voucher, Departure::Closed, now_ns));
        gone.iter().for_each(|client| self.ended(*client, now_ns));
    }

    /// An agent's connection is over, and with it its word.
    pub fn voucher_departed(&mut self, voucher: ConnectionId, now_ns: u64) {
        let word = self.vouchers.remove(&voucher).unwrap_or_default();
        word.living.into_iter().for_each(|id| {
            self.departed(id, voucher, Departure::Broken, now_ns);
        });
    }

    /// Who is not known holds nothing to stand for.
    fn stand_for(&mut self, client: u64, voucher: ConnectionId) {
        let Some(known) = self.known.get_mut(&client) else { return };
        if known.connections.contains(&voucher) {
            return;
        }
        known.connections.push(voucher);
        if let Some(until_ns) = known.gone_until_ns.take() {
            self.gone.remove(&(until_ns, client));
        }
    }

    /// The client's process ended, whatever its connections look like.
    fn ended(&mut self, client: u64, now_ns: u64) {
        let Some(known) = self.known.get_mut(&client) else { return };
        known.broken = false;
        if known.connections.is_empty() {
            self.leave_until(client, now_ns.saturating_add(self.terms.closed_grace_ns));
        }
    }

    /// An agent that says nothing any more may be stopped, and those it stood for dead.
    fn forget_silent_vouchers(&mut self, now_ns: u64) {
        let silent = self.vouchers.iter().filter(|(_, word)| word.until_ns <= now_ns);
        let silent: Vec<ConnectionId> = silent.map(|(voucher, _)| *voucher).collect();
        silent.into_iter().for_each(|voucher| self.voucher_departed(voucher, now_ns));
    }

    /// Whether this connection of the client is there.
    pub fn is_connected(&self, client: u64, connection: ConnectionId) -> bool {
        self.known.get(&client).is_some_and(|known| known.connections.contains(&connection))
    }

    /// The client asks for a change. It has been told by now if its lease was lost; whether that was
    /// news. Refused while its old state is not freed yet.
    pub fn asked(&mut self, client: u64) -> Result<bool, Overdue> {
        if self.overdue.contains(&client) {
            return Err(Overdue);
        }
        let known = self.known.get_mut(&client);
        Ok(known.is_some_and(|known| std::mem::take(&mut known.lease_lost)))
    }

    /// The store says that the lease of this client was lost before a restart.
    pub fn remember_expired(&mut self, client: u64, now_ns: u64) {
        self.expired.add(client, now_ns, &self.terms);
    }

    /// Clients of which it is forgotten since the last call that they lost their lease.
    pub fn take_forgotten(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.expired.forgotten)
    }

    /// Everybody who is gone gets a whole lease from now on: they were not let in meanwhile.
    pub fn renew_all(&mut self, now_ns: u64) {
        let gone: Vec<u64> = std::mem::take(&mut self.gone).into_iter().map(|(_, id)| id).collect();
        let until_ns = now_ns.saturating_add(self.terms.lease_ns);
        gone.into_iter().for_each(|client| self.leave_until(client, until_ns));
    }

    /// At most `count_max` clients whose lease is over. They are expired from now on; should freeing
    /// their state fail, [`Clients::keep_overdue`] has to be told.
    pub fn take_due(&mut self, now_ns: u64, count_max: usize) -> Vec<u64> {
        self.forget_silent_vouchers(now_ns);
        let mut due: Vec<u64> = self.overdue.drain().collect();
        while due.len() < count_max
            && let Some((until_ns, client)) = self.gone.first().copied()
            && until_ns <= now_ns
        {
            self.gone.pop_first();
            let known = self.known.remove(&client);
            known.map(|known| self.numbers.remove(&known.number));
            self.expired.add(client, now_ns, &self.terms);
            due.push(client);
        }
        due
    }

    /// The state of these could not be freed: they are due again.
    pub fn keep_overdue(&mut self, clients: impl IntoIterator<Item = u64>) {
        self.overdue.extend(clients);
    }

    /// Clients that hold a lease.
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// Clients that hold a lease but have no connection.
    pub fn gone_count(&self) -> usize {
        self.gone.len()
    }

    fn meet(&mut self, client: u64) -> &mut Client {
        self.known.entry(client).or_insert_with(|| {
            self.number_last += 1;
            self.numbers.insert(self.number_last, client);
            Client { number: self.number_last, ..Client::default() }
        })
    }

    fn leave_until(&mut self, client: u64, until_ns: u64) {
        if let Some(known) = self.known.get_mut(&client) {
            if let Some(before_ns) = known.gone_until_ns.replace(until_ns) {
                self.gone.remove(&(before_ns, client));
            }
            known.connections.shrink_to_fit();
            self.gone.insert((until_ns, client));
        }
    }
}

impl Client {
    fn is_open_to(&self, sight: Sight, now_s: u64) -> bool {
        let mut good = self.sessions.iter().filter(|session| !is_over(session, now_s)).peekable();
        sight == Sight::All || good.peek().is_some() && good.all(|session| sight.sees(session.uid))
    }

    /// What is told of it, unless it is nothing.
    fn report(&self, sight: Sight, now_ns: u64, now_s: u64) -> Option<ClientReport> {
        let good = self.sessions.iter().filter(|session| !is_over(session, now_s));
        let sessions: Vec<SessionReport> =
            good.filter(|session| sight.sees(session.uid)).copied().collect();
        if sessions.is_empty() && sight != Sight::All {
            return None;
        }
        let here_ns = now_ns.saturating_sub(self.here_since_ns);
        let freed_in_ns = self.gone_until_ns.map(|until_ns| until_ns.saturating_sub(now_ns));
        Some(ClientReport {
            number: self.number,
            software: self.software.to_string(),
            address: self.address.to_string(),
            here_s: freed_in_ns.is_none().then_some(here_ns / SECOND_NS),
            freed_in_s: freed_in_ns.map(|left_ns| left_ns.div_ceil(SECOND_NS)),
            sessions,
            opens: 0,
            locks: self.is_open_to(sight, now_s).then(LockCounts::default),
            cached: None,
        })
    }
}

impl Sight {
    /// Whether it is told what this user does.
    pub fn sees(self, uid: u32) -> bool {
        self == Self::All || self == Self::Own(uid)
    }
}

/// Daemons believe it no longer.
fn is_over(session: &SessionReport, now_s: u64) -> bool {
    session.expiry.saturating_add(CLOCK_SKEW_S) < now_s
}

/// As far as denials look at it.
fn of_report(report: &SessionReport) -> Session {
    let SessionReport { id, uid, issued, expiry } = *report;
    let (gids, rights) = (Vec::new(), SessionRights::NONE);
    Session { id, uid, gid: 0, gids, rights, issued, expiry }
}

impl Expired {
    fn add(&mut self, client: u64, now_ns: u64, terms: &Terms) {
        self.since_ns.insert(client, now_ns);
        self.order.push_back((now_ns, client));
        while let Some((since_ns, client)) = self.order.front().copied()
            && (self.order.len() > terms.expired_max
                || since_ns.saturating_add(terms.expired_kept_ns) < now_ns)
        {
            self.order.pop_front();
            if self.since_ns.get(&client) == Some(&since_ns) {
                self.since_ns.remove(&client);
                self.forgotten.push(client);
            }
        }
    }

    fn take(&mut self, client: u64, now_ns: u64, kept_ns: u64) -> bool {
        let since_ns = self.since_ns.remove(&client);
        since_ns.is_some_and(|since_ns| now_ns <= since_ns.saturating_add(kept_ns))
    }
}

const SECOND_NS: u64 = 1_000_000_000;

/// Of what a client says of itself.
const SOFTWARE_BYTES_MAX: usize = 128;

/// As many as a connection may introduce.
const SESSIONS_MAX: usize = 1024;

/// Clients looked at for one page: some ten microseconds.
const PAGE_CLIENTS_MAX: usize = 512;

/// A page is full with this; the largest report then still fits into a body of 2 MiB.
const PAGE_BYTES: usize = 1 << 20;

/// A report without its sessions, the software and an address of IPv6 included.
const REPORT_BYTES: usize = 8 + 4 + SOFTWARE_BYTES_MAX + 4 + 45 + 9 + 9 + 4 + 8 + 17 + 9;

const SESSION_BYTES: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn clients() -> Clients {
        Clients::new(Terms::default())
    }

    fn at(seconds: f64) -> u64 {
        (seconds * 1e9) as u64
    }

    #[test]
    fn a_new_client_has_lost_nothing() {
        assert_eq!(clients().arrived(7, A, 0), Ok(true));
    }

    #[test]
    fn a_client_whose_process_ended_is_due_after_the_grace() {
        let mut clients = clients();
        clients.arrived(7, A, 0).unwrap();
        clients.arrived(7, B, 0).unwrap();
        clients.departed(7, A, Departure::Closed, at(1.0));
        assert_eq!(clients.take_due(at(9.0), 9), [0; 0], "one connection still stands for it");
        clients.departed(7, B, Departure::Closed, at(10.0));
        assert_eq!(clients.take_due(at(10.9), 9), [0; 0]);
        assert_eq!(clients.take_due(at(11.0), 9), [7]);
        assert_eq!(clients.take_due(at(99.0), 9), [0; 0]);
    }

    #[test]
    fn a_client_with_a_broken_connection_has_its_whole_lease() {
        for order in
            [[Departure::Broken, Departure::Closed], [Departure::Closed, Departure::Broken]]
        {
            let mut clients = clients();
            clients.arrived(7, A, 0).unwrap();
            clients.arrived(7, B, 0).unwrap();
            clients.departed(7, A, order[0], 0);
            clients.departed(7, B, order[1], 0);
            assert_eq!(clients.take_due(at(29.9), 9), [0; 0], "{order:?}");
            assert_eq!(clients.take_due(at(30.0), 9), [7], "{order:?}");
        }
    }

    #[test]
    fn coming_back_in_time_keeps_the_lease() {
        let mut clients = clients();
        clients.arrived(7, A, 0).unwrap();
        clients.departed(7, A, Departure::Broken, 0);
        assert_eq!(clients.arrived(7, B, at(29.0)), Ok(true));
        assert_eq!(clients.take_due(at(1000.0), 9), [0; 0]);
    }

    #[test]
    fn a_replaced_connection_takes_nothing_from_the_one_in_its_place() {
        let mut clients = clients();
        clients.arrived(7, A, 0).unwrap();
        clients.arrived(7, B, 0).unwrap();
        clients.departed(7, A, Departure::Replaced, 0);
        clients.departed(7, A, Departure::Closed, 0);
        assert_eq!(clients.take_due(at(1000.0), 9), [0; 0]);
        clients.departed(7, B, Departure::Replaced, 0);
        assert_eq!(clients.take_due(at(29.0), 9), [0; 0], "replaced by nobody: as if it broke");
        assert_eq!(clients.take_due(at(30.0), 9), [7]);
    }

    /// Every lane is told, and told again should the first welcome get lost.
    #[test]
    fn an_expired_client_is_told_until_it_asks_for_a_change() {
        let mut clients = clients();
        clients.arrived(7, A, 0).unwrap();
        clients.departed(7, A, Departure::Closed, 0);
        assert_eq!(clients.take_due(at(1.0), 9), [7]);
        assert_eq!(clients.arrived(7, A, at(2.0)), Ok(false));
        assert_eq!(clients.arrived(7, B, at(2.0)), Ok(false));
        assert_eq!(clients.asked(7), Ok(true));
        assert_eq!(clients.asked(7), Ok(false));
        assert_eq!(clients.arrived(7, ConnectionId(3), at(3.0)), Ok(true));
    }

    #[test]
    fn after_a_restart_everybody_is_waited_for_longer() {
        let mut clients = clients();
        clients.remember(7, at(5.0));
        clients.remember(8, at(5.0));
        assert_eq!(clients.arrived(7, A, at(6.0)), Ok(true));
        assert_eq!(clients.take_due(at(304.9), 9), [0; 0]);
        assert_eq!(clients.take_due(at(305.0), 9), [8]);
    }

    const AGENT: ConnectionId = ConnectionId(100);

    /// Says the same again and again, as agents do, until a time.
    fn vouch_until(clients: &mut Clients, living: &[u64], seconds: Range<u64>) {
        for second in seconds.step_by(5) {
            clients.vouched(AGENT, living, &[], at(second as f64));
            assert_eq!(clients.take_due(at(second as f64), 9), [0; 0], "at {second} s");
        }
    }

    #[test]
    fn an_idle_client_stays_as_long_as_its_agent_stands_for_it() {
        let mut clients = clients();
        clients.remember(7, 0);
        vouch_until(&mut clients, &[7, 8], 0..5000);
        assert_eq!(clients.take_due(at(5024.9), 9), [0; 0]);
        assert_eq!(
            clients.take_due(at(5025.0), 9),
            [0; 0],
            "the agent fell silent: a lease from now on"
        );
        assert_eq!(clients.take_due(at(5055.0), 9), [7]);
    }

    #[test]
    fn a_client_that_its_agent_says_is_gone_is_due_at_once_after_a_restart() {
        let mut clients = clients();
        clients.remember(7, 0);
        clients.vouched(AGENT, &[], &[7, 9], at(2.0));
        assert_eq!(clients.take_due(at(2.9), 9), [0; 0]);
        assert_eq!(clients.take_due(at(3.0), 9), [7]);
        assert_eq!(clients.take_due(at(900.0), 9), [0; 0]);
    }

    #[test]
    fn an_agent_stands_in_while_the_clients_own_connection_is_broken() {
        let mut clients = clients();
        clients.arrived(7, A, 0).unwrap();
        clients.vouched(AGENT, &[7], &[], 0);
        clients.departed(7, A, Departure::Broken, at(1.0));
        vouch_until(&mut clients, &[7], 5..500);
        clients.vouched(AGENT, &[], &[7], at(500.0));
        assert_eq!(clients.take_due(at(501.0), 9), [7], "its process ended");
    }

    #[test]
    fn the_end_of_an_agent_is_not_the_end_of_its_clients() {
        let mut clients = clients();
        clients.arrived(7, A, 0).unwrap();
        clients.remember(8, 0);
        clients.vouched(AGENT, &[7, 8], &[], 0);
        clients.voucher_departed(AGENT, at(10.0));
        assert_eq!(clients.take_due(at(39.0), 9), [0; 0]);
        assert_eq!(clients.take_due(at(40.0), 9), [8]);
        assert_eq!(clients.take_due(at(4000.0), 9), [0; 0], "7 has a connection of its own");
    }

    #[test]
    fn an_agents_word_makes_nobody_known() {
        let mut clients = clients();
        clients.vouched(AGENT, &[7], &[8], 0);
        assert_eq!(clients.count(), 0);
        assert_eq!(clients.arrived(7, A, 0), Ok(true));
        clients.departed(7, A, Departure::Closed, at(1.0));
        assert_eq!(clients.take_due(at(2.0), 9), [7], "it came after the agent's last word");
    }

    #[test]
    fn what_could_not_be_freed_is_due_again_and_may_change_nothing() {
        let mut clients = clients();
        clients.remember(7, 0);
        assert_eq!(clients.take_due(at(300.0), 9), [7]);
        clients.keep_overdue([7]);
        assert_eq!(clients.arrived(7, A, at(301.0)), Ok(false));
        assert_eq!(clients.asked(7), Err(Overdue));
        assert_eq!(clients.take_due(at(301.0), 9), [7]);
        assert_eq!(clients.asked(7), Ok(true));
        assert_eq!(clients.count(), 1, "it is here, only its old state was due");
    }

    #[test]
    fn who_was_expired_before_a_restart_is_still_told() {
        let mut clients = clients();
        clients.remember_expired(7, 0);
        assert_eq!(clients.arrived(7, A, at(1.0)), Ok(false));
    }

    #[test]
    fn who_was_kept_out_has_a_whole_lease_again() {
        let mut clients = clients();
        clients.arrived(7, A, 0).unwrap();
        clients.departed(7, A, Departure::Closed, 0);
        clients.renew_all(at(100.0));
        assert_eq!(clients.take_due(at(129.9), 9), [0; 0]);
        assert_eq!(clients.take_due(at(130.0), 9), [7]);
    }

    #[test]
    fn memory_is_bounded() {
        let terms = Terms { clients_max: 10, expired_max: 5, ..Terms::default() };
        let mut clients = Clients::new(terms);
        assert!((0..10).all(|client| clients.arrived(client, A, 0).is_ok()));
        assert_eq!(clients.arrived(10, A, 0), Err(TooManyClients));
        (0..10).for_each(|client| clients.departed(client, A, Departure::Closed, client));
        assert_eq!(
            clients.take_due(at(2.0), 3),
            [0, 1, 2],
            "in the order they left, a few at a time"
        );
        assert_eq!(clients.take_due(at(2.0), 99).len(), 7);
        assert_eq!((clients.expired.order.len(), clients.expired.since_ns.len()), (5, 5));
        assert_eq!(clients.take_forgotten(), [0, 1, 2, 3, 4]);
        assert_eq!(clients.arrived(0, A, at(2.0)), Ok(true), "forgotten");
        assert_eq!(clients.arrived(9, A, at(2.0)), Ok(false), "remembered");
        assert_eq!(clients.arrived(8, A, at(4000.0)), Ok(true), "forgotten by now");
    }
}
