//! A new cluster from host lists, ports and directories: what `pvfs genconfig` and `pvfs up` ask.
//!
//! A recipe writes the few keys it was told, reads them as any file is read, and so gets every
//! default and every check from the one place where they are.

use crate::amount::ByteSize;
use crate::cluster::{Cluster, SecurityMode};
use crate::endpoint::Endpoint;
use crate::error::ConfigError;
use crate::hosts::expand;
use crate::write::{list, quote};
use ipnet::IpNet;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// What to build a cluster from. Start from [`Recipe::default`] and set what differs.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Name of the file system.
    pub filesystem: String,
    /// Id of the file system.
    pub id: u32,
    /// See [`random_uuid`]; `None` leaves it out.
    pub uuid: Option<Uuid>,
    /// How connections are authenticated.
    pub mode: SecurityMode,
    /// The cluster key, relative to the file.
    pub key_file: PathBuf,
    /// Where clients may connect from; empty means anywhere.
    pub networks: Vec<IpNet>,
    /// Strip size; `None` means the default.
    pub ssize: Option<ByteSize>,
    /// Host list of the manager: one host.
    pub manager: String,
    /// Host list of the iods, in the order of their ids.
    pub iods: String,
    /// Iods on each of these hosts.
    pub iods_per_host: u32,
    /// The manager's port.
    pub manager_port: u16,
    /// The iods' port; several on one host take the ports that follow.
    pub iod_port: u16,
    /// Each daemon's store is a directory of its name below this one.
    pub store: PathBuf,
    /// Where daemons listen for processes of their own node as well; absolute. `None`: they do not.
    pub sockets: Option<PathBuf>,
    /// The agent's socket; `None` means the default.
    pub agent_socket: Option<PathBuf>,
}

impl Default for Recipe {
    /// One machine: a manager and four iods, reached by localhost.
    fn default() -> Self {
        Self {
            filesystem: "pvfs".into(),
            id: 1,
            uuid: None,
            mode: SecurityMode::Psk,
            key_file: "cluster.key".into(),
            networks: Vec::new(),
            ssize: None,
            manager: "localhost".into(),
            iods: "localhost".into(),
            iods_per_host: 4,
            manager_port: 7000,
            iod_port: 7001,
            store: "/var/lib/pvfs".into(),
            sockets: None,
            agent_socket: None,
        }
    }
}

impl Recipe {
    /// The cluster, as the file `path` would describe it; [`Cluster::to_toml`] has its text.
    pub fn cluster(&self, path: &Path) -> Result<Cluster, ConfigError> {
        Cluster::parse(&self.terse()?, path)
    }

    /// Only the keys that differ from the defaults.
    fn terse(&self) -> Result<String, ConfigError> {
        let mut text = String::from("version = 1\n");
        self.write_tables(&mut text).expect("a String takes all");
        let mut ports = Ports::default();
        let manager = self.manager_host()?;
        self.write_server(
            &mut text,
            "manager",
            "mgr0",
            &manager,
            ports.take(&manager, self.manager_port)?,
        );
        for (id, host) in (0..).zip(self.iod_hosts()?) {
            let port = ports.take(&host, self.iod_port)?;
            self.write_server(&mut text, "iod", &format!("io{id}"), &host, port);
        }
        Ok(text)
    }

    fn write_tables(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "[filesystem]\nname = {}\nid = {}", quote(&self.filesystem), self.id)?;
        if let Some(uuid) = self.uuid {
            writeln!(text, "uuid = {}", quote(uuid))?;
        }
        let networks = list(self.networks.iter().map(quote));
        writeln!(text, "[security]\nmode = {}\nnetworks = {networks}", quote(self.mode))?;
        writeln!(text, "key_file = {}", quote(self.key_file.display()))?;
        if let Some(ssize) = self.ssize {
            writeln!(text, "[defaults]\nssize = {}", quote(ssize))?;
        }
        match &self.agent_socket {
            Some(socket) => writeln!(text, "[agent]\nsocket = {}", quote(socket.display())),
            None => Ok(()),
        }
    }

    fn write_server(&self, text: &mut String, role: &str, name: &str, host: &str, port: u16) {
        let tcp = Endpoint::tcp(host, port);
        let socket =
            self.sockets.iter().map(|dir| Endpoint::unix(dir.join(format!("{name}.sock"))));
        let listen = list([tcp].into_iter().chain(socket).map(quote));
        let store = quote(self.store.join(name).display());
        let _ = writeln!(text, "[[{role}]]\nname = \"{name}\"\nlisten = {listen}\nstore = {store}");
    }

    fn manager_host(&self) -> Result<String, ConfigError> {
        let mut hosts = expand(&self.manager)?;
        match (hosts.len(), hosts.pop()) {
            (1, Some(host)) => Ok(host),
            (count, _) => Err(ConfigError::OneManager { hosts: self.manager.clone(), count }),
        }
    }

    /// Iod ids go round the hosts, so that neighbours in a stripe are on different ones.
    fn iod_hosts(&self) -> Result<Vec<String>, ConfigError> {
        let hosts = expand(&self.iods)?;
        Ok((0..self.iods_per_host).flat_map(|_| hosts.iter().cloned()).collect())
    }
}

