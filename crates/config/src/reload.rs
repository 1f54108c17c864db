//! What a changed file means for daemons that run by the old one: the answer to SIGHUP.
//!
//! Each difference is one [`Change`]. Some take effect at once, some need a restart, and some would
//! make files unreadable and are refused; then nothing of the new file is taken.

use crate::cluster::{Agent, Cluster, Security, Server};
use std::fmt::{self, Debug};

/// What becomes of a change; a later one is graver.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Effect {
    /// It takes effect at once.
    Live,
    /// It takes effect when the daemons concerned start again.
    Restart,
    /// It would lose files: the old value must be restored.
    Refused,
}

/// One difference between two files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    /// The key, such as `defaults.ssize` or `iod[2].listen`.
    pub key: String,
    /// What becomes of it.
    pub effect: Effect,
    /// Why, and what to do; empty for live changes.
    pub reason: &'static str,
}

/// The differences between the file a daemon runs by and the one there is now.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Reload {
    /// In the order of the file.
    pub changes: Vec<Change>,
}

impl Reload {
    /// Compares the cluster a daemon runs by with the one the file describes now.
    pub fn between(old: &Cluster, new: &Cluster) -> Self {
        let mut reload = Self::default();
        reload.filesystems(old, new);
        reload.security(&old.security, &new.security);
        reload.defaults(old, new);
        reload.note("log.level", &old.log_level, &new.log_level, Effect::Live, "");
        reload.servers("manager", &old.managers, &new.managers);
        reload.servers("iod", &old.iods, &new.iods);
        reload.agent(&old.agent, &new.agent);
        reload
    }

    /// The gravest effect of all changes; `None` if nothing changed.
    pub fn effect(&self) -> Option<Effect> {
        self.changes.iter().map(|change| change.effect).max()
    }

    /// What to run by from now on: the old cluster with the live changes of the new one, or the old
    /// one unchanged if anything is refused.
    pub fn apply(&self, old: &Cluster, new: &Cluster) -> Cluster {
        let mut applied = old.clone();
        if self.effect() == Some(Effect::Refused) {
            return applied;
        }
        let security = &new.security;
        applied.security.root_squash = security.root_squash;
        applied.security.networks.clone_from(&security.networks);
        applied.security.session = security.session;
        applied.security.capability = security.capability;
        applied.log_level = new.log_level;
        applied.agent.uids.clone_from(&new.agent.uids);
        if old.iods.len() == new.iods.len() {
            applied.defaults = new.defaults.clone();
        }
        applied
    }

    fn note<T: PartialEq>(
        &mut self,
        key: &str,
        old: &T,
        new: &T,
        effect: Effect,
        reason: &'static str,
    ) {
        if old != new {
            self.changes.push(Change { key: key.to_owned(), effect, reason });
        }
    }

    fn filesystems(&mut self, old: &Cluster, new: &Cluster) {
        let (old, new) = (old.filesystem(), new.filesystem());
        self.note("filesystem.name", &old.name, &new.name, Effect::Restart, RESTART_ALL);
        self.note("filesystem.id", &old.id, &new.id, Effect::Refused, IDENTITY);
        self.note("filesystem.uuid", &old.uuid, &new.uuid, Effect::Refused, IDENTITY);
        self.note("filesystem.prefix", &old.prefix, &new.prefix, Effect::Live, "");
    }

