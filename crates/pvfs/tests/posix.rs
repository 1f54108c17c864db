//! POSIX calls over the client library, against real daemons.

#[allow(dead_code, reason = "the example's main is not the test's")]
#[path = "../../posix/examples/calls.rs"]
mod example;
mod support;

use std::time::{Duration, Instant};

use pvfs_posix::{At, Family, From, Process, Queue, Reach, Settings, Stop, Times, Told, Wanted};
use pvfs_wire::Errno;
use pvfs_wire::attr::{FileKind, Time};
use pvfs_wire::ops::{AccessBits, Allocation, LockKind, RenameFlags, SetTime};
use rustix::fs::OFlags;
use support::{TestCluster, pattern};

fn process(cluster: &TestCluster) -> Process {
    let config = Some(cluster.root().join("cluster.toml"));
    let process = Process::new(Settings { prefix: b"/pvfs".to_vec(), also: None, config });
    process.note_umask(0o022);
    process
}

const NEW: OFlags = OFlags::RDWR.union(OFlags::CREATE);

#[test]
fn the_example_of_the_calls_runs() {
    let cluster = TestCluster::start(3);
    example::tour(&process(&cluster)).unwrap();
}

#[track_caller]
fn fails<T: std::fmt::Debug>(reach: Reach<T>, errno: Errno) {
    assert_eq!(reach.unwrap_err(), Stop::Errno(errno));
}

fn names(process: &Process, path: &[u8]) -> Vec<String> {
    let fd = process.open(At::Working, path, OFlags::DIRECTORY, 0).unwrap();
    let mut stream = process.stream(fd).unwrap();
    let mut names = Vec::new();
    while let Some(item) = process.next_item(&mut stream).unwrap() {
        names.push(String::from_utf8(item.name).unwrap());
    }
    process.close(fd).unwrap();
    names.sort();
    names
}

#[test]
fn a_position_is_shared_by_duplicates_and_by_nobody_else() {
    let cluster = TestCluster::start(3);
    let process = process(&cluster);
    let content = pattern(300_000, 5);
    let fd = process.open(At::Working, b"/pvfs/f", NEW, 0o666).unwrap();
    assert_eq!(process.write(fd, &content).unwrap(), content.len());
    let twin = rustix::io::dup(pvfs_posix::shared::borrow(fd)).unwrap();
    let twin = std::os::fd::IntoRawFd::into_raw_fd(twin);
    process.duplicated(fd, twin).unwrap();
    assert_eq!(process.seek(twin, From::Start, 100).unwrap(), 100);
    let mut buffer = vec![0; 200_000];
    assert_eq!(process.read(fd, &mut buffer).unwrap(), 200_000);
    assert!(buffer == content[100..200_100]);
    assert_eq!(process.read(twin, &mut buffer).unwrap(), 99_900);
    assert!(buffer[..99_900] == content[200_100..]);
    let other = process.open(At::Working, b"/pvfs/f", OFlags::RDONLY, 0).unwrap();
    assert_eq!(process.read(other, &mut buffer[..7]).unwrap(), 7);
    assert_eq!(process.seek(fd, From::Here, 0).unwrap(), 300_000);
    assert_eq!(process.seek(fd, From::End, -1).unwrap(), 299_999);
    fails(process.seek(fd, From::Start, -1), Errno::EINVAL);
    fails(process.write(other, b"x"), Errno::EBADF);
    process.close(fd).unwrap();
    assert_eq!(process.read_at(twin, 5, &mut buffer[..5]).unwrap(), 5);
    process.close(twin).unwrap();
    assert_eq!(process.close(twin).unwrap_err(), Stop::NotOurs);
    let attr = process.stat(At::Working, b"/pvfs/f", true).unwrap();
    assert_eq!((attr.size, attr.mode), (300_000, 0o644));
}

