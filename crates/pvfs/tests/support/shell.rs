//! Command lines as people type them, and what they may expect of how they end.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{PVFS, TestCluster};

/// A command line that has ended.
#[derive(Debug)]
pub struct Outcome {
    line: String,
    code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
    /// How long it took.
    pub time: Duration,
}

impl TestCluster {
    /// Runs a line of bash in a scratch directory, with our names in the path and this cluster as the one meant.
    pub fn shell(&self, line: &str) -> Outcome {
        self.shell_command(line).finish(line)
    }

    /// The like, as the user `nobody`.
    pub fn shell_as_nobody(&self, line: &str) -> Outcome {
        let mut shell = self.shell_command(line);
        shell.become_nobody();
        shell.finish(line)
    }

    /// Where [`TestCluster::shell`] runs.
    pub fn scratch(&self) -> std::path::PathBuf {
        let scratch = self.directory.path().join("scratch");
        std::fs::create_dir_all(&scratch).unwrap();
        scratch
    }

    fn shell_command(&self, line: &str) -> Shell {
        let bin = self.directory.path().join("bin");
        link_names(&bin);
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", "120", "bash", "-c", line]).stdin(Stdio::null());
        command.current_dir(self.scratch()).env("PATH", path).env("MNT", self.mount_point());
        command.env("PVFS_CONFIG", self.root().join("cluster.toml")).env("ROOT", self.root());
        Shell(command)
    }
}

struct Shell(Command);

impl Shell {
    /// nobody and nogroup everywhere, with no other group.
    fn become_nobody(&mut self) {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "timeout"]);
        command.args(self.0.get_args()).stdin(Stdio::null());
        for (name, value) in self.0.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.current_dir("/tmp");
        self.0 = command;
    }

    fn finish(mut self, line: &str) -> Outcome {
        let start = Instant::now();
        let output = self.0.output().unwrap();
        Outcome {
            line: line.to_owned(),
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            time: start.elapsed(),
        }
    }
}

impl Outcome {
    /// Whether it did what it was asked.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// It did what it was asked.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        self.ends_with(0)
    }

    /// It ended with this code, and its complaints are sentences.
    #[track_caller]
    pub fn fails(self, code: i32) -> Self {
        let this = self.ends_with(code);
        assert!(!this.stderr.trim().is_empty() || code == 3, "no complaint: {this:#?}");
        for unfit in ["panicked", "RUST_BACKTRACE", "Err(", "Error {", "Some(", "Os {"] {
            assert!(!this.stderr.contains(unfit), "{unfit:?} is no sentence: {this:#?}");
        }
        this
    }

    /// It ended with this code.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// It complained in one line with these words.
    #[track_caller]
    pub fn says(self, words: &str) -> Self {
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert!(lines.iter().any(|line| line.contains(words)), "no {words:?}: {self:#?}");
        self
    }

    /// It complained in a single line.
    #[track_caller]
    pub fn in_one_sentence(self) -> Self {
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "{self:#?}");
        assert!(self.stderr.starts_with("pvfs: "), "{self:#?}");
        self
    }

    /// It printed these words.
    #[track_caller]
    pub fn prints(self, words: &str) -> Self {
        assert!(self.stdout.contains(words), "no {words:?}: {self:#?}");
        self
    }

    /// It did not take longer.
    #[track_caller]
    pub fn within(self, bound: Duration) -> Self {
        assert!(self.time <= bound, "longer than {bound:?}: {self:#?}");
        self
    }

    /// What it printed, as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        let parsed = serde_json::from_str(&self.stdout);
        parsed.unwrap_or_else(|error| panic!("no JSON ({error}): {self:#?}"))
    }

    /// What it printed, a line each.
    pub fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
}

/// The names under which the executable is installed.
fn link_names(bin: &Path) {
    std::fs::create_dir_all(bin).unwrap();
    for name in ["pvfs", "u2p", "pvstat", "mkmgrconf", "mount.pvfs", "mount.fuse.pvfs"] {
        // There already, if this is not the first line.
        let _ = symlink(PVFS, bin.join(name));
    }
}
