//! Exit codes scripts rely on, and sentences people can act on.

use rustix::process::Signal;

use crate::support::TestCluster;

#[test]
fn each_kind_of_failure_has_its_code_and_a_sentence() {
    let cluster = TestCluster::start(2);
    cluster.shell("echo x > x && pvfs cp x pvfs:/x && pvfs mkdir -m 755 pvfs:/d").succeeds();
    let fails = |code: i32, line: &str, words: &str| {
        cluster.shell(line).fails(code).in_one_sentence().says(words);
    };
    fails(1, "pvfs ls pvfs:/absent", "cannot look at pvfs:/absent: no such file or directory");
    fails(1, "pvfs cat pvfs:/absent", "no such file");
    fails(1, "pvfs cat pvfs:/d", "is a directory");
    fails(1, "pvfs mkdir pvfs:/d", "exists");
    fails(1, "pvfs mkdir pvfs:/x/y", "not a directory");
    fails(1, "pvfs sum pvfs:/d", "is a directory; sum it with -r");
    fails(1, "pvfs sum absent", "absent");
    fails(1, "pvfs mv pvfs:/absent pvfs:/y", "no such file");
    fails(2, "pvfs mv pvfs:/x pvfs:/d pvfs:/y", "several sources");
    fails(2, "pvfs cp pvfs:/d pvfs:/d", "onto or into itself");
    fails(2, "pvfs cp -n 0 x pvfs:/z", "a file lies on at least one iod");
    cluster.shell("pvfs stripe show pvfs:/x").fails(2).says("stripe get").says("stripe set");
    fails(2, "pvfs --config absent.toml ls", "absent.toml");
    fails(2, "echo nonsense > bad.toml; pvfs --config bad.toml ls", "bad.toml");
    fails(
        2,
        "sed 's/^ssize/ssise/' $PVFS_CONFIG > typo.toml; pvfs --config typo.toml ls",
        "did you mean ssize?",
    );
    fails(2, "pvfs ping io9", "there is no daemon io9");
    cluster.shell("pvfs lss").fails(2).says("lss");
    cluster.shell("pvfs cp x").fails(2);
    cluster.shell("pvfs cp -s 64KB x pvfs:/y").fails(2).says("64KB");
    cluster.shell("pvfs cp -r absent x pvfs:/d").fails(3).says("absent");
    cluster.shell("pvfs cat pvfs:/d/x").succeeds().prints("x");
    cluster.shell("pvfs rm pvfs:/absent pvfs:/d/x").fails(3).says("absent");
    cluster.shell("pvfs ls --config").fails(2);
    cluster
        .shell("cd / && env -u PVFS_CONFIG HOME=/nowhere pvfs ls")
        .fails(2)
        .in_one_sentence()
        .says("pvfs genconfig");
}

#[test]
fn errors_are_json_for_programs() {
    let cluster = TestCluster::start(1);
    for (line, code) in [
        ("pvfs --json ls pvfs:/absent", 1),
        ("pvfs --json cp", 2),
        ("pvfs --json stat pvfs:/no", 1),
    ] {
        let failed = cluster.shell(line).fails(code);
        let value: serde_json::Value = serde_json::from_str(&failed.stderr).unwrap();
        assert_eq!(value["code"], code, "{failed:?}");
        assert!(value["error"].as_str().is_some_and(|sentence| !sentence.is_empty()), "{failed:?}");
    }
}

#[test]
fn a_copy_of_which_nothing_was_done_has_no_summary() {
    let cluster = TestCluster::start(1);
    for line in ["pvfs --json cp absent pvfs:/", "pvfs cp -r absent pvfs:/"] {
        assert_eq!(cluster.shell(line).fails(1).stdout, "");
    }
    cluster.shell("pvfs cp absent pvfs:/").fails(1).in_one_sentence();
    cluster.shell("touch x && pvfs --json cp x absent pvfs:/").fails(3).prints("\"files\":1");
}

#[test]
fn servers_that_are_gone_are_named() {
    let cluster = TestCluster::start(2);
    cluster.shell("echo x > x && pvfs cp -n 1 -b 0 x pvfs:/x").succeeds();
    cluster.signal("io1", Signal::KILL);
    cluster.shell("pvfs ls -l").succeeds().prints("x");
    cluster.shell("pvfs cat pvfs:/x").succeeds();
    cluster.shell("pvfs df").fails(3).says("io1");
    cluster.shell("pvfs ping").ends_with(3).prints("io1 is not reachable");
    cluster.shell("pvfs status").ends_with(3).prints("DEGRADED");
    cluster.signal("mgr0", Signal::KILL);
    cluster.shell("pvfs status").ends_with(4).prints("DOWN");
    cluster.shell("pvfs ls").fails(4).in_one_sentence().says("mgr0");
    cluster.signal("io0", Signal::KILL);
    cluster.shell("pvfs ping --timeout 300ms").ends_with(4).prints("io0 is not reachable");
    cluster.shell("pvfs df").fails(4).says("mgr0");
}

#[test]
fn daemons_that_refuse_us_are_not_called_down() {
    let cluster = TestCluster::start(1);
    let wrong_key = "printf '5a%.0s' {1..32} > wrong.key && chmod 600 wrong.key && \
                     sed \"s|^key_file = .*|key_file = \\\"$PWD/wrong.key\\\"|\" $PVFS_CONFIG > wrong.toml";
    cluster.shell(wrong_key).succeeds();
    let status = cluster.shell("pvfs --config wrong.toml status").ends_with(5);
    status
        .prints("pvfs: REFUSED")
        .prints("mgr0 refused the connection: the session was not signed");
    let df = cluster.shell("pvfs --config wrong.toml df").fails(5).in_one_sentence();
    assert_eq!(df.says("refused the connection").stdout, "");
    cluster.shell("pvfs --config wrong.toml ping").ends_with(5).prints("io0");
    cluster.shell("pvfs --config wrong.toml estop all").ends_with(5).prints("io0 refused");
    cluster.shell("pvfs status").succeeds().prints("OK");
}

#[test]
fn status_says_how_to_start_what_does_not_run() {
    let cluster = TestCluster::start(1);
    cluster.shell("pvfs down && pvfs status").ends_with(4).says("pvfs up ").says("/fs starts them");
    let silent = cluster.shell("pvfs df").fails(4).in_one_sentence().says("mgr0");
    assert_eq!(silent.stdout, "");
}
