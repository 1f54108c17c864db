//! Ping, status, and orders to stop, estop and resume.

use std::time::Duration;

use pvfs_wire::Errno;
use pvfs_wire::ops::{Control, DaemonState, Order, OrderKind, Ping, Status};

use crate::harness::{Client, Daemon, START_S, contiguous};
use crate::held::HeldDisk;

fn order(client: &Client<'_>, kind: OrderKind, nonce: u64) -> Result<DaemonState, Errno> {
    let start = client.call(&Ping {}).unwrap().start;
    let order = Order { kind, issued: START_S, nonce, start, denial: None };
    let control = Control { order: client.daemon.ring.sign_order(&order).into() };
    client.call(&control).map(|controlled| controlled.state)
}

#[test]
fn everybody_may_ask_how_the_daemon_is() {
    let (daemon, _) = Daemon::in_memory();
    let nobody = daemon.client_with(1, None);
    let pong = nobody.call(&Ping {}).unwrap();
    assert_eq!((pong.state, pong.time_ns), (DaemonState::Ok, START_S as i64 * 1_000_000_000));
    daemon.clock.advance(Duration::from_secs(3));
    daemon.iod.show_also(|| vec![("net_rounds_count".into(), 7)]);
    let report = nobody.call(&Status {}).unwrap();
    assert_eq!((&*report.name, &*report.role, report.uptime_s), ("io0", "iod", 3));
    assert!(report.figures.iter().any(|figure| figure.0 == "connections" && figure.1 == 1));
    assert!(report.figures.contains(&("net_rounds_count".into(), 7)));
}

#[test]
fn an_estop_fails_everything_until_resumed() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, b"x").unwrap();
    assert_eq!(order(&client, OrderKind::Estop, 1), Ok(DaemonState::Down));
    assert_eq!(client.read(&object, contiguous(0, 1)), Err(Errno::EIO));
    assert_eq!(client.write_at(&object, 0, b"y"), Err(Errno::EIO));
    assert_eq!(client.sync(&object), Err(Errno::EIO));
    assert_eq!(client.call(&Ping {}).unwrap().state, DaemonState::Down);
    assert_eq!(order(&client, OrderKind::Resume, 2), Ok(DaemonState::Ok));
    assert_eq!(client.read(&object, contiguous(0, 1)), Ok((b"x".to_vec(), 1)));
}

#[test]
fn an_estop_drops_what_waits_at_once() {
    let disk = HeldDisk::new();
    let daemon = Daemon::with(disk.clone(), |config| config.workers = 1);
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, b"x").unwrap();
    disk.shut();
    let held = client.send(&pvfs_wire::ops::Sync { access: object.access.clone() }, &[]);
    disk.await_held(1);
    let read =
        pvfs_wire::ops::Read { access: object.access.clone(), slot: 0, regions: contiguous(0, 1) };
    let waiting: Vec<_> = (0..5).map(|_| client.send(&read, &[])).collect();
    assert!(waiting.iter().all(|sent| !sent.is_answered()));
    order(&client, OrderKind::Estop, 1).unwrap();
    assert!(waiting.into_iter().all(|sent| sent.is_answered() && sent.status() == Errno::EIO));
    disk.open();
    held.status();
}

#[test]
fn an_order_is_carried_out_once_however_often_it_arrives() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client_with(1, None);
    assert_eq!(order(&client, OrderKind::Estop, 1), Ok(DaemonState::Down));
    assert_eq!(order(&client, OrderKind::Resume, 2), Ok(DaemonState::Ok));
    assert_eq!(order(&client, OrderKind::Estop, 1), Ok(DaemonState::Ok), "a replay does nothing");
}

#[test]
fn old_and_forged_orders_are_refused() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let forged = Control { order: vec![7; 100].into() };
    assert_eq!(client.call(&forged), Err(Errno::EKEYREJECTED));
    daemon.clock.advance(Duration::from_secs(121));
    assert_eq!(order(&client, OrderKind::Estop, 1), Err(Errno::EKEYEXPIRED));
    assert_eq!(daemon.iod.state(), DaemonState::Ok);
}

#[test]
fn a_stop_is_told_to_the_process_and_drains() {
    let (daemon, disk) = Daemon::in_memory();
    let client = daemon.client(1);
    client.write_at(&client.object(1), 0, b"kept").unwrap();
    assert!(!daemon.iod.stop_wanted());
    order(&client, OrderKind::Stop, 1).unwrap();
    assert!(daemon.iod.stop_wanted());
    daemon.iod.drain(Duration::from_secs(10)).unwrap();
    disk.crash();
    let read = client.read(&client.object(1), contiguous(0, 9));
    assert_eq!(read, Ok((b"kept".to_vec(), 4)));
}
