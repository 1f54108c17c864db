//! Daemons that do not answer: not asked for sizes and space until they answer a ping, so that `ls` and `df` wait once and
//! not per file, and what they show is exact again the moment a daemon is back.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread;

use pvfs_client::{User, block_on};
use pvfs_net::blocking::Blocking;
use pvfs_net::call::CallError;
use pvfs_wire::ops::Ping;

/// The names of daemons that let a question time out, and have not answered since.
#[derive(Default)]
pub struct Silence(Mutex<HashSet<String>>);

impl Silence {
    /// A daemon did not answer in time: it is pinged on this user's behalf until it does.
    pub fn note(self: &Arc<Self>, server: &str, user: User<Blocking>) {
        if !self.begin(server) {
            return;
        }
        let silence = Arc::downgrade(self);
        let name = server.to_owned();
        let pinging = move || {
            ping_until_answered(&silence, &user, &name);
            if let Some(silence) = silence.upgrade() {
                silence.end(&name);
            }
        };
        if thread::Builder::new().name("pvfs-ping".into()).spawn(pinging).is_err() {
            self.end(server);
        }
    }

    /// Whether asking all of these daemons would only be waiting.
    pub fn covers<'a>(&self, mut servers: impl Iterator<Item = &'a str>) -> bool {
        let silent = self.lock();
        !silent.is_empty() && servers.any(|server| silent.contains(server))
    }

    /// Whether this is news.
    fn begin(&self, server: &str) -> bool {
        self.lock().insert(server.to_owned())
    }

    fn end(&self, server: &str) {
        self.lock().remove(server);
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().expect("no code panics while it holds the set")
    }
}

/// A ping that is never answered ends at its deadline, and is followed by the next for as long as the mount
/// lives. A daemon that refuses connections is no longer silent: asking it costs no time.
fn ping_until_answered(silence: &Weak<Silence>, user: &User<Blocking>, name: &str) {
    let filesystem = user.filesystem();
    let manager = [filesystem.manager()];
    let mut servers = filesystem.iods().iter().chain(manager);
    let Some(server) = servers.find(|server| server.name() == name) else { return };
    while silence.strong_count() > 0 {
        let Err(CallError::Timeout { .. }) = block_on(user.inquire(server, &Ping {})) else {
            return;
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_needs_a_silent_daemon_does_without() {
        let silence = Silence::default();
        let covers = |servers: &[&str]| silence.covers(servers.iter().copied());
        assert!(!covers(&["io1", "io2"]));
        assert!(silence.begin("io2"));
        assert!(!silence.begin("io2"), "one ping is enough");
        assert!(covers(&["io1", "io2"]));
        assert!(!covers(&["io0", "io1", "mgr0"]));
        silence.end("io2");
        assert!(!covers(&["io1", "io2"]));
    }
}
