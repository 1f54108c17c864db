//! A store that loses its power: an ext4 on a loop device that is shut down without its log, as the kernel's
//! own crash tests do it, and mounted again.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pvfs_client::{Blocking, User, block_on};
use pvfs_wire::Errno;
use rustix::process::Signal;

use crate::disks::mount_small;
use crate::support::setup::Setup;
use crate::support::{TestCluster, eventually, is_root, pattern};
use crate::writer::{get, open};

/// A cluster whose one iod stands on a disk of its own.
struct Ground {
    cluster: TestCluster,
    store: PathBuf,
}

impl Ground {
    /// Nothing where this machine lets no loop device be mounted.
    fn new() -> Option<Self> {
        if !is_root() {
            println!("skipped: a disk can be mounted by root only");
            return None;
        }
        let cluster = Setup::of(1).with("commit_interval_s", 600).prepare();
        let store = cluster.root().join("io0");
        mount_small(&store, 64);
        if !is_ext4(&store) {
            println!("skipped: no ext4 on a loop device here");
            return None;
        }
        cluster.up();
        Some(Self { cluster, store })
    }

    /// A client that holds nothing of the store, which is to be unmounted.
    fn user(&self) -> User<Blocking> {
        self.cluster.user_with(|options| options.borrows = false)
    }

    /// What was not synced is gone, and so is the daemon.
    fn lose_power(&self) {
        shut_down(&self.store);
        self.cluster.signal("io0", Signal::KILL);
        self.remount();
    }

    fn remount(&self) {
        eventually("the daemon ends", Duration::from_secs(20), || !self.cluster.is_running("io0"));
        let (store, image) = (self.store.display(), self.store.with_extension("image"));
        let image = image.display();
        shell(&format!("umount {store} && mount -o loop {image} {store}"));
    }

    /// What fsck says of the disk once nobody uses it.
    fn check_disk(self) {
        self.cluster.run(&["stop", "io0"]);
        eventually("the daemon ends", Duration::from_secs(20), || !self.cluster.is_running("io0"));
        let image = self.store.with_extension("image");
        shell(&format!("umount {} && e2fsck -fn {}", self.store.display(), image.display()));
    }
}

#[test]
fn a_power_loss_keeps_what_was_fsynced_and_fails_the_fsync_of_what_was_not() {
    let Some(ground) = Ground::new() else { return };
    let user = ground.user();
    let (kept, lost) = (open(&user, "kept"), open(&user, "lost"));
    let (first, second) = (pattern(1 << 20, 1), pattern(1 << 20, 2));
    for file in [&kept, &lost] {
        block_on(user.write_at(file, 0, &first, false)).unwrap();
        block_on(user.sync(file)).unwrap();
    }
    block_on(user.write_at(&lost, 0, &second, false)).unwrap();
    ground.lose_power();
    ground.cluster.up();
    assert_eq!(block_on(user.sync(&kept)), Ok(()), "nothing of it was unsynced");
    assert_eq!(block_on(user.sync(&lost)).unwrap_err().errno(), Errno::EIO);
    block_on(user.write_at(&lost, 0, &second, false)).unwrap();
    assert_eq!(block_on(user.sync(&lost)).unwrap_err().errno(), Errno::EIO, "it stays so");
    let again = open(&user, "lost");
    block_on(user.write_at(&again, 0, &second, false)).unwrap();
    block_on(user.sync(&again)).unwrap();
    ground.lose_power();
    ground.cluster.up();
    assert!(get(&user, "kept") == first && get(&user, "lost") == second);
    for file in [kept, lost, again] {
        block_on(user.close(file)).unwrap();
    }
    ground.check_disk();
}

#[test]
fn after_a_power_loss_every_block_is_old_or_new() {
    let Some(ground) = Ground::new() else { return };
    let user = ground.user();
    let file = open(&user, "f");
    let (old, new) = (vec![1u8; 4 << 20], vec![2u8; 8 << 20]);
    block_on(user.write_at(&file, 0, &old, true)).unwrap();
    block_on(user.write_at(&file, 0, &new, false)).unwrap();
    ground.lose_power();
    ground.cluster.up();
    let mut found = vec![0xee; 8 << 20];
    let count = block_on(user.read_at(&file, 0, &mut found)).unwrap();
    assert!(count >= old.len(), "{count} bytes of what was synced");
    for (at, block) in found[..count].chunks(4096).enumerate() {
        let may_be: &[u8] = if at < old.len() / 4096 { &[1, 2] } else { &[0, 2] };
        let whole = block.iter().all(|byte| *byte == block[0]);
        assert!(whole && may_be.contains(&block[0]), "block {at} has bytes nobody wrote");
    }
    block_on(user.close(file)).unwrap();
    ground.check_disk();
}

#[test]
fn a_killed_or_an_orderly_stopped_iod_raises_no_alarm() {
    let Some(ground) = Ground::new() else { return };
    let user = ground.user();
    let file = open(&user, "f");
    block_on(user.write_at(&file, 0, &pattern(1 << 20, 1), false)).unwrap();
    ground.cluster.signal("io0", Signal::KILL);
    eventually("it ends", Duration::from_secs(20), || !ground.cluster.is_running("io0"));
    ground.cluster.up();
    block_on(user.sync(&file)).unwrap();
    block_on(user.write_at(&file, 0, &pattern(1 << 20, 2), false)).unwrap();
    // A machine that is rebooted for maintenance.
    ground.cluster.run(&["stop", "io0"]);
    ground.remount();
    ground.cluster.up();
    block_on(user.sync(&file)).unwrap();
    assert!(get(&user, "f") == pattern(1 << 20, 2));
    block_on(user.close(file)).unwrap();
}

/// `FS_IOC_SHUTDOWN` with `FS_SHUTDOWN_FLAGS_NOLOGFLUSH`: from now on nothing reaches the disk.
fn shut_down(store: &Path) {
    let script = "import fcntl, os, struct, sys\n\
                  fd = os.open(sys.argv[1], os.O_RDONLY)\n\
                  fcntl.ioctl(fd, 0x8004587D, struct.pack('I', 2))";
    let status = Command::new("python3").arg("-c").arg(script).arg(store).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot shut {} down", store.display());
}

fn is_ext4(at: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let here = at.display().to_string();
    mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(1);
        fields.next() == Some(&here) && fields.next() == Some("ext4")
    })
}

fn shell(script: &str) {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
}
