//! The state of the network in memory, and what each call does to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::time::Duration;

use super::Weather;
use super::agent::Agents;
use super::chance::Chance;
use super::link::{End, Found, GIVE_UP_AFTER, Pipe};
use crate::runtime::Instant;

/// One of the ends of a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Side {
    /// Who connected.
    Client = 0,
    /// Who accepted.
    Server = 1,
}

/// A direction between two hosts.
pub type Link = (u32, u32);

/// Everything there is.
pub struct World {
    pub(super) now: Instant,
    pub(super) chance: Chance,
    hosts: Vec<Host>,
    names: BTreeMap<String, u32>,
    pub(super) connections: BTreeMap<u64, Connection>,
    connections_made: u64,
    events: BTreeSet<Instant>,
    pub(super) weather: Weather,
    link_weather: BTreeMap<Link, Weather>,
    pub(super) holds: BTreeMap<Link, Hold>,
    pub(super) agents: Agents,
}

#[derive(Default)]
struct Host {
    name: String,
    /// Which listener, counted from the first.
    listener: Option<u64>,
    listeners_made: u64,
    backlog: VecDeque<u64>,
    clock_error_ns: i64,
}

/// A direction in which nothing arrives.
pub(super) struct Hold {
    pub since: Instant,
    pub until: Option<Instant>,
    pub gave_up: bool,
}

/// Two hosts, two pipes, and what each end knows.
pub(super) struct Connection {
    /// Of the client and of the server.
    pub hosts: [u32; 2],
    /// What the client sends, and what the server sends.
    pub pipes: [Pipe; 2],
    /// When each end notices that the connection is broken.
    pub broken_at: [Option<Instant>; 2],
    pub is_closed: [bool; 2],
    pub is_refused: bool,
    /// When it is connected; never, as long as the link is held.
    pub made_at: Instant,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl Connection {
    pub fn link(&self, from: Side) -> Link {
        (self.hosts[from as usize], self.hosts[from.other() as usize])
    }

    fn is_broken(&self, side: Side, now: Instant) -> bool {
        self.broken_at[side as usize].is_some_and(|at| at <= now)
    }

    /// The end hears that it is broken; the earliest news counts.
    pub fn tell(&mut self, side: Side, at: Instant) {
        let known = &mut self.broken_at[side as usize];
        *known = Some(known.map_or(at, |known| known.min(at)));
    }
}

impl World {
    /// An empty world.
    pub fn new(seed: u64) -> Self {
        Self {
            now: Instant(0),
            chance: Chance::new(seed),
            hosts: Vec::new(),
            names: BTreeMap::new(),
            connections: BTreeMap::new(),
            connections_made: 0,
            events: BTreeSet::new(),
            weather: Weather::default(),
            link_weather: BTreeMap::new(),
            holds: BTreeMap::new(),
            agents: Agents::default(),
        }
    }

    /// The number of a host, which exists from now on.
    pub fn host(&mut self, name: &str) -> u32 {
        if let Some(host) = self.names.get(name) {
            return *host;
        }
        let host = self.hosts.len() as u32;
        self.hosts.push(Host { name: name.to_owned(), ..Host::default() });
        self.names.insert(name.to_owned(), host);
        host
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A random number.
    pub fn random(&mut self) -> u64 {
        self.chance.any()
    }

    /// A host's calendar.
    pub fn wall_ns(&self, host: u32) -> i64 {
        EPOCH_NS + self.now.0 as i64 + self.hosts[host as usize].clock_error_ns
    }

    /// Sets a host's calendar wrong.
    pub fn set_clock_error_ns(&mut self, host: u32, error_ns: i64) {
        self.hosts[host as usize].clock_error_ns = error_ns;
    }

    /// See [`super::MemoryNetwork::next_event`].
    pub fn next_event(&mut self) -> Option<Instant> {
        while self.events.first().is_some_and(|at| *at <= self.now) {
            self.events.pop_first();
        }
        self.events.first().copied()
    }

    /// See [`super::MemoryNetwork::advance_to`].
    pub fn advance_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
        self.end_holds();
        self.give_up_on_held_links();
    }

    /// A host begins to listen; the number of this listener.
    pub fn listen(&mut self, host: u32) -> u64 {
        self.stop_listening(host);
        let host = &mut self.hosts[host as usize];
        host.listeners_made += 1;
        host.listener = Some(host.listeners_made);
        host.listeners_made
    }

    /// A listener is dropped; a later one of the same host goes on.
    pub fn drop_listener(&mut self, host: u32, listener: u64) {
        if self.hosts[host as usize].listener == Some(listener) {
            self.stop_listening(host);
        }
    }

