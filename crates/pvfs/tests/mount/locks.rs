//! Locks are of the file system, not of a mount.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::{Errno, Result};

use crate::TwoMounts;
use crate::support::eventually;

fn open(mount: &Path) -> File {
    File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(mount.join("f"))
        .unwrap()
}

type Take = fn(&File, FlockOperation) -> Result<()>;

fn by_flock(file: &File, how: FlockOperation) -> Result<()> {
    flock(file, how)
}

fn by_fcntl(file: &File, how: FlockOperation) -> Result<()> {
    fcntl_lock(file, how)
}

/// Held here, refused there, awaited there, granted there once it is free here.
fn locks_exclude_each_other(take: Take) {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    let (ours, theirs) = (open(&here), open(&there));
    take(&ours, FlockOperation::LockExclusive).unwrap();
    for refused in [FlockOperation::NonBlockingLockExclusive, FlockOperation::NonBlockingLockShared]
    {
        let refusal = take(&theirs, refused).unwrap_err();
        assert!(matches!(refusal, Errno::WOULDBLOCK | Errno::ACCESS), "{refusal}");
    }
    let granted = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            take(&theirs, FlockOperation::LockExclusive).unwrap();
            granted.store(true, Ordering::SeqCst);
        });
        // It waits: that it is not granted can only be watched for a while.
        thread::sleep(Duration::from_millis(300));
        assert!(!granted.load(Ordering::SeqCst));
        take(&ours, FlockOperation::Unlock).unwrap();
        eventually("it is granted", Duration::from_secs(5), || granted.load(Ordering::SeqCst));
    });
    take(&ours, FlockOperation::NonBlockingLockExclusive).unwrap_err();
    drop(theirs);
    eventually("a close frees it", Duration::from_secs(5), || {
        take(&ours, FlockOperation::NonBlockingLockExclusive).is_ok()
    });
}

#[test]
fn flock_is_held_across_mounts() {
    locks_exclude_each_other(by_flock);
}

#[test]
fn fcntl_locks_are_held_across_mounts() {
    locks_exclude_each_other(by_fcntl);
}

#[test]
fn shared_locks_go_together() {
    let Some(TwoMounts { here, there, cluster: _cluster }) = TwoMounts::start() else { return };
    let (ours, theirs) = (open(&here), open(&there));
    flock(&ours, FlockOperation::LockShared).unwrap();
    flock(&theirs, FlockOperation::NonBlockingLockShared).unwrap();
    flock(&theirs, FlockOperation::NonBlockingLockExclusive).unwrap_err();
    flock(&ours, FlockOperation::Unlock).unwrap();
    flock(&theirs, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn a_program_that_dies_frees_its_locks_and_one_that_waits_can_be_killed() {
    let Some(mounts) = TwoMounts::start() else { return };
    let hold =
        "touch $MNT/f; flock $MNT/f sleep 60 < /dev/null > /dev/null 2>&1 & echo $! > holder";
    mounts.shell(hold).succeeds();
    eventually("it is held", Duration::from_secs(10), || {
        !mounts.shell("flock -n $ROOT/there/f true").is_success()
    });
    // The waiter is killed while it waits.
    mounts.shell("(timeout -s KILL 1 flock $ROOT/there/f true); test $? = 137").succeeds();
    mounts.shell("pkill -KILL -P $(cat holder); kill -KILL $(cat holder); true").succeeds();
    mounts.shell("timeout 10 flock $ROOT/there/f true").succeeds();
}
