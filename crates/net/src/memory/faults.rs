//! What goes wrong: connections cut, links held, hosts crashed.

use std::time::Duration;

use super::link::{End, GIVE_UP_AFTER};
use super::world::{Connection, Hold, Link, NEVER, Side, World};
use super::{Crash, Cut};
use crate::runtime::Instant;

impl World {
    /// Cuts every connection of a client to a server.
    pub fn cut_link(&mut self, client: u32, server: u32, how: Cut) {
        for id in self.ids_where(|connection| connection.hosts == [client, server]) {
            self.cut_connection(id, how);
        }
    }

    pub(super) fn cut_connection(&mut self, id: u64, how: Cut) {
        let soon = self.now.after(self.weather.delay_max);
        let never = self.now.after(GIVE_UP_AFTER);
        let mut within = |time: Duration| self.now.after(self.chance.time(Duration::ZERO, time));
        match how {
            Cut::Clean => self.sever_both(id, soon, soon),
            Cut::ServerLate(time) => {
                let late = within(time);
                self.sever_both(id, self.now, late);
            }
            Cut::ClientLate(time) => {
                let late = within(time);
                self.sever_both(id, late, self.now);
            }
            Cut::LostToServer => {
                self.sever(id, Side::Client, never);
                self.tell_both(id, never, never);
            }
            Cut::LostToClient => {
                self.sever(id, Side::Server, never);
                self.tell_both(id, never, never);
            }
        }
    }

    /// Each end notices at its time; what was on its way to it arrives before that, up to some byte.
    fn sever_both(&mut self, id: u64, client_at: Instant, server_at: Instant) {
        self.sever(id, Side::Client, server_at);
        self.sever(id, Side::Server, client_at);
        self.tell_both(id, client_at, server_at);
    }

    /// Loses what `from` sends, from some byte under way on. The rest arrives by `latest`.
    fn sever(&mut self, id: u64, from: Side, latest: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let pipe = &mut connection.pipes[from as usize];
        let kept = self.chance.between(0, pipe.flying_bytes(self.now) as u64) as usize;
        if latest < self.now.after(GIVE_UP_AFTER) {
            pipe.delay_until(self.now, latest);
        }
        pipe.sever(self.now, kept, latest);
    }

    fn tell_both(&mut self, id: u64, client_at: Instant, server_at: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        for (side, at) in [(Side::Client, client_at), (Side::Server, server_at)] {
            connection.tell(side, at);
            connection.pipes[side.other() as usize].finish(at, End::Broken);
        }
        self.note(client_at);
        self.note(server_at);
    }

    pub(super) fn any_cut(&mut self) -> Cut {
        let late = Duration::from_secs(3);
        match self.chance.between(0, 9) {
            0..=3 => Cut::Clean,
            4..=6 => Cut::ServerLate(late),
            7 => Cut::ClientLate(late),
            8 => Cut::LostToServer,
            _ => Cut::LostToClient,
        }
    }

    /// Stops one direction.
    pub fn hold(&mut self, link: Link, time: Option<Duration>) {
        let until = time.map(|time| self.now.after(time));
        self.holds.entry(link).or_insert(Hold { since: self.now, until, gave_up: false }).until =
            until;
        self.note(self.now.after(GIVE_UP_AFTER));
        if let Some(until) = until {
            self.note(until);
        }
    }

    /// Goes on with one direction.
    pub fn heal(&mut self, link: Link) {
        let Some(hold) = self.holds.remove(&link) else { return };
        let at = self.now.after(self.weather_of(link).delay_max);
        let is_free = !self.is_held((link.1, link.0));
        let mut arrivals = vec![at];
        for connection in self.connections.values_mut() {
            for side in [Side::Client, Side::Server] {
                if connection.link(side) == link {
                    arrivals.push(connection.pipes[side as usize].resume(hold.since, at));
                }
            }
            let is_on_link =
                connection.link(Side::Client) == link || connection.link(Side::Server) == link;
            if is_on_link && is_free && connection.made_at == NEVER {
                connection.made_at = at;
                connection.broken_at[Side::Client as usize] = None;
            }
        }
        arrivals.into_iter().for_each(|arrival| self.note(arrival));
    }

    /// Heals the holds whose time is over.
    pub(super) fn end_holds(&mut self) {
        let now = self.now;
        let is_over = |hold: &Hold| hold.until.is_some_and(|until| until <= now);
        let over: Vec<Link> =
            self.holds.iter().filter(|(_, hold)| is_over(hold)).map(|(link, _)| *link).collect();
        over.into_iter().for_each(|link| self.heal(link));
    }

    /// A link held for too long breaks its connections.
    pub(super) fn give_up_on_held_links(&mut self) {
        let now = self.now;
        let hopeless = |hold: &Hold| !hold.gave_up && hold.since.after(GIVE_UP_AFTER) <= now;
        let links: Vec<Link> =
            self.holds.iter().filter(|(_, hold)| hopeless(hold)).map(|(link, _)| *link).collect();
        for link in links {
            self.holds.get_mut(&link).expect("it was just seen").gave_up = true;
            let back = (link.1, link.0);
            let is_on_link = |connection: &Connection| {
                connection.made_at != NEVER && [link, back].contains(&connection.link(Side::Client))
            };
            for id in self.ids_where(is_on_link) {
                self.sever_both(id, now, now);
            }
        }
    }

    /// Ends a host.
    pub fn crash(&mut self, host: u32, how: Crash) {
        self.stop_listening(host);
        let noticed_at = match how {
            Crash::Killed => self.now.after(self.weather.delay_max),
            Crash::Silent => self.now.after(GIVE_UP_AFTER),
        };
        for id in self.ids_where(|connection| connection.hosts.contains(&host)) {
            let at = |side: usize, world: &Self| {
                if world.connections[&id].hosts[side] == host { world.now } else { noticed_at }
            };
            let (client_at, server_at) = (at(0, self), at(1, self));
            self.sever_both(id, client_at, server_at);
        }
    }
}
