//! Names and bytes: cp, ls, stat, cat, sum, mv, mkdir, rm, df.

use serde_json::Value;

use crate::support::{TestCluster, can_mount};

fn with_data() -> TestCluster {
    let cluster = TestCluster::start(4);
    cluster.shell("head -c 3M /dev/urandom > big; echo hello > small; mkdir -p dir/sub").succeeds();
    cluster.shell("cp small dir/a; cp big dir/sub/b; ln -s a dir/link; chmod 600 dir/a").succeeds();
    cluster
}

#[test]
fn cp_copies_in_out_and_within() {
    let cluster = with_data();
    cluster.shell("pvfs cp big pvfs:/big && pvfs cp pvfs:/big out && cmp big out").succeeds();
    cluster.shell("pvfs cp pvfs:/big pvfs:/copy && pvfs cat pvfs:/copy | cmp - big").succeeds();
    cluster
        .shell("pvfs cp -r dir pvfs:/ && pvfs cp -r pvfs:/dir back && diff -r dir back")
        .succeeds();
    cluster.shell("pvfs cp -rp pvfs:/dir kept && test $(stat -c %a kept/a) = 600").succeeds();
    cluster
        .shell("pvfs cp -r pvfs:/dir pvfs:/dir2 && pvfs ls -R pvfs:/dir2")
        .succeeds()
        .prints("sub");
    cluster.shell("pvfs mkdir pvfs:/into && pvfs cp big small pvfs:/into").succeeds();
    cluster.shell("pvfs ls pvfs:/into").succeeds().prints("big\nsmall");
    cluster
        .shell("pvfs cp --sync --jobs 2 --streams 3 --transfer 100K -f big pvfs:/big")
        .succeeds();
    cluster.shell("pvfs cp pvfs:/big out && cmp big out").succeeds();
    let again = cluster.shell("pvfs cp --update --json -p big pvfs:/big").succeeds().json();
    assert_eq!((&again["files"], &again["skipped"]), (&0.into(), &1.into()), "{again}");
    cluster
        .shell("pvfs cp -ru big dir/sub pvfs:/")
        .succeeds()
        .says("1 file, ")
        .says(", 1 file skipped");
    cluster.shell("pvfs cp -ru big dir/sub small pvfs:/").succeeds().says(", 2 files skipped");
    let quiet = cluster.shell("pvfs cp --quiet small pvfs:/quiet").succeeds();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    cluster
        .shell("head -c 0 big > empty; pvfs cp empty pvfs:/empty && pvfs stat pvfs:/empty")
        .succeeds();
}

#[test]
fn cp_keeps_holes_in_every_direction() {
    let cluster = TestCluster::start(4);
    let disk_kib = |path: &str| -> u64 {
        let shown = cluster.shell(&format!("du -sck {path} | tail -n1 | cut -f1")).succeeds();
        shown.stdout.trim().parse().unwrap()
    };
    let quick = std::time::Duration::from_secs(20);
    cluster.shell("truncate -s 1T hole && pvfs cp hole pvfs:/hole").succeeds().within(quick);
    cluster.shell("pvfs cp pvfs:/hole pvfs:/hole2").succeeds().within(quick);
    cluster.shell("pvfs cp pvfs:/hole2 back").succeeds().within(quick);
    cluster.shell("test $(stat -c %s back) = $((1 << 40))").succeeds();
    // Data at both ends of a strip, across streams, and none at the end of the file.
    let write = |at: u64| {
        format!("head -c 100K /dev/urandom | dd of=s bs=64K seek={at} conv=notrunc status=none")
    };
    let spread = [0, 20, 1023, 1100, 2000].map(write).join(";");
    cluster.shell(&format!("truncate -s 200M s; truncate -s +3 s; {spread}")).succeeds();
    cluster.shell("pvfs cp s pvfs:/s && pvfs cp pvfs:/s pvfs:/t && pvfs cp pvfs:/t u").succeeds();
    cluster.shell("cmp s u && pvfs cat pvfs:/s | cmp - s").succeeds();
    cluster.shell("diff <(pvfs sum s | cut -c1-64) <(pvfs sum pvfs:/t | cut -c1-64)").succeeds();
    let told = cluster.shell("pvfs cp --json -f s pvfs:/t").succeeds().json();
    assert!(told["bytes"].as_u64().unwrap() < 2 << 20, "{told}");
    assert!(disk_kib("back u") < 4096);
    assert!(disk_kib("$ROOT/io*") < 8192);
}