/// A random uuid for a new file system.
pub fn random_uuid() -> Result<Uuid, ConfigError> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(ConfigError::NoRandom)?;
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid())
}

/// The id of a file system with this uuid where none is chosen: two of them are hardly ever the same, so that a handle of one
/// is known for what it is by the other.
pub fn id_of(uuid: &Uuid) -> u32 {
    let (first, ..) = uuid.as_fields();
    first.max(1)
}

/// The ports given out on each host.
#[derive(Default)]
struct Ports(HashSet<(String, u16)>);

impl Ports {
    /// The first one from `start` that is free.
    fn take(&mut self, host: &str, start: u16) -> Result<u16, ConfigError> {
        let free = (start..=u16::MAX).find(|port| self.0.insert((host.to_owned(), *port)));
        free.ok_or_else(|| ConfigError::NoPortLeft { host: host.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(recipe: &Recipe) -> Vec<String> {
        let cluster = recipe.cluster(Path::new("/etc/pvfs/cluster.toml")).unwrap();
        let servers = cluster.managers.iter().chain(&cluster.iods);
        servers.map(|server| server.listen[0].to_string()).collect()
    }

    #[test]
    fn daemons_on_one_host_get_ports_in_a_row() {
        let expected: Vec<String> =
            (7000..7005).map(|port| format!("tcp://localhost:{port}")).collect();
        assert_eq!(addresses(&Recipe::default()), expected);
    }

    #[test]
    fn iods_go_round_the_hosts() {
        let recipe = Recipe {
            iods: "n{1-2}".into(),
            iods_per_host: 2,
            manager: "n1".into(),
            ..Recipe::default()
        };
        assert_eq!(
            addresses(&recipe),
            ["tcp://n1:7000", "tcp://n1:7001", "tcp://n2:7001", "tcp://n1:7002", "tcp://n2:7002"]
        );
    }

    #[test]
    fn one_port_for_all_makes_room_by_itself() {
        let recipe = Recipe { iod_port: 7000, iods_per_host: 1, ..Recipe::default() };
        assert_eq!(addresses(&recipe), ["tcp://localhost:7000", "tcp://localhost:7001"]);
    }

    #[test]
    fn what_a_recipe_builds_reads_back_from_its_text() {
        let path = Path::new("/etc/pvfs/cluster.toml");
        let recipe = Recipe {
            filesystem: "scratch".into(),
            id: 7,
            uuid: Some(random_uuid().unwrap()),
            networks: vec!["10.0.0.0/8".parse().unwrap()],
            ssize: Some(ByteSize(1 << 20)),
            iods: "node{01-16}".into(),
            sockets: Some("/run/pvfs".into()),
            agent_socket: Some("agent.sock".into()),
            ..Recipe::default()
        };
        let cluster = recipe.cluster(path).unwrap();
        assert_eq!(cluster.iods.len(), 64);
        assert_eq!(cluster.iods[63].listen[1].to_string(), "unix:///run/pvfs/io63.sock");
        assert_eq!(Cluster::parse(&cluster.to_toml(), path).unwrap(), cluster);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let base = Recipe::default();
        for (recipe, sentence) in [
            (
                Recipe { manager: "n{1-2}".into(), ..base.clone() },
                "stands for 2 manager hosts; name exactly one",
            ),
            (Recipe { iods: "n{1-".into(), ..base.clone() }, "is not closed"),
            (Recipe { iod_port: 65534, ..base.clone() }, "no port is left on localhost"),
            (Recipe { iods_per_host: 0, ..base.clone() }, "add at least one [[iod]]"),
            (
                Recipe { filesystem: "my files".into(), ..base.clone() },
                "\"my files\" is not a name",
            ),
            (Recipe { sockets: Some("run".into()), ..base.clone() }, "is relative; write unix://"),
        ] {
            let said = recipe.cluster(Path::new("cluster.toml")).unwrap_err().to_string();
            assert!(said.contains(sentence), "{said}");
        }
    }
}
