//! Large reads are sent from where the file lies in memory: they show what a plain file would hold, as of one moment.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use pvfs_iod::LocalDisk;
use pvfs_wire::Errno;
use pvfs_wire::ops::{AllocateObject, Allocation, Read, RemoveObjects};

use crate::harness::{Client, Daemon, Object, contiguous};

fn on_files() -> (Daemon, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    LocalDisk::format(dir.path(), "io0").unwrap();
    (Daemon::new(LocalDisk::open(dir.path(), "io0").unwrap()), dir)
}

fn read(client: &Client<'_>, object: &Object, offset: u64, bytes: u64) -> Vec<u8> {
    client.read(object, contiguous(offset, bytes)).unwrap().0
}

/// Reads until the object is mapped.
fn warm(daemon: &Daemon, client: &Client<'_>, object: &Object) {
    for _ in 0..100 {
        read(client, object, 0, CHUNK);
        if daemon.figure("read_views") > 0 {
            return;
        }
    }
    panic!("a hundred reads and no view");
}

#[test]
fn large_reads_follow_every_change() {
    let (daemon, _dir) = on_files();
    let client = daemon.client(1);
    let object = client.object(1);
    let mut model = vec![7; 4 << 20];
    client.write_at(&object, 0, &model).unwrap();
    warm(&daemon, &client, &object);
    let seed = std::env::var("PVFS_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    println!("seed {seed}");
    let random = AtomicU64::new(seed);
    let below = |limit: u64| {
        let next = random.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        random.store(next, Relaxed);
        (next >> 33) % limit
    };
    for round in 0..400u64 {
        let (offset, bytes) = (below(4 << 20), 1 + below(300 << 10));
        let end = (offset + bytes) as usize;
        match below(8) {
            0 => {
                client.truncate(&object, offset).unwrap();
                model.resize(offset as usize, 0);
            }
            1 | 2 => {
                let data = vec![round as u8; bytes as usize];
                client.write_at(&object, offset, &data).unwrap();
                model.resize(model.len().max(end), 0);
                model[offset as usize..end].copy_from_slice(&data);
            }
            3 => {
                let punch = AllocateObject {
                    access: object.access.clone(),
                    slot: 0,
                    how: Allocation::Punch,
                    offset,
                    bytes,
                    grow: false,
                };
                match client.call(&punch) {
                    Err(Errno::EOPNOTSUPP) => {}
                    done => {
                        done.unwrap();
                        let (start, end) =
                            ((offset as usize).min(model.len()), end.min(model.len()));
                        model[start..end].fill(0);
                    }
                }
            }
            _ => {
                let expected = &model[(offset as usize).min(model.len())..end.min(model.len())];
                assert!(read(&client, &object, offset, bytes) == expected, "round {round}");
            }
        }
    }
    assert!(daemon.figure("read_views") > 10, "{}", daemon.figure("read_views"));
}

/// What a reply still shows is not changed under it; the change waits for the reply to be sent or copied.
#[test]
fn a_reply_shows_one_moment_and_a_write_waits_for_it() {
    let (daemon, _dir) = on_files();
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, &vec![1; CHUNK as usize]).unwrap();
    warm(&daemon, &client, &object);
    let request = Read { access: object.access.clone(), slot: 0, regions: contiguous(0, CHUNK) };
    let reply = client.send(&request, &[]);
    let write = client.send_write(&object, contiguous(0, CHUNK), &vec![2; CHUNK as usize], false);
    std::thread::sleep(Duration::from_millis(50));
    assert!(!write.is_answered());
    assert!(reply.reply::<Read>().unwrap().1.iter().all(|byte| *byte == 1));
    assert_eq!(write.status(), pvfs_wire::OK);
    assert!(read(&client, &object, 0, CHUNK).iter().all(|byte| *byte == 2));
}

/// A mapped file keeps its space although its name is gone.
#[test]
fn a_removed_object_gives_its_space_back() {
    let (daemon, dir) = on_files();
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, &vec![1; CHUNK as usize]).unwrap();
    warm(&daemon, &client, &object);
    let store = dir.path().to_str().unwrap().to_owned();
    let mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains(&store);
    assert!(mapped());
    daemon.manager().call(&RemoveObjects { handles: vec![object.handle] }).unwrap();
    assert!(!mapped());
}

const CHUNK: u64 = 256 << 10;
