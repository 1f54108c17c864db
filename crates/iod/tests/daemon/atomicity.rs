//! Contract D3: overlapping requests of one object happen one after the other, each wholly or not at all.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use pvfs_iod::{LocalDisk, MemoryDisk};
use pvfs_layout::{Level, Regions};

use crate::harness::{Client, Daemon, Object, contiguous};

/// Writes of one tag each, of several shapes but all over the same bytes, while others read them.
fn requests_are_atomic(daemon: &Daemon, seed: u64) {
    println!("seed {seed}");
    let done = AtomicBool::new(false);
    let shapes = [
        contiguous(1000, BYTES),
        Regions::strided(1000, 100, &[Level { stride: 100, count: BYTES / 100 }]).unwrap(),
        // Backwards, so that its pieces are written in another order than those of the others.
        Regions::list(
            (0..BYTES / STEP)
                .rev()
                .map(|at| pvfs_layout::Region { offset: 1000 + at * STEP, len: STEP }),
        )
        .unwrap(),
    ];
    let first = daemon.client(99);
    first.write(&first.object(1), shapes[0].clone(), &vec![255; BYTES as usize]).unwrap();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|number| {
                let shapes = &shapes;
                scope.spawn(move || write_tags(&daemon.client(number), shapes, seed + number))
            })
            .collect();
        for number in 10..12 {
            let (shapes, done) = (&shapes, &done);
            scope.spawn(move || {
                let client = daemon.client(number);
                while !done.load(SeqCst) {
                    check_one_tag(&client, &client.object(1), shapes);
                }
            });
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, SeqCst);
    });
}

fn write_tags(client: &Client<'_>, shapes: &[Regions], seed: u64) {
    let object = client.object(1);
    let mut random = seed.wrapping_mul(2).wrapping_add(1);
    for _ in 0..ROUNDS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let shape = &shapes[(random >> 33) as usize % shapes.len()];
        let data = vec![(random >> 40) as u8; BYTES as usize];
        client.write(&object, shape.clone(), &data).unwrap();
    }
}

fn check_one_tag(client: &Client<'_>, object: &Object, shapes: &[Regions]) {
    for shape in shapes {
        let (data, _) = client.read(object, shape.clone()).unwrap();
        assert_eq!(data.len() as u64, BYTES);
        let other = data.iter().position(|byte| *byte != data[0]);
        assert_eq!(other, None, "two writes in one read");
    }
}

const BYTES: u64 = 40_000;
const STEP: u64 = 1000;
const ROUNDS: usize = 300;

#[test]
fn requests_are_atomic_in_memory() {
    let disk = MemoryDisk::new(1);
    disk.inject(pvfs_iod::disk::Fault::SlowReads(20));
    requests_are_atomic(&Daemon::new(disk), 1);
}

#[test]
fn requests_are_atomic_in_files() {
    let dir = tempfile::tempdir().unwrap();
    LocalDisk::format(dir.path(), "io0").unwrap();
    let disk = LocalDisk::open(dir.path(), "io0").unwrap();
    requests_are_atomic(&Daemon::new(disk), 2);
}
