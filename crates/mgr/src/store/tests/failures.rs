//! Disks that are full or failing under an open store, and crashes between the steps of a
//! checkpoint.

use super::faults::{EIO, ENOSPC, FaultyMedia, Moment};
use super::*;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

fn open(media: &FaultyMedia, directory: &Path, options: StoreOptions) -> DiskStore {
    DiskStore::open_on(Arc::new(media.clone()), directory, options).unwrap()
}

#[test]
fn a_commit_that_fails_at_any_byte_leaves_nothing_and_the_next_one_works() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let store = open(&media, directory.path(), StoreOptions::default());
    let mut model = Model::new();
    for (bytes, errno) in (0..60).flat_map(|bytes| [(bytes, ENOSPC), (bytes, EIO)]) {
        media.faults().fail_writes("log.", bytes, errno);
        let failed =
            store.commit(one("failed", "x, long enough for sixty bytes of log")).unwrap_err();
        assert_eq!(failed.is_no_space(), errno == ENOSPC, "{failed}");
        media.faults().heal();
        assert_eq!(contents(&store), model);
        let group = one(&format!("{bytes} {errno}"), "y");
        store.commit(group.clone()).unwrap();
        apply(&mut model, group);
    }
    let copy = scratch();
    copy_store(directory.path(), copy.path());
    assert_eq!(contents(&DiskStore::open(copy.path(), small()).unwrap()), model);
}

#[test]
fn short_writes_are_gone_on_with() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let store = open(&media, directory.path(), small());
    for most in [1, 7, 100] {
        media.faults().write_bytes_max.store(most, Ordering::SeqCst);
        store.commit(one(&format!("{most}"), "value")).unwrap();
    }
    let copy = scratch();
    copy_store(directory.path(), copy.path());
    assert_eq!(contents(&DiskStore::open(copy.path(), small()).unwrap()).len(), 3);
}

#[test]
fn a_partial_record_that_cannot_be_cut_off_ends_all_commits() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let store = open(&media, directory.path(), StoreOptions::default());
    store.commit(one("a", "1")).unwrap();
    media.faults().fail_writes("log.", 10, EIO);
    media.faults().cut_fails.store(true, Ordering::SeqCst);
    assert!(matches!(store.commit(one("b", "2")), Err(StoreError::Suspect { .. })));
    media.faults().heal();
    assert!(matches!(store.commit(one("c", "3")), Err(StoreError::Suspect { .. })));
    assert_eq!(contents(&store).len(), 1);
    drop(store);
    let store = DiskStore::open(directory.path(), small()).unwrap();
    assert_eq!(contents(&store).len(), 1);
    store.commit(one("c", "3")).unwrap();
}

#[test]
fn a_failed_sync_is_sticky_until_the_store_is_opened_anew() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let store = open(&media, directory.path(), StoreOptions::default());
    store.commit(one("a", "1")).unwrap();
    media.faults().fail_syncs("log.", EIO as usize);
    assert!(matches!(store.sync(), Err(StoreError::Suspect { .. })));
    media.faults().heal();
    assert!(matches!(store.sync(), Err(StoreError::Suspect { .. })));
    assert!(matches!(store.commit(one("b", "2")), Err(StoreError::Suspect { .. })));
    assert!(store.status().failure.unwrap().contains("restart the manager"));
    assert_eq!(contents(&store).len(), 1, "reads go on");
    assert!(store.close().is_err());
    let store = DiskStore::open(directory.path(), small()).unwrap();
    assert_eq!(contents(&store).len(), 1);
    store.commit(one("b", "2")).unwrap();
}

#[test]
fn a_failed_sync_in_the_background_is_sticky_too() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let options = StoreOptions { sync_delay_ms: 1, ..StoreOptions::default() };
    let store = open(&media, directory.path(), options);
    media.faults().fail_syncs("log.", EIO as usize);
    store.commit(one("a", "1")).unwrap();
    eventually("the refusal", || store.commit(one("b", "2")).is_err());
}

#[test]
fn a_strict_commit_whose_sync_fails_is_not_visible() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let options = StoreOptions { durability: Durability::Strict, ..StoreOptions::default() };
    let store = open(&media, directory.path(), options);
    media.faults().fail_syncs("log.", EIO as usize);
    assert!(matches!(store.commit(one("a", "1")), Err(StoreError::Suspect { .. })));
    assert!(contents(&store).is_empty());
}

#[test]
fn a_checkpoint_that_fails_is_tried_again_while_reads_and_commits_go_on() {
    for errno in [EIO, ENOSPC] {
        let directory = scratch();
        let media = FaultyMedia::default();
        let options = StoreOptions { commit_wait_ms_max: 300, ..StoreOptions::default() };
        let store = open(&media, directory.path(), options);
        store.commit(one("a", "1")).unwrap();
        store.checkpoint().unwrap();
        store.commit(one("b", "2")).unwrap();
        media.faults().fail_writes("state", 0, errno);
        let failed = store.checkpoint();
        assert_eq!(failed.is_err_and(|error| error.is_no_space()), errno == ENOSPC);
        assert!(store.status().failure.is_some());
        store.commit(one("c", "3")).unwrap();
        eventually("reads after reopening", || {
            store.snapshot().get(b"a").is_ok_and(|value| value.is_some())
        });
        assert_eq!(contents(&store).len(), 3);
        media.faults().heal();
        eventually("the checkpoint", || store.status().checkpointed == 2);
        drop(store);
        let store = DiskStore::open(directory.path(), small()).unwrap();
        assert_eq!(contents(&store).len(), 3, "errno {errno}");
    }
}