#[test]
fn another_process_takes_part_by_the_memfd_alone() {
    let cluster = TestCluster::start(2);
    let (parent, child) = (process(&cluster), process(&cluster));
    let fd = parent.open(At::Working, b"/pvfs/f", NEW | OFlags::APPEND, 0o600).unwrap();
    parent.write(fd, b"parent ").unwrap();
    parent.unlink(At::Working, b"/pvfs/f").unwrap();
    child.discover(fd).unwrap();
    child.adopt_all();
    parent.end_all();
    drop(parent);
    child.write(fd, b"child").unwrap();
    assert_eq!(child.seek(fd, From::Here, 0).unwrap(), 12);
    let mut buffer = [0; 20];
    assert_eq!(child.read_at(fd, 0, &mut buffer).unwrap(), 12);
    assert_eq!(&buffer[..12], b"parent child");
    assert_eq!(child.stat_open(fd).unwrap().nlink, 0);
    child.close(fd).unwrap();
}

#[test]
fn a_file_without_a_name_goes_from_process_to_process_until_it_is_given_one() {
    let cluster = TestCluster::start(2);
    let parent = process(&cluster);
    let child: &Process = Box::leak(Box::new(process(&cluster)));
    let dir = parent.open(At::Working, b"/pvfs", OFlags::DIRECTORY, 0).unwrap();
    // As a program asks that opens /proc/self/fd.
    let fd = parent.open_again(dir, OFlags::RDWR | OFlags::TMPFILE, 0o666).unwrap();
    let attr = parent.stat_open(fd).unwrap();
    assert_eq!((attr.nlink, attr.mode), (0, 0o644));
    let shown = format!("/pvfs/#{} (deleted)", attr.handle.object);
    assert_eq!(parent.description(fd).unwrap().path(), shown.as_bytes());
    parent.write(fd, b"parent ").unwrap();
    child.discover(fd).unwrap();
    child.adopt_all();
    parent.end_all();
    drop(parent);
    child.write(fd, b"child").unwrap();
    child.link_open(fd, (At::Working, b"/pvfs/f")).unwrap();
    child.close(fd).unwrap();
    assert_eq!(child.stat(At::Working, b"/pvfs/f", true).unwrap().size, 12);
    let mut queue = Queue::new(child).unwrap();
    let never = OFlags::RDWR | OFlags::TMPFILE | OFlags::EXCL;
    let ticket = queue.open(b"/pvfs", never, 0o600).unwrap();
    let told = loop {
        queue.step(None);
        if let Some(told) = queue.test(ticket) {
            break told.unwrap();
        }
    };
    let Told::Descriptor(fd) = told else { panic!("it tells {told:?}") };
    fails(child.link_open(fd, (At::Working, b"/pvfs/g")), Errno::ENOENT);
}

#[test]
fn relative_paths_begin_where_they_should() {
    let cluster = TestCluster::start(2);
    let process = process(&cluster);
    process.make_directory(At::Working, b"/pvfs/a", 0o777).unwrap();
    process.make_directory(At::Working, b"/pvfs/a/b", 0o777).unwrap();
    assert_eq!(process.make_directory(At::Working, b"x", 0o777).unwrap_err(), Stop::NotOurs);
    process.change_directory(At::Working, b"/pvfs/a").unwrap();
    assert_eq!(process.working().unwrap(), b"/pvfs/a");
    process.make_directory(At::Working, b"c", 0o777).unwrap();
    process.make_symlink(b"../b", At::Working, b"c/link").unwrap();
    process.change_directory(At::Working, b"c/link/../../a/./c/link").unwrap();
    assert_eq!(process.working().unwrap(), b"/pvfs/a/b");
    process.make_directory(At::Working, b"../d/", 0o777).unwrap();
    assert_eq!(names(&process, b".."), [".", "..", "b", "c", "d"]);
    let dir = process.open(At::Working, b"../c", OFlags::DIRECTORY, 0).unwrap();
    process.leave();
    process.make_node(At::Directory(dir), b"f", FileKind::Regular, 0o666, 0).unwrap();
    assert_eq!(names(&process, b"/pvfs/a/c"), [".", "..", "f", "link"]);
    process.change_to(dir).unwrap();
    assert_eq!(process.working().unwrap(), b"/pvfs/a/c");
    let out = process.stat(At::Working, b"../../../etc/passwd", true).unwrap_err();
    assert_eq!(out, Stop::Outside(b"/etc/passwd".to_vec()));
}

