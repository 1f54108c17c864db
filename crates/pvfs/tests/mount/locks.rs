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

/// Runs python with `fcntl` at hand and two files, `here` and `there`, which are one file on two mounts.
fn python(mounts: &TwoMounts, script: &str) -> Option<crate::support::shell::Outcome> {
    if !mounts.shell("python3 -c 'import fcntl'").is_success() {
        eprintln!("skipped: this takes python3");
        return None;
    }
    let head = "import errno, fcntl, os, sys, time
here = open(os.environ['MNT'] + '/f', 'w+')
there = open(os.environ['ROOT'] + '/there/f', 'w+')
EX, NB, UN = fcntl.LOCK_EX, fcntl.LOCK_NB, fcntl.LOCK_UN
def refused(file, how, *range):
    try:
        fcntl.lockf(file, how, *range)
    except OSError as error:
        return error.errno
";
    std::fs::write(mounts.cluster.scratch().join("locks.py"), format!("{head}{script}")).unwrap();
    Some(mounts.shell("timeout 60 python3 locks.py"))
}

/// Each holds one byte on its own mount and waits for the other's: whoever asks second is told.
#[test]
fn a_deadlock_across_mounts_is_refused() {
    let Some(mounts) = TwoMounts::start() else { return };
    let script = "
fcntl.lockf(here, EX, 1, 0)
child = os.fork()
if child == 0:
    mine = open(os.environ['ROOT'] + '/there/f', 'r+')
    fcntl.lockf(mine, EX, 1, 1)
    open('held', 'w').close()
    fcntl.lockf(mine, EX, 1, 0)
    os._exit(0)
while not os.path.exists('held'):
    time.sleep(0.01)
time.sleep(0.5)
assert refused(here, EX, 1, 1) == errno.EDEADLK
fcntl.lockf(here, UN)
assert os.waitpid(child, 0)[1] == 0
";
    if let Some(outcome) = python(&mounts, script) {
        outcome.succeeds();
    }
}

#[test]
fn open_file_locks_are_held_across_mounts_and_go_with_the_last_descriptor() {
    let Some(mounts) = TwoMounts::start() else { return };
    let script = "
import struct
OFD_SETLK = 37
def ofd(file, kind):
    fcntl.fcntl(file, OFD_SETLK, struct.pack('hhqqi4x', kind, 0, 0, 10, 0))
ofd(here, fcntl.F_WRLCK)
copy = os.dup(here.fileno())
for attempt in range(2):
    try:
        ofd(there, fcntl.F_WRLCK)
        sys.exit('granted while it is held')
    except OSError as error:
        assert error.errno == errno.EAGAIN, error
    here.close()
os.close(copy)
until = time.time() + 10
while True:
    try:
        ofd(there, fcntl.F_WRLCK)
        break
    except OSError:
        assert time.time() < until, 'it is never freed'
        time.sleep(0.01)
";
    if let Some(outcome) = python(&mounts, script) {
        outcome.succeeds();
    }
}

#[test]
fn a_restart_of_the_manager_keeps_the_locks_that_are_held() {
    let Some(mounts) = TwoMounts::start() else { return };
    let (ours, theirs) = (open(&mounts.here), open(&mounts.there));
    flock(&ours, FlockOperation::LockExclusive).unwrap();
    fcntl_lock(&ours, FlockOperation::LockExclusive).unwrap();
    mounts.cluster.signal("mgr0", rustix::process::Signal::KILL);
    eventually("the manager is gone", Duration::from_secs(10), || {
        !mounts.cluster.is_running("mgr0")
    });
    mounts.cluster.up();
    flock(&theirs, FlockOperation::NonBlockingLockExclusive).unwrap_err();
    flock(&theirs, FlockOperation::NonBlockingLockShared).unwrap_err();
    flock(&ours, FlockOperation::Unlock).unwrap();
    eventually("what is given up after it is free", Duration::from_secs(10), || {
        flock(&theirs, FlockOperation::NonBlockingLockExclusive).is_ok()
    });
}
