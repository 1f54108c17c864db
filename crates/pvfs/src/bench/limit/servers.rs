//! The bare servers as processes of this executable, which end with it.

use super::server::{Listener, serve};
use crate::bench::error::{Doing, Error, Result};
use pvfs_config::Endpoint;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Running servers, each on both transports.
pub struct Servers {
    children: Vec<Child>,
    tcp: Vec<Endpoint>,
    unix: Vec<Endpoint>,
}

impl Servers {
    /// Starts `count` processes with a directory each below `directory`.
    pub fn start(count: usize, directory: &Path) -> Result<Self> {
        let mut servers = Self { children: Vec::new(), tcp: Vec::new(), unix: Vec::new() };
        for number in 0..count {
            servers.start_one(&directory.join(format!("bare{number}")))?;
        }
        Ok(servers)
    }

    /// Where they listen on loopback.
    pub fn tcp(&self) -> &[Endpoint] {
        &self.tcp
    }

    /// Their sockets of this node.
    pub fn unix(&self) -> &[Endpoint] {
        &self.unix
    }

    /// Their processes.
    pub fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    fn start_one(&mut self, directory: &Path) -> Result<()> {
        std::fs::create_dir_all(directory).doing("make a directory for a bare server")?;
        let program = std::env::current_exe().doing("find this program")?;
        let mut command = Command::new(program);
        command.args(["bench", "bare-server"]).arg(directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().doing("start a bare server")?;
        let output = child.stdout.take().expect("it is piped");
        self.children.push(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).doing("hear from a bare server")?;
        let port = line.trim().parse().map_err(|_| Error::Daemon {
            daemon: "a bare server".into(),
            reason: format!("it said {line:?} where its port was expected"),
        })?;
        self.tcp.push(Endpoint::tcp("127.0.0.1", port));
        self.unix.push(Endpoint::unix(directory.join(SOCKET)));
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a server process does: says its port, then serves until its standard input ends, which it does
/// when whoever started it is gone.
pub fn run(directory: &Path) -> Result<()> {
    let tcp = TcpListener::bind("127.0.0.1:0").doing("listen on loopback")?;
    let unix = UnixListener::bind(directory.join(SOCKET)).doing("listen on a socket")?;
    println!("{}", tcp.local_addr().doing("learn the port")?.port());
    for listener in [Listener::Tcp(tcp), Listener::Unix(unix)] {
        let directory = directory.to_owned();
        std::thread::spawn(move || serve(&listener, &directory));
    }
    let mut nothing = Vec::new();
    std::io::stdin().read_to_end(&mut nothing).doing("wait for the end")?;
    Ok(())
}

const SOCKET: &str = "socket";