    /// Whoever waits to be accepted is cut off.
    pub(super) fn stop_listening(&mut self, host: u32) {
        self.hosts[host as usize].listener = None;
        for id in std::mem::take(&mut self.hosts[host as usize].backlog) {
            self.close(id, Side::Server);
        }
    }

    /// Begins to connect.
    pub fn connect(&mut self, from: u32, to: u32) -> u64 {
        let (there, back) = (self.delay((from, to)), self.delay((to, from)));
        let is_held = self.is_held((from, to)) || self.is_held((to, from));
        let is_refused = self.hosts[to as usize].listener.is_none();
        self.connections_made += 1;
        let id = self.connections_made;
        let answered_at = self.now.after(there).after(back);
        let give_up_at = self.now.after(GIVE_UP_AFTER);
        let connection = Connection {
            hosts: [from, to],
            pipes: Default::default(),
            broken_at: [is_held.then_some(give_up_at), None],
            is_closed: [false, false],
            is_refused,
            made_at: if is_held { NEVER } else { answered_at },
        };
        self.connections.insert(id, connection);
        if !is_refused {
            self.hosts[to as usize].backlog.push_back(id);
        }
        self.note(if is_held { give_up_at } else { answered_at });
        id
    }

    /// The first connection that is made and waits, and its client's name.
    pub fn accept(&mut self, host: u32) -> Option<(u64, String)> {
        let is_made =
            |id: &u64| self.connections.get(id).is_some_and(|one| one.made_at <= self.now);
        let at = self.hosts[host as usize].backlog.iter().position(is_made)?;
        let id = self.hosts[host as usize].backlog.remove(at)?;
        let client = self.connections[&id].hosts[Side::Client as usize];
        Some((id, self.hosts[client as usize].name.clone()))
    }

    /// Whether a receive would not be told to wait.
    pub fn is_readable(&self, id: u64, side: Side) -> bool {
        let Some(connection) = self.connections.get(&id) else { return true };
        let settled = connection.made_at <= self.now
            && (connection.is_refused || self.found(connection, side) != Found::Nothing);
        settled || connection.is_broken(side, self.now) || connection.is_closed[side as usize]
    }

    /// Whether a send would not be told to wait.
    pub fn is_writable(&self, id: u64, side: Side) -> bool {
        let Some(connection) = self.connections.get(&id) else { return true };
        let has_room = connection.pipes[side as usize].bytes() < PIPE_BYTES_MAX;
        connection.made_at <= self.now && (has_room || connection.is_refused)
            || connection.is_broken(side, self.now)
            || connection.is_closed[side as usize]
    }

    /// Takes some of the bytes.
    pub fn send(&mut self, id: u64, side: Side, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let connection = self.usable(id, side)?;
        let link = connection.link(side);
        let room = PIPE_BYTES_MAX.saturating_sub(connection.pipes[side as usize].bytes());
        let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
        if room == 0 {
            return Err(ErrorKind::WouldBlock.into());
        }
        let weather = self.weather_of(link);
        let is_chopped = self.chance.happens(weather.chop_ppm);
        let mut count = offered.min(room);
        if is_chopped && count > 0 {
            count = self.chance.between(1, count as u64) as usize;
        }
        let bytes: Vec<u8> =
            pieces.iter().flat_map(|piece| piece.iter().copied()).take(count).collect();
        self.transport(id, side, bytes, is_chopped);
        if self.chance.happens(weather.cut_ppm) {
            let how = self.any_cut();
            self.cut_connection(id, how);
        }
        Ok(count)
    }

    fn transport(&mut self, id: u64, side: Side, mut bytes: Vec<u8>, is_chopped: bool) {
        let link = self.connections[&id].link(side);
        while !bytes.is_empty() {
            let first = match is_chopped {
                true => self.chance.between(1, bytes.len() as u64) as usize,
                false => bytes.len(),
            };
            let rest = bytes.split_off(first);
            let at = self.now.after(self.delay(link));
            let connection = self.connections.get_mut(&id).expect("it was just seen");
            let arrival = connection.pipes[side as usize].push(at, bytes);
            if connection.is_closed[side.other() as usize] {
                connection.tell(side, arrival.max(at));
            }
            self.note(arrival);
            bytes = rest;
        }
    }

