//! Objects in memory, deterministic by a seed: what a disk does when the power fails, when it is full,
//! when it breaks.
//!
//! Every object is kept twice: as it is, and as it was when it was last synced. A crash keeps of each object
//! what was synced and, for every block of 4 KiB that differs, the old or the new content as the seed decides;
//! likewise the size, and whether the object exists. Never other bytes: what no write put there is zero.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pvfs_wire::attr::Time;
use pvfs_wire::ops::{Allocation, ObjectStat, StoreStat};
use pvfs_wire::{Errno, Handle};

use super::{Disk, Object, Waiting};

/// A store in memory. Clones are the same store, so that it outlives the daemon that crashes.
#[derive(Clone)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

/// What can be made to go wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// So many bytes fit in all; more fails with ENOSPC.
    Capacity(u64),
    /// The next so many reads fail with EIO.
    FailReads(u32),
    /// The next so many writes and truncations fail with EIO.
    FailWrites(u32),
    /// The next so many syncs and commits fail with EIO; what they should have kept is lost in a crash.
    FailSyncs(u32),
    /// Of a hundred reads that cannot wait, so many would have to.
    SlowReads(u8),
}

struct State {
    random: Random,
    objects: BTreeMap<Handle, Versions>,
    capacity_bytes: u64,
    fail_reads: u32,
    fail_writes: u32,
    fail_syncs: u32,
    slow_reads: u8,
    boot: u64,
    /// Grows with each change, standing in for the time.
    changes: u64,
}

/// An object as it is and as it would surely be found after a crash; `None` where it does not exist.
#[derive(Clone, Default)]
struct Versions {
    now: Option<Image>,
    synced: Option<Image>,
}

#[derive(Clone, Default, Eq, PartialEq)]
struct Image {
    local_size: u64,
    blocks: BTreeMap<u64, Block>,
    changed: u64,
}

type Block = Arc<[u8; BLOCK]>;

struct MemoryObject {
    disk: MemoryDisk,
    handle: Handle,
}

