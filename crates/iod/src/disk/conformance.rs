//! What every disk must do, run against each of them.

use std::any::Any;

use pvfs_wire::ops::Allocation;
use pvfs_wire::{Errno, Handle};

use super::{Disk, Object, Waiting};

/// An empty disk, and whatever has to live as long as it.
type Made = (Box<dyn Disk>, Box<dyn Any>);

/// Runs the suite on fresh disks.
pub fn all(make: impl Fn() -> Made) {
    let properties: [fn(&dyn Disk); 11] = [
        an_object_never_written_is_absent_and_empty,
        bytes_come_back_where_they_were_written,
        holes_read_as_zeros,
        reads_end_with_the_object,
        cut_bytes_never_reappear,
        punched_bytes_are_zeros_and_take_no_space,
        reserved_space_changes_no_byte,
        data_are_found_and_copied,
        removal_is_for_good_and_repeatable,
        handles_that_differ_in_anything_are_different_objects,
        syncs_and_figures_work,
    ];
    for property in properties {
        let (disk, _keep) = make();
        property(&*disk);
    }
}

fn handle(object: u64) -> Handle {
    Handle { fsid: 7, generation: 1, object }
}

fn read(object: &dyn Object, local: u64, bytes: usize) -> Vec<u8> {
    let mut into = vec![0xee; bytes];
    let count = object.read_at(local, &mut into, Waiting::Allowed).unwrap();
    into.truncate(count);
    into
}

fn an_object_never_written_is_absent_and_empty(disk: &dyn Disk) {
    assert!(disk.find(handle(1), Waiting::Allowed).unwrap().is_none());
    let absent = disk.find(handle(1), Waiting::Never);
    assert!(matches!(absent, Ok(None) | Err(Errno::EAGAIN)));
    assert_eq!(disk.stat(handle(1)).unwrap().local_size, 0);
}

fn bytes_come_back_where_they_were_written(disk: &dyn Disk) {
    let object = disk.create(handle(1)).unwrap();
    object.write_at(10_000, b"there").unwrap();
    object.write_at(0, b"here").unwrap();
    object.write_at(10_002, b"EE").unwrap();
    assert_eq!(read(&*object, 0, 4), b"here");
    assert_eq!(read(&*object, 10_000, 5), b"thEEe");
    let again = disk.find(handle(1), Waiting::Allowed).unwrap().unwrap();
    assert_eq!(read(&*again, 10_000, 5), b"thEEe");
}

fn holes_read_as_zeros(disk: &dyn Disk) {
    let object = disk.create(handle(1)).unwrap();
    object.write_at(100_000, b"x").unwrap();
    assert_eq!(read(&*object, 0, 9000), vec![0; 9000]);
    let stat = disk.stat(handle(1)).unwrap();
    assert_eq!(stat.local_size, 100_001);
    assert!(stat.disk_bytes < 50_000, "a hole takes no space: {stat:?}");
}

fn reads_end_with_the_object(disk: &dyn Disk) {
    let object = disk.create(handle(1)).unwrap();
    object.write_at(0, &[1; 100]).unwrap();
    assert_eq!(read(&*object, 90, 20).len(), 10);
    assert_eq!(read(&*object, 100, 20).len(), 0);
    assert_eq!(read(&*object, 1 << 40, 20).len(), 0);
    assert_eq!(read(&*object, 50, 0).len(), 0);
}

fn cut_bytes_never_reappear(disk: &dyn Disk) {
    let object = disk.create(handle(1)).unwrap();
    object.write_at(0, &[1; 20_000]).unwrap();
    object.truncate(5_000).unwrap();
    assert_eq!(object.stat().unwrap().local_size, 5_000);
    object.truncate(20_000).unwrap();
    let expected: Vec<u8> = (0..20_000).map(|at| u8::from(at < 5_000)).collect();
    assert_eq!(read(&*object, 0, 30_000), expected);
}

fn punched_bytes_are_zeros_and_take_no_space(disk: &dyn Disk) {
    let object = disk.create(handle(1)).unwrap();
    object.write_at(0, &[1; 100_000]).unwrap();
    object.allocate(Allocation::Punch, 10..90_001, true).unwrap();
    let expected: Vec<u8> = (0..100_000).map(|at| u8::from(!(10..90_001).contains(&at))).collect();
    assert_eq!(read(&*object, 0, 200_000), expected);
    let stat = object.stat().unwrap();
    assert!(stat.local_size == 100_000 && stat.disk_bytes < 50_000, "{stat:?}");
    object.allocate(Allocation::Punch, 99_000..500_000, true).unwrap();
    assert_eq!(object.local_size().unwrap(), 100_000);
}

