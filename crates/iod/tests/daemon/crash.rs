//! Power loss: what was synced is exact, the rest is old or new per block, never anything else.

use std::time::Duration;

use pvfs_iod::MemoryDisk;
use pvfs_net::service::Service;
use pvfs_wire::Errno;

use crate::harness::{Client, Daemon, Object, contiguous};

const BLOCK: usize = 4096;

fn without_workers(disk: &MemoryDisk) -> Daemon {
    Daemon::with(disk.clone(), |config| config.workers = 0)
}

fn read_all(client: &Client<'_>, object: &Object) -> Vec<u8> {
    client.read(object, contiguous(0, 1 << 20)).unwrap().0
}

fn write_version(client: &Client<'_>, object: &Object, version: u8, sync: bool) {
    let data = vec![version; 5 * BLOCK];
    let sent = client.send_write(object, contiguous(0, data.len() as u64), &data, sync);
    assert_eq!(sent.status(), pvfs_wire::OK);
}

#[test]
fn synced_writes_survive_and_later_ones_are_whole_blocks_of_either_version() {
    for seed in 0..100 {
        let disk = MemoryDisk::new(seed);
        {
            let daemon = without_workers(&disk);
            let client = daemon.client(1);
            let (synced, durable, later) = (client.object(1), client.object(2), client.object(3));
            write_version(&client, &synced, 1, false);
            client.sync(&synced).unwrap();
            write_version(&client, &durable, 1, true);
            write_version(&client, &later, 1, true);
            write_version(&client, &later, 2, false);
        }
        disk.crash();
        let daemon = without_workers(&disk);
        let client = daemon.client(1);
        assert_eq!(read_all(&client, &client.object(1)), vec![1; 5 * BLOCK], "seed {seed}");
        assert_eq!(read_all(&client, &client.object(2)), vec![1; 5 * BLOCK], "seed {seed}");
        let torn = read_all(&client, &client.object(3));
        let whole =
            |block: &[u8]| block.iter().all(|byte| *byte == block[0] && matches!(byte, 1 | 2));
        assert!(torn.len() == 5 * BLOCK && torn.chunks(BLOCK).all(whole), "seed {seed}");
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    let disk = MemoryDisk::new(1);
    {
        let daemon = without_workers(&disk);
        let client = daemon.client(1);
        write_version(&client, &client.object(1), 9, false);
    }
    let daemon = without_workers(&disk);
    let client = daemon.client(1);
    assert_eq!(read_all(&client, &client.object(1)), vec![9; 5 * BLOCK]);
}

#[test]
fn power_loss_loses_no_more_than_the_commit_interval() {
    for seed in 0..50 {
        let disk = MemoryDisk::new(seed);
        let daemon = without_workers(&disk);
        let client = daemon.client(1);
        write_version(&client, &client.object(1), 7, false);
        daemon.iod.tick();
        assert_eq!(daemon.figure("commits"), 0, "not due yet");
        daemon.clock.advance(Duration::from_secs(5));
        daemon.iod.tick();
        daemon.clock.advance(Duration::from_secs(5));
        daemon.iod.tick();
        assert_eq!(daemon.figure("commits"), 1, "nothing was written since");
        disk.crash();
        assert_eq!(read_all(&client, &client.object(1)), vec![7; 5 * BLOCK], "seed {seed}");
    }
}

#[test]
fn cut_and_grown_again_shows_old_versions_or_zeros_but_nothing_foreign() {
    for seed in 0..100 {
        let disk = MemoryDisk::new(seed);
        let daemon = without_workers(&disk);
        let client = daemon.client(1);
        let object = client.object(1);
        write_version(&client, &object, 1, true);
        client.truncate(&object, 100).unwrap();
        client.truncate(&object, 3 * BLOCK as u64).unwrap();
        let grown = read_all(&client, &object);
        assert!(grown[..100] == [1; 100] && grown[100..].iter().all(|byte| *byte == 0));
        client.sync(&object).unwrap();
        disk.crash();
        assert_eq!(read_all(&client, &object), grown, "seed {seed}");
        assert_eq!(client.read(&object, contiguous(1 << 40, 1)), Ok((vec![], 3 * BLOCK as u64)));
        assert_ne!(client.sync(&object), Err(Errno::EIO));
    }
}
