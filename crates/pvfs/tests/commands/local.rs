//! What `pvfs up`, `down` and `status` make of processes that are not as they left them.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::setup::Setup;
use crate::support::{TestCluster, can_mount, eventually, is_root};

#[test]
fn down_names_daemons_that_were_started_by_hand_and_deletes_nothing_below_them() {
    let cluster = Setup::of(1).prepare();
    for daemon in ["mgr", "iod"] {
        let line = format!("pvfs {daemon} --format > {daemon}.log 2>&1 < /dev/null &");
        cluster.shell(&line).succeeds();
    }
    cluster.shell("pvfs status --wait 20s").succeeds();
    for line in ["pvfs down $ROOT", "pvfs down $ROOT --now --remove"] {
        let refused = cluster.shell(line).fails(1).in_one_sentence();
        refused.says("started by hand: mgr0, io0");
    }
    cluster.shell("pvfs status").succeeds().prints("OK");
    cluster.shell("pvfs stop && pvfs down $ROOT --remove").succeeds().prints("deleted");
    assert!(!cluster.root().exists());
}

#[test]
fn down_stops_no_file_system_of_another_user() {
    if !is_root() {
        return;
    }
    let cluster = TestCluster::start(1);
    let refused = cluster.shell_as_nobody("pvfs down $ROOT").fails(5).in_one_sentence();
    refused.says("mgr0 (process ").says("io0 (process ");
    cluster.shell_as_nobody("pvfs down $ROOT --now --remove").fails(5).in_one_sentence();
    cluster.shell("pvfs status").succeeds().prints("OK");
}

#[test]
fn a_mount_whose_process_was_killed_is_told_by_status_and_made_anew_by_up() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::start_with(1, &[]);
    cluster.shell("echo hello > $MNT/f && pvfs status").succeeds().prints("mounted on");
    cluster.signal("mount", Signal::KILL);
    eventually("the mount is dead", Duration::from_secs(10), || {
        !cluster.shell("ls $MNT").is_success()
    });
    cluster.shell("pvfs status").ends_with(3).prints("fs/mnt is dead");
    let told = cluster.shell("pvfs status --json").ends_with(3).json();
    assert_eq!((told["mount"].is_null(), told["state"].as_str()), (true, Some("OK")), "{told}");
    cluster.shell("pvfs up $ROOT && cat $MNT/f").succeeds().prints("hello");
    cluster.shell("pvfs status").succeeds().prints("mounted on");
}

#[test]
fn up_refuses_other_iods_and_strips_than_there_are() {
    let cluster = TestCluster::start(2);
    let refused = cluster.shell("pvfs up $ROOT --no-mount --iods 3").fails(2).in_one_sentence();
    refused.says("has 2 iods");
    let refused = cluster.shell("pvfs up $ROOT --no-mount -s 1M").fails(2).in_one_sentence();
    refused.says("have strips of 64K");
    cluster.shell("pvfs up $ROOT --no-mount --iods 2 --ssize 64K").succeeds();
    cluster.shell("pvfs up $ROOT --no-mount").succeeds().prints("2 iods");
}

#[test]
fn up_says_which_process_runs_and_does_not_answer() {
    let cluster = TestCluster::start(1);
    cluster.hang("mgr0");
    let told = cluster.shell("pvfs up $ROOT --no-mount").fails(4).in_one_sentence();
    let pid = cluster.pid("mgr0");
    told.says(&format!("mgr0 runs (process {pid})")).says(&format!("kill -CONT {pid}"));
    cluster.wake("mgr0");
    cluster.shell("pvfs up $ROOT --no-mount").succeeds();
}

#[test]
fn up_and_down_are_quiet_when_told_so() {
    let cluster = TestCluster::start(1);
    for line in ["pvfs -q up $ROOT --no-mount", "pvfs down -q $ROOT"] {
        let quiet = cluster.shell(line).succeeds();
        assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""), "{line}");
    }
    cluster.shell("pvfs up $ROOT --no-mount").succeeds().prints("1 manager, 1 iod, not mounted");
}

#[test]
fn up_says_at_once_that_daemons_have_another_key() {
    let cluster = TestCluster::start(1);
    cluster.shell("printf '5a%.0s' {1..32} > $ROOT/cluster.key").succeeds();
    let refused = cluster.shell("pvfs up $ROOT --no-mount").fails(5).in_one_sentence();
    refused.says("io0 refused the connection: the session").within(Duration::from_secs(10));
}

#[test]
fn down_deletes_no_files_of_another_file_system_that_is_mounted_below() {
    if !can_mount() {
        return;
    }
    let (cluster, other) = (TestCluster::start(1), TestCluster::start(1));
    let mount = cluster.root().join("other").display().to_string();
    std::fs::create_dir(&mount).unwrap();
    other.run(&["mount", &mount]);
    other.shell("echo hello > f && pvfs cp f pvfs:/f").succeeds();
    cluster.shell("pvfs down $ROOT --remove").fails(1).in_one_sentence().says("is mounted there");
    other.shell("pvfs cat pvfs:/f").succeeds().prints("hello");
    other.run(&["umount", &mount]);
    cluster.shell("pvfs down $ROOT --remove").succeeds();
}
