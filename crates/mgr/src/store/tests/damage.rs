//! Logs that are cut short, damaged or foreign when the store is opened.

use super::faults::FaultyMedia;
use super::*;
use std::sync::Arc;

/// A store that was killed: three groups synced, then three more. Returns the length of the log
/// before the last group.
fn killed_store(directory: &Path) -> (usize, Vec<Model>) {
    let original = scratch();
    let options = StoreOptions { sync_delay_ms: 900, ..StoreOptions::default() };
    let store = DiskStore::open(original.path(), options).unwrap();
    let mut states = vec![Model::new()];
    let mut before_last = 0;
    for group in 0..6 {
        before_last = fs::metadata(last_segment(original.path())).unwrap().len() as usize;
        store.commit(one(&format!("key {group}"), "value")).unwrap();
        states.push(contents(&store));
        if group == 2 {
            store.sync().unwrap();
        }
    }
    copy_store(original.path(), directory);
    (before_last, states)
}

fn open(directory: &Path) -> Result<DiskStore, StoreError> {
    DiskStore::open(directory, small())
}

#[test]
fn a_log_cut_at_any_byte_of_the_last_record_holds_exactly_the_groups_before() {
    let directory = scratch();
    let (before_last, states) = killed_store(directory.path());
    let length = fs::metadata(last_segment(directory.path())).unwrap().len() as usize;
    for cut in before_last..=length {
        let copy = scratch();
        copy_store(directory.path(), copy.path());
        cut_file(&last_segment(copy.path()), cut);
        let store = open(copy.path()).unwrap();
        let groups = if cut == length { 6 } else { 5 };
        assert_eq!(contents(&store), states[groups], "cut at {cut}");
        store.commit(one("after", "recovery")).unwrap();
        drop(store);
        assert_eq!(contents(&open(copy.path()).unwrap()).len(), groups + 1, "cut at {cut}");
    }
}

/// From the first byte of the log on. No cut invents or reorders a group.
#[test]
fn a_log_cut_anywhere_holds_a_prefix_of_the_groups() {
    let directory = scratch();
    let (_, states) = killed_store(directory.path());
    let length = fs::metadata(last_segment(directory.path())).unwrap().len() as usize;
    let mut longest = 0;
    for cut in 0..length {
        let copy = scratch();
        copy_store(directory.path(), copy.path());
        cut_file(&last_segment(copy.path()), cut);
        let state = contents(&open(copy.path()).unwrap());
        let groups = states.iter().position(|known| *known == state).expect("a prefix");
        assert!(groups >= longest, "cut at {cut}");
        longest = groups;
    }
    assert_eq!(longest, 5);
}

#[test]
fn any_changed_byte_of_a_synced_group_is_an_error_and_of_an_unsynced_one_ends_the_log() {
    let directory = scratch();
    let (_, states) = killed_store(directory.path());
    let bytes = fs::read(last_segment(directory.path())).unwrap();
    let record_bytes = (bytes.len() - 48) / 6;
    for position in (48..bytes.len()).step_by(3) {
        let copy = scratch();
        copy_store(directory.path(), copy.path());
        let mut changed = bytes.clone();
        changed[position] ^= 0x10;
        fs::write(last_segment(copy.path()), changed).unwrap();
        let group = (position - 48) / record_bytes;
        match open(copy.path()) {
            Err(StoreError::Corrupt { damage, .. }) if group < 3 => {
                let sentence = format!("group {} at byte", group + 1);
                assert!(damage.starts_with(&sentence), "{damage}");
            }
            Ok(store) if group >= 3 => assert_eq!(contents(&store), states[group]),
            other => panic!("byte {position}, group {group}: {:?}", other.map(drop)),
        }
    }
}

