//! The network's part in orders. It takes effect before an order is answered: who gave it may rely on it.
//!
//! Who is denied is also kept in a file of the store, one denial a line, so that a restart forgets nobody:
//!
//! ```text
//! session 8f3a0c6e5d410b27 user - until 1763760000 expiry 1763806800
//! session - user 1000 until 1763760000 expiry 1763806800
//! ```

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use pvfs_net::gate::Doorman;
use pvfs_net::reactor::Daemon;
use pvfs_wire::ops::{Denial, Order, OrderKind};

/// The network of a daemon, and where it keeps who is denied.
pub struct Network {
    daemon: Daemon,
    doorman: Arc<Doorman>,
    denied: PathBuf,
}

impl Network {
    /// Denies from the start who was denied before.
    pub fn new(daemon: Daemon, doorman: Arc<Doorman>, denied: PathBuf) -> Self {
        let text = std::fs::read_to_string(&denied).unwrap_or_default();
        for denial in text.lines().filter_map(parse) {
            // As many as were kept fit.
            let _ = doorman.denials().add(denial, now_s());
        }
        Self { daemon, doorman, denied }
    }

    /// Its counters.
    pub fn list_figures(&self) -> Vec<(String, u64)> {
        let denials = self.doorman.denials().list().len() as u64;
        let mut figures = self.daemon.list_figures();
        figures.push(("net_denials".into(), denials));
        figures
    }

    /// Takes part in an order.
    pub fn obey(&self, order: &Order) {
        match (order.kind, &order.denial) {
            (OrderKind::Estop, _) => self.daemon.estop(),
            (OrderKind::Resume, _) => self.daemon.resume(),
            (OrderKind::Deny, Some(denial)) => self.deny(denial),
            (OrderKind::Stop | OrderKind::Deny, _) => {}
        }
    }

    fn deny(&self, denial: &Denial) {
        if let Err(error) = self.doorman.denials().add(denial.clone(), now_s()) {
            tracing::error!("{} is not denied: {error}", line(denial));
            return;
        }
        tracing::warn!("denied: {}", line(denial));
        let lines: String = self.doorman.denials().list().iter().map(|d| line(d) + "\n").collect();
        if let Err(error) = write_durably(&self.denied, &lines) {
            let file = self.denied.display();
            tracing::error!("denied until the next start only: cannot write {file}: {error}");
        }
    }
}

fn line(denial: &Denial) -> String {
    let mut line = String::from("session ");
    let written = match denial.session {
        Some(id) => write!(line, "{id:016x}"),
        None => write!(line, "-"),
    };
    written.expect("writing to a string cannot fail");
    let user = denial.uid.map_or("-".into(), |uid| uid.to_string());
    let Denial { issued_until, expiry, .. } = denial;
    write!(line, " user {user} until {issued_until} expiry {expiry}").expect("as above");
    line
}

/// A line that makes no sense denies nobody.
fn parse(line: &str) -> Option<Denial> {
    let mut words = line.split(' ');
    let mut field = |name: &str| (words.next() == Some(name)).then(|| words.next()).flatten();
    let session = match field("session")? {
        "-" => None,
        id => Some(u64::from_str_radix(id, 16).ok()?),
    };
    let uid = match field("user")? {
        "-" => None,
        uid => Some(uid.parse().ok()?),
    };
    let issued_until = field("until")?.parse().ok()?;
    Some(Denial { session, uid, issued_until, expiry: field("expiry")?.parse().ok()? })
}

fn write_durably(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    std::fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_written_and_read_again() {
        for (session, uid) in [(Some(7), None), (None, Some(0)), (Some(u64::MAX), Some(1000))] {
            let denial = Denial { session, uid, issued_until: 5, expiry: u64::MAX };
            assert_eq!(parse(&line(&denial)), Some(denial));
        }
        for text in ["", "session", "session x user - until 1 expiry 1", "user - session -"] {
            assert_eq!(parse(text), None);
        }
    }
}
