//! The sockets between client processes and their node's agent.

use std::collections::{BTreeMap, BTreeSet};

use super::{Crash, MemoryNetwork};
use crate::attendance::Attendance;

/// Who listens, and who is connected.
#[derive(Default)]
pub(super) struct Agents {
    /// By the host's number; those without an agent have none.
    attending: BTreeMap<u32, BTreeSet<u64>>,
}

/// A client process's socket to its agent.
pub struct MemoryAttendance {
    network: MemoryNetwork,
    host: u32,
    client: u64,
}

impl Agents {
    /// The processes of a host are over, or the host is, with its agent.
    pub fn crash(&mut self, host: u32, how: Crash) {
        match how {
            Crash::Killed => {
                self.attending.entry(host).and_modify(BTreeSet::clear);
            }
            Crash::Silent => {
                self.attending.remove(&host);
            }
        }
    }
}

impl MemoryNetwork {
    /// An agent listens on this host from now on.
    pub fn start_agent(&self, host: &str) {
        let mut world = self.lock();
        let host = world.host(host);
        world.agents.attending.entry(host).or_default();
    }

    /// The client processes connected to the agent of this host.
    pub fn attending(&self, host: &str) -> BTreeSet<u64> {
        let mut world = self.lock();
        let host = world.host(host);
        world.agents.attending.get(&host).cloned().unwrap_or_default()
    }

    /// Connects a client process to its agent, if there is one.
    pub(super) fn attend(&self, host: &str, client: u64) -> Option<Box<dyn Attendance>> {
        let mut world = self.lock();
        let host = world.host(host);
        world.agents.attending.get_mut(&host)?.insert(client);
        drop(world);
        Some(Box::new(MemoryAttendance { network: self.clone(), host, client }))
    }
}

impl Attendance for MemoryAttendance {
    fn is_noted(&self) -> bool {
        let world = self.network.lock();
        world.agents.attending.get(&self.host).is_some_and(|all| all.contains(&self.client))
    }
}

impl Drop for MemoryAttendance {
    fn drop(&mut self) {
        if let Ok(mut world) = self.network.world.lock()
            && let Some(all) = world.agents.attending.get_mut(&self.host)
        {
            all.remove(&self.client);
        }
    }
}