/// The sync thread leaves a mark behind the last group, so that even its damage is noticed.
#[test]
fn damage_to_the_last_synced_group_is_noticed() {
    let directory = scratch();
    let options = StoreOptions { sync_delay_ms: 1, ..StoreOptions::default() };
    let store = DiskStore::open(directory.path(), options).unwrap();
    store.commit(one("key", "value")).unwrap();
    let segment = last_segment(directory.path());
    let unmarked = fs::metadata(&segment).unwrap().len();
    eventually("the mark", || fs::metadata(&segment).unwrap().len() > unmarked);
    let copy = scratch();
    copy_store(directory.path(), copy.path());
    assert_eq!(contents(&open(copy.path()).unwrap()).len(), 1);
    let copy = scratch();
    copy_store(directory.path(), copy.path());
    let segment = last_segment(copy.path());
    let mut bytes = fs::read(&segment).unwrap();
    bytes[60] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert!(matches!(open(copy.path()), Err(StoreError::Corrupt { .. })));
}

/// A value that is itself a record with the next number must not be taken for one.
#[test]
fn a_value_that_looks_like_a_record_is_not_one() {
    use crate::store::log::format;
    let directory = scratch();
    let original = scratch();
    let store = DiskStore::open(original.path(), small()).unwrap();
    let mut forged = Vec::new();
    format::encode_record(&mut forged, 0, 2, 1, &one("forged", "x"));
    let mut group = Batch::new();
    group.put("key", forged);
    store.commit(group).unwrap();
    copy_store(original.path(), directory.path());
    let segment = last_segment(directory.path());
    let mut bytes = fs::read(&segment).unwrap();
    bytes[48] ^= 1;
    fs::write(&segment, bytes).unwrap();
    assert!(contents(&open(directory.path()).unwrap()).is_empty());
}

#[test]
fn a_missing_segment_is_an_error() {
    let directory = scratch();
    let store = open(directory.path()).unwrap();
    store.commit(one("a", "1")).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    for segment in segments(directory.path()) {
        fs::remove_file(segment).unwrap();
    }
    let refused = open(directory.path()).map(drop).unwrap_err().to_string();
    assert!(
        refused.contains("its log is missing, which should hold groups from 2 on"),
        "{refused}"
    );
}

/// The second segment says that the first was synced.
#[test]
fn a_log_without_its_beginning_is_an_error() {
    let directory = scratch();
    let copy = two_segments(directory.path(), true);
    fs::remove_file(&segments(copy.path())[0]).unwrap();
    let refused = open(copy.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("its log begins with group 3 instead of 1"), "{refused}");
}

/// As a power loss may leave it on a file system that does not keep names in order.
#[test]
fn a_log_whose_beginning_was_never_synced_is_dropped_whole() {
    let directory = scratch();
    let copy = two_segments(directory.path(), false);
    fs::remove_file(&segments(copy.path())[0]).unwrap();
    let store = open(copy.path()).unwrap();
    assert_eq!(store.status().last, 0);
    store.commit(one("a", "1")).unwrap();
    drop(store);
    assert_eq!(contents(&open(copy.path()).unwrap()).len(), 1);
}

/// The numbers of lost groups are given to others: what is left of the old ones must not come back.
#[test]
fn groups_behind_a_hole_never_come_back() {
    let directory = scratch();
    let copy = two_segments(directory.path(), false);
    let first = segments(copy.path())[0].clone();
    let length = fs::metadata(&first).unwrap().len() as usize;
    cut_file(&first, length - 1);
    let store = open(copy.path()).unwrap();
    assert_eq!(contents(&store).into_keys().collect::<Vec<_>>(), [b"a"]);
    assert_eq!(store.commit(one("new", "2")).unwrap(), 2);
    let again = scratch();
    copy_store(copy.path(), again.path());
    let state = contents(&open(again.path()).unwrap());
    assert_eq!(state.into_keys().collect::<Vec<_>>(), [&b"a"[..], b"new"]);
}

/// A store killed in its first checkpoint: two groups in the old segment, one in the new.
fn two_segments(directory: &Path, synced: bool) -> tempfile::TempDir {
    let media = FaultyMedia::default();
    let options = StoreOptions { sync_delay_ms: 900, ..StoreOptions::default() };
    let store = DiskStore::open_on(Arc::new(media.clone()), directory, options).unwrap();
    store.commit(one("a", "1")).unwrap();
    store.commit(one("b", "2")).unwrap();
    if synced {
        store.sync().unwrap();
    }
    let gate = media.faults().block_checkpoints();
    let closed = gate.write().unwrap();
    let copy = scratch();
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| store.checkpoint());
        eventually("the new segment", || segments(directory).len() == 2);
        store.commit(one("c", "3")).unwrap();
        copy_store(directory, copy.path());
        drop(closed);
        checkpoint.join().unwrap().unwrap();
    });
    copy
}

