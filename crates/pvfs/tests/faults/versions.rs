//! Clients and daemons of different versions of the protocol: what both speak is spoken, else one sentence says so.
//!
//! A proxy makes a client another one by what its hello says it speaks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::thread;

use pvfs_config::Endpoint;
use pvfs_wire::ops::Hello;
use pvfs_wire::{HEADER_BYTES, Header, VERSION, Wire};

use crate::support::TestCluster;

/// A line of bash whose `pvfs` speaks these versions with the manager.
fn speaking(cluster: &TestCluster, versions: RangeInclusive<u8>, line: &str) -> String {
    let described = cluster.cluster();
    let listen = &described.managers[0].listen;
    let manager = listen.iter().find_map(|endpoint| match endpoint {
        Endpoint::Tcp { host, port } => Some((host.clone(), *port)),
        Endpoint::Unix { .. } => None,
    });
    let manager = manager.expect("a manager of pvfs up listens on loopback");
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = proxy.local_addr().unwrap().port();
    let text = std::fs::read_to_string(cluster.root().join("cluster.toml")).unwrap();
    let own = text.lines().find(|line| line.starts_with("listen")).unwrap();
    let other = text.replace(own, &format!("listen = [\"tcp://127.0.0.1:{port}\"]"));
    std::fs::write(cluster.root().join("other.toml"), other).unwrap();
    thread::spawn(move || {
        for client in proxy.incoming().flatten() {
            let (host, port) = (manager.0.to_string(), manager.1);
            let (daemon, versions) = (TcpStream::connect((host, port)).unwrap(), versions.clone());
            // A connection that ends early is its client's matter.
            thread::spawn(move || carry(client, daemon, &versions));
        }
    });
    format!("pvfs --config $ROOT/other.toml {line}")
}

/// Passes on what both say, but for the versions in the hello.
fn carry(
    mut client: TcpStream,
    mut daemon: TcpStream,
    versions: &RangeInclusive<u8>,
) -> io::Result<()> {
    let (mut replies, mut to) = (daemon.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut replies, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut head = [0; HEADER_BYTES];
    client.read_exact(&mut head)?;
    let header = Header::decode(&head).expect("it begins with a hello");
    let mut body = vec![0; header.body_bytes as usize];
    client.read_exact(&mut body)?;
    let hello = Hello::from_bytes(&body).expect("it begins with a hello");
    let (version_min, version_max) = (*versions.start(), *versions.end());
    let body = Hello { version_min, version_max, ..hello }.to_bytes();
    daemon.write_all(&header.with_body(&body).encode())?;
    daemon.write_all(&body)?;
    io::copy(&mut client, &mut daemon)?;
    daemon.shutdown(Shutdown::Write)
}

#[test]
fn versions_that_have_one_in_common_work_and_others_are_refused_in_a_sentence() {
    let cluster = TestCluster::start(1);
    cluster.shell("pvfs mkdir pvfs:/d").succeeds();
    let both = speaking(&cluster, VERSION..=VERSION + 1, "ls");
    cluster.shell(&both).succeeds().prints("d");
    let newer = speaking(&cluster, VERSION + 1..=VERSION + 2, "ls");
    let refused = cluster.shell(&newer).fails(5).in_one_sentence();
    refused.says("mgr0").says("install matching versions");
    let status = speaking(&cluster, VERSION + 1..=VERSION + 2, "status");
    cluster.shell(&status).ends_with(5).prints("another version of the protocol");
}
