//! Properties of the store as a whole.

mod concurrency;
mod damage;
mod failures;
mod faults;
mod model;
mod power;
mod process;

use super::*;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a store must hold.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A small seeded generator (splitmix64). Its seed is printed by whoever fails.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// Begins with `PVFS_SEED`, or with a new seed each run, and prints it.
    fn seeded(test: &str) -> Self {
        let given = std::env::var("PVFS_SEED").ok().map(|seed| seed.parse().expect("a number"));
        let seed = given.unwrap_or_else(|| getrandom::u64().unwrap());
        eprintln!("{test}: repeat with PVFS_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn key(&mut self) -> Vec<u8> {
        let length = self.below(5);
        (0..length).map(|_| [0, b'a', b'b', 0xff][self.below(4)]).collect()
    }

    fn value(&mut self) -> Vec<u8> {
        let length = self.below(60);
        vec![self.next() as u8; length]
    }

    /// One to eight changes of few keys, so that they meet.
    fn group(&mut self) -> Batch {
        let mut group = Batch::new();
        for _ in 0..=self.below(8) {
            match self.below(3) {
                0 => group.delete(self.key()),
                _ => group.put(self.key(), self.value()),
            }
        }
        group
    }
}

/// A directory in memory if there is one: hundreds of stores are opened here, and what a sync really
/// does is modelled, not measured.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn small() -> StoreOptions {
    StoreOptions { log_bytes_max: 4 << 10, cache_bytes: 1 << 20, ..StoreOptions::default() }
}

fn one(key: &str, value: &str) -> Batch {
    let mut group = Batch::new();
    group.put(key, value);
    group
}

fn apply(model: &mut Model, group: Batch) {
    for Change { key, value } in group {
        match value {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

fn contents(store: &dyn Store) -> Model {
    store.snapshot().scan(&KeyRange::all()).map(|entry| entry.unwrap()).collect()
}

/// The files of a store as a process killed now would leave them, if nothing is written meanwhile.
fn copy_store(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let mut names: Vec<_> =
        fs::read_dir(from).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        match fs::copy(from.join(&name), to.join(&name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => assert!(copied.is_ok(), "{name:?}: {copied:?}"),
        }
    }
}

/// The path of the last log segment.
fn last_segment(directory: &Path) -> std::path::PathBuf {
    segments(directory).pop().expect("a store has a segment")
}

fn segments(directory: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("log."))
        .collect();
    paths.sort();
    paths
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what} did not happen in 20 s");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_second_open_is_refused_until_the_first_ends() {
    let directory = scratch();
    let store = DiskStore::open(directory.path(), small()).unwrap();
    let refused = DiskStore::open(directory.path(), small()).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::InUse { .. }));
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
    drop(store);
    DiskStore::open(directory.path(), small()).unwrap();
}

#[test]
fn what_the_log_cannot_hold_is_refused_before_it_is_written() {
    let directory = scratch();
    let store = DiskStore::open(directory.path(), small()).unwrap();
    let mut group = one("before", "x");
    group.put(vec![b'k'; KEY_BYTES_MAX + 1], "");
    assert!(matches!(store.commit(group), Err(StoreError::TooLarge { what: "key", .. })));
    let mut group = Batch::new();
    group.put("k", vec![0; VALUE_BYTES_MAX + 1]);
    assert!(matches!(store.commit(group), Err(StoreError::TooLarge { what: "value", .. })));
    let mut group = Batch::new();
    for key in 0..9_u8 {
        group.put([key], vec![0; VALUE_BYTES_MAX]);
    }
    assert!(matches!(store.commit(group), Err(StoreError::TooLarge { what: "group", .. })));
    assert!(contents(&store).is_empty());
    let mut group = Batch::new();
    group.put(vec![b'k'; KEY_BYTES_MAX], vec![0; VALUE_BYTES_MAX]);
    store.commit(group).unwrap();
    drop(store);
    let store = DiskStore::open(directory.path(), small()).unwrap();
    assert_eq!(contents(&store).len(), 1);
}

#[test]
fn options_that_cannot_work_are_refused() {
    let directory = scratch();
    let options = StoreOptions { sync_delay_ms: 1_500, ..StoreOptions::default() };
    let refused = DiskStore::open(directory.path(), options).map(drop).unwrap_err();
    assert_eq!(refused.to_string(), "store option sync_delay_ms is 1500, allowed is 0 to 900");
}
