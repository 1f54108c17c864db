//! Power losses: only what was synced is sure to be left.
//!
//! [`PowerMedia`] remembers what was synced of every file and which names were. An image of it keeps
//! that, and an arbitrary part of the rest: a log may end anywhere or have zeros in the middle with
//! later bytes present, of the state file any of the pages written since may be new or old.

use super::*;
use crate::store::{LocalMedia, Media, MediaFile, Space};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

#[derive(Clone, Debug, Default)]
struct PowerMedia {
    disk: Arc<Disk>,
}

#[derive(Debug, Default)]
struct Disk {
    files: Mutex<Files>,
    /// Images taken within a checkpoint, with how many groups had been safe.
    images: Mutex<Vec<(tempfile::TempDir, usize)>>,
    /// How many groups the test knows to be safe.
    safe: AtomicUsize,
    random: Mutex<Option<Random>>,
    /// Writes to the state file wait until this is free.
    gate: RwLock<()>,
}

#[derive(Debug, Default)]
struct Files {
    /// Contents at the last sync, by path.
    synced: HashMap<PathBuf, Vec<u8>>,
    /// Whether the file's name is on the disk.
    named: HashMap<PathBuf, bool>,
}

#[derive(Debug)]
struct PowerFile {
    path: PathBuf,
    file: Arc<dyn MediaFile>,
    disk: Arc<Disk>,
}

impl Disk {
    /// What a power loss now leaves of `directory`.
    fn lose_power(&self, directory: &Path, random: &mut Random) -> tempfile::TempDir {
        let image = scratch();
        let files = self.files.lock().unwrap();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let named = files.named.get(&path).copied().unwrap_or(true);
            if path.ends_with("lock") || (!named && random.below(2) == 0) {
                continue;
            }
            let synced = files.synced.get(&path).cloned().unwrap_or_default();
            let tear = if path.ends_with("state.redb") { tear_pages } else { tear_tail };
            let left = tear(synced, fs::read(&path).unwrap(), random);
            fs::write(image.path().join(path.file_name().unwrap()), left).unwrap();
        }
        image
    }

    /// Takes an image now and then.
    fn may_lose_power(&self, path: &Path) {
        let mut random = self.random.lock().unwrap();
        let Some(random) = random.as_mut().filter(|_| path.ends_with("state.redb")) else { return };
        if random.below(6) == 0 {
            let safe = self.safe.load(Ordering::SeqCst);
            let image = self.lose_power(path.parent().unwrap(), random);
            self.images.lock().unwrap().push((image, safe));
        }
    }
}

/// A file that is only appended to, of which `synced` is sure.
fn tear_tail(synced: Vec<u8>, mut written: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let unsynced = written.len().saturating_sub(synced.len());
    if unsynced == 0 {
        return written;
    }
    let hole = synced.len() + random.below(unsynced + 1);
    match random.below(3) {
        0 => written.truncate(hole),
        1 => {
            let end = hole + random.below(written.len() - hole + 1);
            written[hole..end].fill(0);
        }
        _ => {}
    }
    written
}

/// A file of pages, each of which is as it was synced or as it was written since.
fn tear_pages(synced: Vec<u8>, mut written: Vec<u8>, random: &mut Random) -> Vec<u8> {
    for (page, old) in synced.chunks(4096).enumerate() {
        let new = written.get_mut(page * 4096..page * 4096 + old.len());
        if let Some(new) = new.filter(|_| random.below(2) == 0) {
            new.copy_from_slice(old);
        }
    }
    written
}

