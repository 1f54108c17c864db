//! A store that refuses: nothing of the group is done, and everybody in it is told why.

use super::*;
use crate::store::{Batch, MemoryStore, Snapshot, StoreError};
use std::sync::atomic::AtomicBool;

/// A store that fails when told to.
#[derive(Default)]
pub struct Moody {
    store: MemoryStore,
    full: AtomicBool,
    broken: AtomicBool,
    low: AtomicBool,
    hung: AtomicBool,
}

impl Store for Moody {
    fn snapshot(&self) -> Snapshot {
        self.store.snapshot()
    }

    fn commit(&self, group: Batch) -> Result<u64, StoreError> {
        while self.hung.load(Ordering::SeqCst) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if self.full.load(Ordering::SeqCst) {
            return Err(StoreError::NoSpace { directory: "/mgr".into() });
        }
        if self.broken.load(Ordering::SeqCst) {
            return Err(StoreError::Suspect { reason: "a sync failed".into() });
        }
        self.store.commit(group)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()
    }
}

impl Backing for Moody {
    fn is_space_low(&self) -> bool {
        self.low.load(Ordering::SeqCst)
    }

    fn failure(&self) -> Option<String> {
        self.broken.load(Ordering::SeqCst).then(|| "a sync failed".into())
    }
}

fn world() -> (World, Arc<Moody>) {
    let store = Arc::new(Moody::default());
    (World::on(store.clone()), store)
}

#[test]
fn a_group_that_cannot_be_stored_is_refused_as_a_whole_and_leaves_nothing() {
    let (world, store) = world();
    let caller = world.client(5);
    for (mood, status) in [(&store.full, Errno::ENOSPC), (&store.broken, Errno::EIO)] {
        let before = world.contents();
        mood.store(true, Ordering::SeqCst);
        let changes: Vec<Message> = ["a", "b", "a"]
            .iter()
            .zip(0..)
            .map(|(p, slot)| message(&world.mkdir(p), slot, 1))
            .collect();
        let round: Vec<(&Caller, &Message)> = changes.iter().map(|m| (&caller, m)).collect();
        world.send(&round);
        for change in &changes {
            assert_eq!(world.status_of(&caller, change), Some(status));
        }
        assert_eq!(world.contents(), before);
        assert!(!world.exists(&caller, "a"), "reading goes on");
        mood.store(false, Ordering::SeqCst);
    }
    // The same request, sent again, is run: it never was.
    assert!(world.call(&caller, 1, &world.mkdir("a")).is_ok());
}

#[test]
fn what_was_stored_before_is_answered_from_its_record_while_the_store_fails() {
    let (world, store) = world();
    let caller = world.client(5);
    let change = message(&world.mkdir("a"), 0, 1);
    let first = world.exchange(&caller, &change);
    store.full.store(true, Ordering::SeqCst);
    let (repeated, fresh) = (again(&change), message(&world.mkdir("b"), 1, 1));
    world.send(&[(&caller, &repeated), (&caller, &fresh)]);
    assert_eq!(world.reply(&caller, &repeated), Some(first));
    assert_eq!(world.status_of(&caller, &fresh), Some(Errno::ENOSPC));
}

#[test]
fn locks_that_could_not_be_stored_are_not_held_and_not_given_up() {
    let (world, store) = world();
    let (one, other) = (world.client(5), world.client(6));
    world.call(&one, 1, &world.mkdir("a")).unwrap();
    let lock = |kind, wait_ms| Lock {
        handle: world.root(),
        family: LockFamily::Range,
        owner: 1,
        pid: 1,
        kind,
        start: 0,
        end: 10,
        wait_ms,
    };
    store.full.store(true, Ordering::SeqCst);
    assert_eq!(world.call(&one, 0, &lock(LockKind::Write, 0)), Err(Errno::ENOSPC));
    store.full.store(false, Ordering::SeqCst);
    world.call(&other, 0, &lock(LockKind::Write, 0)).unwrap();
    let waiting = message(&lock(LockKind::Write, 1000), 0, 0);
    world.send(&[(&one, &waiting)]);
    store.full.store(true, Ordering::SeqCst);
    assert_eq!(world.call(&other, 0, &lock(LockKind::Unlock, 0)), Err(Errno::ENOSPC));
    // Its turn had come in the group that failed.
    assert_eq!(world.status_of(&one, &waiting), Some(Errno::ENOSPC));
    store.full.store(false, Ordering::SeqCst);
    assert_eq!(world.call(&one, 0, &lock(LockKind::Write, 0)), Err(Errno::EAGAIN));
    world.call(&other, 0, &lock(LockKind::Unlock, 0)).unwrap();
    world.call(&one, 0, &lock(LockKind::Write, 0)).unwrap();
    assert_eq!(world.figure("locks_held"), 1);
}

