//! A whole file system on one machine: its directory and its processes.
//!
//! ```text
//!   DIRECTORY/cluster.toml  cluster.key      what `pvfs genconfig` would write
//!             mgr0/ io0/ io1/ ...            stores
//!             run/mgr0.sock run/mgr0.pid ... sockets and process ids
//!             log/mgr0.log ...               what the daemons said
//!             mnt/                           the mount, where there is one
//! ```

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pvfs_config::{
    ByteSize, Cluster, ClusterKey, Recipe, Server, UNIX_PATH_BYTES_MAX, id_of, named, random_uuid,
};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::cli::exit::{Exit, Failure};
use crate::daemon::make_directory;

/// The directory of a file system that runs on this machine.
pub struct LocalCluster {
    root: PathBuf,
}

/// One of its processes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LocalProcess {
    /// `mgr`, `iod`, `agent` or `mount`.
    pub role: &'static str,
    /// Its name in the cluster file, or `mount`.
    pub name: String,
}

/// How a process came to run.
#[derive(Debug)]
pub enum Started {
    /// It was started just now.
    Now(Child),
    /// It ran already. It may be about to end: a killed process needs a moment.
    Before,
}

/// How a process that was to end went.
#[derive(Debug, Eq, PartialEq)]
pub enum Ended {
    /// By itself; or it did not run.
    ByItself,
    /// Not in time, and so it was killed.
    Killed,
    /// Not at all: it belongs to another user.
    Forbidden(Pid),
}

/// What a new file system is to be like.
pub struct Wishes {
    /// Number of iods.
    pub iods: u32,
    /// First port to try.
    pub port: u16,
    /// Strip size.
    pub ssize: Option<ByteSize>,
}

/// Where it is unless somebody says otherwise.
const HERE: &str = "./.pvfs";

impl LocalCluster {
    /// The file system of a directory, which may not exist yet.
    pub fn at(directory: &Path) -> Result<Self, Failure> {
        Ok(Self { root: absolute(directory)? })
    }

    /// The one that is meant: of this directory; else that whose cluster file `--config` or the environment names, as for
    /// all other commands; else that of the working directory.
    pub fn meant(directory: Option<&Path>, config: Option<&Path>) -> Result<Self, Failure> {
        if let Some(directory) = directory {
            return Self::at(directory);
        }
        if let Some(config) = named(config)
            && let Some(local) = Self::of_config(&config)?
        {
            return Ok(local);
        }
        Self::at(Path::new(HERE))
    }

    /// The one with this cluster file, if it was made by [`Self::create`].
    pub fn of_config(config: &Path) -> Result<Option<Self>, Failure> {
        let config = absolute(config)?;
        let Some(directory) = config.parent() else { return Ok(None) };
        let local = Self::at(directory)?;
        let is_made = ["run", "log"].iter().all(|part| local.root.join(part).is_dir());
        Ok((is_made && config == local.config()).then_some(local))
    }

    /// Its cluster file.
    pub fn config(&self) -> PathBuf {
        self.root.join("cluster.toml")
    }

    /// Where it is mounted unless told otherwise.
    pub fn mount_point(&self) -> PathBuf {
        self.root.join("mnt")
    }

    /// Its directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether it was made before.
    pub fn exists(&self) -> bool {
        self.config().exists()
    }

    /// Makes the directory with its cluster file and key.
    pub fn create(&self, wishes: &Wishes) -> Result<(), Failure> {
        for part in ["", "run", "log"] {
            make_directory(&self.root.join(part))?;
        }
        let key = self.root.join("cluster.key");
        if !key.exists() {
            ClusterKey::generate()?.write_new(&key)?;
        }
        let cluster = self.recipe(wishes)?.cluster(&self.config())?;
        fs::write(self.config(), cluster.to_toml()).map_err(|error| {
            Failure::io(&format!("cannot write {}", self.config().display()), &error)
        })
    }