    /// Gives some of the bytes that have arrived.
    pub fn receive(
        &mut self,
        id: u64,
        side: Side,
        pieces: &mut [IoSliceMut<'_>],
    ) -> io::Result<usize> {
        let Some(connection) = self.connections.get(&id) else {
            return Err(ErrorKind::ConnectionReset.into());
        };
        let available = match self.found(connection, side) {
            Found::Bytes(bytes) => bytes,
            Found::End(End::Closed) => return Ok(0),
            Found::End(End::Broken) => return Err(ErrorKind::ConnectionReset.into()),
            Found::Nothing => return self.usable(id, side).and(Err(ErrorKind::WouldBlock.into())),
        };
        let room: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut count = available.min(room);
        let link = connection.link(side.other());
        if count > 1 && self.chance.happens(self.weather_of(link).chop_ppm) {
            count = self.chance.between(1, count as u64) as usize;
        }
        self.take(id, side, pieces, count);
        Ok(count)
    }

    fn take(&mut self, id: u64, side: Side, pieces: &mut [IoSliceMut<'_>], mut count: usize) {
        let connection = self.connections.get_mut(&id).expect("it was just seen");
        let pipe = &mut connection.pipes[side.other() as usize];
        let was_full = pipe.bytes() >= PIPE_BYTES_MAX;
        for piece in pieces {
            let part = piece.len().min(count);
            pipe.take(&mut piece[..part]);
            count -= part;
        }
        if was_full {
            // The sender hears that there is room again.
            self.note(Instant(self.now.0 + 1));
        }
    }

    /// The connection, if this end may send now or later; otherwise why not.
    fn usable(&self, id: u64, side: Side) -> io::Result<&Connection> {
        let connection = self.connections.get(&id).ok_or(ErrorKind::ConnectionReset)?;
        let is_made = connection.made_at <= self.now;
        if connection.is_closed[side as usize] {
            Err(ErrorKind::BrokenPipe.into())
        } else if is_made && connection.is_refused {
            Err(ErrorKind::ConnectionRefused.into())
        } else if connection.is_broken(side, self.now) {
            Err(if is_made { ErrorKind::ConnectionReset } else { ErrorKind::TimedOut }.into())
        } else if !is_made {
            Err(ErrorKind::WouldBlock.into())
        } else {
            Ok(connection)
        }
    }

    /// What `side` finds to receive.
    fn found(&self, connection: &Connection, side: Side) -> Found {
        let since = self.holds.get(&connection.link(side.other())).map(|hold| hold.since);
        connection.pipes[side.other() as usize].found(self.now, since)
    }

    /// This end is done: the other one finds the end, or, when it had sent bytes that nobody took, a
    /// broken connection, as in TCP.
    pub fn close(&mut self, id: u64, side: Side) {
        let Some(connection) = self.connections.get(&id) else { return };
        let delay = self.weather_of(connection.link(side)).delay_max;
        let at = self.now.after(delay);
        let leaves_bytes = matches!(self.found(connection, side), Found::Bytes(_));
        let connection = self.connections.get_mut(&id).expect("it was just seen");
        if std::mem::replace(&mut connection.is_closed[side as usize], true) {
            return;
        }
        let end = if leaves_bytes { End::Broken } else { End::Closed };
        let arrival = connection.pipes[side as usize].finish(at, end);
        if leaves_bytes {
            connection.tell(side.other(), arrival);
        }
        if connection.is_closed == [true, true] {
            self.connections.remove(&id);
        }
        self.note(arrival);
    }

    pub(super) fn ids_where(&self, matches: impl Fn(&Connection) -> bool) -> Vec<u64> {
        let found = self.connections.iter().filter(|(_, connection)| matches(connection));
        found.map(|(id, _)| *id).collect()
    }

    /// Sets the weather of all links without their own.
    pub fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// Sets the weather of one direction.
    pub fn set_link_weather(&mut self, link: Link, weather: Weather) {
        self.link_weather.insert(link, weather);
    }

    pub(super) fn weather_of(&self, link: Link) -> Weather {
        self.link_weather.get(&link).copied().unwrap_or(self.weather)
    }

    fn delay(&mut self, link: Link) -> Duration {
        let weather = self.weather_of(link);
        let is_slow = self.chance.happens(weather.slow_ppm);
        let longest = if is_slow { weather.slow_max } else { weather.delay_max };
        self.chance.time(weather.delay_min, longest)
    }

    pub(super) fn is_held(&self, link: Link) -> bool {
        self.holds.contains_key(&link)
    }

    /// Something happens at that time.
    pub fn note(&mut self, at: Instant) {
        if at != NEVER {
            self.events.insert(at);
        }
    }
}

/// What the kernel buffers of one direction.
const PIPE_BYTES_MAX: usize = 256 << 10;

/// November 2023, when a simulated world begins.
const EPOCH_NS: i64 = 1_700_000_000_000_000_000;

/// No event at all.
pub(super) const NEVER: Instant = Instant(u64::MAX);
