//! Reading, writing and cutting: what comes back is what a plain file would hold.

use proptest::prelude::*;
use pvfs_iod::disk::Fault;
use pvfs_iod::{LocalDisk, MemoryDisk};
use pvfs_layout::{Dist, Distribution, Level, Region, Regions, StreamPieces};
use pvfs_wire::ops::{AllocateObject, Allocation, CopyObject, SeekObject};
use pvfs_wire::token::Rights;
use pvfs_wire::{Bytes, Errno};

use crate::harness::{Client, Daemon, Object, contiguous};

const ALL: Rights = Rights::READ.with(Rights::WRITE).with(Rights::TRUNCATE);

#[derive(Clone, Debug)]
enum Step {
    Write(Regions, u8),
    Read(Regions),
    Truncate(u64),
    Allocate(Allocation, u64, u64, bool),
    /// From, stripes further on or back, bytes.
    Copy(u64, u64, u64),
}

fn accesses() -> impl Strategy<Value = Regions> {
    let region = (0u64..300, 0u64..40).prop_map(|(offset, len)| Region { offset, len });
    let level = (0u64..60, 0u64..5).prop_map(|(stride, count)| Level { stride, count });
    prop_oneof![
        (0u64..300, 0u64..300).prop_map(|(offset, len)| Regions::contiguous(offset, len)),
        prop::collection::vec(region, 0..8).prop_map(Regions::list),
        (0u64..100, 0u64..20, prop::collection::vec(level, 0..3))
            .prop_map(|(offset, block, levels)| Regions::strided(offset, block, &levels)),
    ]
    .prop_map(|regions| regions.unwrap())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (accesses(), 1u8..).prop_map(|(regions, seed)| Step::Write(regions, seed)),
        accesses().prop_map(Step::Read),
        (0u64..500).prop_map(Step::Truncate),
        (0..3usize, 0u64..400, 1u64..200, any::<bool>()).prop_map(|(how, offset, bytes, grow)| {
            let all = [Allocation::Reserve, Allocation::Punch, Allocation::Zero];
            Step::Allocate(all[how], offset, bytes, grow)
        }),
        (0u64..300, 0u64..4, 1u64..200)
            .prop_map(|(from, further, bytes)| { Step::Copy(from, further, bytes) }),
    ];
    prop::collection::vec(step, 1..12)
}

/// The file as one process would see it.
#[derive(Default)]
struct Model(Vec<u8>);

impl Model {
    fn write(&mut self, regions: &Regions, data: &[u8]) {
        let end = regions.end_offset().max(self.0.len() as u64);
        self.0.resize(end as usize, 0);
        let offsets = regions.iter().flat_map(|region| region.offset..region.end());
        offsets.zip(data).for_each(|(offset, byte)| self.0[offset as usize] = *byte);
    }

    fn allocate(&mut self, how: Allocation, offset: u64, bytes: u64, grow: bool) {
        let (start, end) = (offset as usize, (offset + bytes) as usize);
        if grow && how != Allocation::Punch && end > self.0.len() {
            self.0.resize(end, 0);
        }
        if how != Allocation::Reserve {
            let (start, end) = (start.min(self.0.len()), end.min(self.0.len()));
            self.0[start..end].fill(0);
        }
    }

    fn copy(&mut self, from: u64, to: u64, bytes: u64) {
        let (from, to) = (from as usize, to as usize);
        let end = to + bytes as usize;
        self.0.resize(end.max(self.0.len()).max(from + bytes as usize), 0);
        self.0.copy_within(from..from + bytes as usize, to);
    }

    /// Zero beyond the end.
    fn read(&self, regions: &Regions) -> Vec<u8> {
        let offsets = regions.iter().flat_map(|region| region.offset..region.end());
        offsets.map(|offset| self.0.get(offset as usize).copied().unwrap_or(0)).collect()
    }
}

/// A file over several objects, which here are all on one daemon under different numbers.
struct File<'a> {
    client: &'a Client<'a>,
    dist: Dist,
    objects: Vec<Object>,
}

impl<'a> File<'a> {
    fn new(client: &'a Client<'a>, dist: Dist) -> Self {
        let slots = 0..dist.slots();
        let objects = slots.map(|slot| client.slot(u64::from(slot) + 1, dist.clone(), slot, ALL));
        Self { client, objects: objects.collect(), dist: dist.clone() }
    }

    fn pieces(&self, slot: u32, regions: &Regions) -> Vec<std::ops::Range<usize>> {
        let pieces = StreamPieces::new(&self.dist, slot, regions);
        pieces.map(|at| at.position as usize..(at.position + at.len) as usize).collect()
    }

    fn write(&self, regions: &Regions, data: &[u8]) {
        for object in &self.objects {
            let pieces = self.pieces(object.slot, regions);
            let own: Vec<u8> = pieces.into_iter().flat_map(|at| data[at].to_vec()).collect();
            self.client.write(object, regions.clone(), &own).unwrap();
        }
    }

