//! The queue of removed files, with the manager's store under it.

use super::*;
use crate::iods::Iods;
use crate::purge::Purger;
use crate::space::Space;
use pvfs_wire::ops::StoreStat;
use std::collections::BTreeSet;

/// Iods that remember what they were told to remove.
#[derive(Default)]
struct Disks {
    removed: Mutex<BTreeSet<(u32, u64)>>,
    failing: Mutex<BTreeSet<u32>>,
}

impl Iods for Disks {
    fn remove(&self, iod: IodId, handles: &[Handle]) -> Result<(), Errno> {
        if self.failing.lock().unwrap().contains(&iod.0) {
            return Err(Errno::EHOSTUNREACH);
        }
        self.removed.lock().unwrap().extend(handles.iter().map(|handle| (iod.0, handle.object)));
        Ok(())
    }

    fn stat_store(&self, iod: IodId) -> Result<StoreStat, Errno> {
        if self.failing.lock().unwrap().contains(&iod.0) {
            return Err(Errno::ETIMEDOUT);
        }
        Ok(StoreStat { available_bytes: 1000 + u64::from(iod.0), ..StoreStat::default() })
    }
}

/// Creates a file, opens it a second time, and unlinks it.
fn unlinked_but_open(world: &World, caller: &Caller) -> u64 {
    world.call(caller, 1, &world.open_file("file", 1, CREATE)).unwrap();
    let opened = world.call(caller, 2, &world.open_file("file", 2, CREATE)).unwrap();
    world.call(caller, 3, &Unlink { target: world.name("file") }).unwrap();
    opened.attr.handle.object
}

fn close(world: &World, caller: &Caller, open: u64) {
    let time = world.clock.wall();
    let wrote = Some(Wrote { end: 10, mtime: time, uncertain: false, disk_bytes: None });
    world.call(caller, 0, &Close { opens: vec![ClosedOpen { open, wrote }] }).unwrap();
}

fn purge(world: &World, disks: &Disks) {
    let mut purger = Purger::default();
    for _ in 0..3 {
        purger.step(&world.manager, disks, 0);
    }
}

#[test]
fn nothing_is_purged_while_open_and_everything_after() {
    let (world, disks) = (World::new(), Disks::default());
    let caller = world.client(5);
    let object = unlinked_but_open(&world, &caller);
    purge(&world, &disks);
    close(&world, &caller, 1);
    purge(&world, &disks);
    assert!(disks.removed.lock().unwrap().is_empty());
    close(&world, &caller, 2);
    assert_eq!(world.figure("objects_purging"), 1);
    purge(&world, &disks);
    let everywhere: BTreeSet<(u32, u64)> = (0..4).map(|iod| (iod, object)).collect();
    assert_eq!(*disks.removed.lock().unwrap(), everywhere);
    assert_eq!(world.figure("objects_purging"), 0);
}

#[test]
fn what_an_iod_has_not_confirmed_survives_restarts_and_the_others_are_not_asked_again() {
    let (world, disks) = (World::new(), Disks::default());
    let caller = world.client(5);
    let object = unlinked_but_open(&world, &caller);
    close(&world, &caller, 1);
    close(&world, &caller, 2);
    disks.failing.lock().unwrap().insert(2);
    purge(&world, &disks);
    assert_eq!(world.figure("objects_purging"), 1);
    let world = world.restarted();
    disks.failing.lock().unwrap().clear();
    std::mem::take(&mut *disks.removed.lock().unwrap());
    purge(&world, &disks);
    assert_eq!(*disks.removed.lock().unwrap(), BTreeSet::from([(2, object)]));
    assert_eq!(world.figure("objects_purging"), 0);
}

#[test]
fn an_emergency_stop_stops_purging() {
    let (world, disks) = (World::new(), Disks::default());
    let caller = world.client(5);
    unlinked_but_open(&world, &caller);
    close(&world, &caller, 1);
    close(&world, &caller, 2);
    world.manager.order(OrderKind::Estop);
    purge(&world, &disks);
    assert!(disks.removed.lock().unwrap().is_empty());
    world.manager.order(OrderKind::Resume);
    purge(&world, &disks);
    assert_eq!(world.figure("objects_purging"), 0);
}

#[test]
fn silent_iods_are_named_and_get_no_new_files() {
    let (world, disks) = (World::new(), Disks::default());
    let mut space = Space::new((0..4).map(IodId));
    disks.failing.lock().unwrap().insert(2);
    world.manager.look_at_space(&mut space, &disks);
    assert_eq!(world.manager.policy().free_bytes, [1000, 1001, 0, 1003]);
    assert_eq!(world.manager.state(), (DaemonState::Degraded, "no answer from iod 2".into()));
    disks.failing.lock().unwrap().clear();
    world.pass(10.0);
    world.manager.look_at_space(&mut space, &disks);
    assert_eq!(world.manager.state().0, DaemonState::Ok);
}

/// The threads do the same by themselves, and end when told to.
#[test]
fn the_background_threads_purge_and_look_at_space() {
    let World { manager, store, clock, desk, orders } = World::new();
    let manager = Arc::new(manager);
    let disks: Arc<dyn Iods> = Arc::new(Disks::default());
    let background = Background::start(&manager, &disks).unwrap();
    for _ in 0..500 {
        if manager.policy().free_bytes == [1000, 1001, 1002, 1003] {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(manager.policy().free_bytes, [1000, 1001, 1002, 1003]);
    drop(background);
    assert_eq!(Arc::strong_count(&manager), 1, "the threads are gone");
    drop((store, clock, desk, orders));
}
