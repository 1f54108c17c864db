//! Random histories against a `BTreeMap`: commits, snapshots, checkpoints, restarts and kills.

use super::*;

/// A store and the model of it, through any number of restarts.
struct History {
    directory: tempfile::TempDir,
    options: StoreOptions,
    store: Option<DiskStore>,
    model: Model,
    /// Snapshots taken along the way and what they must go on to show.
    snapshots: Vec<(Snapshot, Model)>,
}

impl History {
    fn begin(options: StoreOptions) -> Self {
        let directory = scratch();
        let store = Some(DiskStore::open(directory.path(), options.clone()).unwrap());
        Self { directory, options, store, model: Model::new(), snapshots: Vec::new() }
    }

    fn store(&self) -> &DiskStore {
        self.store.as_ref().expect("open between the steps")
    }

    fn step(&mut self, random: &mut Random) {
        match random.below(40) {
            0 => self.store().checkpoint().unwrap(),
            1 => self.reopen(),
            2 => self.reopen_after_kill(),
            3 => self.store().sync().unwrap(),
            4 => self.snapshots.push((self.store().snapshot(), self.model.clone())),
            5 if !self.snapshots.is_empty() => self.check_snapshot(random),
            6 => self.check_range(random),
            7 => self.check_transaction(random),
            _ => self.commit(random.group()),
        }
    }

    fn commit(&mut self, group: Batch) {
        self.store().commit(group.clone()).unwrap();
        apply(&mut self.model, group);
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.store.take().expect("open").close().unwrap();
        self.open(self.directory.path().to_path_buf());
    }

    /// A copy is what a kill leaves only while nothing is written: kills within a checkpoint are
    /// tested elsewhere.
    fn reopen_after_kill(&mut self) {
        self.snapshots.clear();
        eventually("the checkpoint", || !self.store().status().checkpointing);
        let copy = scratch();
        copy_store(self.directory.path(), copy.path());
        self.store = None;
        self.directory = copy;
        self.open(self.directory.path().to_path_buf());
    }

    fn open(&mut self, directory: std::path::PathBuf) {
        self.store = Some(DiskStore::open(&directory, self.options.clone()).unwrap());
        assert_eq!(contents(self.store()), self.model);
    }

    fn check_snapshot(&mut self, random: &mut Random) {
        let (snapshot, model) = self.snapshots.swap_remove(random.below(self.snapshots.len()));
        check_view(&*snapshot, &model);
    }

    fn check_range(&self, random: &mut Random) {
        let (start, end, key) = (random.key(), random.key(), random.key());
        let snapshot = self.store().snapshot();
        let range = KeyRange::between(start.clone(), end.clone());
        let inside = |key: &[u8]| key >= start.as_slice() && key < end.as_slice();
        check_scan(&*snapshot, &range, &self.model, inside);
        check_scan(&*snapshot, &KeyRange::prefix(&key), &self.model, |k| k.starts_with(&key));
        check_scan(&*snapshot, &KeyRange::all().after(&key), &self.model, |k| k > key.as_slice());
    }

    /// A round of requests, some of which fail.
    fn check_transaction(&mut self, random: &mut Random) {
        let snapshot = self.store().snapshot();
        let mut transaction = Transaction::new(&*snapshot);
        for _ in 0..random.below(5) {
            let (group, fails) = (random.group(), random.below(3) == 0);
            let _ = transaction.attempt(|transaction| {
                for Change { key, value } in group.clone() {
                    match value {
                        Some(value) => transaction.put(key, value),
                        None => transaction.delete(key),
                    }
                }
                if fails { Err(()) } else { Ok(()) }
            });
            if !fails {
                apply(&mut self.model, group);
            }
            check_view(&transaction, &self.model);
        }
        let group = transaction.into_batch();
        self.store().commit(group).unwrap();
    }
}

fn check_view(view: &dyn View, model: &Model) {
    check_scan(view, &KeyRange::all(), model, |_| true);
    for key in [&b""[..], b"a", b"b", b"ab", b"\xff", b"a\0"] {
        assert_eq!(view.get(key).unwrap().as_ref(), model.get(key));
    }
}

fn check_scan(view: &dyn View, range: &KeyRange, model: &Model, inside: impl Fn(&[u8]) -> bool) {
    let read: Vec<Entry> = view.scan(range).map(|entry| entry.unwrap()).collect();
    let expected = model.iter().filter(|(key, _)| inside(key));
    let expected: Vec<Entry> = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(read, expected, "{range:?}");
}

fn run(test: &str, options: StoreOptions, steps: usize) {
    let mut random = Random::seeded(test);
    let mut history = History::begin(options);
    for _ in 0..steps {
        history.step(&mut random);
    }
    history.reopen_after_kill();
}

#[test]
fn agrees_with_a_map_through_checkpoints_restarts_and_kills() {
    run("with small segments", small(), 3_000);
}

#[test]
fn agrees_with_a_map_when_every_few_groups_are_checkpointed() {
    let options = StoreOptions { memtable_bytes_max: 4 << 10, ..small() };
    run("with small memtables", options, 1_500);
}

#[test]
fn agrees_with_a_map_when_strict() {
    let options = StoreOptions { durability: Durability::Strict, ..small() };
    run("strict", options, 400);
}

#[test]
fn a_snapshot_outlives_checkpoints_that_replace_all_it_shows() {
    let directory = scratch();
    let store = DiskStore::open(directory.path(), small()).unwrap();
    store.commit(one("a", "old")).unwrap();
    let before = store.snapshot();
    store.checkpoint().unwrap();
    let between = store.snapshot();
    for round in 0..5 {
        store.commit(one("a", &format!("new {round}"))).unwrap();
        store.checkpoint().unwrap();
    }
    assert_eq!(before.get(b"a").unwrap(), Some(b"old".to_vec()));
    assert_eq!(between.get(b"a").unwrap(), Some(b"old".to_vec()));
    assert_eq!(store.snapshot().get(b"a").unwrap(), Some(b"new 4".to_vec()));
}
