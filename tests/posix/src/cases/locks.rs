//! fcntl(2) record locks of processes and open files, flock(2).

use std::time::{Duration, Instant};

use crate::sys::Lock::{Read, Unlock, Write};
use crate::sys::Owner::{OpenFile, Process};
use crate::sys::*;
use crate::wants::*;

cases! { "locks"
    any [
        write_locks_exclude_and_read_locks_share,
        ranges_that_do_not_touch_are_independent,
        a_lock_replaces_splits_and_joins_its_owners_own,
        a_lock_to_the_end_covers_all_growth,
        a_test_names_the_holder,
        closing_any_descriptor_frees_a_processs_locks,
        children_inherit_no_process_locks,
        a_process_that_dies_frees_its_locks,
        a_waiter_is_served_when_the_lock_is_freed,
        a_waiter_can_be_interrupted,
        a_deadlock_is_refused,
        a_longer_circle_is_refused_too,
        open_file_locks_belong_to_the_open_file,
        open_file_locks_and_process_locks_exclude_each_other,
        open_file_locks_go_with_the_last_descriptor,
        flock_excludes_by_open_file,
        flock_is_shared_by_duplicates_and_children,
        flock_changes_its_kind,
        flock_and_record_locks_are_strangers,
        a_flock_waiter_can_be_interrupted,
        locks_need_the_right_descriptor,
        ranges_that_make_no_sense_are_refused,
        a_lock_survives_renaming_and_unlinking,
        many_small_locks_can_be_held,
    ]
    root []
}

const BUSY: &[Errno] = &[Errno::EAGAIN, Errno::EACCES];

fn opened() -> File {
    open("f", O_RDWR | O_CREAT, 0o644).unwrap()
}

/// Whether somebody else may lock that now. Asked by a child, for closing a descriptor frees the locks of its
/// process.
fn elsewhere(lock_kind: Lock, start: i64, bytes: i64) -> bool {
    let asking = child(|| {
        let probe = opened();
        assert!(
            test_lock(&probe, Process, lock_kind, start, bytes).unwrap().is_none(),
            "it is held"
        );
    });
    asking.wait() == 0
}

