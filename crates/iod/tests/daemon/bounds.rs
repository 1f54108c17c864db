//! Every resource has a bound, every wait an end, and nobody starves.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use pvfs_net::service::Departure;
use pvfs_wire::Errno;
use pvfs_wire::ops::{Ping, Read, Sync};

use crate::harness::{Client, Daemon, Object, Sent, contiguous};
use crate::held::HeldDisk;

fn send_read<'a>(client: &Client<'a>, object: &Object) -> Sent<'a> {
    let access = object.access.clone();
    client.send(&Read { access, slot: object.slot, regions: contiguous(0, 1) }, &[])
}

/// A daemon with these workers whose reads and syncs are held, and an object of one byte.
fn held(workers: usize, pending_max: usize) -> (Daemon, HeldDisk) {
    let disk = HeldDisk::new();
    let daemon = Daemon::with(disk.clone(), |config| {
        config.workers = workers;
        config.pending_max = pending_max;
    });
    let client = daemon.client(1);
    client.write_at(&client.object(1), 0, b"x").unwrap();
    disk.shut();
    (daemon, disk)
}

#[test]
fn more_than_may_wait_is_answered_at_once() {
    let (daemon, disk) = held(1, 8);
    let client = daemon.client(1);
    let object = client.object(1);
    let running = send_read(&client, &object);
    disk.await_held(1);
    let waiting = [send_read(&client, &object), send_read(&client, &object)];
    assert_eq!(send_read(&client, &object).status(), Errno::EAGAIN, "a quarter of eight");
    let other = daemon.client(2);
    let others = send_read(&other, &other.object(1));
    assert_eq!(daemon.figure("overloads"), 1);
    disk.open();
    let sent = waiting.into_iter().chain([running, others]);
    assert!(sent.into_iter().all(|sent| sent.status() == pvfs_wire::OK));
}

#[test]
fn one_client_cannot_have_all_workers() {
    let (daemon, disk) = held(4, 1000);
    let (greedy, modest) = (daemon.client(1), daemon.client(2));
    let many: Vec<_> = (0..50).map(|_| send_read(&greedy, &greedy.object(1))).collect();
    disk.await_held(3);
    let one = send_read(&modest, &modest.object(1));
    disk.await_held(4);
    assert_eq!(daemon.figure("active_requests"), 4);
    disk.open();
    assert_eq!(one.status(), pvfs_wire::OK);
    assert!(many.into_iter().all(|sent| sent.status() == pvfs_wire::OK));
}

#[test]
fn what_needs_no_disk_is_answered_while_all_workers_wait() {
    let (daemon, disk) = held(1, 100);
    let client = daemon.client(1);
    let stuck = send_read(&client, &client.object(1));
    disk.await_held(1);
    client.call(&Ping {}).unwrap();
    client.write_at(&client.object(2), 0, b"other").unwrap();
    assert!(!stuck.is_answered());
    disk.open();
    assert_eq!(stuck.status(), pvfs_wire::OK);
}

#[test]
fn a_request_whose_time_is_over_is_not_begun() {
    let (daemon, disk) = held(1, 100);
    let client = daemon.client(1);
    let object = client.object(1);
    let stuck = send_read(&client, &object);
    disk.await_held(1);
    client.timeout_ms.store(500, SeqCst);
    let late = client.send_write(&object, contiguous(0, 1), b"y", false);
    client.timeout_ms.store(5000, SeqCst);
    let patient = send_read(&client, &object);
    daemon.clock.advance(Duration::from_millis(600));
    disk.open();
    assert_eq!(stuck.status(), pvfs_wire::OK);
    assert_eq!(late.status(), Errno::ETIMEDOUT);
    assert_eq!(patient.reply::<Read>().unwrap().1, b"x");
    assert_eq!(daemon.figure("timeouts"), 1);
}

#[test]
fn what_waits_for_a_client_that_left_is_dropped_at_once_and_never_done() {
    let (daemon, disk) = held(1, 100);
    let (client, other) = (daemon.client(1), daemon.client(1));
    let (object, sync) = (client.object(1), Sync { access: client.object(1).access });
    let stuck = send_read(&other, &other.object(1));
    disk.await_held(1);
    let write = client.send_write(&object, contiguous(0, 1), b"y", false);
    let syncing = client.send(&sync, &[]);
    let kept = send_read(&other, &other.object(1));
    assert!(!write.is_answered() && !syncing.is_answered());
    client.leave(Departure::Replaced);
    assert!(write.is_answered() && syncing.is_answered(), "their tickets are dropped");
    disk.open();
    assert_eq!(stuck.status(), pvfs_wire::OK);
    assert_eq!(kept.reply::<Read>().unwrap().1, b"x");
    assert_eq!(daemon.figure("connections"), 2);
}

#[test]
fn capabilities_go_with_their_connection() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    client.write_at(&client.object(1), 0, b"x").unwrap();
    client.leave(Departure::Closed);
    let sent = send_read(&client, &client.object(1));
    assert_eq!(sent.status(), Errno::EIO, "a connection that is gone is served no more");
    assert_eq!(daemon.figure("connections"), 0);
}
