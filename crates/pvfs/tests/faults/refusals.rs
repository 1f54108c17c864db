//! What daemons and clients refuse: stores and keys that are not theirs, bytes that mean nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use pvfs_config::Endpoint;
use pvfs_wire::header::Header;

use crate::support::{TestCluster, is_root, pattern};

#[test]
fn a_daemon_whose_store_is_not_its_own_says_so_and_ends() {
    let cluster = TestCluster::start(2);
    cluster.shell("pvfs down $ROOT").succeeds();
    let refused = |line: &str, words: &str| {
        let line = format!("pvfs {line}");
        cluster.shell(&line).fails(2).in_one_sentence().says(words).within(Duration::from_secs(10));
    };
    cluster.shell("mv $ROOT/io0 $ROOT/kept && cp -r $ROOT/io1 $ROOT/io0").succeeds();
    refused("iod --name io0", "is the store of io1, not of io0");
    cluster.shell("rm -r $ROOT/io0 && mkdir $ROOT/io0").succeeds();
    refused("iod --name io0", "holds no store");
    cluster.shell("echo photos > $ROOT/io0/photos").succeeds();
    refused("iod --name io0", "is not empty and holds no pvfs iod store");
    refused("iod --name io0 --format", "is not empty");
    cluster.shell("rm -r $ROOT/io0 && echo file > $ROOT/io0").succeeds();
    refused("iod --name io0", "io0");
    cluster.shell("rm $ROOT/io0 && mv $ROOT/kept $ROOT/io0").succeeds();
    refused("iod --name io0 --format", "holds a store already");
    refused("iod --name io7", "io7");
    cluster.up();
    cluster.shell("pvfs status").succeeds().prints("OK");
}

#[test]
fn a_manager_refuses_a_store_that_is_missing_or_damaged() {
    let cluster = TestCluster::start(1);
    cluster.shell("pvfs mkdir pvfs:/d && pvfs down $ROOT").succeeds();
    let refused = |line: &str| {
        let line = format!("pvfs {line}");
        cluster
            .shell(&line)
            .fails(2)
            .in_one_sentence()
            .within(Duration::from_secs(10))
            .says("mgr0");
    };
    cluster.shell("mv $ROOT/mgr0 $ROOT/kept").succeeds();
    refused("mgr --name mgr0");
    cluster.shell("mkdir $ROOT/mgr0").succeeds();
    refused("mgr --name mgr0");
    cluster.shell("echo photos > $ROOT/mgr0/photos").succeeds();
    refused("mgr --name mgr0");
    refused("mgr --name mgr0 --format");
    cluster.shell("rm -r $ROOT/mgr0 && cp -r $ROOT/kept $ROOT/mgr0").succeeds();
    cluster.shell("for f in $ROOT/mgr0/*; do head -c 5000 /dev/urandom > $f; done").succeeds();
    refused("mgr --name mgr0");
    cluster.shell("rm -r $ROOT/mgr0 && mv $ROOT/kept $ROOT/mgr0").succeeds();
    refused("mgr --name mgr0 --format");
    cluster.up();
    cluster.shell("pvfs ls").succeeds().prints("d");
}

#[test]
fn a_second_daemon_on_a_store_in_use_ends() {
    let cluster = TestCluster::start(1);
    cluster.shell("pvfs iod --name io0").fails(2).in_one_sentence().says("in use");
    cluster.shell("pvfs mgr --name mgr0").fails(2).in_one_sentence().says("in use");
    cluster.shell("pvfs status").succeeds();
}

#[test]
fn a_store_that_may_not_be_read_is_refused() {
    if !is_root() {
        return;
    }
    let cluster = TestCluster::start(1);
    cluster
        .shell("pvfs down $ROOT && chmod 600 $ROOT/io0 && chown 65534 $ROOT/cluster.key")
        .succeeds();
    let refused = cluster.shell_as_nobody("pvfs iod --name io0").fails(2);
    refused.in_one_sentence().says("ermission denied");
}

#[test]
fn a_wrong_key_is_refused_in_a_sentence() {
    let cluster = TestCluster::start(1);
    cluster.shell("pvfs genconfig -o other.toml").succeeds();
    cluster.shell("cp $ROOT/cluster.toml mine.toml").succeeds();
    let listed = |before: &str| cluster.shell(&format!("{before} && pvfs --config mine.toml ls"));
    let refused = listed("test -f cluster.key").fails(5).in_one_sentence();
    refused.says("key").within(Duration::from_secs(3));
    listed("chmod 644 cluster.key").fails(2).in_one_sentence().says("chmod 600");
    let unfit = "chmod 600 cluster.key && echo no key > cluster.key";
    listed(unfit).fails(2).in_one_sentence().says("cluster.key");
    listed("rm cluster.key").fails(2).in_one_sentence().says("cluster.key");
    cluster.shell("pvfs ls").succeeds();
}

fn port_of(cluster: &TestCluster, name: &str) -> (String, u16) {
    let described = cluster.cluster();
    let server =
        described.managers.iter().chain(&described.iods).find(|server| server.name == name);
    let tcp = server.unwrap().listen.iter().find_map(|endpoint| match endpoint {
        Endpoint::Tcp { host, port } => Some((host.to_string(), *port)),
        Endpoint::Unix { .. } => None,
    });
    tcp.unwrap()
}

/// Sends bytes and waits for the daemon to close the connection.
fn is_closed_after(address: &(String, u16), bytes: &[u8]) {
    let mut stream = TcpStream::connect((address.0.as_str(), address.1)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    // The daemon may close before it has all of it.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "not closed: {error}"),
        Ok(_) => assert!(rest.len() < 4096, "{} bytes in answer to noise", rest.len()),
    }
}

/// Bytes that look more and more like a message and never are one.
fn noises() -> Vec<Vec<u8>> {
    let header = Header { body_bytes: u32::MAX, data_bytes: u32::MAX, ..Header::request(1, 1) };
    let sane = Header::request(u16::MAX, 1).encode();
    let mut flipped = sane;
    flipped[20] ^= 1;
    vec![
        b"GET / HTTP/1.1\r\n\r\n".repeat(10),
        vec![0; 4096],
        vec![0xff; 4096],
        pattern(100_000, 1),
        header.encode().to_vec(),
        sane.repeat(3),
        flipped.to_vec(),
        sane[..40].to_vec(),
        Vec::new(),
    ]
}

#[test]
fn bytes_that_mean_nothing_close_the_connection_and_are_counted() {
    let cluster = TestCluster::start(1);
    let pids = ["mgr0", "io0"].map(|name| cluster.pid(name));
    for name in ["mgr0", "io0"] {
        let address = port_of(&cluster, name);
        noises().iter().for_each(|noise| is_closed_after(&address, noise));
    }
    assert_eq!(["mgr0", "io0"].map(|name| cluster.pid(name)), pids);
    let status = cluster.shell("pvfs status --json").succeeds().json();
    for server in [0, 1] {
        let counted = status["servers"][server]["figures"]["net_malformed_count"].as_u64();
        assert!(counted >= Some(5), "{counted:?} in {status}");
    }
}

#[test]
fn connections_that_say_nothing_are_closed_after_the_time_for_greetings() {
    let cluster = TestCluster::start(1);
    let address = port_of(&cluster, "io0");
    let mut stream = TcpStream::connect((address.0.as_str(), address.1)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).is_ok(), "still open after 15 s");
}
