//! Mode `tls` from the outside: who gets in, who is told what, and what becomes of it when daemons die.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pvfs_cli::connected::Connected;
use pvfs_client::{Options, block_on};
use pvfs_config::{Cluster, Endpoint};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, date_time_ymd};
use rustix::process::Signal;

use crate::support::agent::Agent;
use crate::support::setup::Setup;
use crate::support::{PVFS, TestCluster, can_mount, eventually, is_root, pattern};

const AT_ONCE: Duration = Duration::from_secs(5);

/// Every connection of these clusters goes over TCP.
fn started(iods: u32) -> TestCluster {
    let cluster = Setup::secured(iods).with("data_deadline_s", 3).start();
    let described = cluster.cluster();
    let servers = described.managers.iter().chain(&described.iods);
    let mut endpoints = servers.flat_map(|server| &server.listen);
    assert!(endpoints.all(|endpoint| matches!(endpoint, Endpoint::Tcp { .. })));
    cluster
}

/// A directory with a cluster file of its own for the same daemons, after a line of bash in it.
fn beside(cluster: &TestCluster, name: &str, line: &str) -> String {
    let line = format!(
        "mkdir $ROOT/{name} && cp -p $ROOT/cluster.* $ROOT/node.* $ROOT/user.* $ROOT/{name}/ && \
         cd $ROOT/{name} && {line}"
    );
    cluster.shell(&line).succeeds();
    format!("pvfs --config $ROOT/{name}/cluster.toml")
}

fn figure(cluster: &TestCluster, server: usize, name: &str) -> u64 {
    let status = cluster.shell("pvfs status --json").json();
    status["servers"][server]["figures"][name].as_u64().unwrap()
}

#[test]
fn files_travel_over_tls_and_survive_a_killed_iod() {
    let cluster = started(2);
    let content = pattern(9, (12 << 20) + 77);
    std::fs::write(cluster.root().join("in"), &content).unwrap();
    cluster.shell("pvfs cp $ROOT/in pvfs:/f && pvfs cp pvfs:/f $ROOT/out").succeeds();
    assert!(std::fs::read(cluster.root().join("out")).unwrap() == content);
    cluster.shell("pvfs ls -l").succeeds().prints(&content.len().to_string());
    cluster.shell("pvfs stat pvfs:/f").succeeds().prints(&content.len().to_string());
    cluster.signal("io1", Signal::KILL);
    eventually("it has ended", AT_ONCE, || !cluster.is_running("io1"));
    cluster.shell("pvfs cat pvfs:/f").fails(4).says("io1");
    cluster.up();
    cluster.shell("pvfs cp -f pvfs:/f $ROOT/again").succeeds();
    assert!(std::fs::read(cluster.root().join("again")).unwrap() == content);
    cluster.shell("pvfs rm pvfs:/f").succeeds();
    eventually("the manager removes objects over TLS", Duration::from_secs(20), || {
        (1..3).all(|iod| figure(&cluster, iod, "removed_objects_total") > 0)
    });
}

#[test]
fn programs_of_a_library_and_of_ordinary_users_connect_with_the_users_certificate() {
    if !is_root() {
        return;
    }
    let cluster = Setup::secured(1).with("uids", "[\"0\", \"65534\"]").start();
    let _agent = Agent::start(&cluster);
    cluster
        .shell("pvfs mkdir -m 777 pvfs:/d && echo here > $ROOT/f && chmod 644 $ROOT/f")
        .succeeds();
    cluster
        .shell_as_nobody("pvfs cp $ROOT/f pvfs:/d/f && pvfs cat pvfs:/d/f")
        .succeeds()
        .prints("here");
    cluster.shell_as_nobody("pvfs run cat /pvfs/d/f").succeeds().prints("here");
    cluster
        .shell_as_nobody("pvfs run sh -c 'cp /pvfs/d/f /pvfs/d/g; ls -l /pvfs/d'")
        .succeeds()
        .prints("g");
    // Parent and child of a fork, each by connections of its own.
    let forks = "pvfs run bash -c 'cd /pvfs/d; echo 1 > n; for i in 2 3 4; do (echo $i >> n; cat n > c$i) & done; \
                 wait; echo 5 >> n; sort n | tr -d \"\\n\"'";
    cluster.shell_as_nobody(forks).succeeds().prints("12345");
    // Not because it could read the node's.
    let user = cluster.root().join("user.key");
    std::fs::set_permissions(&user, Permissions::from_mode(0o600)).unwrap();
    let said = cluster.shell_as_nobody("pvfs cat pvfs:/d/f").fails(5).in_one_sentence();
    said.says("cannot read the key of the users' certificate");
}