/// Waits until a child has come so far, which it shows by a file.
fn signalled(name: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    while lstat(name).is_err() {
        assert!(Instant::now() < until, "{name} never came");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn signal(name: &str) {
    drop(open(name, O_WRONLY | O_CREAT, 0o644).unwrap());
}

/// A child that holds a lock until it is killed.
fn holder(name: &'static str, lock_kind: Lock, start: i64, bytes: i64) -> Child {
    let holding = child(move || {
        let mine = opened();
        lock(&mine, Process, lock_kind, start, bytes).unwrap();
        signal(name);
        std::thread::sleep(Duration::from_secs(30));
    });
    signalled(name);
    holding
}

fn end(holding: Child) {
    holding.signal(libc::SIGKILL);
    holding.wait();
}

fn write_locks_exclude_and_read_locks_share() {
    let mine = opened();
    lock(&mine, Process, Write, 10, 10).unwrap();
    child(|| {
        let theirs = opened();
        for wanted in [Read, Write] {
            fails_with_any(lock(&theirs, Process, wanted, 15, 1), BUSY);
        }
    })
    .succeeds();
    lock(&mine, Process, Read, 10, 10).unwrap();
    child(|| {
        let theirs = opened();
        fails_with_any(lock(&theirs, Process, Write, 19, 5), BUSY);
        lock(&theirs, Process, Read, 0, 100).unwrap();
    })
    .succeeds();
}

fn ranges_that_do_not_touch_are_independent() {
    let mine = opened();
    lock(&mine, Process, Write, 10, 10).unwrap();
    child(|| {
        let theirs = opened();
        lock(&theirs, Process, Write, 0, 10).unwrap();
        lock(&theirs, Process, Write, 20, 0).unwrap();
        fails_with_any(lock(&theirs, Process, Write, 9, 2), BUSY);
    })
    .succeeds();
}

fn a_lock_replaces_splits_and_joins_its_owners_own() {
    let mine = opened();
    lock(&mine, Process, Write, 0, 100).unwrap();
    lock(&mine, Process, Unlock, 40, 20).unwrap();
    lock(&mine, Process, Read, 10, 10).unwrap();
    // 0..10 write, 10..20 read, 20..40 write, 40..60 free, 60..100 write
    for (start, readable, writable) in [
        (5, false, false),
        (15, true, false),
        (30, false, false),
        (50, true, true),
        (70, false, false),
    ] {
        assert_eq!(elsewhere(Read, start, 1), readable, "{start}");
        assert_eq!(elsewhere(Write, start, 1), writable, "{start}");
    }
    lock(&mine, Process, Write, 10, 60).unwrap();
    child(|| {
        let found = test_lock(&opened(), Process, Write, 50, 1).unwrap().unwrap();
        assert_eq!((found.start, found.bytes), (0, 100), "joined again");
    })
    .succeeds();
    lock(&mine, Process, Unlock, 0, 0).unwrap();
    assert!(elsewhere(Write, 0, 0));
}

fn a_lock_to_the_end_covers_all_growth() {
    let mine = opened();
    lock(&mine, Process, Write, 1000, 0).unwrap();
    assert!(elsewhere(Write, 0, 1000));
    assert!(!elsewhere(Write, 1000, 1) && !elsewhere(Write, i64::MAX - 1, 1));
    lock(&mine, Process, Unlock, 5000, 0).unwrap();
    assert!(elsewhere(Write, 5000, 0) && !elsewhere(Write, 4999, 1));
}

fn a_test_names_the_holder() {
    let mine = opened();
    let holding = holder("held", Write, 10, 10);
    let found = test_lock(&mine, Process, Read, 0, 0).unwrap().unwrap();
    assert_eq!(found, Conflict { lock: Write, start: 10, bytes: 10, pid: holding.pid() });
    assert_eq!(test_lock(&mine, Process, Write, 20, 0).unwrap(), None);
    end(holding);
}

fn closing_any_descriptor_frees_a_processs_locks() {
    let mine = opened();
    lock(&mine, Process, Write, 0, 10).unwrap();
    child(|| assert!(!elsewhere(Write, 0, 1))).succeeds();
    drop(opened());
    child(|| assert!(elsewhere(Write, 0, 1))).succeeds();
}

fn children_inherit_no_process_locks() {
    let mine = opened();
    lock(&mine, Process, Write, 0, 10).unwrap();
    child(|| {
        fails_with_any(lock(&mine, Process, Write, 0, 10), BUSY);
        // Nor does its unlocking free what the parent holds.
        lock(&mine, Process, Unlock, 0, 10).unwrap();
    })
    .succeeds();
    assert!(!elsewhere(Write, 0, 10));
}

fn a_process_that_dies_frees_its_locks() {
    let holding = holder("held", Write, 0, 0);
    assert!(!elsewhere(Read, 5, 1));
    end(holding);
    let mine = opened();
    lock_wait(&mine, Process, Write, 0, 0).unwrap();
}

fn a_waiter_is_served_when_the_lock_is_freed() {
    let mine = opened();
    lock(&mine, Process, Write, 0, 10).unwrap();
    let waiting = child(|| {
        let theirs = opened();
        signal("asking");
        lock_wait(&theirs, Process, Write, 5, 10).unwrap();
        signal("granted");
    });
    signalled("asking");
    std::thread::sleep(Duration::from_millis(150));
    assert!(lstat("granted").is_err(), "it waits");
    lock(&mine, Process, Unlock, 0, 10).unwrap();
    waiting.succeeds();
    lstat("granted").unwrap();
}

fn a_waiter_can_be_interrupted() {
    let holding = holder("held", Write, 0, 10);
    let mine = opened();
    interrupt_every_ms(200);
    fails(lock_wait(&mine, Process, Write, 0, 10), Errno::EINTR);
    interrupt_every_ms(0);
    end(holding);
    lock_wait(&mine, Process, Write, 0, 10).unwrap();
}

fn a_deadlock_is_refused() {
    let mine = opened();
    lock(&mine, Process, Write, 0, 10).unwrap();
    let other = child(|| {
        let theirs = opened();
        lock(&theirs, Process, Write, 10, 10).unwrap();
        signal("held");
        lock_wait(&theirs, Process, Write, 0, 10).unwrap();
    });
    signalled("held");
    std::thread::sleep(Duration::from_millis(150));
    fails(lock_wait(&mine, Process, Write, 10, 10), Errno::EDEADLK);
    lock(&mine, Process, Unlock, 0, 0).unwrap();
    other.succeeds();
}

fn a_longer_circle_is_refused_too() {
    let chain = |own: i64, next: i64, name: &'static str| {
        child(move || {
            let theirs = opened();
            lock(&theirs, Process, Write, own, 1).unwrap();
            signal(name);
            lock_wait(&theirs, Process, Write, next, 1).unwrap();
        })
    };
    let mine = opened();
    lock(&mine, Process, Write, 0, 1).unwrap();
    let second = chain(1, 0, "second");
    signalled("second");
    let third = chain(2, 1, "third");
    signalled("third");
    std::thread::sleep(Duration::from_millis(150));
    fails(lock_wait(&mine, Process, Write, 2, 1), Errno::EDEADLK);
    lock(&mine, Process, Unlock, 0, 0).unwrap();
    second.succeeds();
    third.succeeds();
}

fn open_file_locks_belong_to_the_open_file() {
    let (first, second) = (opened(), opened());
    lock(&first, OpenFile, Write, 0, 10).unwrap();
    fails_with_any(lock(&second, OpenFile, Write, 0, 10), BUSY);
    let duplicate = dup(&first).unwrap();
    lock(&duplicate, OpenFile, Write, 0, 10).unwrap();
    child(|| lock(&first, OpenFile, Write, 5, 10).unwrap()).succeeds();
    fails_with_any(lock(&second, OpenFile, Read, 12, 1), BUSY);
    // Closing another descriptor of the same file frees nothing.
    drop(opened());
    fails_with_any(lock(&second, OpenFile, Write, 0, 1), BUSY);
}

fn open_file_locks_and_process_locks_exclude_each_other() {
    let (first, second) = (opened(), opened());
    lock(&first, Process, Write, 0, 10).unwrap();
    fails_with_any(lock(&second, OpenFile, Write, 0, 10), BUSY);
    let found = test_lock(&second, OpenFile, Write, 0, 10).unwrap().unwrap();
    assert_eq!((found.lock, found.start, found.bytes), (Write, 0, 10));
    lock(&first, Process, Unlock, 0, 0).unwrap();
    lock(&second, OpenFile, Write, 0, 10).unwrap();
    let found = test_lock(&first, Process, Write, 0, 10).unwrap().unwrap();
    // Its owner is told as -1, or as whoever took it: a kernel that asks somebody else for locks cannot know.
    assert_eq!((found.lock, found.start, found.bytes), (Write, 0, 10));
}

fn open_file_locks_go_with_the_last_descriptor() {
    let (first, second) = (opened(), opened());
    lock(&first, OpenFile, Write, 0, 10).unwrap();
    let duplicate = dup(&first).unwrap();
    drop(first);
    fails_with_any(lock(&second, OpenFile, Write, 0, 10), BUSY);
    drop(duplicate);
    lock_wait(&second, OpenFile, Write, 0, 10).unwrap();
}

fn flock_excludes_by_open_file() {
    let (first, second) = (opened(), opened());
    flock(&first, LOCK_EX).unwrap();
    fails(flock(&second, LOCK_EX | LOCK_NB), Errno::EWOULDBLOCK);
    fails(flock(&second, LOCK_SH | LOCK_NB), Errno::EWOULDBLOCK);
    flock(&first, LOCK_UN).unwrap();
    flock(&second, LOCK_SH | LOCK_NB).unwrap();
    flock(&first, LOCK_SH | LOCK_NB).unwrap();
    fails(flock(&first, LOCK_EX | LOCK_NB), Errno::EWOULDBLOCK);
}

fn flock_is_shared_by_duplicates_and_children() {
    let (first, second) = (opened(), opened());
    flock(&first, LOCK_EX).unwrap();
    let duplicate = dup(&first).unwrap();
    drop(first);
    fails(flock(&second, LOCK_EX | LOCK_NB), Errno::EWOULDBLOCK);
    child(|| flock(&duplicate, LOCK_UN).unwrap()).succeeds();
    flock(&second, LOCK_EX | LOCK_NB).unwrap();
}

fn flock_changes_its_kind() {
    let (first, second) = (opened(), opened());
    flock(&first, LOCK_EX).unwrap();
    flock(&first, LOCK_SH).unwrap();
    flock(&second, LOCK_SH | LOCK_NB).unwrap();
    drop(second);
    let until = Instant::now() + Duration::from_secs(10);
    while flock(&first, LOCK_EX | LOCK_NB).is_err() {
        assert!(Instant::now() < until, "a closed file holds its lock");
        moment();
    }
}

fn flock_and_record_locks_are_strangers() {
    let (first, second) = (opened(), opened());
    flock(&first, LOCK_EX).unwrap();
    lock(&second, OpenFile, Write, 0, 0).unwrap();
    child(|| {
        let third = opened();
        fails(flock(&third, LOCK_EX | LOCK_NB), Errno::EWOULDBLOCK);
        fails_with_any(lock(&third, Process, Write, 0, 0), BUSY);
    })
    .succeeds();
}

fn a_flock_waiter_can_be_interrupted() {
    let (first, second) = (opened(), opened());
    flock(&first, LOCK_EX).unwrap();
    interrupt_every_ms(200);
    fails(flock(&second, LOCK_EX), Errno::EINTR);
    interrupt_every_ms(0);
    flock(&first, LOCK_UN).unwrap();
    flock(&second, LOCK_EX | LOCK_NB).unwrap();
}

fn locks_need_the_right_descriptor() {
    drop(opened());
    let (reader, writer) = (open("f", O_RDONLY, 0).unwrap(), open("f", O_WRONLY, 0).unwrap());
    for owner in [Process, OpenFile] {
        fails(lock(&reader, owner, Write, 0, 1), Errno::EBADF);
        fails(lock(&writer, owner, Read, 0, 1), Errno::EBADF);
        lock(&reader, owner, Read, 0, 1).unwrap();
        lock(&writer, owner, Write, 1, 1).unwrap();
        lock(&reader, owner, Unlock, 0, 0).unwrap();
        lock(&writer, owner, Unlock, 0, 0).unwrap();
    }
    flock(&open("f", O_RDONLY, 0).unwrap(), LOCK_EX).unwrap();
}

fn ranges_that_make_no_sense_are_refused() {
    let mine = opened();
    fails(lock(&mine, Process, Write, -1, 1), Errno::EINVAL);
    fails(lock(&mine, Process, Write, i64::MAX, 5), Errno::EOVERFLOW);
    // A negative length means the bytes before.
    lock(&mine, Process, Write, 10, -5).unwrap();
    assert!(elsewhere(Write, 0, 5) && !elsewhere(Write, 5, 1) && elsewhere(Write, 10, 1));
}

fn a_lock_survives_renaming_and_unlinking() {
    let mine = opened();
    lock(&mine, OpenFile, Write, 0, 10).unwrap();
    rename("f", "g").unwrap();
    let probe = open("g", O_RDWR, 0).unwrap();
    assert!(test_lock(&probe, OpenFile, Write, 0, 1).unwrap().is_some());
    unlink("g").unwrap();
    assert!(test_lock(&probe, OpenFile, Write, 0, 1).unwrap().is_some());
    assert!(elsewhere(Write, 0, 1), "a new file of the name is another one");
}

fn many_small_locks_can_be_held() {
    let mine = opened();
    (0..300).for_each(|index| lock(&mine, Process, Write, index * 2, 1).unwrap());
    assert!(!elsewhere(Read, 598, 1) && elsewhere(Write, 599, 1));
    lock(&mine, Process, Unlock, 0, 0).unwrap();
    assert!(elsewhere(Write, 0, 0));
}