impl MemoryDisk {
    /// An empty disk whose every coin is thrown by `seed`.
    pub fn new(seed: u64) -> Self {
        let state = State {
            random: Random(seed),
            objects: BTreeMap::new(),
            capacity_bytes: u64::MAX,
            fail_reads: 0,
            fail_writes: 0,
            fail_syncs: 0,
            slow_reads: 0,
            boot: 1,
            changes: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Makes something go wrong from now on.
    pub fn inject(&self, fault: Fault) {
        let mut state = self.lock();
        match fault {
            Fault::Capacity(bytes) => state.capacity_bytes = bytes,
            Fault::FailReads(count) => state.fail_reads = count,
            Fault::FailWrites(count) => state.fail_writes = count,
            Fault::FailSyncs(count) => state.fail_syncs = count,
            Fault::SlowReads(percent) => state.slow_reads = percent,
        }
    }

    /// The power fails, and comes back. Nobody may be using the disk meanwhile.
    pub fn crash(&self) {
        let mut state = self.lock();
        state.boot += 1;
        let State { random, objects, .. } = &mut *state;
        for versions in objects.values_mut() {
            versions.crash(random);
        }
        objects.retain(|_, versions| versions.now.is_some());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, handle: Handle) -> Arc<dyn Object> {
        Arc::new(MemoryObject { disk: self.clone(), handle })
    }
}

impl Disk for MemoryDisk {
    fn find(&self, handle: Handle, _: Waiting) -> Result<Option<Arc<dyn Object>>, Errno> {
        Ok(self.lock().image(handle).map(|_| self.object(handle)))
    }

    fn create(&self, handle: Handle) -> Result<Arc<dyn Object>, Errno> {
        self.lock().objects.entry(handle).or_default().now.get_or_insert_default();
        Ok(self.object(handle))
    }

    fn stat(&self, handle: Handle) -> Result<ObjectStat, Errno> {
        Ok(self.lock().image(handle).map(Image::stat).unwrap_or_default())
    }

    fn remove(&self, handle: Handle) -> Result<(), Errno> {
        if let Some(versions) = self.lock().objects.get_mut(&handle) {
            versions.now = None;
        }
        Ok(())
    }

    fn list(&self, fsid: u32, visit: &mut dyn FnMut(Handle, ObjectStat)) -> Result<(), Errno> {
        for (handle, versions) in &self.lock().objects {
            if let (true, Some(image)) = (handle.fsid == fsid, &versions.now) {
                visit(*handle, image.stat());
            }
        }
        Ok(())
    }

    fn commit(&self) -> Result<(), Errno> {
        let mut state = self.lock();
        fail_one(&mut state.fail_syncs)?;
        state.objects.values_mut().for_each(Versions::sync);
        state.objects.retain(|_, versions| versions.now.is_some());
        Ok(())
    }

    fn boot(&self) -> u64 {
        self.lock().boot
    }

    fn end_boot(&self) {
        self.lock().boot += 1;
    }

    fn keep_boot(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn space(&self) -> Result<StoreStat, Errno> {
        let state = self.lock();
        let total_bytes = state.capacity_bytes.min(TOTAL_BYTES);
        let free_bytes = total_bytes.saturating_sub(state.used_bytes());
        Ok(StoreStat { disk: 0, total_bytes, free_bytes, available_bytes: free_bytes })
    }

    fn open_objects(&self) -> usize {
        0
    }
}

impl Object for MemoryObject {
    fn read_at(&self, local: u64, into: &mut [u8], waiting: Waiting) -> Result<usize, Errno> {
        let mut state = self.disk.lock();
        fail_one(&mut state.fail_reads)?;
        if waiting == Waiting::Never && state.random.below(100) < u64::from(state.slow_reads) {
            return Err(Errno::EAGAIN);
        }
        Ok(state.image(self.handle).map_or(0, |image| image.read(local, into)))
    }

    fn write_at(&self, local: u64, from: &[u8]) -> Result<(), Errno> {
        let mut state = self.disk.lock();
        fail_one(&mut state.fail_writes)?;
        let free_blocks = state.free_blocks();
        state.change(self.handle)?.write(local, from, free_blocks)
    }

    fn allocate(&self, how: Allocation, range: Range<u64>, grow: bool) -> Result<(), Errno> {
        let mut state = self.disk.lock();
        fail_one(&mut state.fail_writes)?;
        let free_blocks = state.free_blocks();
        let image = state.change(self.handle)?;
        if how != Allocation::Reserve {
            image.punch(&range);
        }
        if how != Allocation::Punch {
            image.reserve(&range, free_blocks)?;
            let end = if grow { range.end } else { 0 };
            image.local_size = image.local_size.max(end);
        }
        Ok(())
    }

    fn next_data(&self, local: u64) -> Result<Option<u64>, Errno> {
        let state = self.disk.lock();
        let Some(image) = state.image(self.handle) else { return Ok(None) };
        let first = local / BLOCK as u64;
        let found = image.blocks.range(first..).next().map(|(block, _)| block * BLOCK as u64);
        Ok(found.map(|start| start.max(local)).filter(|found| *found < image.local_size))
    }

    fn next_hole(&self, local: u64) -> Result<Option<u64>, Errno> {
        let state = self.disk.lock();
        let Some(image) = state.image(self.handle) else { return Ok(None) };
        let mut block = local / BLOCK as u64;
        while image.blocks.contains_key(&block) {
            block += 1;
        }
        let found = (block * BLOCK as u64).max(local).min(image.local_size);
        Ok((local < image.local_size).then_some(found))
    }

    fn truncate(&self, local_size: u64) -> Result<(), Errno> {
        let mut state = self.disk.lock();
        fail_one(&mut state.fail_writes)?;
        state.change(self.handle)?.truncate(local_size);
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        let mut state = self.disk.lock();
        fail_one(&mut state.fail_syncs)?;
        if let Some(versions) = state.objects.get_mut(&self.handle) {
            versions.sync();
        }
        Ok(())
    }

    fn stat(&self) -> Result<ObjectStat, Errno> {
        self.disk.stat(self.handle)
    }
}

impl State {
    fn image(&self, handle: Handle) -> Option<&Image> {
        self.objects.get(&handle)?.now.as_ref()
    }

    /// The image about to be changed. A removed object that is still open takes no more changes, and
    /// nobody would see them.
    fn change(&mut self, handle: Handle) -> Result<&mut Image, Errno> {
        self.changes += 1;
        let versions = self.objects.get_mut(&handle).ok_or(Errno::ESTALE)?;
        let image = versions.now.as_mut().ok_or(Errno::ESTALE)?;
        image.changed = self.changes;
        Ok(image)
    }

    fn free_blocks(&self) -> u64 {
        match self.capacity_bytes {
            u64::MAX => u64::MAX,
            capacity_bytes => capacity_bytes.saturating_sub(self.used_bytes()) / BLOCK as u64,
        }
    }

    fn used_bytes(&self) -> u64 {
        let images = self.objects.values().filter_map(|versions| versions.now.as_ref());
        images.map(Image::disk_bytes).sum()
    }
}

impl Versions {
    fn sync(&mut self) {
        self.synced = self.now.clone();
    }

    fn crash(&mut self, random: &mut Random) {
        let survivor = match (self.synced.take(), self.now.take()) {
            (Some(old), Some(new)) => Some(Image::torn(&old, &new, random)),
            (None, Some(new)) => {
                random.coin().then(|| Image::torn(&Image::default(), &new, random))
            }
            (Some(old), None) => random.coin().then_some(old),
            (None, None) => None,
        };
        self.now = survivor;
        self.sync();
    }
}

impl Image {
    fn stat(&self) -> ObjectStat {
        ObjectStat {
            local_size: self.local_size,
            disk_bytes: self.disk_bytes(),
            mtime: Time { seconds: self.changed as i64, nanos: 0 },
        }
    }

    fn disk_bytes(&self) -> u64 {
        (self.blocks.len() * BLOCK) as u64
    }

    fn read(&self, local: u64, into: &mut [u8]) -> usize {
        let bytes = self.local_size.saturating_sub(local).min(into.len() as u64) as usize;
        for (block, within, part) in spans(local, bytes) {
            match self.blocks.get(&block) {
                Some(content) => into[part].copy_from_slice(&content[within]),
                None => into[part].fill(0),
            }
        }
        bytes
    }

    /// Fails at the first block that does not fit, as a file system does.
    fn write(&mut self, local: u64, from: &[u8], mut free_blocks: u64) -> Result<(), Errno> {
        for (block, within, part) in spans(local, from.len()) {
            if !self.blocks.contains_key(&block) {
                free_blocks = free_blocks.checked_sub(1).ok_or(Errno::ENOSPC)?;
            }
            self.local_size = self.local_size.max(block * BLOCK as u64 + within.end as u64);
            let content = self.blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(content)[within].copy_from_slice(&from[part]);
        }
        Ok(())
    }

    /// Sets blocks aside, all or none.
    fn reserve(&mut self, range: &Range<u64>, free_blocks: u64) -> Result<(), Errno> {
        let blocks = range.start / BLOCK as u64..range.end.div_ceil(BLOCK as u64);
        let missing: Vec<u64> = blocks.filter(|block| !self.blocks.contains_key(block)).collect();
        if missing.len() as u64 > free_blocks {
            return Err(Errno::ENOSPC);
        }
        self.blocks.extend(missing.into_iter().map(|block| (block, Arc::new([0; BLOCK]))));
        Ok(())
    }

    fn punch(&mut self, range: &Range<u64>) {
        let bytes = (range.end - range.start) as usize;
        for (block, within, _) in spans(range.start, bytes) {
            if within.len() == BLOCK {
                self.blocks.remove(&block);
            } else if let Some(content) = self.blocks.get_mut(&block) {
                Arc::make_mut(content)[within].fill(0);
            }
        }
    }

    fn truncate(&mut self, local_size: u64) {
        self.local_size = local_size;
        let (last, within) = (local_size / BLOCK as u64, (local_size % BLOCK as u64) as usize);
        let kept = if within == 0 { last } else { last + 1 };
        self.blocks.split_off(&kept);
        if let Some(content) = self.blocks.get_mut(&last) {
            Arc::make_mut(content)[within..].fill(0);
        }
    }

    /// Of every block, and of the size, one or the other.
    fn torn(old: &Self, new: &Self, random: &mut Random) -> Self {
        let sized = if random.coin() { old } else { new };
        let mut torn = Self { blocks: BTreeMap::new(), ..sized.clone() };
        let blocks: std::collections::BTreeSet<u64> =
            old.blocks.keys().chain(new.blocks.keys()).copied().collect();
        for block in blocks {
            let chosen = if random.coin() { old } else { new };
            if let Some(content) = chosen.blocks.get(&block) {
                torn.blocks.insert(block, Arc::clone(content));
            }
        }
        torn.truncate(sized.local_size);
        torn
    }
}

/// The blocks that `bytes` bytes from `local` on lie in: block, bytes within it, bytes within the whole.
fn spans(
    local: u64,
    bytes: usize,
) -> impl Iterator<Item = (u64, std::ops::Range<usize>, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = local + done as u64;
        let within = (at % BLOCK as u64) as usize;
        let count = (BLOCK - within).min(bytes - done);
        let part = done..done + count;
        done += count;
        (count > 0).then_some((at / BLOCK as u64, within..within + count, part))
    })
}

fn fail_one(left: &mut u32) -> Result<(), Errno> {
    match left.checked_sub(1) {
        None => Ok(()),
        Some(less) => {
            *left = less;
            Err(Errno::EIO)
        }
    }
}

/// SplitMix64: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }
}

