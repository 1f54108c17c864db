//! Mounts whose servers or whose own process are gone can always be taken away.

use std::fs;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;

use crate::support::cleanup::mounts_below;
use crate::support::setup::Setup;
use crate::support::{TestCluster, can_mount, eventually, pattern};

const PROMPT: Duration = Duration::from_secs(10);

fn mounted() -> Option<TestCluster> {
    can_mount().then(|| {
        let cluster = TestCluster::start(2);
        cluster.mount("mnt");
        cluster.shell("echo hello > $MNT/f").succeeds();
        cluster
    })
}

#[test]
fn unmounting_works_while_daemons_are_dead() {
    let Some(cluster) = mounted() else { return };
    cluster.signal("io0", Signal::KILL);
    cluster.signal("mgr0", Signal::KILL);
    cluster.shell("pvfs umount $MNT").succeeds().within(PROMPT);
    assert!(mounts_below(&cluster.root()).is_empty());
    cluster.up();
    cluster.shell("pvfs mount $MNT && cat $MNT/f").succeeds().prints("hello");
}

#[test]
fn unmounting_works_while_daemons_hang() {
    let Some(cluster) = mounted() else { return };
    cluster.hang("io0");
    cluster.hang("mgr0");
    cluster.shell("pvfs umount $MNT").succeeds().within(PROMPT);
    assert!(mounts_below(&cluster.root()).is_empty());
}

#[test]
fn a_mount_whose_process_was_killed_is_taken_away_and_made_anew() {
    let Some(cluster) = mounted() else { return };
    cluster.shell("pkill -KILL -f \"pvfs mount $MNT --background\"").succeeds();
    eventually("the mount is dead", Duration::from_secs(10), || {
        !cluster.shell("ls $MNT").is_success()
    });
    cluster.shell("pvfs umount $MNT").succeeds().within(PROMPT);
    assert!(mounts_below(&cluster.root()).is_empty());
    cluster.shell("pvfs mount $MNT && cat $MNT/f && pvfs umount $MNT").succeeds().prints("hello");
}

#[test]
fn what_cannot_be_mounted_is_said_in_a_sentence() {
    let Some(cluster) = mounted() else { return };
    cluster.shell("pvfs mount $ROOT/absent").fails(1).in_one_sentence();
    cluster
        .shell("pvfs mount -o fast $ROOT/mnt")
        .fails(2)
        .in_one_sentence()
        .says("unknown mount option");
    cluster.shell("touch file; pvfs mount file").fails(1).in_one_sentence();
    cluster.shell("pvfs umount $ROOT/log").fails(1).in_one_sentence();
    cluster
        .shell("mkdir other; mount.pvfs $PVFS_CONFIG other -o ro && cat other/f")
        .succeeds()
        .prints("hello");
    cluster.shell("echo x > other/f").ends_with(1).says("Read-only");
    cluster.shell("pvfs umount other $MNT").succeeds();
    cluster.signal("mgr0", Signal::KILL);
    cluster
        .shell("pvfs mount other")
        .fails(4)
        .in_one_sentence()
        .says("mgr0")
        .within(Duration::from_secs(15));
}

#[test]
fn a_mount_is_made_read_only_and_writable_again_while_files_are_open() {
    let Some(cluster) = mounted() else { return };
    let held = std::fs::File::open(cluster.root().join("mnt/f")).unwrap();
    let flags = || cluster.shell("grep \" $MNT \" /proc/mounts").succeeds().stdout;
    cluster.shell("pvfs mount -o remount,ro,noexec $MNT").succeeds();
    cluster.shell("echo x > $MNT/f").ends_with(1).says("Read-only");
    cluster.shell("cp /bin/true t; mkdir $MNT/d").ends_with(1).says("Read-only");
    assert!(flags().contains(" ro,nosuid,nodev,noexec,relatime,"), "{}", flags());
    // Where the source is said too, as by mount(8), all there is has been said.
    cluster.shell("mount.fuse.pvfs $PVFS_CONFIG $MNT -o rw,remount,noatime,user_id=0").succeeds();
    assert!(flags().contains(" rw,nosuid,nodev,noatime,"), "{}", flags());
    cluster.shell("cp t $MNT/t && $MNT/t && echo more >> $MNT/f").succeeds();
    cluster.shell("pvfs mount -o remount,suid,atime $MNT").succeeds();
    assert!(flags().contains(" rw,nodev,relatime,"), "{}", flags());
    assert_eq!(std::io::read_to_string(&held).unwrap(), "hello\nmore\n");
    cluster.shell("pvfs mount -o remount,fast $MNT").fails(2).in_one_sentence().says("\"fast\"");
    cluster.shell("pvfs mount -o remount,ro $ROOT").fails(1).in_one_sentence().says("not mounted");
    cluster.shell("pvfs mount -o remount,ro /proc").fails(1).in_one_sentence().says("type proc");
}

#[test]
fn stopping_everything_takes_the_mount_away() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::start_with(2, &[]);
    cluster.shell("echo hello > $MNT/f").succeeds();
    cluster.shell("pvfs down $ROOT").succeeds().prints("stopped");
    assert!(mounts_below(&cluster.root()).is_empty());
    cluster.shell("pvfs up $ROOT && cat $MNT/f").succeeds().prints("hello");
    cluster.shell("cd $MNT && pvfs down $ROOT --remove").succeeds();
    assert!(!cluster.root().exists());
}

/// The kernel reads ahead, and reads the page that is wanted once more when that fails.
#[test]
fn a_read_from_a_hung_daemon_takes_one_deadline_and_not_two() {
    if !can_mount() {
        return;
    }
    let cluster = Setup::of(2).with("data_deadline_s", 3).start();
    let file = cluster.mount("mnt").join("f");
    fs::write(&file, pattern(1 << 20, 3)).unwrap();
    // Another mount has nothing in its pages.
    let file = cluster.mount("there").join("f");
    cluster.hang("io0");
    cluster.hang("io1");
    let begun = Instant::now();
    let failed = fs::read(&file).unwrap_err();
    let took = begun.elapsed();
    let errnos = [Errno::IO, Errno::TIMEDOUT].map(Errno::raw_os_error);
    assert!(errnos.map(Some).contains(&failed.raw_os_error()), "{failed}");
    assert!(took > Duration::from_secs(2) && took < Duration::from_millis(5500), "{took:?}");
    ["io0", "io1"].iter().for_each(|iod| cluster.wake(iod));
    eventually("it is read", Duration::from_secs(10), || fs::read(&file).is_ok());
}
