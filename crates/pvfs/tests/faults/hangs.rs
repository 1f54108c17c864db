//! Daemons that are there and do not answer: what needs them fails at its deadline, all else goes on.

use std::time::{Duration, Instant};

use pvfs_client::block_on;
use pvfs_wire::Errno;

use crate::support::setup::Setup;
use crate::support::{TestCluster, can_mount, eventually, pattern};
use crate::writer::{get, open, put};

/// What `ls`, `df` and `stat` may take: the 3 s promised, and the start of a process on a busy machine.
const PROMPT: Duration = Duration::from_millis(4500);

fn with_short_deadlines(iods: u32) -> TestCluster {
    Setup::of(iods).with("data_deadline_s", 2).with("metadata_deadline_s", 3).start()
}

/// A file on all iods, and one each on io0 and io1.
fn fill(cluster: &TestCluster) {
    cluster.shell("head -c 3000000 /dev/urandom > data").succeeds();
    cluster.shell("pvfs cp data pvfs:/all && pvfs cp -b 0 -n 1 data pvfs:/on0").succeeds();
    cluster.shell("pvfs cp -b 1 -n 1 data pvfs:/on1").succeeds();
}

#[test]
fn with_an_iod_hung_names_sizes_and_space_are_still_told_in_time() {
    let cluster = with_short_deadlines(3);
    fill(&cluster);
    cluster.hang("io1");
    cluster.shell("pvfs ls").succeeds().within(PROMPT).prints("on1");
    let listed = cluster.shell("pvfs ls -l").succeeds().within(PROMPT);
    assert_eq!(listed.stdout.matches(" 3000000 ").count(), 3, "{listed:?}");
    cluster.shell("pvfs stat pvfs:/on1").succeeds().within(PROMPT).prints("io1");
    cluster.shell("pvfs df").fails(3).within(PROMPT).says("io1 is not counted");
    cluster.shell("pvfs df --iods").fails(3).prints("does not answer");
    let status = cluster.shell("pvfs status --json").ends_with(3).within(PROMPT).json();
    assert_eq!(status["state"], "DEGRADED", "{status}");
    assert_eq!(status["servers"][2]["state"], "DOWN", "{status}");
    cluster.shell("pvfs ping --timeout 500ms").fails(3).prints("io1 did not answer");
    cluster.wake("io1");
    cluster.shell("pvfs status --wait 20s").succeeds().prints("OK");
    cluster.shell("pvfs df").succeeds();
}

#[test]
fn with_an_iod_hung_its_data_fails_at_the_deadline_and_other_data_goes_on() {
    let cluster = with_short_deadlines(3);
    fill(&cluster);
    cluster.hang("io1");
    let late = Duration::from_millis(2000 + 1500);
    cluster.shell("pvfs cat pvfs:/on1 > out").fails(4).within(late).in_one_sentence().says("io1");
    cluster.shell("pvfs cp -b 1 -n 1 data pvfs:/new1").fails(4).says("io1");
    cluster.shell("pvfs cat pvfs:/on0 | cmp - data").succeeds().within(PROMPT);
    cluster.shell("pvfs cp -b 2 -n 1 data pvfs:/new2").succeeds().within(PROMPT);
    cluster.wake("io1");
    cluster.shell("pvfs status --wait 20s").succeeds();
    cluster.shell("pvfs cat pvfs:/on1 | cmp - data").succeeds();
    cluster
        .shell("pvfs cp -b 1 -n 1 data pvfs:/new1 && pvfs cat pvfs:/new1 | cmp - data")
        .succeeds();
}

#[test]
fn a_client_outlives_the_hang_of_an_iod() {
    let cluster = with_short_deadlines(2);
    let user = cluster.user();
    let file = open(&user, "f");
    let content = pattern(1 << 20, 1);
    block_on(user.write_at(&file, 0, &content, false)).unwrap();
    cluster.hang("io0");
    let start = Instant::now();
    let failed = block_on(user.write_at(&file, 0, &content, false)).unwrap_err();
    assert!(matches!(failed.errno(), Errno::ETIMEDOUT | Errno::EIO), "{failed}");
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    cluster.wake("io0");
    block_on(user.write_at(&file, 0, &content, false)).unwrap();
    block_on(user.close(file)).unwrap();
    assert!(get(&user, "f") == content);
}

