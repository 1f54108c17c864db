//! Stores without space.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pvfs_client::block_on;
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;

use crate::support::setup::Setup;
use crate::support::{TestCluster, eventually, is_root, pattern};
use crate::writer::{NEW, below, get, open, put};

/// A small ext4 on a loop device where that can be had, else a small tmpfs.
pub fn mount_small(at: &Path, mebibytes: u32) {
    std::fs::create_dir_all(at).unwrap();
    let image = at.with_extension("image");
    let (at, image) = (at.display(), image.display());
    let script = format!(
        "truncate -s {mebibytes}M {image} && mkfs.ext4 -q -m 0 {image} && mount -o loop {image} {at} && \
         rmdir {at}/lost+found || mount -t tmpfs -o size={mebibytes}M pvfs-test {at}"
    );
    let status = Command::new("sh").args(["-c", &script]).status().unwrap();
    assert!(status.success(), "cannot mount a small file system on {at}");
}

fn figure(cluster: &TestCluster, server: usize, name: &str) -> u64 {
    let status = cluster.shell("pvfs status --json").json();
    status["servers"][server]["figures"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {status}"))
}

#[test]
fn a_full_iod_says_so_lives_on_and_takes_data_again_once_there_is_space() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(2).prepare();
    mount_small(&cluster.root().join("io1"), 24);
    cluster.up();
    let pid = cluster.pid("io1");
    cluster.shell("head -c 8M /dev/urandom > data && head -c 40M /dev/zero > large").succeeds();
    cluster.shell("pvfs cp -b 1 -n 1 data pvfs:/first").succeeds();
    cluster.shell("pvfs cp -b 1 -n 1 large pvfs:/large").fails(1).says("no space left");
    cluster
        .shell("head -c 40M /dev/zero > $ROOT/io1/others 2> others; pvfs status | grep io1")
        .prints("its disk is full");
    cluster.shell("rm $ROOT/io1/others && pvfs status | grep -c full").prints("0");
    cluster.shell("pvfs cp -b 0 -n 1 large pvfs:/elsewhere").succeeds();
    cluster.shell("pvfs cat pvfs:/first | cmp - data").succeeds();
    assert!(cluster.is_running("io1") && cluster.pid("io1") == pid);
    assert!(figure(&cluster, 2, "disk_full_total") > 0);
    cluster.shell("pvfs rm -f pvfs:/large && pvfs rm pvfs:/first").succeeds();
    eventually("the space comes back", Duration::from_secs(20), || {
        cluster.shell("pvfs cp -f -b 1 -n 1 data pvfs:/second").is_success()
    });
    cluster.shell("pvfs cat pvfs:/second | cmp - data").succeeds();
}

#[test]
fn a_writer_is_told_how_much_fitted_or_that_nothing_did() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(1).prepare();
    mount_small(&cluster.root().join("io0"), 16);
    cluster.up();
    let user = cluster.user();
    let file = open(&user, "f");
    let block = pattern(1 << 20, 5);
    let written = (0..64).take_while(|step| {
        match block_on(user.write_at(&file, step << 20, &block, false)) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.errno(), Errno::ENOSPC);
                false
            }
        }
    });
    let written = written.count();
    assert!((4..16).contains(&written), "{written} MiB fitted into 16");
    let mut content = vec![0; 1 << 20];
    for step in 0..written as u64 {
        assert_eq!(block_on(user.read_at(&file, step << 20, &mut content)).unwrap(), 1 << 20);
        assert!(content == block, "block {step}");
    }
    // Overwriting takes no space, and a truncated file gives it back.
    block_on(user.write_at(&file, 0, &pattern(1 << 20, 6), false)).unwrap();
    block_on(user.truncate_file(&file, 1 << 20)).unwrap();
    block_on(user.write_at(&file, 1 << 20, &block, false)).unwrap();
    block_on(user.close(file)).unwrap();
    assert!(get(&user, "f") == [pattern(1 << 20, 6), block].concat());
}

#[test]
fn a_store_that_is_read_only_is_read_and_written_again_after_resume() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(1).prepare();
    let store = cluster.root().join("io0");
    mount_small(&store, 24);
    cluster.up();
    let remount = |how: &str| {
        let line = format!("mount -o remount,{how} {}", store.display());
        cluster.shell(&line).succeeds();
    };
    cluster.shell("head -c 3M /dev/urandom > data && pvfs cp data pvfs:/old").succeeds();
    cluster.shell("pvfs down $ROOT").succeeds();
    remount("ro");
    cluster.up();
    cluster.shell("pvfs cat pvfs:/old | cmp - data").succeeds();
    cluster.shell("pvfs cp data pvfs:/new").fails(1).says("ead-only");
    cluster.shell("pvfs status").ends_with(3).prints("pvfs resume");
    cluster.shell("pvfs cat pvfs:/old | cmp - data").succeeds();
    remount("rw");
    cluster.shell("pvfs resume && pvfs status").succeeds().prints("OK");
    cluster.shell("pvfs cp -f data pvfs:/new && pvfs cat pvfs:/new | cmp - data").succeeds();
}

#[test]
fn daemons_whose_log_finds_no_room_go_on() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(1).prepare();
    let log = cluster.root().join("log");
    mount_small(&log, 16);
    cluster.up();
    let _ = std::fs::write(log.join("others"), vec![7; 20 << 20]);
    let bytes = |name: &str| std::fs::metadata(log.join(name)).unwrap().len();
    let before = (bytes("mgr0.log"), bytes("io0.log"));
    for name in ["mgr0", "io0"] {
        // Each reload says so in the log, which has what is left of a block at most.
        for _ in 0..50 {
            cluster.signal(name, rustix::process::Signal::HUP);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let grown = (bytes("mgr0.log") - before.0, bytes("io0.log") - before.1);
    assert!(grown.0.max(grown.1) < 4096, "there was room for {grown:?} bytes");
    cluster.shell("pvfs status").succeeds().prints("OK");
}

#[test]
fn a_full_manager_refuses_new_names_and_lets_old_ones_go() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(1).prepare();
    mount_small(&cluster.root().join("mgr0"), 16);
    cluster.up();
    let user = cluster.user();
    put(&user, "before", b"content");
    block_on(user.mkdir(below(&user, "d"), 0o755)).unwrap();
    let name = |step: u32| format!("d/{}{step}", "x".repeat(200));
    let make = |step| {
        block_on(user.open_regular(below(&user, &name(step)), NEW, 0o644, Striping::default()))
    };
    let mut made = 0;
    let refusal = loop {
        match make(made) {
            Ok(file) => block_on(user.close(file)).unwrap(),
            Err(error) => break error,
        }
        made += 1;
        assert!(made < 200_000, "16 MiB hold no {made} names of 200 bytes");
    };
    assert_eq!(refusal.errno(), Errno::ENOSPC, "{refusal}");
    assert_eq!(get(&user, "before"), b"content");
    for step in 0..made {
        block_on(user.unlink(below(&user, &name(step)))).unwrap();
    }
    eventually("names are taken again", Duration::from_secs(30), || make(0).is_ok());
}
