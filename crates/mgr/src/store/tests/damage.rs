//! Logs that are cut short, damaged or foreign when the store is opened.

use super::*;

/// A store that was killed: three groups synced, then three more. Returns the length of the log
/// before the last group.
fn killed_store(directory: &Path) -> (usize, Vec<Model>) {
    let original = tempfile::tempdir().unwrap();
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
    let directory = tempfile::tempdir().unwrap();
    let (before_last, states) = killed_store(directory.path());
    let length = fs::metadata(last_segment(directory.path())).unwrap().len() as usize;
    for cut in before_last..=length {
        let copy = tempfile::tempdir().unwrap();
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
    let directory = tempfile::tempdir().unwrap();
    let (_, states) = killed_store(directory.path());
    let length = fs::metadata(last_segment(directory.path())).unwrap().len() as usize;
    let mut longest = 0;
    for cut in 0..length {
        let copy = tempfile::tempdir().unwrap();
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
    let directory = tempfile::tempdir().unwrap();
    let (_, states) = killed_store(directory.path());
    let bytes = fs::read(last_segment(directory.path())).unwrap();
    let record_bytes = (bytes.len() - 48) / 6;
    for position in (48..bytes.len()).step_by(3) {
        let copy = tempfile::tempdir().unwrap();
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
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { sync_delay_ms: 1, ..StoreOptions::default() };
    let store = DiskStore::open(directory.path(), options).unwrap();
    store.commit(one("key", "value")).unwrap();
    let segment = last_segment(directory.path());
    let unmarked = fs::metadata(&segment).unwrap().len();
    eventually("the mark", || fs::metadata(&segment).unwrap().len() > unmarked);
    let copy = tempfile::tempdir().unwrap();
    copy_store(directory.path(), copy.path());
    assert_eq!(contents(&open(copy.path()).unwrap()).len(), 1);
    let copy = tempfile::tempdir().unwrap();
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
    let directory = tempfile::tempdir().unwrap();
    let original = tempfile::tempdir().unwrap();
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
    let directory = tempfile::tempdir().unwrap();
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

#[test]
fn a_log_without_its_beginning_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    killed_store(directory.path());
    let renamed = directory.path().join("log.0000000000000003");
    fs::rename(last_segment(directory.path()), renamed).unwrap();
    let refused = open(directory.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("begins with group 3 instead of 1"), "{refused}");
}

#[test]
fn a_segment_of_another_store_is_an_error() {
    let (directory, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    killed_store(directory.path());
    killed_store(other.path());
    fs::copy(last_segment(other.path()), last_segment(directory.path())).unwrap();
    let refused = open(directory.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("it is of another store"), "{refused}");
}

#[test]
fn an_unknown_log_version_is_refused_with_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
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
    let directory = tempfile::tempdir().unwrap();
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
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("state.redb"), vec![7; 100_000]).unwrap();
    assert!(open(directory.path()).is_err());
}

#[test]
fn a_store_whose_creation_was_interrupted_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("state.redb.new"), b"").unwrap();
    let store = open(directory.path()).unwrap();
    store.commit(one("a", "1")).unwrap();
}

fn cut_file(path: &Path, length: usize) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length as u64).unwrap();
}