#[test]
fn the_caller_is_warned_before_space_runs_out() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let options = StoreOptions { sync_delay_ms: 1, ..small() };
    let store = open(&media, directory.path(), options);
    assert!(!store.is_space_low());
    media.faults().free_bytes.store(100, Ordering::SeqCst);
    store.commit(one("a", "1")).unwrap();
    eventually("the warning", || store.is_space_low());
    media.faults().heal();
    assert!(!store.is_space_low());
}

/// Otherwise a store that was full would stay so: removals come, and nothing after them.
#[test]
fn while_space_is_low_a_look_at_it_begins_a_checkpoint() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let store = open(&media, directory.path(), StoreOptions { sync_delay_ms: 1, ..small() });
    media.faults().free_bytes.store(100, Ordering::SeqCst);
    let last = store.commit(one("a", "1")).unwrap();
    eventually("the checkpoint", || store.is_space_low() && store.status().checkpointed == last);
}

/// With little space a checkpoint goes in parts of 64 keys; whatever happens between them, no reader
/// and no kill sees a part of a group.
#[test]
fn a_checkpoint_in_parts_is_seen_whole() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let store = open(&media, directory.path(), StoreOptions::default());
    media.faults().free_bytes.store(100, Ordering::SeqCst);
    let images = Arc::new(Mutex::new(Vec::new()));
    let (taken, from) = (images.clone(), directory.path().to_path_buf());
    media.faults().set_hook(move |moment, path| {
        if moment == Moment::Sync && path.ends_with("state.redb") {
            let image = scratch();
            copy_store(&from, image.path());
            taken.lock().unwrap().push(image);
        }
    });
    for round in ["old", "new"] {
        let mut group = Batch::new();
        (0..1000).for_each(|key| group.put(format!("{key:04}"), round));
        store.commit(group).unwrap();
        std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| store.checkpoint().unwrap());
            while !checkpoint.is_finished() {
                check_uniform(&store, round);
            }
        });
        check_uniform(&store, round);
        let images = std::mem::take(&mut *images.lock().unwrap());
        assert!(images.len() >= 2 * 1000 / 64, "only {} images", images.len());
        for image in images {
            check_uniform(&DiskStore::open(image.path(), small()).unwrap(), round);
        }
    }
}

fn check_uniform(store: &dyn Store, value: &str) {
    let state = contents(store);
    assert_eq!(state.len(), 1000);
    assert!(state.values().all(|found| found == value.as_bytes()));
}

#[test]
fn commits_wait_for_a_slow_checkpoint_but_not_for_ever_and_memory_stays_bounded() {
    let directory = scratch();
    let media = FaultyMedia::default();
    let options = StoreOptions { commit_wait_ms_max: 100, ..small() };
    let store = open(&media, directory.path(), options);
    let gate = media.faults().block_checkpoints();
    let closed = gate.write().unwrap();
    let mut committed = 0;
    let refused = loop {
        match store.commit(one(&format!("{committed}"), &"x".repeat(200))) {
            Ok(_) => committed += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StoreError::Overloaded { .. }), "{refused}");
    assert!(committed < 100, "{committed} groups of 200 bytes in two logs of 4 KiB");
    assert_eq!(contents(&store).len(), committed);
    assert!(store.status().checkpointing);
    drop(closed);
    eventually("room", || store.commit(one("more", "x")).is_ok());
    assert_eq!(contents(&store).len(), committed + 1);
}

/// Takes an image of the store before every write, sync and removal while it works and checkpoints:
/// each is what a kill at that moment leaves, and must open with every group committed by then.
#[test]
fn a_kill_between_any_two_steps_loses_nothing() {
    let directory = scratch();
    let images = Arc::new(Mutex::new(Vec::new()));
    let media = FaultyMedia::default();
    let store = open(&media, directory.path(), StoreOptions::default());
    let committed = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    {
        let (images, committed) = (images.clone(), committed.clone());
        let from = directory.path().to_path_buf();
        media.faults().set_hook(move |moment, path| {
            let image = scratch();
            copy_store(&from, image.path());
            let groups = committed.load(Ordering::SeqCst);
            images.lock().unwrap().push((image, groups, format!("{moment:?} {path:?}")));
        });
    }
    for group in 0..6 {
        store.commit(one(&format!("{group}"), "x")).unwrap();
        committed.fetch_add(1, Ordering::SeqCst);
        if group % 2 == 1 {
            store.checkpoint().unwrap();
        }
    }
    drop(store);
    let images = images.lock().unwrap();
    assert!(images.len() > 20, "only {} moments", images.len());
    for (image, groups, moment) in images.iter() {
        let store = DiskStore::open(image.path(), small());
        let store = store.unwrap_or_else(|error| panic!("before {moment}: {error}"));
        let state = contents(&store);
        let expected: Model =
            (0..state.len()).map(|group| (group.to_string().into_bytes(), b"x".to_vec())).collect();
        assert_eq!(state, expected, "before {moment}");
        assert!(state.len() >= *groups, "before {moment}: {} of {groups}", state.len());
    }
}