    /// The stream, zero where the objects had nothing.
    fn read(&self, regions: &Regions) -> Vec<u8> {
        let mut stream = vec![0; regions.total_bytes() as usize];
        for object in &self.objects {
            let (data, _) = self.client.read(object, regions.clone()).unwrap();
            let pieces = self.pieces(object.slot, regions);
            let places = pieces.into_iter().flatten();
            places.clone().zip(&data).for_each(|(at, byte)| stream[at] = *byte);
        }
        stream
    }

    fn allocate(&self, how: Allocation, offset: u64, bytes: u64, grow: bool) {
        for object in &self.objects {
            let (access, slot) = (object.access.clone(), object.slot);
            let request = AllocateObject { access, slot, offset, bytes, how, grow };
            self.client.call(&request).unwrap();
        }
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) {
        for object in &self.objects {
            let request = CopyObject {
                access: object.access.clone(),
                slot: object.slot,
                offset: to,
                bytes,
                source: object.access.token.clone().unwrap(),
                source_slot: object.slot,
                source_offset: from,
            };
            self.client.call(&request).unwrap();
        }
    }

    /// Whether the byte at this offset is told to be in a hole.
    fn is_hole(&self, offset: u64) -> bool {
        let place = self.dist.locate(offset);
        let object = &self.objects[place.slot as usize];
        let (access, slot) = (object.access.clone(), object.slot);
        let seek = |hole| {
            let access = access.clone();
            self.client.call(&SeekObject { access, slot, offset, hole }).unwrap().offset
        };
        let (data, hole) = (seek(false), seek(true).unwrap());
        assert_eq!(hole == offset, data != Some(offset), "{offset}: data {data:?} hole {hole}");
        hole == offset
    }

    fn truncate(&self, size: u64) {
        for object in &self.objects {
            let local_size = self.client.truncate(object, size).unwrap();
            assert_eq!(local_size, self.dist.local_size(object.slot, size));
        }
    }
}

fn behaves_as_a_plain_file(daemon: &Daemon, dist: Dist, steps: &[Step]) {
    let Dist::SimpleStripe(stripe) = &dist else { panic!("these are simple stripes") };
    let ssize = stripe.ssize();
    let client = daemon.client(1);
    let file = File::new(&client, dist);
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Write(regions, seed) => {
                let bytes = 0..regions.total_bytes();
                let data: Vec<u8> = bytes.map(|at| seed.wrapping_add(at as u8)).collect();
                file.write(regions, &data);
                model.write(regions, &data);
            }
            Step::Read(regions) => assert_eq!(file.read(regions), model.read(regions)),
            Step::Truncate(size) => {
                file.truncate(*size);
                model.0.resize(*size as usize, 0);
            }
            Step::Allocate(how, offset, bytes, grow) => {
                file.allocate(*how, *offset, *bytes, *grow);
                model.allocate(*how, *offset, *bytes, *grow);
            }
            Step::Copy(from, further, bytes) => {
                let to = from + further * ssize * u64::from(file.dist.slots());
                if from.abs_diff(to) >= *bytes {
                    file.copy(*from, to, *bytes);
                    model.copy(*from, to, *bytes);
                }
            }
        }
    }
    for (offset, byte) in model.0.iter().enumerate() {
        assert!(*byte == 0 || !file.is_hole(offset as u64), "byte {offset} is {byte}");
    }
    let all = contiguous(0, 600);
    assert_eq!(file.read(&all), model.read(&all));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn objects_in_memory_make_up_a_plain_file(
        ssize in 1u64..40, slots in 1u32..4, slow in 0u8..100, steps in steps(),
    ) {
        let disk = MemoryDisk::new(1);
        disk.inject(Fault::SlowReads(slow));
        let dist = Dist::simple_stripe(ssize, slots).unwrap();
        behaves_as_a_plain_file(&Daemon::new(disk), dist, &steps);
    }

    #[test]
    fn objects_without_workers_make_up_a_plain_file(ssize in 1u64..40, steps in steps()) {
        let disk = MemoryDisk::new(1);
        disk.inject(Fault::SlowReads(50));
        let daemon = Daemon::with(disk, |config| config.workers = 0);
        behaves_as_a_plain_file(&daemon, Dist::simple_stripe(ssize, 3).unwrap(), &steps);
    }

    #[test]
    fn objects_in_files_make_up_a_plain_file(ssize in 1u64..40, steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        LocalDisk::format(dir.path(), "io0").unwrap();
        let disk = LocalDisk::with_descriptors(dir.path(), "io0", 16).unwrap();
        behaves_as_a_plain_file(&Daemon::new(disk), Dist::simple_stripe(ssize, 3).unwrap(), &steps);
    }
}