#[test]
fn ls_lists_as_it_was_asked() {
    let cluster = with_data();
    cluster.shell("pvfs cp -r dir pvfs:/ && pvfs cp small pvfs:/.hidden").succeeds();
    assert_eq!(cluster.shell("pvfs ls").succeeds().lines(), ["dir"]);
    assert_eq!(cluster.shell("pvfs ls -a").succeeds().lines(), [".hidden", "dir"]);
    assert_eq!(cluster.shell("pvfs ls pvfs:/dir").succeeds().lines(), ["a", "link", "sub"]);
    for typed in ["/dir/a", "pvfs:/dir/a", "pvfs:dir//a"] {
        assert_eq!(cluster.shell(&format!("pvfs ls {typed}")).succeeds().lines(), [typed]);
    }
    let long = cluster.shell("pvfs ls -l pvfs:/dir").succeeds();
    assert!(long.lines()[0].starts_with("-rw-------   1 "), "{long:?}");
    assert!(long.lines()[1].starts_with("lrwxrwxrwx   1 "), "{long:?}");
    assert!(long.lines()[1].ends_with(" link -> a"), "{long:?}");
    assert!(long.lines()[2].starts_with("drwxr-xr-x "), "{long:?}");
    cluster.shell("pvfs ls -lH pvfs:/dir/sub").succeeds().prints("3.0M");
    cluster.shell("pvfs ls -d -l pvfs:/dir").succeeds().prints("drwxr-xr-x");
    let all = cluster.shell("pvfs ls -lR --json pvfs:/").succeeds().json();
    let names: Vec<&str> =
        all.as_array().unwrap().iter().filter_map(|entry| entry["name"].as_str()).collect();
    assert_eq!(names, ["/dir", "/dir/a", "/dir/link", "/dir/sub", "/dir/sub/b"]);
    assert_eq!(all[4]["size"], 3 << 20);
    assert_eq!(all[0]["type"], "directory");
}

#[test]
fn cat_and_sum_read_what_was_written() {
    let cluster = with_data();
    cluster.shell("pvfs cp big pvfs:/big && pvfs cp -r dir pvfs:/").succeeds();
    cluster.shell("pvfs cat pvfs:/dir/a pvfs:/dir/link").succeeds().prints("hello\nhello\n");
    cluster.shell("pvfs cat --offset 1M --length 1M pvfs:/big | cmp - <(tail -c +1048577 big | head -c 1M)").succeeds();
    cluster.shell("pvfs cat --offset 100M pvfs:/big | wc -c").succeeds().prints("0");
    cluster.shell("pvfs cat pvfs:/big | head -c 10 > /dev/null").succeeds();
    cluster
        .shell("test $(pvfs sum pvfs:/big | cut -d' ' -f1) = $(sha256sum big | cut -d' ' -f1)")
        .succeeds();
    cluster.shell("diff <(pvfs sum big dir/a) <(sha256sum big dir/a)").succeeds();
    cluster
        .shell("pvfs sum -r pvfs:/dir > data.sums && pvfs sum --check data.sums")
        .succeeds()
        .prints("sub/b: OK");
    cluster.shell("pvfs sum -a crc32c pvfs:/big").succeeds().prints("  pvfs:/big");
    cluster.shell("echo changed > x && pvfs cp -f x pvfs:/dir/a").succeeds();
    cluster.shell("pvfs sum --check data.sums").fails(3).says("pvfs:/dir/a: the sum differs");
    let value = cluster.shell("pvfs sum --json pvfs:/big").succeeds().json();
    assert_eq!(value["name"], "pvfs:/big");
}

#[test]
fn mv_mkdir_and_rm_change_names() {
    let cluster = with_data();
    cluster.shell("pvfs mkdir -p pvfs:/a/b/c && pvfs mkdir -p pvfs:/a/b/c").succeeds();
    cluster.shell("pvfs mkdir -m 700 pvfs:/private && pvfs ls -l").succeeds().prints("drwx------");
    cluster
        .shell("pvfs cp small pvfs:/x && pvfs mv pvfs:/x pvfs:/y && pvfs cat pvfs:/y")
        .succeeds()
        .prints("hello");
    cluster.shell("pvfs cp small pvfs:/z && pvfs mv pvfs:/y pvfs:/z pvfs:/a/b").succeeds();
    assert_eq!(cluster.shell("pvfs ls pvfs:/a/b").succeeds().lines(), ["c", "y", "z"]);
    cluster.shell("pvfs mv -n pvfs:/a/b/y pvfs:/a/b/z").fails(1).in_one_sentence().says("exists");
    cluster.shell("pvfs mv pvfs:/a pvfs:/a/b").fails(1).in_one_sentence().says("into itself");
    cluster.shell("pvfs rm pvfs:/a").fails(1).in_one_sentence().says("-r");
    cluster.shell("pvfs rm -r pvfs:/a pvfs:/private && pvfs rm -f pvfs:/absent").succeeds();
    assert_eq!(cluster.shell("pvfs ls").succeeds().lines(), [""; 0]);
}