#[test]
fn who_is_of_another_cluster_or_mode_is_told_so_at_once() {
    let cluster = started(1);
    let other = beside(
        &cluster,
        "other",
        "mv cluster.toml kept && rm -f *.pem *.key && \
         pvfs genconfig --mode tls --manager 127.0.0.1 --iods 127.0.0.1 -o cluster.toml && mv kept cluster.toml",
    );
    let plain =
        beside(&cluster, "plain", "sed -i 's/^mode = \"tls\"/mode = \"psk\"/' cluster.toml");
    for (pvfs, words) in [
        (&other, "cannot connect to mgr0: its certificate was not signed by this cluster's CA"),
        (&plain, "cannot connect to mgr0: it speaks TLS; is [security] mode the same"),
    ] {
        cluster.shell(&format!("{pvfs} ls")).fails(5).in_one_sentence().says(words).within(AT_ONCE);
        cluster.shell(&format!("{pvfs} status")).ends_with(5).prints(words).within(AT_ONCE);
    }
    assert!(figure(&cluster, 0, "net_untrusted_count") >= 4);
    cluster.shell("pvfs ls").succeeds();
}

#[test]
fn who_speaks_tls_with_a_cluster_that_does_not_is_told_so_at_once() {
    let cluster = Setup::secured(1).with("mode", "\"psk\"").start();
    let tls = beside(&cluster, "tls", "sed -i 's/^mode = \"psk\"/mode = \"tls\"/' cluster.toml");
    let said = cluster.shell(&format!("{tls} ls")).fails(5).in_one_sentence().within(AT_ONCE);
    said.says("cannot connect to mgr0: it does not speak TLS; is [security] mode the same");
    assert!(figure(&cluster, 0, "net_untrusted_count") >= 1);
}

#[test]
fn a_daemon_does_not_start_with_what_clients_would_refuse() {
    let cluster = Setup::secured(1).prepare();
    let root = cluster.root();
    let refused = |line: &str, words: &str| {
        cluster.shell(&format!("cd $ROOT && {line}")).succeeds();
        let started = cluster.shell("pvfs mgr --name mgr0 --format");
        started.fails(2).says(words).within(AT_ONCE);
        cluster.shell("rm -rf $ROOT/mgr0; cp -p $ROOT/kept/* $ROOT").succeeds();
    };
    cluster.shell("mkdir $ROOT/kept && cp -p $ROOT/*.pem $ROOT/*.key $ROOT/kept").succeeds();
    refused("cp user.pem node.pem; cp user.key node.key; chmod 600 node.key", "is one of users");
    refused("chmod 644 node.key", "run chmod 600");
    refused("rm node.pem", "cannot read the certificate of this node");
    refused("rm node.key", "cannot read the key of this node's certificate");
    refused("echo no certificate > cluster.ca.pem", "holds no certificate in PEM form");
    refused("cat user.key > node.key", "node.key is not that of the certificate");
    refused(
        "rm node.*; pvfs genconfig -qf --mode tls --manager n1 --iods n1 -o $ROOT/other.toml",
        "does not name 127.0.0.1",
    );
    assert!(Path::new(PVFS).exists() && root.join("node.key").exists());
    cluster.up();
    cluster.shell("pvfs ls").succeeds();
}