#[test]
fn a_read_tells_the_end_of_the_object_from_a_hole() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let object = client.object(1);
    assert_eq!(client.read(&object, contiguous(0, 100)), Ok((Vec::new(), 0)));
    assert_eq!(client.write_at(&object, 50, b"end"), Ok(53));
    let (data, local_size) = client.read(&object, contiguous(0, 100)).unwrap();
    assert_eq!((data.len(), &data[50..], local_size), (53, &b"end"[..], 53));
    assert_eq!(client.read(&object, contiguous(60, 10)), Ok((Vec::new(), 53)));
}

#[test]
fn a_copy_needs_the_right_to_read_and_equal_parts() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let (source, target) = (client.object(1), client.object(2));
    client.write_at(&source, 0, b"content").unwrap();
    let copy = |token: Option<Bytes>, bytes| CopyObject {
        access: target.access.clone(),
        slot: 0,
        offset: 3,
        bytes,
        source: token.unwrap_or_default(),
        source_slot: 0,
        source_offset: 0,
    };
    let write_only = client.slot(1, Dist::basic(), 0, Rights::WRITE);
    let striped = client.slot(1, Dist::simple_stripe(2, 2).unwrap(), 0, ALL);
    let strangers = daemon.client(2).object(1);
    for (refused, errno) in [
        (copy(write_only.access.token, 7), Errno::EACCES),
        (copy(striped.access.token, 7), Errno::EINVAL),
        (copy(strangers.access.token, 7), Errno::EKEYEXPIRED),
        (copy(None, 7), Errno::EKEYREJECTED),
        (copy(source.access.token.clone(), u64::MAX), Errno::EFBIG),
        (copy(source.access.token.clone(), 1 << 40), Errno::EINVAL),
    ] {
        assert_eq!(client.call(&refused).err(), Some(errno), "{refused:?}");
    }
    assert_eq!(client.read(&target, contiguous(0, 100)), Ok((Vec::new(), 0)));
    let done = client.call(&copy(source.access.token.clone(), 9)).unwrap();
    assert_eq!(done.local_size, 12);
    assert_eq!(client.read(&target, contiguous(0, 100)).unwrap().0, b"\0\0\0content\0\0");
}

#[test]
fn an_empty_write_creates_nothing_and_says_the_size() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, b"abc").unwrap();
    assert_eq!(client.write_at(&object, 100, b""), Ok(3));
}

#[test]
fn data_that_do_not_fit_the_regions_are_refused() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let object = client.object(1);
    for bytes in [0, 9, 11] {
        let outcome = client.write(&object, contiguous(0, 10), &vec![1; bytes]);
        assert_eq!(outcome, Err(Errno::EINVAL), "{bytes} bytes for 10");
    }
    assert_eq!(client.read(&object, contiguous(0, 10)), Ok((Vec::new(), 0)));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let outside = client.slot(1, Dist::simple_stripe(10, 2).unwrap(), 2, ALL);
    assert_eq!(client.read(&outside, contiguous(0, 10)), Err(Errno::EINVAL));
    assert_eq!(client.write_at(&outside, 0, b"x"), Err(Errno::EINVAL));
    assert_eq!(client.truncate(&outside, 5), Err(Errno::EINVAL));
    let object = client.object(1);
    assert_eq!(client.read(&object, contiguous(0, 5 << 20)), Err(Errno::EINVAL));
    assert_eq!(client.truncate(&object, u64::MAX), Err(Errno::EFBIG));
}

#[test]
fn reads_that_would_block_are_answered_by_workers() {
    let (daemon, disk) = Daemon::in_memory();
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, b"slow").unwrap();
    disk.inject(Fault::SlowReads(100));
    assert_eq!(client.read(&object, contiguous(0, 9)), Ok((b"slow".to_vec(), 4)));
    assert_eq!((daemon.figure("read_hits"), daemon.figure("read_misses")), (0, 1));
    disk.inject(Fault::SlowReads(0));
    assert_eq!(client.read(&object, contiguous(0, 9)), Ok((b"slow".to_vec(), 4)));
    assert_eq!((daemon.figure("read_hits"), daemon.figure("read_misses")), (1, 1));
}

#[test]
fn cutting_what_is_not_there_makes_nothing() {
    let (daemon, disk) = Daemon::in_memory();
    let client = daemon.client(1);
    assert_eq!(client.truncate(&client.object(1), 0), Ok(0));
    let mut found = 0;
    pvfs_iod::Disk::list(&disk, 1, &mut |_, _| found += 1).unwrap();
    assert_eq!(found, 0);
    assert_eq!(client.truncate(&client.object(1), 10), Ok(10));
    assert_eq!(client.read(&client.object(1), contiguous(0, 99)), Ok((vec![0; 10], 10)));
}
