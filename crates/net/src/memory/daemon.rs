//! A daemon's network side in memory: what the reactor does, without threads and epoll.

use std::sync::Arc;
use std::time::Duration;

use super::{MemoryListener, MemoryNetwork, MemoryStream};
use crate::buffer::Pool;
use crate::gate::{Doorman, Now, Origin};
use crate::reactor::board::{Board, House};
use crate::reactor::figures::Figures;
use crate::reactor::mailbox::Mailbox;
use crate::runtime::{Instant, Interest};
use crate::service::{ConnectionId, Service};

/// A daemon on one host of a [`MemoryNetwork`]. It does something only in [`MemoryDaemon::run_ready`].
///
/// Drop it when its host crashes. To stop it cleanly, call [`MemoryDaemon::run_ready`] until
/// [`MemoryDaemon::is_quiet`], and then drop it.
pub struct MemoryDaemon {
    network: MemoryNetwork,
    host: String,
    house: Arc<House<MemoryStream>>,
    board: Board<MemoryStream>,
    listener: MemoryListener,
    next_tick: Instant,
}

impl MemoryDaemon {
    /// Listens on a host. All randomness of the doorman comes from its rules: take it from the network.
    pub fn start(
        network: &MemoryNetwork,
        host: &str,
        service: Arc<dyn Service>,
        doorman: Arc<Doorman>,
        pool: Pool,
    ) -> Self {
        let mailroom = vec![Arc::new(Mailbox::new(None))].into();
        let figures = Figures::default();
        let next_tick = network.now().after(TICK_EVERY);
        network.wake_at(next_tick);
        let house = Arc::new(House { service, doorman, pool, figures, mailroom });
        Self {
            network: network.clone(),
            host: host.to_owned(),
            board: Board::new(house.clone(), 0),
            house,
            listener: network.listen(host),
            next_tick,
        }
    }

    /// Does all that can be done at this instant: accepts, receives, serves one round, sends. True if
    /// something was done, and more may be.
    pub fn run_ready(&mut self) -> bool {
        let now = self.now();
        let mut is_busy = self.accept(now);
        for id in self.ids_where(Interest::Readable) {
            is_busy |= self.board.receive(id, now);
        }
        for id in self.ids_where(Interest::Writable) {
            self.board.touch(id);
        }
        let sent = self.house.figures.sent_bytes.get();
        is_busy |= self.board.run(now, |_| {});
        is_busy |= self.house.figures.sent_bytes.get() != sent;
        is_busy |= self.tick(now);
        is_busy || !self.house.mailroom[0].is_empty()
    }

    /// Counters.
    pub fn figures(&self) -> &Figures {
        &self.house.figures
    }

    /// Whether every request is answered and every reply sent.
    pub fn is_quiet(&self) -> bool {
        self.board.is_quiet()
    }

    /// Closes every connection and fails all requests with EIO until resumed.
    pub fn estop(&mut self) {
        self.house.doorman.set_down(true);
        self.board.close_all();
    }

    /// Serves again.
    pub fn resume(&mut self) {
        self.house.doorman.set_down(false);
    }

    fn accept(&mut self, now: Now) -> bool {
        let mut is_busy = false;
        while let Some((stream, peer)) = self.listener.accept() {
            is_busy = true;
            // Each host of the network is its own address to the doorman, as the number of its name.
            let origin = Origin::from_ip(address_of(&peer));
            if self.house.doorman.seat(origin) {
                self.house.figures.accepted_count.add(1);
                let id = self.board.adopt(stream, origin, now);
                self.board.touch(id);
            } else {
                self.house.figures.capped_count.add(1);
            }
        }
        is_busy
    }

    /// The connections that wait for this and need wait no longer.
    fn ids_where(&self, interest: Interest) -> Vec<ConnectionId> {
        let waits = |id: &ConnectionId| {
            self.board.connection(*id).is_some_and(|connection| {
                let wants = match interest {
                    Interest::Readable => connection.wants_to_receive(),
                    Interest::Writable => connection.wants_to_send(),
                };
                wants && connection.stream().is_ready(interest)
            })
        };
        self.board.ids().filter(waits).collect()
    }

    fn tick(&mut self, now: Now) -> bool {
        if now.instant < self.next_tick {
            return false;
        }
        self.next_tick = now.instant.after(TICK_EVERY);
        self.network.wake_at(self.next_tick);
        self.house.service.tick();
        self.board.sweep(now);
        true
    }

    fn now(&self) -> Now {
        let wall_s = self.network.wall_ns(&self.host) / 1_000_000_000;
        Now { instant: self.network.now(), wall_s: u64::try_from(wall_s).unwrap_or(0) }
    }
}

/// An address in 10.0.0.0/8 made of the name.
fn address_of(name: &str) -> std::net::IpAddr {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    std::net::Ipv4Addr::new(10, hash as u8, (hash >> 8) as u8, (hash >> 16) as u8).into()
}

const TICK_EVERY: Duration = Duration::from_millis(100);