#[test]
fn rm_refuses_the_root_and_names_that_end_in_dots_before_anything_is_touched() {
    let cluster = with_data();
    cluster.shell("pvfs cp -r dir pvfs:/ && pvfs cp small pvfs:/x").succeeds();
    let root =
        ["pvfs:/", "pvfs:", "pvfs://", "/", ".", "pvfs:/dir/..", "pvfs:/.", "pvfs:/dir/sub/../.."];
    for operand in root {
        let refused = cluster.shell(&format!("pvfs rm -rf {operand}")).fails(2).in_one_sentence();
        refused.says("it is the root of the file system");
    }
    for operand in ["pvfs:/dir/.", "pvfs:/dir/sub/..", "pvfs:/dir/./"] {
        cluster
            .shell(&format!("pvfs rm -r {operand}"))
            .fails(2)
            .in_one_sentence()
            .says("without .");
    }
    cluster.shell("pvfs cat pvfs:/dir/a pvfs:/x").succeeds().prints("hello\nhello\n");
    cluster.shell("pvfs rm -r pvfs:/ pvfs:/x").fails(3).in_one_sentence();
    assert_eq!(cluster.shell("pvfs ls").succeeds().lines(), ["dir"]);
    if can_mount() {
        cluster.mount("mnt");
        cluster.shell("cd $MNT && pvfs rm -r .").fails(2).in_one_sentence();
        cluster.shell("cd $MNT/dir && pvfs rm -r .. $MNT").fails(2);
        cluster.shell("cat $MNT/dir/a").succeeds();
    }
}

#[test]
fn stat_and_df_tell_what_there_is() {
    let cluster = with_data();
    cluster.shell("pvfs cp big pvfs:/big && pvfs cp -r dir pvfs:/").succeeds();
    let shown = cluster.shell("pvfs stat pvfs:/big").succeeds().prints("pcount 4, ssize 65536");
    assert_eq!(shown.stdout.matches(" 786432 bytes").count(), 4, "{shown:?}");
    let value = cluster.shell("pvfs stat --json pvfs:/big pvfs:/dir").succeeds().json();
    assert_eq!(value[0]["size"], 3 << 20);
    assert_eq!(value[0]["layout"]["iods"].as_array().unwrap().len(), 4);
    assert_eq!(value[1]["type"], "directory");
    cluster.shell("pvfs stat pvfs:/dir/link").succeeds().prints("lrwx");
    cluster.shell("pvfs stat -L pvfs:/dir/link").succeeds().prints("-rw-------");
    cluster.shell("pvfs df").succeeds().prints("files and directories");
    assert_eq!(cluster.shell("pvfs df --iods -H").succeeds().lines().len(), 7);
    let value = cluster.shell("pvfs df --json").succeeds().json();
    assert_eq!(value["iods"].as_array().map(Vec::len), Some(4), "{value}");
    assert!(value["available_bytes"].as_u64() > Some(0) && value["files"] == 7, "{value}");
}

#[test]
fn names_that_are_hard_to_write_survive() {
    let cluster = with_data();
    let names = ["with space", "umläut", "-dash", "quote\"'", "pvfs:", "new\\nline", "a\tb"];
    for name in names {
        let quoted =
            format!("$'{}'", name.replace('\\', "\\\\").replace('\'', "\\'").replace('\t', "\\t"));
        let line = format!("pvfs cp small \"pvfs:/\"{quoted} && pvfs cat \"pvfs:/\"{quoted}");
        cluster.shell(&line).succeeds().prints("hello");
    }
    let listed = cluster.shell("pvfs ls --json").succeeds().json();
    let found: Vec<&str> =
        listed.as_array().unwrap().iter().filter_map(|entry| entry["name"].as_str()).collect();
    for name in names {
        assert!(found.contains(&format!("/{name}").as_str()), "{name:?} in {found:?}");
    }
    assert!(matches!(listed, Value::Array(_)));
}

#[test]
fn names_that_are_no_text_are_names_like_others() {
    let cluster = with_data();
    cluster
        .shell(r"mkdir -p odd/$'d\xff'; echo hi > odd/$'d\xff'/$'\xff\xfe'; echo x > odd/x")
        .succeeds();
    cluster.shell("pvfs cp -r odd pvfs:/ && pvfs cp -r pvfs:/odd pvfs:/within").succeeds();
    cluster.shell("pvfs cp -r pvfs:/within out && diff -r odd out").succeeds();
    cluster.shell(r"pvfs cat pvfs:/odd/$'d\xff/\xff\xfe'").succeeds().prints("hi");
    cluster.shell(r"pvfs ls pvfs:/odd | cmp - <(printf 'd\xff\nx\n')").succeeds();
    let names = cluster.shell("pvfs ls -R --json pvfs:/odd").succeeds().json();
    assert_eq!(names[2]["name"], "/odd/d\u{fffd}/\u{fffd}\u{fffd}");
    cluster.shell("pvfs sum -r pvfs:/odd > odd.sums && pvfs sum --check odd.sums").succeeds();
    cluster.shell("pvfs stripe get -r pvfs:/odd").succeeds();
    cluster
        .shell(r"pvfs mkdir -p pvfs:/$'\xf0'/$'\xf1' && pvfs stat pvfs:/$'\xf0/\xf1'")
        .succeeds();
    cluster
        .shell(
            r"pvfs mv pvfs:/odd/$'d\xff/\xff\xfe' pvfs:/$'\xf0' && pvfs cat pvfs:/$'\xf0/\xff\xfe'",
        )
        .succeeds();
    cluster
        .shell(r"pvfs rm pvfs:/$'\xf0/\xff\xfe' && pvfs rm -r pvfs:/odd pvfs:/within pvfs:/$'\xf0'")
        .succeeds();
    assert_eq!(cluster.shell("pvfs ls").succeeds().lines(), [""; 0]);
}