#[test]
fn new_certificates_are_taken_on_sighup_and_bad_ones_are_not() {
    let cluster = started(1);
    let user = cluster.user();
    crate::writer::put(&user, "before", b"content");
    let reload = |words: &str| {
        let log = cluster.root().join("log/mgr0.log");
        let told = || std::fs::read_to_string(&log).unwrap().matches(words).count();
        let before = told();
        cluster.signal("mgr0", Signal::HUP);
        eventually("it reloads", Duration::from_secs(10), || told() > before);
    };
    cluster.shell("cd $ROOT && mkdir kept && cp -p node.* kept && cp user.pem node.pem").succeeds();
    reload("node.pem is one of users, and cannot stand for a daemon");
    cluster.shell("cp -p $ROOT/kept/* $ROOT && pvfs ls").succeeds().prints("before");
    // Another CA: who believes the old one is not let in, and who is connected stays.
    let old = beside(&cluster, "old", "true");
    let new = "mkdir new && cd new && pvfs genconfig -q --mode tls --manager 127.0.0.1 \
               --iods 127.0.0.1 -o cluster.toml && cp -p *.pem node.key user.key $ROOT";
    cluster.shell(&format!("cd $ROOT && {new}")).succeeds();
    reload("reloaded");
    let said = cluster.shell(&format!("{old} ls")).fails(5);
    said.says("was not signed by this cluster's CA");
    crate::writer::put(&user, "after", b"content");
    cluster.shell("pvfs ls").succeeds().prints("after");
}

/// Puts a node's certificate that is good for so long in the place of that in `directory`; returns when it is over.
fn shorten(directory: &Path, time: Duration) -> SystemTime {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    let key = read("cluster.ca.key");
    let key = KeyPair::from_pem(&key[key.find("-----BEGIN").unwrap()..]).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&read("cluster.ca.pem"), key).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let until = SystemTime::now() + time;
    let age = until.duration_since(UNIX_EPOCH).unwrap();
    params.not_before = date_time_ymd(2000, 1, 1);
    params.not_after = date_time_ymd(1970, 1, 1) + Duration::from_secs(age.as_secs());
    let pair = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&pair, &issuer).unwrap();
    std::fs::write(directory.join("node.key"), pair.serialize_pem()).unwrap();
    std::fs::write(directory.join("node.pem"), certificate.pem()).unwrap();
    until
}

#[test]
fn a_renewed_certificate_is_taken_by_clients_and_mounts_that_run() {
    let cluster = started(1);
    let pvfs = beside(&cluster, "short", "mkdir kept && cp -p node.* kept");
    let directory = cluster.root().join("short");
    let until = shorten(&directory, Duration::from_secs(10));
    let described = Cluster::load(&directory.join("cluster.toml")).unwrap();
    let options = Options { metadata_timeout: AT_ONCE, ..Options::of(&described) };
    let Ok(Connected { user, .. }) = Connected::with(described, options) else {
        panic!("it is good yet");
    };
    let root = || block_on(user.root()).and_then(|root| block_on(user.list(root, false)));
    crate::writer::put(&user, "f", b"content");
    let mounted = can_mount();
    if mounted {
        cluster.shell(&format!("mkdir $ROOT/mnt && {pvfs} mount $ROOT/mnt")).succeeds();
        cluster.shell("ls $ROOT/mnt").succeeds().prints("f");
    }
    let left = until.duration_since(SystemTime::now()).expect("it was good for long enough");
    std::thread::sleep(left + Duration::from_secs(2));
    assert!(root().is_ok(), "whoever is connected stays so");
    cluster.signal("mgr0", Signal::KILL);
    eventually("it has ended", AT_ONCE, || !cluster.is_running("mgr0"));
    cluster.up();
    let refused = || root().unwrap_err().to_string();
    assert!(refused().contains("has expired"), "{}", refused());
    cluster.shell("echo nothing > $ROOT/short/node.pem").succeeds();
    assert!(refused().contains("has expired"), "half a copy: {}", refused());
    if mounted {
        cluster.shell("touch $ROOT/mnt/g").ends_with(1);
    }
    cluster.shell("cp -p $ROOT/short/kept/* $ROOT/short").succeeds();
    assert_eq!(root().unwrap().len(), 1);
    if mounted {
        cluster.shell("touch $ROOT/mnt/g && cat $ROOT/mnt/f").succeeds().prints("content");
    }
}