#[test]
fn a_segment_of_another_store_is_an_error() {
    let (directory, other) = (scratch(), scratch());
    killed_store(directory.path());
    killed_store(other.path());
    fs::copy(last_segment(other.path()), last_segment(directory.path())).unwrap();
    let refused = open(directory.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("it is of another store"), "{refused}");
}

#[test]
fn an_unknown_log_version_is_refused_with_one_sentence() {
    let directory = scratch();
    killed_store(directory.path());
    let segment = last_segment(directory.path());
    let mut bytes = fs::read(&segment).unwrap();
    bytes[8] = 9;
    let crc = crc_fast::crc32_iscsi(&bytes[..40]);
    bytes[40..44].copy_from_slice(&crc.to_le_bytes());
    fs::write(&segment, bytes).unwrap();
    let refused = open(directory.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("has format version 9, this manager reads version 1"), "{refused}");
}

#[test]
fn an_unknown_state_version_is_refused_with_one_sentence() {
    let directory = scratch();
    drop(open(directory.path()).unwrap());
    let facts: redb::TableDefinition<&str, u64> = redb::TableDefinition::new("facts");
    let database = redb::Database::open(directory.path().join("state.redb")).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(facts).unwrap().insert("format", 7).unwrap();
    write.commit().unwrap();
    drop(database);
    let refused = open(directory.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("has format version 7, this manager reads version 1"), "{refused}");
}

#[test]
fn a_state_file_that_is_none_is_an_error_not_a_panic() {
    let directory = scratch();
    fs::write(directory.path().join("state.redb"), vec![7; 100_000]).unwrap();
    assert!(open(directory.path()).is_err());
}

#[test]
fn a_store_whose_creation_was_interrupted_is_begun_anew() {
    let directory = scratch();
    fs::write(directory.path().join("state.redb.new"), [7; 100_000]).unwrap();
    let store = open(directory.path()).unwrap();
    store.commit(one("a", "1")).unwrap();
}

#[test]
fn a_missing_state_file_is_an_error() {
    let directory = scratch();
    killed_store(directory.path());
    fs::remove_file(directory.path().join("state.redb")).unwrap();
    let refused = open(directory.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("its state file is missing"), "{refused}");
    assert!(!directory.path().join("state.redb").exists(), "and none is begun");
}

/// redb checks its pages only when it repairs. What it reads from a damaged file may be an error or
/// wrong, but the manager must live.
#[test]
fn a_damaged_state_file_never_panics() {
    let directory = scratch();
    let store = open(directory.path()).unwrap();
    for group in 0..200 {
        store.commit(one(&format!("key {group}"), &"value ".repeat(group % 9))).unwrap();
    }
    store.checkpoint().unwrap();
    drop(store);
    let mut random = Random::seeded("damaged state");
    let bytes = fs::read(directory.path().join("state.redb")).unwrap();
    let used: Vec<usize> = (0..bytes.len()).filter(|byte| bytes[*byte] != 0).collect();
    for _ in 0..300 {
        let copy = scratch();
        copy_store(directory.path(), copy.path());
        let mut changed = bytes.clone();
        for _ in 0..=random.below(3) {
            changed[used[random.below(used.len())]] = random.next() as u8;
        }
        fs::write(copy.path().join("state.redb"), changed).unwrap();
        if let Ok(store) = open(copy.path()) {
            let snapshot = store.snapshot();
            let _ = snapshot.scan(&KeyRange::all()).collect::<Result<Vec<_>, _>>();
            let _ = snapshot.get(b"key 7");
        }
    }
}

fn cut_file(path: &Path, length: usize) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length as u64).unwrap();
}