fn reserved_space_changes_no_byte(disk: &dyn Disk) {
    let object = disk.create(handle(1)).unwrap();
    object.write_at(5_000, &[1; 1_000]).unwrap();
    object.allocate(Allocation::Reserve, 0..100_000, false).unwrap();
    let stat = object.stat().unwrap();
    assert!(stat.local_size == 6_000 && stat.disk_bytes >= 100_000, "{stat:?}");
    object.allocate(Allocation::Reserve, 50_000..60_000, true).unwrap();
    let expected: Vec<u8> = (0..60_000).map(|at| u8::from((5_000..6_000).contains(&at))).collect();
    assert_eq!(read(&*object, 0, 100_000), expected);
    object.allocate(Allocation::Zero, 5_500..70_000, true).unwrap();
    let expected: Vec<u8> = (0..70_000).map(|at| u8::from((5_000..5_500).contains(&at))).collect();
    assert_eq!(read(&*object, 0, 100_000), expected);
}

fn data_are_found_and_copied(disk: &dyn Disk) {
    let object = disk.create(handle(1)).unwrap();
    object.write_at(100_000, &[1; 100]).unwrap();
    object.write_at(300_000, &[2; 100]).unwrap();
    object.truncate(400_000).unwrap();
    for (local, byte) in [(100_000, 1), (300_000, 2)] {
        let found = object.next_data(local - 20_000).unwrap().unwrap();
        assert!((local - 20_000..=local).contains(&found), "{found}");
        assert_eq!(object.next_data(local + 50).unwrap(), Some(local + 50));
        let hole = object.next_hole(local).unwrap().unwrap();
        assert!(hole >= local + 100 && hole < local + 20_000, "{hole}");
        let copy = disk.create(handle(2)).unwrap();
        copy.copy_from(&*object, local - 7, 3, 100).unwrap();
        assert_eq!(read(&*copy, 0, 200)[..103], [vec![0; 10], vec![byte; 93]].concat());
        disk.remove(handle(2)).unwrap();
    }
    assert_eq!(object.next_data(350_000).unwrap(), None);
    assert_eq!(object.next_hole(350_000).unwrap(), Some(350_000));
    assert_eq!(
        (object.next_data(400_000).unwrap(), object.next_hole(400_000).unwrap()),
        (None, None)
    );
}

fn removal_is_for_good_and_repeatable(disk: &dyn Disk) {
    disk.create(handle(1)).unwrap().write_at(0, &[1; 100]).unwrap();
    disk.remove(handle(1)).unwrap();
    disk.remove(handle(1)).unwrap();
    assert!(disk.find(handle(1), Waiting::Allowed).unwrap().is_none());
    let again = disk.create(handle(1)).unwrap();
    assert_eq!(again.stat().unwrap().local_size, 0);
}

fn handles_that_differ_in_anything_are_different_objects(disk: &dyn Disk) {
    let first = handle(1);
    let others = [
        Handle { fsid: 8, ..first },
        Handle { generation: 2, ..first },
        Handle { object: 1 << 32 | 1, ..first },
        Handle { object: 1 << 16 | 1, ..first },
    ];
    disk.create(first).unwrap().write_at(0, b"first").unwrap();
    for other in others {
        assert!(disk.find(other, Waiting::Allowed).unwrap().is_none());
        disk.create(other).unwrap().write_at(0, b"other").unwrap();
    }
    disk.remove(others[0]).unwrap();
    let mut found = Vec::new();
    disk.list(7, &mut |at, stat| found.push((at, stat.local_size))).unwrap();
    found.sort();
    let mut expected = [first, others[1], others[2], others[3]].map(|at| (at, 5));
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(read(&*disk.create(first).unwrap(), 0, 9), b"first");
}

fn syncs_and_figures_work(disk: &dyn Disk) {
    let object = disk.create(handle(1)).unwrap();
    object.write_at(0, &[1; 100]).unwrap();
    object.sync().unwrap();
    object.sync().unwrap();
    disk.commit().unwrap();
    let space = disk.space().unwrap();
    assert!(space.available_bytes <= space.free_bytes && space.free_bytes <= space.total_bytes);
    let stat = object.stat().unwrap();
    assert_eq!(stat, disk.stat(handle(1)).unwrap());
    assert!(stat.local_size == 100 && stat.disk_bytes > 0 && stat.mtime.seconds > 0);
}
