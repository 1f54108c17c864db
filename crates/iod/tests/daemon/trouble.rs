//! A disk that fails: the exact error for the request, the daemon lives on, its state says so.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pvfs_iod::disk::Fault;
use pvfs_net::service::Service;
use pvfs_wire::Errno;
use pvfs_wire::ops::{DaemonState, Sync};

use crate::harness::{Daemon, contiguous};
use crate::held::HeldDisk;

#[test]
fn a_failed_read_or_write_fails_alone_and_shows() {
    let (daemon, disk) = Daemon::in_memory();
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, b"abc").unwrap();
    disk.inject(Fault::FailReads(1));
    assert_eq!(client.read(&object, contiguous(0, 3)), Err(Errno::EIO));
    assert_eq!(daemon.iod.state(), DaemonState::Degraded);
    assert_eq!(client.read(&object, contiguous(0, 3)), Ok((b"abc".to_vec(), 3)));
    disk.inject(Fault::FailWrites(2));
    assert_eq!(client.write_at(&object, 0, b"x"), Err(Errno::EIO));
    assert_eq!(client.truncate(&object, 1), Err(Errno::EIO));
    assert_eq!(client.write_at(&object, 0, b"x"), Ok(3));
    assert_eq!(daemon.figure("disk_errors"), 3);
}

#[test]
fn a_failed_sync_is_final_for_its_object_only() {
    let (daemon, disk) = Daemon::in_memory();
    let client = daemon.client(1);
    let (bad, good) = (client.object(1), client.object(2));
    client.write_at(&bad, 0, b"lost?").unwrap();
    client.write_at(&good, 0, b"kept").unwrap();
    disk.inject(Fault::FailSyncs(1));
    assert_eq!(client.sync(&bad), Err(Errno::EIO));
    assert_eq!(client.sync(&bad), Err(Errno::EIO), "the disk would not fail again");
    assert_eq!(client.sync(&good), Ok(()));
    assert_eq!(daemon.iod.state(), DaemonState::Degraded);
    let durable = client.send_write(&bad, contiguous(0, 1), b"x", true);
    assert_eq!(durable.status(), Errno::EIO);
    assert_eq!(client.write_at(&bad, 0, b"x"), Ok(5), "plain writes go on");
}

#[test]
fn a_failed_commit_is_tried_again_and_shows() {
    let (daemon, disk) = Daemon::in_memory();
    let client = daemon.client(1);
    client.write_at(&client.object(1), 0, b"x").unwrap();
    disk.inject(Fault::FailSyncs(1));
    for commits in 1..=2 {
        daemon.clock.advance(Duration::from_secs(5));
        daemon.iod.tick();
        while daemon.figure("commits") < commits || daemon.figure("active_requests") > 0 {
            thread::yield_now();
        }
    }
    assert_eq!(daemon.iod.state(), DaemonState::Degraded);
    disk.crash();
    assert_eq!(client.read(&client.object(1), contiguous(0, 9)), Ok((b"x".to_vec(), 1)));
}

#[test]
fn syncs_that_meet_share_one() {
    let disk = HeldDisk::new();
    let daemon = Daemon::new(disk.clone());
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, b"x").unwrap();
    disk.shut();
    let sync = Sync { access: object.access.clone() };
    let first = client.send(&sync, &[]);
    disk.await_held(1);
    let others: Vec<_> = (0..20).map(|_| client.send(&sync, &[])).collect();
    assert!(!first.is_answered() && others.iter().all(|sent| !sent.is_answered()));
    disk.open();
    assert_eq!(first.status(), pvfs_wire::OK);
    assert!(others.into_iter().all(|sent| sent.status() == pvfs_wire::OK));
    assert_eq!((daemon.figure("syncs"), daemon.figure("fsyncs")), (21, 2));
}

#[test]
fn a_read_only_daemon_serves_reads_and_refuses_changes() {
    let disk = pvfs_iod::MemoryDisk::new(1);
    {
        let daemon = Daemon::new(disk.clone());
        let client = daemon.client(1);
        client.write_at(&client.object(1), 0, b"old").unwrap();
    }
    let daemon = Daemon::with(disk, |config| config.read_only = true);
    let client = daemon.client(1);
    let object = client.object(1);
    assert_eq!(client.read(&object, contiguous(0, 9)), Ok((b"old".to_vec(), 3)));
    assert_eq!(client.write_at(&object, 0, b"x"), Err(Errno::EROFS));
    assert_eq!(client.truncate(&object, 0), Err(Errno::EROFS));
    let remove = pvfs_wire::ops::RemoveObjects { handles: vec![object.handle] };
    assert_eq!(daemon.manager().call(&remove), Err(Errno::EROFS));
    assert_eq!(daemon.iod.state(), DaemonState::ReadOnly);
}

#[test]
fn every_request_is_answered_when_many_threads_ask_at_once() {
    let disk = pvfs_iod::MemoryDisk::new(7);
    disk.inject(Fault::SlowReads(50));
    let daemon = Arc::new(Daemon::new(disk));
    let work = |number: u64, daemon: Arc<Daemon>| {
        let client = daemon.client(number);
        let object = client.object(number % 3);
        for round in 0..200 {
            client.write_at(&object, round, &[round as u8; 50]).unwrap();
            client.read(&object, contiguous(0, 100)).unwrap();
            if round % 10 == 0 {
                client.sync(&object).unwrap();
                client.truncate(&object, round).unwrap();
            }
        }
    };
    thread::scope(|scope| {
        (1..9).for_each(|number| {
            let daemon = Arc::clone(&daemon);
            scope.spawn(move || work(number, daemon));
        });
    });
    // A worker is done a little after its reply is there.
    let left = || (daemon.figure("pending_requests"), daemon.figure("active_requests"));
    let begun = Instant::now();
    while left() != (0, 0) && begun.elapsed() < Duration::from_secs(10) {
        thread::yield_now();
    }
    assert_eq!(left(), (0, 0));
    assert_eq!(daemon.figure("errors"), 0);
}