#[test]
fn links_lead_out_and_back_in() {
    let cluster = TestCluster::start(2);
    let process = process(&cluster);
    let home = cluster.scratch();
    let home = home.to_str().unwrap().as_bytes();
    process.make_directory(At::Working, b"/pvfs/d", 0o777).unwrap();
    process.make_symlink(home, At::Working, b"/pvfs/d/out").unwrap();
    process.make_symlink(b"/pvfs/d", At::Working, b"/pvfs/in").unwrap();
    process.make_symlink(b"/pvfs/loop", At::Working, b"/pvfs/loop").unwrap();
    let open = |path: &[u8], flags| process.open(At::Working, path, flags, 0o666);
    let outside = open(b"/pvfs/in/out/f", NEW).unwrap_err();
    assert_eq!(outside, Stop::Outside([home, b"/f"].concat()));
    let fd = open(b"/pvfs/in/f", NEW).unwrap();
    process.close(fd).unwrap();
    assert_eq!(names(&process, b"/pvfs/d"), [".", "..", "f", "out"]);
    assert_eq!(names(&process, b"/pvfs/in"), [".", "..", "f", "out"]);
    assert_eq!(process.canonical(At::Working, b"/pvfs/in/f").unwrap().0, b"/pvfs/d/f");
    assert_eq!(process.read_link(At::Working, b"/pvfs/in").unwrap(), b"/pvfs/d");
    fails(process.stat(At::Working, b"/pvfs/loop", true), Errno::ELOOP);
    let link = cluster.scratch().join("link");
    std::os::unix::fs::symlink("/pvfs/d", &link).unwrap();
    let path = link.join("f");
    let found = process.linked_in(path.to_str().unwrap().as_bytes());
    assert_eq!(found, Some(b"/pvfs/d/f".to_vec()));
    assert_eq!(process.linked_in(b"/no/such/path"), None);
    process
        .rename((At::Working, b"/pvfs/in/f"), (At::Working, b"/pvfs/g"), RenameFlags::NONE)
        .unwrap();
    let across =
        process.rename((At::Working, b"/pvfs/g"), (At::Working, b"/tmp/g"), RenameFlags::NONE);
    fails(across, Errno::EXDEV);
}

#[test]
fn attributes_are_set_as_asked() {
    let cluster = TestCluster::start(2);
    let process = process(&cluster);
    let fd = process.open(At::Working, b"/pvfs/f", NEW, 0o666).unwrap();
    process.set_mode_open(fd, 0o4711).unwrap();
    let at = |seconds| Some(SetTime::At(Time { seconds, nanos: 5 }));
    let times = Times { access: at(10), modification: at(-20) };
    process.set_times(At::Working, b"/pvfs/f", true, times).unwrap();
    let attr = process.stat_open(fd).unwrap();
    assert_eq!((attr.mode, attr.atime.seconds, attr.mtime.seconds), (0o4711, 10, -20));
    process.truncate_open(fd, 1000).unwrap();
    process.allocate(fd, Allocation::Reserve, (0, 500), true).unwrap();
    assert_eq!(process.stat_open(fd).unwrap().size, 1000);
    process.allocate(fd, Allocation::Reserve, (0, 5000), true).unwrap();
    assert_eq!(process.seek(fd, From::End, 0).unwrap(), 5000);
    process.sync(fd).unwrap();
    process.access(At::Working, b"/pvfs/f", true, AccessBits::READ).unwrap();
    let object = pvfs_posix::Object::Open(fd);
    process.set_xattr(object, b"user.a", b"1", pvfs_wire::ops::XattrFlags::NONE).unwrap();
    let path = pvfs_posix::Object::Path(b"/pvfs/f", true);
    assert_eq!(process.get_xattr(path, b"user.a").unwrap(), b"1");
    assert!(process.space(At::Working, b"/pvfs").unwrap().total().total_bytes > 0);
}

