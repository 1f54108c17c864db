//! The agent of a cluster's one node.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{PVFS, TestCluster, eventually};

/// An agent, ended with the test.
pub struct Agent(pub Child);

impl Agent {
    /// Starts one, and waits until it listens.
    pub fn start(cluster: &TestCluster) -> Self {
        let mut command = Command::new(PVFS);
        command.arg("agent").arg("--config").arg(cluster.root().join("cluster.toml"));
        let log = File::create(cluster.root().join("log/agent.log")).unwrap();
        let agent = Self(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
        let socket = cluster.cluster().agent.socket;
        eventually("the agent listens", Duration::from_secs(10), || socket.exists());
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
