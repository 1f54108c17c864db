//! How the daemon is: one of the four states of the contract, and why.
//!
//! Several things can be wrong at once; the state is the worst of them, so that mending one shows the next.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pvfs_wire::ops::DaemonState;

/// What is wrong.
#[derive(Default)]
pub struct Health {
    troubles: Mutex<Troubles>,
    /// The state, for those who ask before every request.
    state: AtomicU8,
}

#[derive(Default)]
struct Troubles {
    stopped: Option<String>,
    configured: Option<String>,
    read_only: Option<String>,
    degraded: Option<String>,
}

impl Health {
    /// The state.
    pub fn state(&self) -> DaemonState {
        match self.state.load(Relaxed) {
            0 => DaemonState::Ok,
            1 => DaemonState::Degraded,
            2 => DaemonState::ReadOnly,
            _ => DaemonState::Down,
        }
    }

    /// Why the state is what it is.
    pub fn reason(&self) -> String {
        let troubles = self.lock();
        let Troubles { stopped, configured, read_only, degraded } = &*troubles;
        let reasons = [stopped, configured, read_only, degraded];
        reasons.into_iter().flatten().next().cloned().unwrap_or_default()
    }

    /// Something needs a look. The first reason stays.
    pub fn degrade(&self, reason: impl Into<String>) {
        self.change(|troubles| note(&mut troubles.degraded, reason.into()));
    }

    /// Nothing is to be written, for as long as the daemon runs.
    pub fn keep_read_only(&self, reason: impl Into<String>) {
        self.change(|troubles| note(&mut troubles.configured, reason.into()));
    }

    /// Nothing can be written. The first reason stays until the daemon is told to resume.
    pub fn make_read_only(&self, reason: impl Into<String>) {
        self.change(|troubles| note(&mut troubles.read_only, reason.into()));
    }

    /// Everything fails until resumed.
    pub fn stop(&self, reason: impl Into<String>) {
        self.change(|troubles| note(&mut troubles.stopped, reason.into()));
    }

    /// Serves again, as well as it did before it was stopped; whether the store can be written is tried anew.
    pub fn resume(&self) {
        self.change(|troubles| (troubles.stopped, troubles.read_only) = (None, None));
    }

    fn change(&self, change: impl FnOnce(&mut Troubles)) {
        let mut troubles = self.lock();
        change(&mut troubles);
        self.state.store(troubles.worst() as u8, Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Troubles> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Troubles {
    fn worst(&self) -> DaemonState {
        match self {
            Self { stopped: Some(_), .. } => DaemonState::Down,
            Self { configured: Some(_), .. } | Self { read_only: Some(_), .. } => {
                DaemonState::ReadOnly
            }
            Self { degraded: Some(_), .. } => DaemonState::Degraded,
            _ => DaemonState::Ok,
        }
    }
}

fn note(place: &mut Option<String>, reason: String) {
    if place.is_none() {
        tracing::warn!("{reason}");
        *place = Some(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_trouble_is_the_state_and_resume_shows_the_next() {
        let health = Health::default();
        assert_eq!((health.state(), health.reason()), (DaemonState::Ok, String::new()));
        health.degrade("sync failed");
        health.make_read_only("remounted");
        health.stop("estop");
        assert_eq!((health.state(), health.reason()), (DaemonState::Down, "estop".into()));
        health.resume();
        assert_eq!(
            (health.state(), health.reason()),
            (DaemonState::Degraded, "sync failed".into())
        );
        health.keep_read_only("so configured");
        health.resume();
        let configured = (DaemonState::ReadOnly, "so configured".into());
        assert_eq!((health.state(), health.reason()), configured);
    }

    #[test]
    fn the_first_reason_is_the_one_that_is_told() {
        let health = Health::default();
        health.degrade("first");
        health.degrade("second");
        assert_eq!((health.state(), health.reason()), (DaemonState::Degraded, "first".into()));
    }
}
