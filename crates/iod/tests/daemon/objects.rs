//! Objects without their data: sizes, removal, space.

use pvfs_wire::Errno;
use pvfs_wire::ops::{OBJECTS_MAX, RemoveObjects, StatObjects, StatStore};

use crate::harness::{Daemon, contiguous, handle};

#[test]
fn sizes_come_in_the_order_of_the_question_however_many() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    for number in 0..200 {
        client.write_at(&client.object(number), number, b"x").unwrap();
    }
    for count in [0, 1, 32, 33, 200] {
        let handles = (0..count).rev().map(handle).chain([handle(999)]).collect();
        let stats = client.call(&StatObjects { handles }).unwrap().objects;
        let sizes: Vec<u64> = stats.iter().map(|stat| stat.local_size).collect();
        assert_eq!(sizes, (0..count).rev().map(|at| at + 1).chain([0]).collect::<Vec<_>>());
    }
}

#[test]
fn only_daemons_remove_objects() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, b"x").unwrap();
    let request = RemoveObjects { handles: vec![handle(1), handle(2)] };
    assert_eq!(client.call(&request), Err(Errno::EPERM));
    assert_eq!(client.read(&object, contiguous(0, 9)), Ok((b"x".to_vec(), 1)));
    daemon.manager().call(&request).unwrap();
    daemon.manager().call(&request).unwrap();
    assert_eq!(client.read(&object, contiguous(0, 9)), Ok((Vec::new(), 0)));
}

#[test]
fn a_late_write_does_not_bring_a_removed_object_back() {
    let (daemon, _) = Daemon::in_memory();
    let client = daemon.client(1);
    let object = client.object(1);
    client.write_at(&object, 0, b"x").unwrap();
    daemon.manager().call(&RemoveObjects { handles: vec![handle(1)] }).unwrap();
    assert_eq!(client.write_at(&object, 0, b"late"), Err(Errno::ESTALE));
    assert_eq!(client.truncate(&object, 10), Err(Errno::ESTALE));
    assert_eq!(client.truncate(&object, 0), Ok(0));
    assert_eq!(client.sync(&object), Ok(()));
    assert_eq!(daemon.iod.state(), pvfs_wire::ops::DaemonState::Ok);
}

#[test]
fn too_many_at_once_are_refused() {
    let (daemon, _) = Daemon::in_memory();
    let handles = vec![handle(1); OBJECTS_MAX + 1];
    let stat = StatObjects { handles: handles.clone() };
    assert_eq!(daemon.client(1).call(&stat), Err(Errno::EINVAL));
    assert_eq!(daemon.manager().call(&RemoveObjects { handles }), Err(Errno::EINVAL));
}

#[test]
fn space_is_told() {
    let (daemon, disk) = Daemon::in_memory();
    disk.inject(pvfs_iod::disk::Fault::Capacity(1 << 20));
    let client = daemon.client(1);
    client.write_at(&client.object(1), 0, &[1; 4096]).unwrap();
    let stat = client.call(&StatStore {}).unwrap();
    assert_eq!((stat.total_bytes, stat.available_bytes), (1 << 20, (1 << 20) - 4096));
}
