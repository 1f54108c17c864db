//! Keys and sessions that are not believed for ever: rolled, denied.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use pvfs_client::credentials::{Identity, key_ring, session};
use pvfs_client::{Blocking, Filesystem, Options, User, block_on};
use pvfs_net::call::Principal;
use pvfs_wire::Errno;
use pvfs_wire::token::{Credential, SessionRights};
use rustix::process::Signal;

use crate::support::{TestCluster, eventually};
use crate::writer::{below, get, put};

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

fn denials(cluster: &TestCluster, server: usize) -> serde_json::Value {
    cluster.shell("pvfs status --json").json()["servers"][server]["figures"]["net_denials"].clone()
}

#[test]
fn a_denied_session_is_refused_everywhere_also_after_a_restart_and_its_owner_gets_another() {
    let cluster = TestCluster::start(1);
    let mine = Identity::of_process();
    let hour = Duration::from_secs(3600);
    let leaked = session(&mine, SessionRights::NONE, hour);
    let leaked = Credential::issue(&key_ring(&cluster.cluster()).unwrap(), &leaked);
    let thief = Principal::new(Box::new(move || Ok(leaked.clone()))).unwrap();
    let options = Options {
        metadata_timeout: Duration::from_secs(2),
        data_timeout: Duration::from_secs(2),
        ..Options::of(&cluster.cluster())
    };
    let filesystem = Filesystem::new(Blocking, &cluster.cluster(), options).unwrap();
    let thief = User::new(filesystem, thief.into());
    let owner = cluster.user();
    put(&owner, "f", b"content");
    assert_eq!(get(&thief, "f"), b"content");
    cluster.shell(&format!("pvfs deny --user {}", mine.uid)).succeeds().prints("io0");
    assert!(block_on(thief.stat(below(&thief, "f"), true)).is_err());
    assert_eq!(get(&owner, "f"), b"content", "the owner gets another session");
    for name in ["mgr0", "io0"] {
        cluster.signal(name, Signal::KILL);
    }
    cluster.up();
    assert_eq!((denials(&cluster, 0), denials(&cluster, 1)), (1.into(), 1.into()));
    let refused = block_on(thief.stat(below(&thief, "f"), true)).unwrap_err();
    assert!([Errno::ETIMEDOUT, Errno::EACCES].contains(&refused.errno()), "{refused}");
    assert_eq!(get(&owner, "f"), b"content");
    cluster.shell("pvfs deny").fails(2);
    cluster.shell("pvfs deny --user nobody-of-that-name").fails(2).in_one_sentence();
    cluster.shell("pvfs deny --session xyz").fails(2).in_one_sentence();
}