    fn security(&mut self, old: &Security, new: &Security) {
        self.note("security.mode", &old.mode, &new.mode, Effect::Restart, RESTART_ALL);
        self.note("security.key_file", &old.key_file, &new.key_file, Effect::Restart, RESTART_ALL);
        self.note("security.ca_file", &old.ca_file, &new.ca_file, Effect::Restart, RESTART_ALL);
        let pairs = [
            ("", &old.certificate, &new.certificate),
            ("user_", &old.user_certificate, &new.user_certificate),
        ];
        for (whose, old, new) in pairs {
            let key = |what| format!("security.{whose}certificate_{what}");
            let (effect, reason) = (Effect::Restart, RESTART_ALL);
            self.note(&key("file"), &old.certificate, &new.certificate, effect, reason);
            self.note(&key("key_file"), &old.key, &new.key, effect, reason);
        }
        self.note("security.root_squash", &old.root_squash, &new.root_squash, Effect::Live, "");
        self.note("security.networks", &old.networks, &new.networks, Effect::Live, "");
        self.note("security.session_hours", &old.session, &new.session, Effect::Live, "");
        self.note(
            "security.capability_minutes",
            &old.capability,
            &new.capability,
            Effect::Live,
            "",
        );
    }

    /// They are checked against the number of iods, so they wait when that changes.
    fn defaults(&mut self, old: &Cluster, new: &Cluster) {
        let (effect, reason) = match old.iods.len() == new.iods.len() {
            true => (Effect::Live, ""),
            false => (Effect::Restart, "it takes effect together with the new iods"),
        };
        let (old, new) = (&old.defaults, &new.defaults);
        self.note("defaults.ssize", &old.ssize, &new.ssize, effect, reason);
        self.note("defaults.pcount", &old.pcount, &new.pcount, effect, reason);
        self.note("defaults.base", &old.base, &new.base, effect, reason);
        let scheme = old.distribution.clone().with_ssize(new.ssize.0);
        self.note("defaults.distribution", &scheme, &new.distribution, effect, reason);
        self.note("defaults.durability", &old.durability, &new.durability, effect, reason);
        let times = [
            ("defaults.commit_interval_s", old.commit_interval, new.commit_interval),
            ("defaults.data_deadline_s", old.data_deadline, new.data_deadline),
            ("defaults.metadata_deadline_s", old.metadata_deadline, new.metadata_deadline),
            ("defaults.status_deadline_s", old.status_deadline, new.status_deadline),
            ("defaults.lease_s", old.lease, new.lease),
            ("defaults.cache_lease_s", old.cache_lease, new.cache_lease),
        ];
        times.iter().for_each(|(key, old, new)| self.note(key, old, new, effect, reason));
        self.note("defaults.checksums", &old.checksums, &new.checksums, effect, reason);
    }

    fn servers(&mut self, role: &str, old: &[Server], new: &[Server]) {
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            let key = |name: &str| format!("{role}[{index}].{name}");
            self.note(&key("name"), &old.name, &new.name, Effect::Refused, ORDER);
            self.note(&key("listen"), &old.listen, &new.listen, Effect::Restart, RESTART_ALL);
            self.note(&key("store"), &old.store, &new.store, Effect::Restart, MOVE_STORE);
        }
        for index in new.len()..old.len() {
            self.change(format!("{role}[{index}]"), Effect::Refused, REMOVED);
        }
        for index in old.len()..new.len() {
            self.change(format!("{role}[{index}]"), Effect::Restart, ADDED);
        }
    }

    fn agent(&mut self, old: &Agent, new: &Agent) {
        let reason = "restart the agents and clients";
        self.note("agent.socket", &old.socket, &new.socket, Effect::Restart, reason);
        self.note("agent.uids", &old.uids, &new.uids, Effect::Live, "");
    }

    fn change(&mut self, key: String, effect: Effect, reason: &'static str) {
        self.changes.push(Change { key, effect, reason });
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.effect {
            Effect::Live => write!(f, "{} is changed", self.key),
            Effect::Restart => write!(f, "{} is not changed yet: {}", self.key, self.reason),
            Effect::Refused => write!(f, "{} must not change: {}", self.key, self.reason),
        }
    }
}

const RESTART_ALL: &str = "restart all daemons and clients";
const IDENTITY: &str = "every handle carries it; restore it";
const ORDER: &str = "daemons are known by their position; restore the order";
const MOVE_STORE: &str = "stop the daemon, move its directory and start it";
const REMOVED: &str = "files lie there; restore the entry";
const ADDED: &str = "start it, then restart all daemons and clients";
