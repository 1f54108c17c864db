//! Power losses: of each log segment only what was synced is sure to be left.
//!
//! The disk is modelled by [`PowerMedia`], which remembers what was synced of every file and which
//! names were. An image of it keeps the synced bytes, and an arbitrary part of the rest: bytes may
//! be gone from any point on, or be zeros in the middle with later ones present.

use super::*;
use crate::store::{LocalMedia, Media, MediaFile};
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Default)]
struct PowerMedia {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Debug, Default)]
struct Disk {
    /// Contents at the last sync, by path.
    synced: HashMap<PathBuf, Vec<u8>>,
    /// Whether the file's name is on the disk.
    named: HashMap<PathBuf, bool>,
}

#[derive(Debug)]
struct PowerFile {
    path: PathBuf,
    file: Arc<dyn MediaFile>,
    disk: Arc<Mutex<Disk>>,
}

impl PowerMedia {
    /// What a power loss now leaves of `directory`.
    fn lose_power(&self, directory: &Path, random: &mut Random) -> tempfile::TempDir {
        let image = tempfile::tempdir().unwrap();
        let disk = self.disk.lock().unwrap();
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let named = disk.named.get(&path).copied().unwrap_or(true);
            if path.ends_with("lock") || (!named && random.below(2) == 0) {
                continue;
            }
            let synced = disk.synced.get(&path).cloned().unwrap_or_default();
            let written = fs::read(&path).unwrap();
            let left =
                if path.ends_with("state.redb") { synced } else { tear(synced, written, random) };
            fs::write(image.path().join(path.file_name().unwrap()), left).unwrap();
        }
        image
    }
}

/// What is left of `written` when only `synced` is sure.
fn tear(synced: Vec<u8>, mut written: Vec<u8>, random: &mut Random) -> Vec<u8> {
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

impl Media for PowerMedia {
    fn open(&self, path: &Path) -> io::Result<Arc<dyn MediaFile>> {
        let new = !path.exists();
        let file = LocalMedia.open(path)?;
        let mut disk = self.disk.lock().unwrap();
        if new {
            disk.synced.insert(path.to_path_buf(), Vec::new());
            disk.named.insert(path.to_path_buf(), false);
        }
        Ok(Arc::new(PowerFile { path: path.to_path_buf(), file, disk: self.disk.clone() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        LocalMedia.remove(path)
    }

    fn sync_directory(&self, directory: &Path) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        disk.named.values_mut().for_each(|named| *named = true);
        // The state file is created under another name.
        let state = disk.synced.get(&directory.join("state.redb.new")).cloned();
        if let Some(state) = state {
            disk.synced.entry(directory.join("state.redb")).or_insert(state);
        }
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
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
        self.file.write_at(bytes, offset)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        let contents = fs::read(&self.path)?;
        self.disk.lock().unwrap().synced.insert(self.path.clone(), contents);
        Ok(())
    }
}

/// One life of a store: commits, syncs and checkpoints, then the power goes.
fn live_and_lose_power(durability: Durability, random: &mut Random) {
    let directory = tempfile::tempdir().unwrap();
    let media = PowerMedia::default();
    let options = StoreOptions { durability, sync_delay_ms: 900, ..small() };
    let store = DiskStore::open_on(Arc::new(media.clone()), directory.path(), options).unwrap();
    let (mut states, mut safe) = (vec![Model::new()], 0);
    for _ in 0..random.below(60) {
        match random.below(12) {
            0 => store.sync().unwrap(),
            1 => store.checkpoint().unwrap(),
            _ => {
                let mut state = states.last().unwrap().clone();
                let group = random.group();
                store.commit(group.clone()).unwrap();
                apply(&mut state, group);
                states.push(state);
                if durability == Durability::Local {
                    continue;
                }
            }
        }
        safe = states.len() - 1;
    }
    // A checkpoint that began by itself must not change files while the image is taken.
    eventually("the checkpoint", || !store.status().checkpointing);
    let image = media.lose_power(directory.path(), random);
    let recovered = DiskStore::open(image.path(), small()).unwrap();
    let last = recovered.status().last as usize;
    assert!(last >= safe, "{last} groups are left, {safe} had been synced");
    assert_eq!(contents(&recovered), states[last], "a prefix of the commits");
}

#[test]
fn a_power_loss_takes_at_most_a_suffix_of_what_was_not_synced() {
    let mut random = Random::seeded("local");
    for _ in 0..60 {
        live_and_lose_power(Durability::Local, &mut random);
    }
}

#[test]
fn a_power_loss_takes_nothing_from_a_strict_store() {
    let mut random = Random::seeded("strict");
    for _ in 0..30 {
        live_and_lose_power(Durability::Strict, &mut random);
    }
}

#[test]
fn unsynced_groups_are_synced_within_a_second() {
    let directory = tempfile::tempdir().unwrap();
    let store = DiskStore::open(directory.path(), StoreOptions::default()).unwrap();
    let begun = Instant::now();
    store.commit(one("a", "1")).unwrap();
    eventually("the sync", || store.status().synced == 1);
    assert!(begun.elapsed() < Duration::from_secs(1));
}
