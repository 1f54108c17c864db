//! A cluster key is replaced while everything runs.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use pvfs_client::block_on;
use rustix::process::Signal;

use crate::support::{TestCluster, eventually};
use crate::writer::{get, put};

const NEW_KEY: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

/// Writes the key file and has all daemons read it, which their logs tell.
fn reload_with(cluster: &TestCluster, keys: &[&str]) {
    let path = cluster.cluster().security.key_file;
    std::fs::write(&path, keys.join("\n") + "\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    for name in ["mgr0", "io0"] {
        let log = cluster.root().join(format!("log/{name}.log"));
        let reloads = || std::fs::read_to_string(&log).unwrap().matches("reloaded").count();
        let before = reloads();
        cluster.signal(name, Signal::HUP);
        eventually("it reloads", Duration::from_secs(10), || reloads() > before);
    }
}

#[test]
fn a_key_is_rolled_in_three_steps_and_nobody_notices() {
    let cluster = TestCluster::start(1);
    let old = std::fs::read_to_string(cluster.cluster().security.key_file).unwrap();
    let old = old.trim();
    let user = cluster.user();
    put(&user, "before", b"content");
    for keys in [&[old, NEW_KEY][..], &[NEW_KEY, old], &[NEW_KEY]] {
        reload_with(&cluster, keys);
        put(&user, "f", format!("{keys:?}").as_bytes());
        cluster.shell("pvfs cat pvfs:/before").succeeds().prints("content");
    }
    // A session of the old key is refused on a new connection, and another one is issued.
    user.filesystem().manager().disconnect();
    user.filesystem().iods().iter().for_each(|iod| iod.disconnect());
    assert_eq!(get(&user, "before"), b"content");
    cluster.shell("pvfs rm pvfs:/before").succeeds();
    eventually("the manager removes objects with the new key", Duration::from_secs(20), || {
        cluster.shell("pvfs status --json").json()["servers"][0]["figures"]["objects_purging"] == 0
    });
    reload_with(&cluster, &[old]);
    assert!(block_on(user.root()).is_ok(), "the key it reads now is the old one again");
    cluster.shell("pvfs ls").succeeds();
}
