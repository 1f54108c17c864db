//! A real process killed with SIGKILL while it commits and checkpoints.

use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Not a test by itself: the process that is killed. It commits for ever and says how far it got.
#[test]
#[ignore = "run by the test below, in a process of its own"]
fn committing_process() {
    let Ok(directory) = std::env::var("PVFS_STORE_TEST_DIRECTORY") else { return };
    let options = StoreOptions { log_bytes_max: 64 << 10, ..small() };
    let store = DiskStore::open(Path::new(&directory), options).unwrap();
    for group in store.status().last + 1.. {
        let sequence = store.commit(numbered(group)).unwrap();
        println!("committed {sequence}");
    }
}

/// Group `n` writes its number under a key of its own and under one that all groups share.
fn numbered(group: u64) -> Batch {
    let mut batch = Batch::new();
    batch.put(format!("group {group:012}"), group.to_string());
    batch.put("last", group.to_string());
    batch
}

#[test]
fn a_process_killed_at_any_time_loses_no_commit_that_returned() {
    let mut random = Random::seeded("kill");
    let directory = scratch();
    let mut acknowledged = 0;
    for _ in 0..8 {
        acknowledged = acknowledged.max(run_and_kill(directory.path(), random.below(4_000)));
        let store = DiskStore::open(directory.path(), small()).unwrap();
        let last = store.status().last;
        assert!(last >= acknowledged, "{last} of {acknowledged}");
        let state = contents(&store);
        assert_eq!(state.len() as u64, last + u64::from(last > 0));
        assert_eq!(state.get(&b"last"[..]), Some(&last.to_string().into_bytes()));
    }
}

/// Kills the process once it has acknowledged `more` groups. Returns the last number it said.
fn run_and_kill(directory: &Path, more: usize) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture", "store::tests::process::committing_process"])
        .env("PVFS_STORE_TEST_DIRECTORY", directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut numbers = lines.filter_map(|line| {
        line.ok()?.split_once("committed ").and_then(|(_, number)| number.parse().ok())
    });
    let last: u64 = numbers.by_ref().take(more + 1).last().expect("at least one commit");
    child.kill().unwrap();
    child.wait().unwrap();
    numbers.last().unwrap_or(last)
}
