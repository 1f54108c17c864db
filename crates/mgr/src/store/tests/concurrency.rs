//! Many readers beside the writer and the checkpoints.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Each group gives all keys one new value, or deletes them all: whatever a reader sees must be the
/// same for every key.
#[test]
fn readers_see_whole_groups_only_and_never_go_back() {
    let directory = scratch();
    let store = DiskStore::open(directory.path(), small()).unwrap();
    let stop = AtomicBool::new(false);
    store.commit(uniform(0)).unwrap();
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| read_until(&store, &stop))).collect();
        let begun = Instant::now();
        let mut value = 0;
        while begun.elapsed() < Duration::from_secs(2) {
            value += 1;
            store.commit(uniform(value)).unwrap();
        }
        stop.store(true, Ordering::SeqCst);
        for reader in readers {
            assert!(reader.join().unwrap() > 10, "a reader hardly got to read");
        }
        eprintln!("{value} groups, {:?}", store.status());
    });
    assert!(store.status().checkpointed > 0, "the test should see checkpoints");
}

fn read_until(store: &DiskStore, stop: &AtomicBool) -> u64 {
    let (mut rounds, mut last) = (0, 0);
    while !stop.load(Ordering::SeqCst) {
        let snapshot = store.snapshot();
        let seen = read_uniform(&*snapshot);
        assert!(seen >= last, "{seen} after {last}");
        (rounds, last) = (rounds + 1, seen);
    }
    rounds
}

/// Even values are written to all keys, odd ones delete all but the first.
fn uniform(value: u64) -> Batch {
    let mut group = Batch::new();
    for key in 0..KEYS {
        match (key, value % 2) {
            (0, _) | (_, 0) => group.put([key], value.to_le_bytes()),
            _ => group.delete([key]),
        }
    }
    group
}

fn read_uniform(view: &dyn View) -> u64 {
    let value_of = |value: Vec<u8>| u64::from_le_bytes(value.try_into().unwrap());
    let first = value_of(view.get(&[0]).unwrap().unwrap());
    let expected = if first % 2 == 0 { usize::from(KEYS) } else { 1 };
    let scanned: Vec<_> = view.scan(&KeyRange::all()).map(|entry| entry.unwrap()).collect();
    assert_eq!(scanned.len(), expected, "at {first}");
    assert!(scanned.into_iter().all(|(_, value)| value_of(value) == first));
    assert_eq!(view.contains(&[KEYS - 1]).unwrap(), first % 2 == 0);
    first
}

const KEYS: u8 = 100;

#[test]
fn commits_from_many_threads_all_happen_once() {
    let directory = scratch();
    let store = DiskStore::open(directory.path(), small()).unwrap();
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..200_u8 {
                    let mut group = Batch::new();
                    group.put([thread, round], [round]);
                    store.commit(group).unwrap();
                }
            });
        }
    });
    assert_eq!(store.status().last, 800);
    assert_eq!(contents(&store).len(), 800);
}
