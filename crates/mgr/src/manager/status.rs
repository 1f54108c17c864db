//! What the manager says of itself, and the orders it takes: Ping, Status, Control.

use std::sync::PoisonError;

use pvfs_net::service::Response;
use pvfs_wire::ops::{Control, Controlled, DaemonState, Order, Ping, Pong, Status, StatusReport};
use pvfs_wire::{Errno, Wire};

use super::Manager;
use super::clock::unix_seconds;
use super::orders::Mode;
use crate::keys;
use crate::record::{Counters, Record};

impl Manager {
    /// How the manager is, and why.
    pub fn state(&self) -> (DaemonState, String) {
        if self.orders.mode() == Mode::Stopped {
            return (DaemonState::Down, "stopped by order; see pvfs resume".into());
        }
        if let Some(failure) = self.store.failure() {
            return (DaemonState::ReadOnly, failure);
        }
        match self.complaint() {
            Some(complaint) => (DaemonState::Degraded, complaint),
            None => (DaemonState::Ok, String::new()),
        }
    }

    pub(super) fn ping(&self) -> Response {
        let time_ns = self.clock.wall().as_nanos();
        Response::done::<Ping>(&Pong {
            time_ns,
            state: self.state().0,
            start: self.orders.book.start(),
        })
    }

    pub(super) fn status(&self) -> Response {
        let (state, reason) = self.state();
        let figures = self.figures().into_iter().map(|(name, value)| (name.to_owned(), value));
        let more = self.more_figures.get().map(|figures| figures()).unwrap_or_default();
        Response::done::<Status>(&StatusReport {
            name: self.name.clone(),
            role: "manager".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            state,
            reason,
            uptime_s: (self.clock.monotonic_ns() - self.started_ns) / 1_000_000_000,
            figures: figures.chain(more).collect(),
        })
    }

    pub(super) fn control(&self, body: &[u8]) -> Response {
        match self.take_order(body) {
            Ok(order) => {
                if let Some(order) = order {
                    if let Some(denial) = &order.denial {
                        self.clients().deny(denial);
                    }
                    self.order(order.kind);
                    (self.on_order)(&order);
                }
                Response::done::<Control>(&Controlled { state: self.state().0 })
            }
            Err(status) => Response::failed(status),
        }
    }

    /// The order, unless it was carried out before.
    fn take_order(&self, body: &[u8]) -> Result<Option<Order>, Errno> {
        let control = Control::from_bytes(body).map_err(|_| Errno::EPROTO)?;
        let now_s = unix_seconds(self.clock.wall());
        self.orders.book.accept(&control.order, &self.keys(), now_s)
    }

    fn complaint(&self) -> Option<String> {
        if self.store.is_space_low() {
            return Some("the manager's disk is nearly full; only removals are let in".into());
        }
        if self.figures.last_commit_failed() {
            return Some("the last changes could not be stored; see the manager's log".into());
        }
        if self.orders.mode() == Mode::Stopping {
            return Some("about to exit; nothing is opened any more".into());
        }
        let silent = self.silent_iods.lock().unwrap_or_else(PoisonError::into_inner);
        (!silent.is_empty()).then(|| format!("no answer from {}", silent.join(", ")))
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let counters = self.counters();
        let mut figures = vec![
            ("objects", counters.objects),
            ("objects_purging", counters.purging),
            ("opens", self.count_opens()),
        ];
        let clients = self.clients();
        figures.push(("clients", clients.count() as u64));
        figures.push(("clients_without_connection", clients.gone_count() as u64));
        drop(clients);
        let caches = self.caches();
        figures.push(("clients_caching", caches.client_count() as u64));
        figures.push(("cached_keys", caches.key_count() as u64));
        figures.push(("answers_held", caches.hold_count() as u64));
        drop(caches);
        figures.push(("requests_parked", self.parked.count() as u64));
        figures.push(("requests_in_line", self.line.len() as u64));
        figures.extend(self.figures.list());
        figures.extend(self.store.figures());
        figures
    }

    /// Open files, as far as counted: nobody asks how many more than very many there are.
    fn count_opens(&self) -> u64 {
        let snapshot = self.store.snapshot();
        let opens = snapshot.scan_prefix(&[keys::OPEN]).take(OPENS_COUNTED_MAX).count();
        opens as u64
    }

    fn counters(&self) -> Counters {
        let bytes = self.store.snapshot().get(keys::COUNTERS).ok().flatten();
        bytes.and_then(|bytes| Counters::decode(&bytes).ok()).unwrap_or_default()
    }
}

/// Counting more would take longer than a status may.
const OPENS_COUNTED_MAX: usize = 100_000;
