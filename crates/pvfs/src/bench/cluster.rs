//! A private cluster: one manager and four iods, real processes of this executable.
//!
//! They stay in our session, so that the scheduler treats them as it treats the bare servers.

use super::error::{Doing, Error, Result};
use pvfs_client::credentials::{Identity, Issuer};
use pvfs_client::{Blocking, Filesystem, Options, Transport, User, block_on};
use pvfs_config::{Cluster, ClusterKey, Recipe, Server};
use pvfs_wire::token::SessionRights;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The processes of a private cluster, stopped when dropped.
pub struct Daemons {
    /// The cluster they are.
    pub cluster: Cluster,
    children: Vec<Child>,
}

impl Daemons {
    /// Starts all below `directory`, and waits until they serve.
    pub fn start(directory: &Path) -> Result<Self> {
        let cluster = describe(directory)?;
        let mut daemons = Self { cluster, children: Vec::new() };
        for (role, server) in servers(&daemons.cluster) {
            let child = spawn(role, &server, &daemons.cluster.path, directory)?;
            daemons.children.push(child);
        }
        daemons.wait_until_they_serve(directory)?;
        Ok(daemons)
    }

    /// The processes, the manager's first.
    pub fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    fn wait_until_they_serve(&mut self, directory: &Path) -> Result<()> {
        let user = client(&self.cluster, Transport::Tcp)?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            let space = block_on(user.statfs());
            let Some(missing) = space.unanswered.first() else { return Ok(()) };
            let failure = format!("{}: {}", missing.server, missing.error);
            self.fail_if_one_ended(directory)?;
            if Instant::now() >= deadline {
                return Err(Error::Daemon {
                    daemon: "the private cluster".into(),
                    reason: failure,
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn fail_if_one_ended(&mut self, directory: &Path) -> Result<()> {
        let names: Vec<String> = servers(&self.cluster).map(|(_, server)| server.name).collect();
        for (child, daemon) in self.children.iter_mut().zip(names) {
            if let Ok(Some(status)) = child.try_wait() {
                let log = fs::read_to_string(log_path(directory, &daemon)).unwrap_or_default();
                let reason = format!("{status}; {}", log.trim());
                return Err(Error::Daemon { daemon, reason });
            }
        }
        Ok(())
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        // Nothing of what they hold is to be kept, so they need not be asked to stop in order.
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A client of its own, as a process would be one: own connections, own identity at the manager.
pub fn client(cluster: &Cluster, transport: Transport) -> Result<User<Blocking>> {
    let issuer = Issuer::of(cluster).doing("get a session")?;
    let principal = issuer.principal(Identity::of_process(), SessionRights::default());
    let options = Options { transport, ..Options::of(cluster) };
    let filesystem = Filesystem::new(Blocking, cluster, options).doing("use the file system")?;
    Ok(User::new(filesystem, principal.doing("get a session")?))
}

fn describe(directory: &Path) -> Result<Cluster> {
    let path = directory.join("cluster.toml");
    let first_port = free_ports(1 + IODS)?;
    let recipe = Recipe {
        filesystem: "bench".into(),
        manager: "127.0.0.1".into(),
        iods: "127.0.0.1".into(),
        iods_per_host: IODS as u32,
        manager_port: first_port,
        iod_port: first_port + 1,
        store: directory.join("stores"),
        sockets: Some(directory.to_owned()),
        agent_socket: Some(directory.join("agent.sock")),
        ..Recipe::default()
    };
    let cluster = recipe.cluster(&path)?;
    let key = ClusterKey::generate().map_err(pvfs_config::ConfigError::from)?;
    key.write_new(&directory.join("cluster.key")).map_err(pvfs_config::ConfigError::from)?;
    fs::write(&path, cluster.to_toml()).doing("write the cluster file")?;
    Ok(cluster)
}

/// The first of `count` ports in a row that nobody listens on.
fn free_ports(count: u16) -> Result<u16> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Runs side by side look in different places, below the ports that connections are given.
    let start = 10_000 + (std::process::id() % 4_000) as u16 * count;
    let found = (start..u16::MAX - count).find(|first| (*first..first + count).all(free));
    found.ok_or_else(|| Error::Wrong("no free ports in a row on loopback".into()))
}

fn servers(cluster: &Cluster) -> impl Iterator<Item = (&'static str, Server)> {
    let managers = cluster.managers.clone().into_iter().map(|server| ("mgr", server));
    managers.chain(cluster.iods.clone().into_iter().map(|server| ("iod", server)))
}

fn spawn(role: &str, server: &Server, config: &Path, directory: &Path) -> Result<Child> {
    let log = File::create(log_path(directory, &server.name)).doing("make a log")?;
    let program = std::env::current_exe().doing("find this program")?;
    let mut command = Command::new(program);
    command.arg(role).arg("--config").arg(config).args(["--name", &server.name, "--format"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // A group of its own: an interrupt from the terminal is for us, and we end them in order.
    command.process_group(0).spawn().doing(&format!("start {}", server.name))
}

fn log_path(directory: &Path, daemon: &str) -> std::path::PathBuf {
    directory.join(format!("{daemon}.log"))
}

/// As in the bars: one stripe is four strips.
pub const IODS: u16 = 4;

const START_TIMEOUT: Duration = Duration::from_secs(20);
