//! A cluster whose file or stores are not as `pvfs up` would make them: prepared first, started later.

use std::net::TcpListener;
use std::process::Command;

use super::{PVFS, TestCluster, next_port, text};

/// What the cluster is to be like.
pub struct Setup {
    iods: u32,
    /// Over TLS, and over nothing else.
    is_secured: bool,
    settings: Vec<(&'static str, String)>,
}

impl Setup {
    /// One manager and `iods` iods, with the defaults of `pvfs genconfig`.
    pub fn of(iods: u32) -> Self {
        // The agent's usual place is the machine's, and not a test's.
        let settings = vec![("socket", "\"run/agent.sock\"".into())];
        Self { iods, is_secured: false, settings }
    }

    /// The like in mode `tls`, without Unix sockets, which clients would prefer.
    pub fn secured(iods: u32) -> Self {
        Self { is_secured: true, ..Self::of(iods) }
    }

    /// Another value of a key of the cluster file, written as in TOML.
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Self {
        self.settings.push((key, value.to_string()));
        self
    }

    /// Writes the cluster file and its key; starts nothing.
    pub fn prepare(self) -> TestCluster {
        let cluster = TestCluster::nowhere();
        let root = cluster.root();
        for part in ["run", "log"] {
            std::fs::create_dir_all(root.join(part)).unwrap();
        }
        self.generate(&cluster);
        let file = root.join("cluster.toml");
        let made = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, self.apply(&made)).unwrap();
        cluster
    }

    /// Starts it, not mounted.
    pub fn start(self) -> TestCluster {
        let cluster = self.prepare();
        cluster.up();
        cluster
    }

    fn generate(&self, cluster: &TestCluster) {
        let (root, port) = (cluster.root(), free_ports(self.iods + 1));
        let mut command = Command::new(PVFS);
        command.args(["genconfig", "--manager", "127.0.0.1", "--iods", "127.0.0.1"]);
        command.args(["--iods-per-host", &self.iods.to_string()]);
        command.args(["--port", &port.to_string(), "--iod-port", &(port + 1).to_string()]);
        command.arg("--store").arg(&root);
        match self.is_secured {
            true => command.args(["--mode", "tls"]),
            false => command.arg("--sockets").arg(root.join("run")),
        };
        let output = command.arg("-o").arg(root.join("cluster.toml")).output().unwrap();
        assert!(output.status.success(), "pvfs genconfig failed: {}", text(&output));
    }

    fn apply(&self, made: &str) -> String {
        let mut lines: Vec<String> = made.lines().map(str::to_owned).collect();
        for (key, value) in &self.settings {
            let begin = format!("{key} = ");
            let line = lines.iter_mut().find(|line| line.starts_with(&begin));
            *line.unwrap_or_else(|| panic!("no {key} in\n{made}")) = begin + value;
        }
        lines.join("\n") + "\n"
    }
}

fn free_ports(count: u32) -> u32 {
    let free = |port: &u32| TcpListener::bind(("127.0.0.1", *port as u16)).is_ok();
    std::iter::repeat_with(next_port)
        .take(50)
        .find(|first| (*first..first + count).all(|port| free(&port)))
        .expect("some ports are free")
}