impl Media for PowerMedia {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediaFile>> {
        let new = !path.exists();
        let file = LocalMedia.open(path)?;
        let mut files = self.disk.files.lock().unwrap();
        if new {
            files.synced.insert(path.to_path_buf(), Vec::new());
            files.named.insert(path.to_path_buf(), false);
        }
        Ok(Arc::new(PowerFile { path: path.to_path_buf(), file, disk: self.disk.clone() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        LocalMedia.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut files = self.disk.files.lock().unwrap();
        files.named.values_mut().for_each(|named| *named = true);
        // The state file is created under another name.
        let state = files.synced.get(&directory.join("state.redb.new")).cloned();
        if let Some(state) = state {
            files.synced.entry(directory.join("state.redb")).or_insert(state);
        }
        Ok(())
    }

    /// So little that a checkpoint goes in parts of 64 keys.
    fn space(&self, directory: &Path) -> io::Result<Space> {
        Ok(Space { free_bytes: 0, ..LocalMedia.space(directory)? })
    }
}

impl MediaFile for PowerFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        if self.path.ends_with("state.redb") {
            drop(self.disk.gate.read());
        }
        self.disk.may_lose_power(&self.path);
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.may_lose_power(&self.path);
        let contents = fs::read(&self.path)?;
        self.disk.files.lock().unwrap().synced.insert(self.path.clone(), contents);
        Ok(())
    }
}

/// One life of a store: commits, syncs and checkpoints, then the power goes. Returns how many images
/// were looked at.
fn live_and_lose_power(durability: Durability, random: &mut Random) -> usize {
    let directory = scratch();
    let media = PowerMedia::default();
    let options = StoreOptions { durability, sync_delay_ms: 900, ..small() };
    let store = DiskStore::open_on(Arc::new(media.clone()), directory.path(), options).unwrap();
    *media.disk.random.lock().unwrap() = Some(Random(random.next()));
    let mut states = vec![Model::new()];
    for _ in 0..random.below(100) {
        match random.below(12) {
            0 => store.sync().unwrap(),
            1 => store.checkpoint().unwrap(),
            _ => {
                let mut state = states.last().unwrap().clone();
                let group = random.group();
                apply(&mut state, group.clone());
                states.push(state);
                store.commit(group).unwrap();
                if durability == Durability::Local {
                    continue;
                }
            }
        }
        media.disk.safe.store(states.len() - 1, Ordering::SeqCst);
    }
    // A checkpoint that began by itself must not change files while the last image is taken.
    eventually("the checkpoint", || !store.status().checkpointing);
    let safe = media.disk.safe.load(Ordering::SeqCst);
    let mut images = std::mem::take(&mut *media.disk.images.lock().unwrap());
    images.push((media.disk.lose_power(directory.path(), random), safe));
    images.iter().for_each(|(image, safe)| check(image.path(), &states, *safe));
    images.len()
}

fn check(image: &Path, states: &[Model], safe: usize) {
    let recovered = DiskStore::open(image, small()).unwrap();
    let last = recovered.status().last as usize;
    assert!(last >= safe, "{last} groups are left, {safe} had been synced");
    assert_eq!(contents(&recovered), states[last], "a prefix of the commits");
}

#[test]
fn a_power_loss_takes_at_most_a_suffix_of_what_was_not_synced() {
    let mut random = Random::seeded("local");
    let images: usize = (0..60).map(|_| live_and_lose_power(Durability::Local, &mut random)).sum();
    assert!(images > 200, "only {images} images");
}

#[test]
fn a_power_loss_takes_nothing_from_a_strict_store() {
    let mut random = Random::seeded("strict");
    let images: usize = (0..30).map(|_| live_and_lose_power(Durability::Strict, &mut random)).sum();
    assert!(images > 60, "only {images} images");
}

/// While a checkpoint is under way, the log is two files, and the name of the second is new.
#[test]
fn a_sync_within_a_checkpoint_covers_both_segments_and_their_names() {
    let mut random = Random::seeded("within a checkpoint");
    for _ in 0..20 {
        let directory = scratch();
        let media = PowerMedia::default();
        let options = StoreOptions { sync_delay_ms: 900, ..StoreOptions::default() };
        let store = DiskStore::open_on(Arc::new(media.clone()), directory.path(), options).unwrap();
        store.commit(one("a", "1")).unwrap();
        let closed = media.disk.gate.write().unwrap();
        let image = std::thread::scope(|scope| {
            let checkpoint = scope.spawn(|| store.checkpoint());
            eventually("the new segment", || segments(directory.path()).len() == 2);
            store.commit(one("b", "2")).unwrap();
            store.sync().unwrap();
            let image = media.disk.lose_power(directory.path(), &mut random);
            drop(closed);
            checkpoint.join().unwrap().unwrap();
            image
        });
        assert_eq!(contents(&DiskStore::open(image.path(), small()).unwrap()).len(), 2);
    }
}

#[test]
fn unsynced_groups_are_synced_within_a_second() {
    let directory = scratch();
    let store = DiskStore::open(directory.path(), StoreOptions::default()).unwrap();
    let begun = Instant::now();
    store.commit(one("a", "1")).unwrap();
    eventually("the sync", || store.status().synced == 1);
    assert!(begun.elapsed() < Duration::from_secs(1));
}
