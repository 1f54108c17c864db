//! A cluster of real processes for one test: its own directory, ports and key; gone when the test ends.

#![allow(dead_code, unused_imports, reason = "each test file uses its part of this")]

pub mod agent;
pub mod cleanup;
pub mod setup;
pub mod shell;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pvfs_cli::connected::Connected;
use pvfs_client::{Blocking, Options, User};
use pvfs_config::Cluster;
/// Bytes that differ everywhere, so that a misplaced strip shows.
pub use pvfs_conformance::wants::pattern;

/// The executable under test.
pub const PVFS: &str = env!("CARGO_BIN_EXE_pvfs");

/// The preload library under test.
pub fn preload_library() -> PathBuf {
    built_library("pvfs_preload")
}

/// A library under test: built with these tests, and so beside them.
pub fn built_library(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().join(format!("lib{name}.so"))
}

/// A running file system.
pub struct TestCluster {
    pub(crate) directory: tempfile::TempDir,
}

impl TestCluster {
    /// Starts one manager and `iods` iods, not mounted.
    pub fn start(iods: u32) -> Self {
        Self::start_with(iods, &["--no-mount"])
    }

    /// Starts one with further arguments of `pvfs up`.
    pub fn start_with(iods: u32, arguments: &[&str]) -> Self {
        let cluster = Self::nowhere();
        let iods = iods.to_string();
        let port = next_port().to_string();
        let root = cluster.root().display().to_string();
        let mut all = vec!["up", &root, "--iods", &iods, "--port", &port];
        all.extend(arguments);
        let output = Command::new(PVFS).args(&all).output().unwrap();
        assert!(output.status.success(), "pvfs up failed: {}", text(&output));
        cluster
    }

    /// A directory for one; nothing is in it yet. Every user may look into it, as into any cluster's.
    pub fn nowhere() -> Self {
        let directory = tempfile::Builder::new().prefix("pvfs-test").tempdir().unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        Self { directory }
    }

    /// Its directory.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("fs")
    }

    /// Where it is mounted, if it is.
    pub fn mount_point(&self) -> PathBuf {
        self.root().join("mnt")
    }

    /// Runs a command on it.
    pub fn pvfs(&self, arguments: &[&str]) -> Output {
        let config = self.root().join("cluster.toml");
        Command::new(PVFS).args(arguments).env("PVFS_CONFIG", config).output().unwrap()
    }

    /// Runs a command that must succeed; its standard output.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.pvfs(arguments);
        assert!(output.status.success(), "pvfs {arguments:?} failed: {}", text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The cluster file.
    pub fn cluster(&self) -> Cluster {
        Cluster::load(&self.root().join("cluster.toml")).unwrap()
    }

    /// A client of its own.
    pub fn user(&self) -> User<Blocking> {
        self.user_with(|_| {})
    }

    /// A client with other options.
    pub fn user_with(&self, change: impl FnOnce(&mut Options)) -> User<Blocking> {
        let cluster = self.cluster();
        let mut options = Options::of(&cluster);
        change(&mut options);
        match Connected::with(cluster, options) {
            Ok(connected) => connected.user,
            Err(failure) => panic!("{}", failure.sentence()),
        }
    }

    /// The process id of a daemon.
    pub fn pid(&self, name: &str) -> rustix::process::Pid {
        let text = std::fs::read_to_string(self.root().join(format!("run/{name}.pid"))).unwrap();
        rustix::process::Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }

    /// Sends a daemon a signal.
    pub fn signal(&self, name: &str, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(name), signal).unwrap();
    }

    /// Stops a daemon without its knowing; it hangs until [`TestCluster::wake`].
    pub fn hang(&self, name: &str) {
        self.signal(name, rustix::process::Signal::STOP);
        let threads = format!("/proc/{}/task", self.pid(name).as_raw_nonzero());
        // A thread on another processor goes on for a moment.
        eventually("all threads stop", Duration::from_secs(10), || {
            let mut threads = std::fs::read_dir(&threads).unwrap().flatten();
            threads.all(|thread| state_of(&thread.path()).is_some_and(|state| state == 'T'))
        });
    }

    /// Ends a hang.
    pub fn wake(&self, name: &str) {
        self.signal(name, rustix::process::Signal::CONT);
    }

    /// Starts what does not run: all of it the first time, later what was killed.
    pub fn up(&self) {
        let root = self.root().display().to_string();
        let output = Command::new(PVFS).args(["up", &root, "--no-mount"]).output().unwrap();
        assert!(output.status.success(), "pvfs up failed: {}", text(&output));
    }

    /// Whether a daemon runs; one that has ended with all its threads but was not waited for does not.
    pub fn is_running(&self, name: &str) -> bool {
        let process = PathBuf::from(format!("/proc/{}", self.pid(name).as_raw_nonzero()));
        let threads = std::fs::read_dir(process.join("task")).map_or(0, Iterator::count);
        threads > 1 || state_of(&process).is_some_and(|state| state != 'Z')
    }

    /// Mounts it in a directory of this name below its own.
    pub fn mount(&self, name: &str) -> PathBuf {
        let directory = self.root().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        self.run(&["mount", &directory.display().to_string()]);
        directory
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in std::fs::read_dir(self.root().join("log")).into_iter().flatten().flatten() {
                eprintln!("--- {}:\n{}", log.path().display(), tail(&log.path()));
            }
        }
        let root = self.root().display().to_string();
        let _ = Command::new(PVFS).args(["down", &root, "--now"]).output();
        cleanup::kill_below(self.directory.path());
        cleanup::unmount_below(self.directory.path());
    }
}

/// The state of a process or thread by its directory in /proc: R, S, T, Z ...
fn state_of(directory: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(directory.join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Waits until something holds; the test fails if it does not in time.
#[track_caller]
pub fn eventually(what: &str, bound: Duration, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + bound;
    while !holds() {
        assert!(Instant::now() < until, "not within {bound:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether we are root; says why not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: this takes root");
    }
    root
}

/// Ports are chosen free by `up`, but two tests may choose at once: each starts elsewhere.
pub fn next_port() -> u32 {
    static CLUSTERS: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(97) + CLUSTERS.fetch_add(1, Ordering::Relaxed) * 24;
    // Below the range from which the kernel takes ports for outgoing connections.
    10_000 + start % 20_000
}

fn tail(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

/// What a command said.
pub fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Whether this machine lets us mount; says why not.
pub fn can_mount() -> bool {
    let root = rustix::process::geteuid().is_root();
    let can = root && Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: mounting takes root and /dev/fuse");
    }
    can
}