const BLOCK: usize = 4096;
/// What an unlimited disk says it has.
const TOTAL_BYTES: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::conformance;

    fn handle(object: u64) -> Handle {
        Handle { fsid: 1, generation: 1, object }
    }

    fn read(disk: &MemoryDisk, object: u64, bytes: usize) -> Vec<u8> {
        let mut into = vec![0xee; bytes];
        let count = match disk.find(handle(object), Waiting::Allowed).unwrap() {
            Some(found) => found.read_at(0, &mut into, Waiting::Allowed).unwrap(),
            None => 0,
        };
        into.truncate(count);
        into
    }

    #[test]
    fn behaves_as_a_disk_should() {
        conformance::all(|| (Box::new(MemoryDisk::new(1)), Box::new(())));
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_tears_the_rest_by_block_only() {
        for seed in 0..200 {
            let disk = MemoryDisk::new(seed);
            let object = disk.create(handle(1)).unwrap();
            object.write_at(0, &[1; 3 * BLOCK]).unwrap();
            object.sync().unwrap();
            object.write_at(BLOCK as u64, &[2; 4 * BLOCK]).unwrap();
            disk.crash();
            let bytes = read(&disk, 1, 6 * BLOCK);
            assert!([3 * BLOCK, 5 * BLOCK].contains(&bytes.len()), "seed {seed}");
            for (at, block) in bytes.chunks(BLOCK).enumerate() {
                let allowed: &[u8] = [&[1u8][..], &[1, 2], &[1, 2], &[0, 2], &[0, 2]][at];
                let all_same = block.iter().all(|byte| *byte == block[0]);
                assert!(all_same && allowed.contains(&block[0]), "seed {seed} block {at}");
            }
        }
    }

    #[test]
    fn a_crash_after_commit_changes_nothing() {
        let disk = MemoryDisk::new(3);
        for object in 0..20 {
            disk.create(handle(object)).unwrap().write_at(5, &[7; 9000]).unwrap();
        }
        disk.remove(handle(4)).unwrap();
        disk.commit().unwrap();
        disk.crash();
        assert_eq!(read(&disk, 4, 10), []);
        assert!((0..20).filter(|at| *at != 4).all(|at| read(&disk, at, 10_000).len() == 9005));
    }

    #[test]
    fn both_outcomes_of_a_crash_happen() {
        let exists = |seed| {
            let disk = MemoryDisk::new(seed);
            disk.create(handle(1)).unwrap().write_at(0, b"new").unwrap();
            disk.crash();
            !read(&disk, 1, 3).is_empty()
        };
        let survived = (0..200).filter(|seed| exists(*seed)).count();
        assert!((10..190).contains(&survived), "{survived}");
    }

    #[test]
    fn faults_come_as_ordered_and_pass() {
        let disk = MemoryDisk::new(1);
        let object = disk.create(handle(1)).unwrap();
        object.write_at(0, &[1; 10]).unwrap();
        disk.inject(Fault::FailReads(1));
        disk.inject(Fault::FailWrites(1));
        disk.inject(Fault::FailSyncs(1));
        assert_eq!(object.read_at(0, &mut [0; 4], Waiting::Allowed), Err(Errno::EIO));
        assert_eq!(object.write_at(0, b"x"), Err(Errno::EIO));
        assert_eq!(object.sync(), Err(Errno::EIO));
        assert_eq!(object.read_at(0, &mut [0; 4], Waiting::Allowed), Ok(4));
        object.write_at(0, b"x").and_then(|()| object.sync()).unwrap();
        disk.inject(Fault::SlowReads(100));
        assert_eq!(object.read_at(0, &mut [0; 4], Waiting::Never), Err(Errno::EAGAIN));
        assert_eq!(object.read_at(0, &mut [0; 4], Waiting::Allowed), Ok(4));
    }

    #[test]
    fn a_full_disk_refuses_new_blocks_and_lets_old_ones_be_overwritten() {
        let disk = MemoryDisk::new(1);
        disk.inject(Fault::Capacity(2 * BLOCK as u64));
        let object = disk.create(handle(1)).unwrap();
        object.write_at(0, &[1; 2 * BLOCK]).unwrap();
        assert_eq!(object.write_at(2 * BLOCK as u64, b"x"), Err(Errno::ENOSPC));
        object.write_at(0, &[2; 2 * BLOCK]).unwrap();
        assert_eq!(disk.space().unwrap().available_bytes, 0);
        disk.remove(handle(1)).unwrap();
        assert_eq!(disk.space().unwrap().available_bytes, 2 * BLOCK as u64);
    }
}