    fn recipe(&self, wishes: &Wishes) -> Result<Recipe, Failure> {
        let run = self.root.join("run");
        let longest = run.join("agent.sock");
        // A longer path does not fit into a socket's address; TCP alone works too.
        let sockets = (longest.as_os_str().len() <= UNIX_PATH_BYTES_MAX).then(|| run.clone());
        let manager_port = free_ports(wishes.port, 1)?;
        let uuid = random_uuid()?;
        Ok(Recipe {
            filesystem: "pvfs".into(),
            id: id_of(&uuid),
            uuid: Some(uuid),
            networks: vec![
                "127.0.0.0/8".parse().expect("a network"),
                "::1/128".parse().expect("a network"),
            ],
            ssize: wishes.ssize,
            manager: "127.0.0.1".into(),
            iods: "127.0.0.1".into(),
            iods_per_host: wishes.iods,
            manager_port,
            iod_port: free_ports(manager_port + 1, wishes.iods)?,
            store: self.root.clone(),
            agent_socket: sockets.as_ref().map(|dir| dir.join("agent.sock")),
            sockets,
            ..Recipe::default()
        })
    }

    /// The cluster.
    pub fn load(&self) -> Result<Cluster, Failure> {
        Ok(Cluster::load(&self.config())?)
    }

    /// Its daemons, in the order in which they are started.
    pub fn daemons(cluster: &Cluster) -> Vec<LocalProcess> {
        let manager = cluster.managers.iter().map(|server| ("mgr", &server.name));
        let iods = cluster.iods.iter().map(|server| ("iod", &server.name));
        iods.chain(manager).map(|(role, name)| LocalProcess { role, name: name.clone() }).collect()
    }

    /// Starts a process in the background, in a session of its own, unless it runs already.
    pub fn start(&self, process: &LocalProcess, arguments: &[String]) -> Result<Started, Failure> {
        if self.pid(process).is_some() {
            return Ok(Started::Before);
        }
        let doing = format!("cannot start {}", process.name);
        let log = OpenOptions::new().create(true).append(true).open(self.log(process));
        let log = log.map_err(|error| Failure::io(&doing, &error))?;
        let program = std::env::current_exe().map_err(|error| Failure::io(&doing, &error))?;
        let mut command = Command::new(program);
        command.arg(process.role).arg("--config").arg(self.config()).args(arguments);
        let output = log.try_clone().map_err(|error| Failure::io(&doing, &error))?;
        command.stdin(Stdio::null()).stdout(output).stderr(log).process_group(0);
        let child = command.spawn().map_err(|error| Failure::io(&doing, &error))?;
        fs::write(self.pid_file(process), child.id().to_string())
            .map_err(|error| Failure::io(&doing, &error))?;
        Ok(Started::Now(child))
    }

    /// Whether a process has ended since it was started.
    pub fn has_ended(&self, process: &LocalProcess, started: &mut Started) -> bool {
        match started {
            // Its command line is not to be looked at: it is empty until the new program has begun.
            Started::Now(child) => !matches!(child.try_wait(), Ok(None)),
            Started::Before => self.pid(process).is_none(),
        }
    }

    /// The process id, if it runs.
    pub fn pid(&self, process: &LocalProcess) -> Option<Pid> {
        let text = fs::read_to_string(self.pid_file(process)).ok()?;
        let pid = Pid::from_raw(text.trim().parse().ok()?)?;
        (!is_gone(pid) && (self.is_ours(pid) || is_exiting(pid))).then_some(pid)
    }

    /// A process id may have been given to somebody else since: ours names our cluster file.
    fn is_ours(&self, pid: Pid) -> bool {
        let command =
            fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        let config = self.config();
        let mut arguments = command.split(|byte| *byte == 0).map(OsStr::from_bytes).map(Path::new);
        arguments.any(|path| path.file_name() == config.file_name() && is_same(path, &config))
    }

