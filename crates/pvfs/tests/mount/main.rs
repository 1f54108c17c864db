//! The mount as programs use it: two mounts of one file system, and the tools of every day.

#[path = "../support/mod.rs"]
mod support;

mod coherence;
mod locks;
mod programs;
mod streams;
mod tools;
mod trouble;
mod two;

use std::path::PathBuf;

use support::{TestCluster, can_mount};

/// One file system of four iods, mounted twice on this machine.
struct TwoMounts {
    cluster: TestCluster,
    here: PathBuf,
    there: PathBuf,
}

impl TwoMounts {
    /// None where this machine cannot mount.
    fn start() -> Option<Self> {
        can_mount().then(|| {
            let cluster = TestCluster::start(4);
            let (here, there) = (cluster.mount("mnt"), cluster.mount("there"));
            Self { cluster, here, there }
        })
    }

    /// Runs a line of bash; `$MNT` is here, `$ROOT/there` is there.
    fn shell(&self, line: &str) -> support::shell::Outcome {
        self.cluster.shell(line)
    }
}