#[test]
fn locks_of_two_processes_exclude_each_other_until_a_descriptor_is_closed() {
    let cluster = TestCluster::start(2);
    let (one, two) = (process(&cluster), process(&cluster));
    let open = |process: &Process| process.open(At::Working, b"/pvfs/f", NEW, 0o666).unwrap();
    let (fd, other) = (open(&one), open(&two));
    let lock = |family| Wanted { family, kind: LockKind::Write, start: 0, end: 10, wait: false };
    one.lock(fd, lock(Family::Process)).unwrap();
    fails(two.lock(other, lock(Family::Process)), Errno::EAGAIN);
    assert_eq!(two.test_lock(other, lock(Family::Process)).unwrap().unwrap().end, 10);
    let extra = open(&one);
    one.close(extra).unwrap();
    two.lock(other, lock(Family::Process)).unwrap();
    two.close(other).unwrap();
    let whole = Wanted { end: u64::MAX, ..lock(Family::Whole) };
    one.lock(fd, whole).unwrap();
    let second = open(&one);
    fails(one.lock(second, whole), Errno::EAGAIN);
    one.close(fd).unwrap();
    one.lock(second, whole).unwrap();
}

#[test]
fn a_listing_goes_on_from_any_position() {
    let cluster = TestCluster::start(1);
    let process = process(&cluster);
    for index in 0..2500 {
        let path = format!("/pvfs/{index}");
        process.make_node(At::Working, path.as_bytes(), FileKind::Regular, 0o644, 0).unwrap();
    }
    let fd = process.open(At::Working, b"/pvfs", OFlags::DIRECTORY, 0).unwrap();
    let mut stream = process.stream(fd).unwrap();
    let mut seen = vec![(0, String::new())];
    while let Some(item) = process.next_item(&mut stream).unwrap() {
        assert_eq!(item.position, stream.position());
        seen.push((item.position, String::from_utf8(item.name).unwrap()));
    }
    assert_eq!(seen.len(), 2503);
    for at in [0, 1, 2, 3, 1024, 1700, 2501] {
        stream.seek(seen[at].0);
        let next = process.next_item(&mut stream).unwrap().unwrap();
        assert_eq!(next.name, seen[at + 1].1.as_bytes());
    }
    stream.seek(seen[2502].0);
    assert_eq!(process.next_item(&mut stream).unwrap(), None);
}

#[test]
fn with_the_daemons_gone_calls_end_in_the_deadline() {
    let cluster = TestCluster::start(2);
    let process = process(&cluster);
    let fd = process.open(At::Working, b"/pvfs/f", NEW, 0o666).unwrap();
    process.write(fd, &pattern(100_000, 1)).unwrap();
    for daemon in ["mgr0", "io0", "io1"] {
        cluster.signal(daemon, rustix::process::Signal::KILL);
    }
    let start = Instant::now();
    fails(process.stat(At::Working, b"/pvfs/f", true), Errno::EIO);
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    cluster.up();
    let mut buffer = vec![0; 100_000];
    assert_eq!(process.read_at(fd, 0, &mut buffer).unwrap(), 100_000);
    assert!(buffer == pattern(100_000, 1));
}

#[test]
fn objects_of_this_node_are_borrowed_and_the_programs_low_descriptors_stay_free() {
    let cluster = TestCluster::start(3);
    let process = process(&cluster);
    let content = pattern(2 << 20, 5);
    let fd = process.open(At::Working, b"/pvfs/f", NEW, 0o666).unwrap();
    process.write_at(fd, 0, &content).unwrap();
    let mut buffer = vec![0; content.len()];
    for _ in 0..2 {
        assert_eq!(process.read_at(fd, 0, &mut buffer).unwrap(), content.len());
    }
    let iods = ["io0", "io1", "io2"];
    iods.iter().for_each(|iod| cluster.hang(iod));
    buffer.fill(0);
    assert_eq!(process.read_at(fd, 0, &mut buffer).unwrap(), content.len());
    iods.iter().for_each(|iod| cluster.wake(iod));
    assert!(buffer == content);
    let objects = std::fs::read_dir("/proc/self/fd").unwrap().flatten().filter_map(|entry| {
        let points_to = std::fs::read_link(entry.path()).ok()?;
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        points_to.starts_with(cluster.root()).then_some(number)
    });
    let numbers: Vec<i32> = objects.collect();
    assert!(numbers.len() == 3 && numbers.iter().all(|number| *number > 400), "{numbers:?}");
    process.close(fd).unwrap();
}
