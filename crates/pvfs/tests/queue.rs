//! Asynchronous operations against real daemons: one thread, hundreds on the way.

#[allow(dead_code, reason = "the example's main is not the test's")]
#[path = "../../client/examples/parallel.rs"]
mod example;
mod support;

use std::collections::HashSet;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvfs_client::{Blocking, OpenFile, Outcome, Queue, Region, Transport, User, block_on};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};
use rustix::event::{PollFd, PollFlags, poll};
use support::{TestCluster, pattern};

const NEW: OpenFlags = OpenFlags::READ.with(OpenFlags::WRITE).with(OpenFlags::CREATE);

fn below(user: &User<Blocking>, path: &str) -> Target {
    Target::below(block_on(user.root()).unwrap(), path)
}

/// A user who goes by TCP, as from another node.
fn distant(cluster: &TestCluster) -> User<Blocking> {
    cluster.user_with(|options| options.transport = Transport::Tcp)
}

fn file(user: &User<Blocking>, content: &[u8]) -> Arc<OpenFile> {
    let file = block_on(user.open_regular(below(user, "f"), NEW, 0o644, Striping::default()));
    let file = file.unwrap();
    block_on(user.write_at(&file, 0, content, false)).unwrap();
    Arc::new(file)
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[test]
fn hundreds_of_reads_and_writes_are_on_the_way_from_one_thread() {
    let cluster = TestCluster::start(3);
    let before = threads();
    for user in [cluster.user(), distant(&cluster)] {
        let content = pattern(2 << 20, 5);
        let file = file(&user, &content);
        let mut buffers = vec![[0; 4096]; 400];
        let news = pattern(400 * 512, 9);
        let mut queue = Queue::new(&user).unwrap();
        let mut expected = HashSet::new();
        for (at, buffer) in buffers.iter_mut().enumerate() {
            expected.insert(queue.read(&file, at as u64 * 4096, buffer));
        }
        for (at, piece) in news.chunks(512).enumerate() {
            expected.insert(queue.write(&file, (4 << 20) + at as u64 * 512, piece, false));
        }
        assert_eq!(queue.len(), 800);
        queue.flush();
        assert_eq!(threads(), before, "nobody helps");
        while let Some((ticket, outcome)) = queue.wait_any(None) {
            assert!(expected.remove(&ticket));
            assert!(matches!(outcome.unwrap(), Outcome::Bytes(4096 | 512)));
        }
        assert!(expected.is_empty());
        drop(queue);
        assert!(buffers.concat() == content[..400 * 4096]);
        let mut back = vec![0; news.len()];
        block_on(user.read_at(&file, 4 << 20, &mut back)).unwrap();
        assert!(back == news);
    }
}

#[test]
fn every_kind_of_operation_ends_with_its_outcome() {
    let cluster = TestCluster::start(2);
    let user = cluster.user();
    let file = file(&user, &pattern(300_000, 1));
    let (mut large, mut pieces) = (vec![0; 200_000], vec![0; 640]);
    let column: Vec<Region> = (0..10).map(|row| Region { offset: row * 20_000, len: 64 }).collect();
    let mut queue = Queue::new(&user).unwrap();
    let long = queue.read(&file, 1000, &mut large);
    let strided = queue.readx(&file, vec![&mut pieces], column.clone());
    let written = queue.writex(&file, vec![&[7; 640]], column, true);
    let synced = queue.sync(&file);
    let opened = queue.open(below(&user, "other"), NEW, 0o600, Striping::default());
    let stat = queue.stat(below(&user, "f"), true);
    let missing = queue.stat(below(&user, "none"), true);
    assert!(matches!(queue.wait(long, None), Some(Ok(Outcome::Bytes(200_000)))));
    assert!(matches!(queue.wait(strided, None), Some(Ok(Outcome::Bytes(640)))));
    assert!(matches!(queue.wait(written, None), Some(Ok(Outcome::Bytes(640)))));
    assert!(matches!(queue.wait(synced, None), Some(Ok(Outcome::Done))));
    let Some(Ok(Outcome::Opened(opening))) = queue.wait(opened, None) else { panic!() };
    assert!(opening.created);
    let Some(Ok(Outcome::Attr(attr))) = queue.wait(stat, None) else { panic!() };
    assert_eq!(attr.size, 300_000);
    let error = queue.wait(missing, None).unwrap().unwrap_err();
    assert_eq!(error.errno(), pvfs_wire::Errno::ENOENT);
    assert!(queue.is_empty());
}

#[test]
fn a_program_polls_the_descriptor_among_its_own() {
    let cluster = TestCluster::start(2);
    let user = distant(&cluster);
    let file = file(&user, &pattern(100_000, 1));
    let mut buffers = vec![[0; 1000]; 50];
    let mut queue = Queue::new(&user).unwrap();
    for (at, buffer) in buffers.iter_mut().enumerate() {
        queue.read(&file, at as u64 * 1000, buffer);
    }
    let mut ended = 0;
    let begun = Instant::now();
    while ended < 50 {
        assert!(begun.elapsed() < Duration::from_secs(20), "{ended} of 50 ended");
        let descriptor = queue.descriptor().unwrap();
        assert!(descriptor.as_raw_fd() > 2);
        let second = rustix::time::Timespec { tv_sec: 1, tv_nsec: 0 };
        poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&second)).unwrap();
        ended += queue.wait_some(10, Some(Duration::ZERO)).len();
    }
    assert!(queue.is_empty());
}

