//! Running it: up, down, status, ping, estop, resume, stop, genconfig, help.

use std::time::Duration;

use crate::support::setup::Setup;
use crate::support::{TestCluster, eventually};

#[test]
fn status_and_ping_tell_of_every_daemon() {
    let cluster = TestCluster::start(3);
    cluster.shell("pvfs status").succeeds().prints("pvfs: OK");
    cluster.shell("pvfs status | grep -c ' free'").succeeds().prints("3");
    cluster.shell("pvfs status -v").succeeds().prints("net_connections");
    cluster.shell("pvfs status --wait 10s").succeeds();
    let value = cluster.shell("pvfs status --json").succeeds().json();
    assert_eq!(value["state"], "OK");
    let names: Vec<&str> = value["servers"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    assert_eq!(names, ["mgr0", "io0", "io1", "io2"]);
    // Each listens on TCP and on a socket of this node.
    assert_eq!(cluster.shell("pvfs ping").succeeds().lines().len(), 8);
    let trips = cluster.shell("pvfs ping io0 --count 100 --json").succeeds().json();
    assert!(trips[0]["median_us"].as_f64() > Some(0.0), "{trips}");
}

#[test]
fn daemons_stop_resume_and_start_again_by_command() {
    let cluster = TestCluster::start(2);
    cluster.shell("echo hello > x && pvfs cp x pvfs:/x").succeeds();
    cluster
        .shell("pvfs estop all && pvfs resume all && pvfs cat pvfs:/x")
        .succeeds()
        .prints("hello");
    cluster.shell("pvfs estop pvfs && pvfs resume pvfs").succeeds();
    cluster.shell("pvfs stop io1").succeeds();
    eventually("io1 ends", Duration::from_secs(10), || !cluster.is_running("io1"));
    assert!(cluster.is_running("io0"));
    cluster.shell("pvfs up $ROOT --no-mount && pvfs cat pvfs:/x").succeeds().prints("hello");
    cluster.shell("pvfs stop").succeeds();
    cluster.shell("pvfs up $ROOT --no-mount --json && pvfs down $ROOT").succeeds();
    cluster.shell("pvfs down $ROOT").succeeds();
}

#[test]
fn up_makes_a_file_system_where_it_is_told() {
    let cluster = TestCluster::nowhere();
    let port = crate::support::next_port();
    let up = format!(
        "env -u PVFS_CONFIG pvfs up ./.pvfs --no-mount --iods 2 --ssize 128K --port {port}"
    );
    cluster.shell(&up).succeeds().prints("pvfs is up: 1 manager, 2 iods, not mounted");
    let here = |line: &str| cluster.shell(&format!("unset PVFS_CONFIG; {line}"));
    here("echo x > x; pvfs cp x pvfs:/x; pvfs stat pvfs:/x").succeeds().prints("ssize 131072");
    here("pvfs up --no-mount && pvfs status").succeeds().prints("OK");
    here("pvfs down").succeeds().prints("stopped");
    here("pvfs up --no-mount && pvfs cat pvfs:/x").succeeds().prints("x");
    // Elsewhere, as all other commands find it.
    let elsewhere = |line: &str| {
        cluster
            .shell(&format!("mkdir -p other; cd other; PVFS_CONFIG=../.pvfs/cluster.toml {line}"))
    };
    elsewhere("pvfs down").succeeds().prints(".pvfs");
    here("pvfs status").ends_with(4).prints("DOWN");
    elsewhere("pvfs up --no-mount && test ! -e .pvfs").succeeds().prints("pvfs is up");
    elsewhere("pvfs down ./.pvfs").fails(2).in_one_sentence().says("no file system was made");
    here("pvfs down --remove").succeeds();
    here("test ! -e .pvfs && pvfs down").fails(2).in_one_sentence().says("no file system was made");
}

#[test]
fn genconfig_writes_what_daemons_take() {
    let cluster = TestCluster::nowhere();
    cluster
        .shell(
            "pvfs genconfig --manager node0 --iods 'node{1-8}' --store /data/pvfs -o cluster.toml",
        )
        .succeeds();
    cluster.shell("grep -c '^\\[\\[iod' cluster.toml").succeeds().prints("8");
    cluster
        .shell("test $(stat -c %a cluster.key) = 600 && test $(wc -c < cluster.key) -ge 64")
        .succeeds();
    cluster.shell("pvfs genconfig --iods 'node{1-8,10}'").succeeds().prints("node10");
    cluster.shell("pvfs genconfig --iods n1 -o cluster.toml").fails(2).in_one_sentence();
    cluster
        .shell(
            "cp cluster.key k && pvfs genconfig --iods n1 -f -o cluster.toml && cmp k cluster.key",
        )
        .succeeds();
    cluster
        .shell(
            "pvfs genconfig --manager n1 --iods 'n{1-4}' --iods-per-host 2 --sockets /run/pvfs \
                   --networks 10.1.0.0/16 -o two.toml && grep -c '^\\[\\[iod' two.toml",
        )
        .succeeds()
        .prints("8");
    cluster
        .shell("pvfs --config cluster.toml iod --name io7")
        .fails(2)
        .in_one_sentence()
        .says("io7");
}

#[test]
fn help_man_completions_and_version_print() {
    let cluster = TestCluster::nowhere();
    cluster.shell("pvfs --help").succeeds().prints("Examples:");
    cluster.shell("pvfs").ends_with(2);
    for command in ["up", "cp", "stripe set", "genconfig", "bench io"] {
        cluster.shell(&format!("pvfs {command} --help")).succeeds().prints("Usage:");
        cluster.shell(&format!("pvfs man {command} | head -c 100")).succeeds().prints(".T");
    }
    cluster
        .shell("pvfs man --output m && test -s m/man1/pvfs-cp.1 && test -e m/man8/mount.pvfs.8")
        .succeeds();
    for shell in ["bash", "zsh", "fish"] {
        cluster.shell(&format!("pvfs completions {shell}")).succeeds().prints("pvfs");
    }
    cluster.shell("pvfs version").succeeds().prints(env!("CARGO_PKG_VERSION"));
    cluster.shell("pvfs --version").succeeds().prints(env!("CARGO_PKG_VERSION"));
    cluster.shell("pvfs version --json").succeeds().json();
    cluster.shell("pvfs bench io --list --quick").succeeds().prints("tcp read 1 MiB");
    cluster.shell("pvfs bench meta --list").succeeds().prints("create");
}

#[test]
fn stop_returns_after_the_last_sync() {
    let cluster = TestCluster::start(2);
    cluster.shell("head -c 20M /dev/urandom > data && pvfs cp data pvfs:/f").succeeds();
    cluster.shell("pvfs stop io1 && grep -x \"state synced\" $ROOT/io1/pvfs-iod.boot").succeeds();
    cluster.shell("grep -x \"state open\" $ROOT/io0/pvfs-iod.boot").succeeds();
}

#[test]
fn stores_are_made_without_being_served_and_again_after_an_interruption() {
    let cluster = Setup::of(1).prepare();
    let quick = Duration::from_secs(20);
    cluster.shell("pvfs mgr --format-only && pvfs iod --format-only").succeeds().within(quick);
    cluster
        .shell("pvfs mgr --format-only")
        .fails(2)
        .in_one_sentence()
        .says("holds a store already");
    cluster
        .shell("pvfs iod --format-only")
        .fails(2)
        .in_one_sentence()
        .says("holds a store already");
    cluster.shell("pvfs mgr --format --format-only").fails(2);
    // What a format leaves that was killed in the middle.
    let interrupt = "touch $ROOT/mgr0/pvfs-mgr.formatting && cd $ROOT/mgr0 && truncate -s 100 *";
    cluster.shell(interrupt).succeeds();
    let unfinished = cluster.shell("pvfs mgr").fails(2).in_one_sentence().within(quick);
    unfinished.says("was not made to the end");
    cluster.shell("pvfs mgr --format-only").succeeds();
    cluster.up();
    cluster.shell("pvfs mkdir pvfs:/d && pvfs ls").succeeds().prints("d");
}

#[test]
fn df_counts_a_disk_that_iods_share_once() {
    let cluster = TestCluster::start(3);
    let value = cluster.shell("pvfs df --json").succeeds().json();
    assert_eq!(value["total_bytes"], value["iods"][0]["total_bytes"], "{value}");
}

#[test]
fn genconfig_puts_the_agents_socket_with_the_others() {
    let cluster = Setup::of(1).prepare();
    let made = "pvfs genconfig --sockets /run/elsewhere -o made.toml && cat made.toml";
    cluster.shell(made).succeeds().prints("/run/elsewhere/agent.sock");
}