#[test]
fn when_space_is_low_what_grows_is_refused_and_what_frees_space_is_not() {
    let (world, store) = world();
    let caller = world.client(5);
    world.call(&caller, 1, &world.open_file("file", 1, CREATE)).unwrap();
    world.call(&caller, 2, &world.mkdir("dir")).unwrap();
    store.low.store(true, Ordering::SeqCst);
    assert_eq!(world.call(&caller, 3, &world.mkdir("more")), Err(Errno::ENOSPC));
    assert_eq!(world.call(&caller, 3, &world.open_file("new", 2, CREATE)), Err(Errno::ENOSPC));
    assert!(world.call(&caller, 3, &world.open_file("file", 3, OpenFlags::READ)).is_ok());
    let cut = Truncate { target: world.name("file"), follow: false, size: 0, open: None };
    let ticket = world.call(&caller, 4, &cut).unwrap().ticket;
    let handle = world.call(
        &caller,
        0,
        &Stat { target: world.name("file"), follow: false, placement: false },
    );
    let done = Truncated {
        handle: handle.unwrap().attr.handle,
        ticket,
        size: Some(0),
        disk_bytes: Some(0),
    };
    assert!(world.call(&caller, 0, &done).is_ok());
    assert!(world.call(&caller, 5, &Unlink { target: world.name("file") }).is_ok());
    assert!(world.call(&caller, 6, &Rmdir { target: world.name("dir") }).is_ok());
    assert_eq!(world.manager.state().0, DaemonState::Degraded);
    store.low.store(false, Ordering::SeqCst);
    assert!(world.call(&caller, 7, &world.mkdir("more")).is_ok());
    assert_eq!(world.manager.state().0, DaemonState::Ok);
}

#[test]
fn a_broken_store_makes_the_manager_read_only() {
    let (world, store) = world();
    let caller = world.client(5);
    world.call(&caller, 1, &world.mkdir("a")).unwrap();
    store.broken.store(true, Ordering::SeqCst);
    assert_eq!(world.manager.state(), (DaemonState::ReadOnly, "a sync failed".into()));
    assert!(world.exists(&caller, "a"));
    assert_eq!(world.call(&caller, 2, &world.mkdir("b")), Err(Errno::EIO));
}

/// A lease that ends while nothing can be stored is ended later, before its holder changes anything.
#[test]
fn a_lease_that_cannot_be_ended_is_ended_later() {
    let (world, store) = world();
    let caller = world.client(5);
    world.call(&caller, 1, &world.open_file("file", 1, CREATE)).unwrap();
    world.manager.departed(&caller.peer, Departure::Closed);
    store.full.store(true, Ordering::SeqCst);
    world.pass_and_tick(2.0);
    let (caller, reception) = world.arrive(5, 502);
    assert!(!reception.lease_kept);
    assert_eq!(world.call(&caller, 2, &world.mkdir("a")), Err(Errno::EIO));
    assert_eq!(world.figure("opens"), 1);
    store.full.store(false, Ordering::SeqCst);
    world.pass_and_tick(0.1);
    assert_eq!(world.figure("opens"), 0);
    assert!(world.call(&caller, 2, &world.mkdir("a")).is_ok());
}

/// Whatever the disk does: who asks is answered, who waits hears of an emergency stop, nobody else is
/// drawn in. Every call below would hang the test if it waited for the disk.
#[test]
fn a_disk_that_hangs_holds_up_only_those_who_need_it() {
    let (world, store) = world();
    let (one, other) = (world.client(5), world.client(6));
    world.call(&one, 1, &world.mkdir("a")).unwrap();
    let lock = Lock {
        handle: world.root(),
        family: LockFamily::Flock,
        owner: 1,
        pid: 1,
        kind: LockKind::Write,
        start: 0,
        end: 1,
        wait_ms: 10_000,
    };
    world.call(&one, 0, &lock).unwrap();
    let waiting = message(&lock, 0, 0);
    world.send(&[(&other, &waiting)]);
    store.hung.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let stuck = message(&world.mkdir("b"), 0, 2);
        let late = message(&world.mkdir("c"), 0, 1);
        let writer = scope.spawn(|| {
            world.send(&[(&one, &stuck)]);
            stuck
        });
        while world.manager.line.try_writer() {
            std::thread::yield_now();
        }
        assert!(world.exists(&other, "a"));
        world.manager.tick();
        world.send(&[(&other, &late)]);
        world.manager.departed(&world.client(7).peer, Departure::Closed);
        world.manager.order(OrderKind::Estop);
        assert_eq!(world.status_of(&other, &waiting), Some(Errno::EIO));
        assert_eq!(world.status_of(&other, &late), Some(Errno::EIO));
        store.hung.store(false, Ordering::SeqCst);
        let stuck = writer.join().unwrap();
        assert_eq!(world.status_of(&one, &stuck), Some(OK), "it was done after all");
    });
}