#[test]
fn with_the_manager_hung_open_files_go_on_and_names_fail_at_the_deadline() {
    let cluster = with_short_deadlines(2);
    let user = cluster.user();
    put(&user, "f", &pattern(1 << 20, 2));
    let file = open(&user, "f");
    cluster.hang("mgr0");
    block_on(user.write_at(&file, 0, &pattern(1 << 20, 3), false)).unwrap();
    let mut content = vec![0; 1 << 20];
    assert_eq!(block_on(user.read_at(&file, 0, &mut content)).unwrap(), 1 << 20);
    assert!(content == pattern(1 << 20, 3));
    cluster.shell("pvfs ls").fails(4).within(PROMPT).in_one_sentence().says("mgr0");
    cluster.shell("pvfs status").ends_with(4).within(PROMPT).prints("DOWN");
    cluster.wake("mgr0");
    block_on(user.close(file)).unwrap();
    cluster.shell("pvfs ls").succeeds().prints("f");
}

#[test]
fn a_mount_with_an_iod_hung_lists_and_fails_only_what_lies_there() {
    if !can_mount() {
        return;
    }
    let cluster = with_short_deadlines(3);
    fill(&cluster);
    cluster.mount("mnt");
    cluster.hang("io1");
    let listed = cluster.shell("ls -l $MNT").succeeds().within(PROMPT);
    assert_eq!(listed.stdout.matches(" 3000000 ").count(), 3, "{listed:?}");
    cluster.shell("df $MNT").succeeds().within(PROMPT);
    cluster.shell("stat $MNT/on1").succeeds().within(PROMPT);
    cluster.shell("cat $MNT/on1 > out").ends_with(1).within(Duration::from_secs(8));
    cluster.shell("cmp data $MNT/on0").succeeds().within(PROMPT);
    cluster.wake("io1");
    eventually("the iod is used again", Duration::from_secs(20), || {
        cluster.shell("cmp data $MNT/on1 && cmp data $MNT/all").is_success()
    });
}

/// A file that some program writes and whose size nobody else has ever known must not be taken for an empty one.
#[test]
fn a_mount_with_an_iod_dead_or_hung_tells_no_size_that_it_never_knew() {
    if !can_mount() {
        return;
    }
    let cluster = with_short_deadlines(2);
    let user = cluster.user();
    let mnt = cluster.mount("mnt");
    let file = open(&user, "written");
    block_on(user.write_at(&file, 0, &pattern(300_000, 4), false)).unwrap();
    put(&user, "quiet", &pattern(1000, 5));
    let own = std::fs::File::create(mnt.join("own")).unwrap();
    cluster.signal("io1", rustix::process::Signal::KILL);
    cluster.shell("tar cf out.tar -C $MNT written").fails(2).within(PROMPT);
    cluster.shell("stat -c %s $MNT/quiet").succeeds().prints("1000");
    assert_eq!(own.metadata().unwrap().len(), 0, "nobody but this mount has written it");
    let listed = cluster.shell("ls -l $MNT").ends_with(1).within(PROMPT);
    assert!(listed.stdout.contains("? written"), "{listed:?}");
    cluster.shell("rm $MNT/written").succeeds().within(PROMPT);
    cluster.up();
    eventually("the iod is used again", Duration::from_secs(20), || {
        cluster.shell("test $(stat -c %s $MNT/quiet) = 1000 && pvfs status").is_success()
    });
    block_on(user.close(file)).unwrap();
}

#[test]
fn df_of_a_mount_does_not_wait_for_a_manager_that_does_not_run() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::start(1);
    cluster.mount("mnt");
    cluster.shell("df $MNT && ls -ld $MNT").succeeds();
    cluster.signal("mgr0", rustix::process::Signal::KILL);
    // By then nothing that is cached holds any more.
    std::thread::sleep(Duration::from_secs(6));
    cluster.shell("df $MNT").succeeds().within(PROMPT);
    cluster.up();
    cluster.shell("touch $MNT/f && ls $MNT").succeeds().prints("f");
}

#[test]
fn df_of_a_mount_waits_once_for_a_manager_that_is_hung() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::start(2);
    cluster.mount("mnt");
    cluster.shell("df $MNT && ls -ld $MNT").succeeds();
    cluster.hang("mgr0");
    // By then nothing that is cached holds any more.
    std::thread::sleep(Duration::from_secs(6));
    cluster.shell("df $MNT").succeeds().within(PROMPT);
    cluster.shell("df $MNT && stat $MNT").succeeds().within(Duration::from_secs(1));
    cluster.wake("mgr0");
    eventually("the manager is asked again", Duration::from_secs(10), || {
        cluster.shell("chmod 700 $MNT && test $(stat -c %a $MNT) = 700").is_success()
    });
}
