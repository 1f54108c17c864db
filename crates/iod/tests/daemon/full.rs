//! A full disk: the exact error, room again after a removal, others go on.

use std::path::Path;
use std::process::Command;

use pvfs_iod::LocalDisk;
use pvfs_iod::disk::Fault;
use pvfs_wire::Errno;
use pvfs_wire::ops::{DaemonState, RemoveObjects};

use crate::harness::{Daemon, contiguous};

/// Fills a store of about a mebibyte and makes room again.
fn fills_and_recovers(daemon: &Daemon) {
    let client = daemon.client(1);
    let (first, second) = (client.object(1), client.object(2));
    client.write_at(&second, 0, &[2; 4096]).unwrap();
    let chunk = vec![1; 64 << 10];
    let full = (0..100).map(|at| client.write_at(&first, at << 16, &chunk)).find(Result::is_err);
    assert_eq!(full, Some(Err(Errno::ENOSPC)));
    assert_eq!(client.write_at(&first, 8 << 20, b"still full"), Err(Errno::ENOSPC));
    client.write_at(&second, 0, &[3; 4096]).unwrap();
    assert_eq!(client.read(&second, contiguous(0, 4096)), Ok((vec![3; 4096], 4096)));
    assert_eq!(daemon.iod.state(), DaemonState::Ok, "a full disk is no broken disk");
    daemon.manager().call(&RemoveObjects { handles: vec![first.handle] }).unwrap();
    client.write_at(&client.object(3), 0, &chunk).unwrap();
    assert!(daemon.figure("disk_full") >= 2);
}

#[test]
fn a_full_memory_disk_recovers() {
    let (daemon, disk) = Daemon::in_memory();
    disk.inject(Fault::Capacity(1 << 20));
    fills_and_recovers(&daemon);
}

/// A small file system of its own, unmounted at the end.
struct Mount<'a>(&'a Path);

impl<'a> Mount<'a> {
    fn tmpfs(at: &'a Path) -> Option<Self> {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=1m", "pvfs-iod-test"]).arg(at);
        let mounted = command.output().is_ok_and(|output| output.status.success());
        mounted.then_some(Self(at))
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_file_system_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_mount) = Mount::tmpfs(dir.path()) else {
        eprintln!("skipped: mounting a tmpfs needs root");
        return;
    };
    LocalDisk::format(dir.path(), "io0").unwrap();
    fills_and_recovers(&Daemon::new(LocalDisk::open(dir.path(), "io0").unwrap()));
}