    /// Asks a process to end and waits for it; after `patience` it is killed.
    pub fn stop(&self, process: &LocalProcess, signal: Signal, patience: Duration) -> Ended {
        let Some(pid) = self.pid(process) else { return Ended::ByItself };
        if kill_process(pid, signal) == Err(Errno::PERM) {
            return Ended::Forbidden(pid);
        }
        let in_time = is_gone_within(pid, patience);
        if !in_time {
            let _ = kill_process(pid, Signal::KILL);
            is_gone_within(pid, KILL_TIME);
        }
        let _ = fs::remove_file(self.pid_file(process));
        if in_time { Ended::ByItself } else { Ended::Killed }
    }

    /// The daemons that use their stores: each locks its own for as long as it lives, however it was started.
    pub fn using_stores(cluster: &Cluster) -> Vec<&str> {
        let locks = |server: &Server, file: &str| is_locked(&server.store.join(file));
        let managers = cluster.managers.iter().filter(|server| locks(server, MANAGER_LOCK));
        let iods = cluster.iods.iter().filter(|server| locks(server, IOD_LOCK));
        managers.chain(iods).map(|server| server.name.as_str()).collect()
    }

    /// The last lines that a process logged.
    pub fn last_words(&self, process: &LocalProcess) -> String {
        tail(&self.log(process)).unwrap_or_default()
    }

    fn pid_file(&self, process: &LocalProcess) -> PathBuf {
        self.root.join("run").join(format!("{}.pid", process.name))
    }

    fn log(&self, process: &LocalProcess) -> PathBuf {
        self.root.join("log").join(format!("{}.log", process.name))
    }
}

/// Whether a process has let go of all it held: sockets, and the lock of its store. One that was not
/// waited for still has its process id. The first thread may have ended before the others.
fn is_gone(pid: Pid) -> bool {
    let alone = || stat_field(pid, 20).is_none_or(|threads| threads == "1");
    test_kill_process(pid) == Err(Errno::SRCH)
        || stat_field(pid, 3).is_none_or(|state| state == "Z" && alone())
}

fn is_gone_within(pid: Pid, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    while !is_gone(pid) {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK_INTERVAL);
    }
    true
}

/// Whether somebody else has locked a file. Whoever may not look is not told.
fn is_locked(file: &Path) -> bool {
    let file = File::open(file);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether a process was stopped by a signal, or by a debugger.
pub fn is_stopped(pid: Pid) -> bool {
    stat_field(pid, 3).is_some_and(|state| matches!(state.as_str(), "T" | "t"))
}

/// A process on its way out has no command line any more, but may hold its store's lock.
fn is_exiting(pid: Pid) -> bool {
    let flags = stat_field(pid, 9).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & PF_EXITING != 0)
}

/// A field of /proc/PID/stat, counted from 1 as in proc(5); the third is the first after the name.
fn stat_field(pid: Pid, number: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3).map(str::to_owned)
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_BYTES)))?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(LAST_WORDS_LINES)..].join("\n"))
}

/// A path from the root on.
pub fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path)
        .map_err(|error| Failure::io("cannot find the working directory", &error))
}

/// Whether two paths lead to the same place, however they are written.
pub fn is_same(left: &Path, right: &Path) -> bool {
    let ends = (left.canonicalize(), right.canonicalize());
    left == right || matches!(ends, (Ok(left), Ok(right)) if left == right)
}

/// The first of `count` neighbouring ports that are all free, from `first` on.
fn free_ports(first: u16, count: u32) -> Result<u16, Failure> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let count = count as u16;
    (first..=u16::MAX - count)
        .take(PORTS_TRIED_MAX)
        .find(|start| (*start..*start + count).all(free))
        .ok_or_else(|| {
            Failure::new(
                Exit::Failed,
                format!("no {count} free ports from {first} on; give another --port"),
            )
        })
}

/// What daemons keep locked in their stores.
const MANAGER_LOCK: &str = "lock";
const IOD_LOCK: &str = "pvfs-iod";

/// As in the kernel's include/linux/sched.h.
const PF_EXITING: u32 = 4;
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// A killed process has much memory to give back at most.
const KILL_TIME: Duration = Duration::from_secs(2);
const LAST_WORDS_BYTES: u64 = 4096;
const LAST_WORDS_LINES: usize = 8;
const PORTS_TRIED_MAX: usize = 2000;