#[test]
fn cancelled_operations_have_no_outcome_and_the_others_go_on() {
    let cluster = TestCluster::start(2);
    let user = distant(&cluster);
    let file = file(&user, &pattern(100_000, 1));
    let mut buffers = vec![[0; 500]; 60];
    let mut queue = Queue::new(&user).unwrap();
    let mut tickets = Vec::new();
    for (at, buffer) in buffers.iter_mut().enumerate() {
        tickets.push(queue.read(&file, at as u64 * 500, buffer));
    }
    let write = queue.write(&file, 200_000, &[1; 100], false);
    queue.flush();
    let cancelled = tickets.iter().step_by(3).filter(|ticket| queue.cancel(**ticket)).count();
    queue.cancel(write);
    let mut ended = 0;
    while let Some((_, outcome)) = queue.wait_any(None) {
        assert!(matches!(outcome.unwrap(), Outcome::Bytes(_)));
        ended += 1;
    }
    assert!(ended >= 60 - cancelled && ended <= 61 - cancelled);
    // The size is right, whatever became of the write.
    drop(queue);
    let file = Arc::into_inner(file).unwrap();
    block_on(user.close(file)).unwrap();
    let size = block_on(user.stat(below(&user, "f"), true)).unwrap().size;
    assert!([100_000, 200_100].contains(&size), "{size}");
}

#[test]
fn two_queues_of_one_user_do_not_wait_for_one_another() {
    let cluster = TestCluster::start(1);
    let user = distant(&cluster);
    let file = file(&user, &pattern(10_000, 1));
    let (mut one, mut other) = ([0; 100], [0; 100]);
    let mut idle = Queue::new(&user).unwrap();
    let mut busy = Queue::new(&user).unwrap();
    let begun = Instant::now();
    let waiting = idle.read(&file, 0, &mut one);
    idle.flush();
    let ticket = busy.read(&file, 0, &mut other);
    assert!(busy.wait(ticket, Some(Duration::from_secs(10))).is_some());
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(idle.wait(waiting, Some(Duration::from_secs(10))).is_some());
}

#[test]
fn the_example_of_the_parallel_interfaces_runs() {
    let cluster = TestCluster::start(3);
    example::tour(&cluster.user()).unwrap();
}

#[test]
fn hundreds_of_opens_and_stats_are_on_the_way_from_one_thread() {
    let cluster = TestCluster::start(2);
    let user = cluster.user();
    let mut queue = Queue::new(&user).unwrap();
    let name = |number: u32| format!("made{number}");
    for number in 0..400 {
        queue.open(below(&user, &name(number)), NEW, 0o600, Striping::default());
    }
    let mut files = Vec::new();
    while let Some((_, outcome)) = queue.wait_any(None) {
        let Outcome::Opened(opening) = outcome.unwrap() else { panic!("it was no open") };
        assert!(opening.created);
        files.push(opening.file.unwrap());
    }
    // Of files that are being written, so that iods are asked too.
    let stats: Vec<_> =
        (0..400).map(|number| queue.stat(below(&user, &name(number)), true)).collect();
    for ticket in stats {
        let Some(Ok(Outcome::Attr(attr))) = queue.wait(ticket, None) else {
            panic!("no attributes")
        };
        assert_eq!(attr.size, 0);
    }
    let handles: HashSet<_> = files.iter().map(|file| file.handle).collect();
    assert_eq!(handles.len(), 400);
    drop(queue);
    files.into_iter().for_each(|file| block_on(user.close(file)).unwrap());
}

/// What a queue holds while nobody attends to it must not be all there is.
#[test]
fn a_queue_that_is_left_alone_keeps_nobody_from_the_daemons() {
    let cluster = TestCluster::start(1);
    let user = distant(&cluster);
    let file = file(&user, &pattern(1 << 20, 1));
    let mut buffers = vec![vec![0; 100_000]; 40];
    let mut idle = Queue::new(&user).unwrap();
    for buffer in &mut buffers {
        idle.read(&file, 0, buffer);
    }
    for number in 0..100 {
        idle.open(below(&user, &format!("o{number}")), NEW, 0o600, Striping::default());
        idle.stat(below(&user, "f"), true);
    }
    idle.flush();
    let begun = Instant::now();
    let mut byte = [0];
    block_on(user.read_at(&file, 0, &mut byte)).unwrap();
    for number in 0..5 {
        let (path, striping) = (format!("own{number}"), Striping::default());
        let own = block_on(user.open_regular(below(&user, &path), NEW, 0o600, striping)).unwrap();
        block_on(user.close(own)).unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let mut ended = 0;
    while let Some((_, outcome)) = idle.wait_any(Some(Duration::from_secs(60))) {
        outcome.unwrap();
        ended += 1;
    }
    assert_eq!(ended, 240);
}

/// An open that was given up may be done or not; what comes after it is not disturbed, nor is anything left open.
#[test]
fn cancelled_opens_leave_the_others_alone() {
    let cluster = TestCluster::start(1);
    let user = cluster.user();
    let mut queue = Queue::new(&user).unwrap();
    for round in 0..5 {
        let open = |queue: &mut Queue<'_>, number: u32| {
            let target = below(&user, &format!("c{round}-{number}"));
            queue.open(target, NEW | OpenFlags::EXCLUSIVE, 0o600, Striping::default())
        };
        let tickets: Vec<_> = (0..100).map(|number| open(&mut queue, number)).collect();
        queue.flush();
        let cancelled = tickets.iter().step_by(7).filter(|ticket| queue.cancel(**ticket)).count();
        let mut ended = 0;
        while let Some((_, outcome)) = queue.wait_any(None) {
            // Exactly once, although the connection broke: nobody finds its own file made already.
            let Outcome::Opened(opening) = outcome.unwrap() else { panic!("it was no open") };
            block_on(user.close(opening.file.unwrap())).unwrap();
            ended += 1;
        }
        assert_eq!(ended, 100 - cancelled);
    }
}
