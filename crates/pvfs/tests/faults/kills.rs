//! Daemons killed and started again while clients work: nobody sees an error, nothing acknowledged is gone.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;

use pvfs_client::{Blocking, User, block_on};
use pvfs_wire::ops::RenameFlags;
use rustix::process::Signal;

use crate::support::{TestCluster, can_mount, pattern, text};
use crate::writer::{FinishOnDrop, Progress, below, get, overwrite, put, verify_overwritten};

fn kill_and_restart(cluster: &TestCluster, daemon: &str) {
    cluster.signal(daemon, Signal::KILL);
    cluster.up();
}

#[test]
fn iods_and_the_manager_killed_under_writers_lose_nothing_acknowledged() {
    let cluster = TestCluster::start(4);
    let files = ["a", "b", "c"];
    let progress: [Progress; 3] = Default::default();
    thread::scope(|scope| {
        let _ended = FinishOnDrop(&progress);
        for (path, progress) in files.iter().zip(&progress) {
            let cluster = &cluster;
            scope.spawn(move || overwrite(cluster, path, progress));
        }
        for daemon in ["io1", "mgr0", "io3", "io0", "io1", "mgr0"] {
            progress.iter().for_each(|progress| progress.await_more(10));
            kill_and_restart(&cluster, daemon);
        }
        progress.iter().for_each(|progress| progress.await_more(10));
    });
    let user = cluster.user();
    for (path, progress) in files.iter().zip(&progress) {
        verify_overwritten(&user, path, progress);
    }
}

#[test]
fn all_daemons_killed_at_once_lose_nothing_acknowledged() {
    let cluster = TestCluster::start(3);
    let progress: [Progress; 1] = Default::default();
    thread::scope(|scope| {
        let _ended = FinishOnDrop(&progress);
        scope.spawn(|| overwrite(&cluster, "x", &progress[0]));
        for _ in 0..2 {
            progress[0].await_more(20);
            ["io0", "io1", "mgr0", "io2"]
                .iter()
                .for_each(|daemon| cluster.signal(daemon, Signal::KILL));
            cluster.up();
        }
        progress[0].await_more(20);
    });
    verify_overwritten(&cluster.user(), "x", &progress[0]);
}

/// Nothing of this may run twice: a second mkdir, rename or unlink would fail.
fn change_names(user: &User<Blocking>, worker: usize, progress: &Progress) {
    while !progress.is_enough() {
        let step = progress.count();
        let dir = format!("{worker}-{step}");
        let inside = |name: &str| below(user, &format!("{dir}/{name}"));
        let unwrap = |what: &str, failed: Option<pvfs_client::Error>| {
            assert!(failed.is_none(), "{what} of {dir}: {}", failed.expect("there is one"));
        };
        unwrap("mkdir", block_on(user.mkdir(below(user, &dir), 0o755)).err());
        put(user, &format!("{dir}/new"), &pattern(5000, step));
        unwrap("link", block_on(user.link(inside("new"), false, inside("link"))).err());
        unwrap(
            "rename",
            block_on(user.rename(inside("new"), inside("kept"), RenameFlags::NOREPLACE)).err(),
        );
        unwrap("unlink", block_on(user.unlink(inside("link"))).err());
        if step % 2 == 1 {
            unwrap("unlink", block_on(user.unlink(inside("kept"))).err());
            unwrap("rmdir", block_on(user.rmdir(below(user, &dir))).err());
        }
        progress.step();
    }
}

#[test]
fn a_manager_killed_under_changes_of_names_runs_each_exactly_once() {
    let cluster = TestCluster::start(2);
    let progress: [Progress; 4] = Default::default();
    thread::scope(|scope| {
        let _ended = FinishOnDrop(&progress);
        for (worker, progress) in progress.iter().enumerate() {
            let cluster = &cluster;
            scope.spawn(move || change_names(&cluster.user(), worker, progress));
        }
        for _ in 0..4 {
            progress.iter().for_each(|progress| progress.await_more(5));
            kill_and_restart(&cluster, "mgr0");
        }
        progress.iter().for_each(|progress| progress.await_more(5));
    });
    verify_names(&cluster, &progress);
}

fn verify_names(cluster: &TestCluster, progress: &[Progress]) {
    let user = cluster.user();
    let mut expected: Vec<String> = (0..)
        .zip(progress)
        .flat_map(|(worker, progress): (usize, _)| {
            (0..progress.count()).map(move |step| (worker, step))
        })
        .filter(|(_, step)| step % 2 == 0)
        .map(|(worker, step)| format!("{worker}-{step}"))
        .collect();
    expected.sort();
    let entries = block_on(user.list(block_on(user.root()).unwrap(), false)).unwrap();
    let mut found: Vec<String> =
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
    found.sort();
    assert_eq!(found, expected);
    for dir in found {
        let step = dir.split('-').nth(1).unwrap().parse().unwrap();
        assert!(get(&user, &format!("{dir}/kept")) == pattern(5000, step), "{dir}");
    }
}

/// A tree with what archives have: directories, files of all sizes, links.
fn make_tree(cluster: &TestCluster) {
    let tree = cluster.scratch().join("tree");
    for dir in 0..12 {
        let dir = tree.join(format!("dir{dir}"));
        std::fs::create_dir_all(&dir).unwrap();
        for file in 0..25 {
            let content = pattern(1 << (file * 18 / 25), file);
            std::fs::write(dir.join(format!("file{file}")), content).unwrap();
        }
        std::fs::hard_link(dir.join("file3"), dir.join("hard")).unwrap();
        std::os::unix::fs::symlink("file4", dir.join("soft")).unwrap();
    }
}

#[test]
fn tar_into_a_mount_does_not_notice_that_daemons_are_killed() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::start(4);
    let mount = cluster.mount("mnt");
    make_tree(&cluster);
    cluster.shell("tar cf tree.tar -C tree .").succeeds();
    let archive = std::fs::read(cluster.scratch().join("tree.tar")).unwrap();
    let mut tar = Command::new("timeout");
    tar.args(["100", "tar", "xf", "-", "-C"])
        .arg(&mount)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut tar = tar.spawn().unwrap();
    let mut input = tar.stdin.take().unwrap();
    let faults = [None, Some("io1"), Some("mgr0"), Some("io0"), Some("mgr0"), Some("io2"), None];
    for (part, fault) in archive.chunks(archive.len().div_ceil(faults.len())).zip(faults) {
        thread::scope(|scope| {
            // tar works on this part while the daemon is away, and is fed no faster than it works.
            let cluster = &cluster;
            if let Some(daemon) = fault {
                cluster.signal(daemon, Signal::KILL);
                scope.spawn(|| cluster.up());
            }
            input.write_all(part).unwrap();
        });
    }
    drop(input);
    let output = tar.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "tar: {}", text(&output));
    cluster.shell("diff -r --no-dereference tree $MNT && umount $MNT").succeeds();
    cluster.mount("again");
    cluster.shell("diff -r --no-dereference tree $ROOT/again").succeeds();
}
