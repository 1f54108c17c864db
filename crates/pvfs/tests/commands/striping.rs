//! How files lie on the iods: chosen at cp, by directory, by the old names, and shown.

use serde_json::Value;

use crate::support::{TestCluster, can_mount};

fn layout(cluster: &TestCluster, path: &str) -> Value {
    cluster.shell(&format!("pvfs stat --json {path}")).succeeds().json()[0]["layout"].take()
}

#[test]
fn cp_stripes_as_told() {
    let cluster = TestCluster::start(4);
    cluster
        .shell("head -c 300000 /dev/urandom > x && pvfs cp -s 16K -b 1 -n 2 x pvfs:/x")
        .succeeds();
    let found = layout(&cluster, "pvfs:/x");
    assert_eq!(found["iods"], serde_json::json!(["io1", "io2"]), "{found}");
    assert_eq!((&found["ssize"], &found["base"]), (&16384.into(), &1.into()));
    cluster.shell("pvfs cp -s 4M -n 3 -b 3 x pvfs:/y").succeeds();
    assert_eq!(layout(&cluster, "pvfs:/y")["iods"], serde_json::json!(["io3", "io0", "io1"]));
    cluster.shell("pvfs cp -d basic x pvfs:/z && pvfs cat pvfs:/z | cmp - x").succeeds();
    assert_eq!(layout(&cluster, "pvfs:/z")["pcount"], 1);
    cluster
        .shell("pvfs cp -d two_d:groups=2,factor=4 x pvfs:/t && pvfs cat pvfs:/t | cmp - x")
        .succeeds();
    cluster.shell("pvfs cp -n 5 x pvfs:/five").fails(2).in_one_sentence().says("has 4 iods");
    cluster.shell("pvfs mkdir -b 4 pvfs:/d").fails(2).in_one_sentence().says("there is no iod 4");
    cluster.shell("pvfs cp -s 0 x pvfs:/zero").fails(2);
    // The stores hold what stat says.
    let sizes = cluster
        .shell("stat -c %s $(find $ROOT/io1 $ROOT/io2 -name '*' -type f -size +100k | sort)");
    assert!(sizes.succeeds().stdout.contains("15"), "no object of about 150000 bytes");
}

#[test]
fn directories_hand_their_striping_down() {
    let cluster = TestCluster::start(4);
    cluster
        .shell("echo x > x; pvfs mkdir -s 1M -n 2 pvfs:/d && pvfs mkdir pvfs:/d/below")
        .succeeds();
    cluster
        .shell("pvfs cp x pvfs:/d/below/f && pvfs stripe get pvfs:/d")
        .succeeds()
        .prints("ssize 1048576");
    let found = layout(&cluster, "pvfs:/d/below/f");
    assert_eq!((&found["ssize"], &found["pcount"]), (&(1 << 20).into(), &2.into()), "{found}");
    cluster.shell("pvfs stripe set -s 4M pvfs:/d/below && pvfs cp x pvfs:/d/below/g").succeeds();
    let found = layout(&cluster, "pvfs:/d/below/g");
    assert_eq!((&found["ssize"], &found["pcount"]), (&(4 << 20).into(), &2.into()), "{found}");
    cluster
        .shell("pvfs stripe set --inherit pvfs:/d/below && pvfs cp x pvfs:/d/below/h")
        .succeeds();
    assert_eq!(layout(&cluster, "pvfs:/d/below/h")["ssize"], 1 << 20);
    assert_eq!(layout(&cluster, "pvfs:/d/below/f")["ssize"], 1 << 20);
    cluster
        .shell("pvfs stripe set -n 2 -b 2 pvfs:/new.h5 && pvfs stripe get pvfs:/new.h5")
        .succeeds()
        .prints("io2 io3");
    cluster
        .shell("pvfs stripe set -s 1M pvfs:/new.h5")
        .fails(1)
        .in_one_sentence()
        .says("never changes");
    let all = cluster.shell("pvfs stripe get -r --json pvfs:/d").succeeds().json();
    assert_eq!(all.as_array().map(Vec::len), Some(5), "{all}");
}

#[test]
fn the_old_names_work() {
    let cluster = TestCluster::start(4);
    cluster.shell("head -c 200000 /dev/urandom > src; u2p -s 16384 -b 0 -n 4 src /dst").succeeds();
    let shown = cluster.shell("pvstat /dst").succeeds().prints("base 0, pcount 4, ssize 16384");
    shown.prints("io3");
    cluster
        .shell("u2p -s -1 -b -1 -n -1 src /default && pvfs cat pvfs:/default | cmp - src")
        .succeeds();
    cluster
        .shell("mkmgrconf --iods 'n{1-3}' -o old.toml && grep -c '^\\[\\[iod' old.toml")
        .succeeds()
        .prints("3");
    cluster.shell("stat -c %a old.key cluster.key 2>/dev/null | grep -q 600").succeeds();
    if can_mount() {
        cluster
            .shell("mkdir m && mount.pvfs $PVFS_CONFIG m -o rw,noatime && cmp src m/dst")
            .succeeds();
        cluster.shell("u2p -n 2 src m/there && pvstat m/there").succeeds().prints("pcount 2");
        cluster
            .shell("pvfs ls m && cd m && pvfs ls && pvfs cp there $OLDPWD/back")
            .succeeds()
            .prints("there");
        cluster.shell("cmp src back && pvfs umount m").succeeds();
    }
}
