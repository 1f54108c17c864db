//! Too many: connections, and too few descriptors. Whoever behaves is served all the same.

use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use pvfs_config::Endpoint;
use rustix::process::Signal;

use crate::support::{PVFS, TestCluster, eventually};

fn connect_many(cluster: &TestCluster, count: usize) -> Vec<TcpStream> {
    let iod = &cluster.cluster().iods[0];
    let address = iod.listen.iter().find_map(|endpoint| match endpoint {
        Endpoint::Tcp { host, port } => Some((host.to_string(), *port)),
        Endpoint::Unix { .. } => None,
    });
    let (host, port) = address.unwrap();
    let connect = || TcpStream::connect((host.as_str(), port));
    // A full queue makes the kernel let some wait: that is as good a flood.
    (0..count).filter_map(|_| connect().ok()).collect()
}

#[test]
fn a_thousand_connections_that_say_nothing_keep_nobody_out() {
    let cluster = TestCluster::start(1);
    let pid = cluster.pid("io0");
    cluster.shell("head -c 3M /dev/urandom > data").succeeds();
    let flood = connect_many(&cluster, 1000);
    assert!(flood.len() > 900, "{}", flood.len());
    let copy = "pvfs cp -f data pvfs:/f && pvfs cat pvfs:/f | cmp - data";
    cluster.shell(copy).succeeds().within(Duration::from_secs(30));
    assert!(cluster.is_running("io0") && cluster.pid("io0") == pid);
    let open = || {
        let status = cluster.shell("pvfs status --json").json();
        status["servers"][1]["figures"]["connections"].as_u64().unwrap_or(u64::MAX)
    };
    eventually("the silent ones are closed", Duration::from_secs(30), || open() < 50);
    drop(flood);
}

#[test]
fn a_daemon_with_few_descriptors_lets_clients_wait_and_lives() {
    let cluster = TestCluster::start(1);
    cluster.shell("head -c 3M /dev/urandom > data && pvfs cp data pvfs:/before").succeeds();
    cluster.signal("io0", Signal::KILL);
    eventually("it ends", Duration::from_secs(10), || !cluster.is_running("io0"));
    let config = cluster.root().join("cluster.toml");
    let log = std::fs::File::create(cluster.root().join("log/few.log")).unwrap();
    let mut daemon = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" iod --name io0 --config \"$1\""])
        .args([PVFS.as_ref(), config.as_os_str()])
        .stderr(log)
        .spawn()
        .unwrap();
    let copy = "pvfs cp -f data pvfs:/f && pvfs cat pvfs:/f | cmp - data";
    cluster.shell(copy).succeeds();
    let flood = connect_many(&cluster, 200);
    cluster.shell(copy).succeeds().within(Duration::from_secs(60));
    // More objects than it can keep open.
    cluster.shell("for i in {1..100}; do pvfs cp -f data pvfs:/f$i || exit 1; done").succeeds();
    cluster
        .shell("pvfs cat pvfs:/f1 | cmp - data && pvfs cat pvfs:/before | cmp - data")
        .succeeds();
    assert!(daemon.try_wait().unwrap().is_none(), "it ended");
    drop(flood);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}
