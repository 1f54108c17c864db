//! This process's place in its agent's list of the living, taken with the first open or lock.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pvfs_net::attendance::Attendance;
use pvfs_net::call::Caller;
use pvfs_net::runtime::{Instant, Runtime};

/// The place, or none.
pub(crate) struct Presence {
    agent: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: Option<Box<dyn Attendance>>,
    /// Not looked at again before.
    look_at: Instant,
}

impl Presence {
    /// Nothing is said yet to the agent on this socket.
    pub fn before(agent: PathBuf) -> Self {
        Self { agent, state: Mutex::default() }
    }

    /// Sees to it that the agent knows of this process, if there is an agent.
    pub fn note<R: Runtime>(&self, caller: &Caller<R>) {
        let now = caller.runtime.now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if now < state.look_at {
            return;
        }
        state.look_at = now.after(LOOK_EVERY);
        if !state.kept.as_ref().is_some_and(|kept| kept.is_noted()) {
            state.kept = caller.runtime.attend(&self.agent, caller.client());
        }
    }
}

/// The agent may have been started, or started again, meanwhile.
const LOOK_EVERY: Duration = Duration::from_secs(10);
