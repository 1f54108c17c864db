//! The client library against real daemons.

#[path = "../support/mod.rs"]
mod support;

mod groups;
mod loans;

use pvfs_client::{User, block_on};
use pvfs_net::blocking::Blocking;
use pvfs_wire::Errno;
use pvfs_wire::attr::{SizeState, Striping};
use pvfs_wire::ops::{OpenFlags, Target};
use support::{TestCluster, pattern};

fn below(user: &User<Blocking>, path: &str) -> Target {
    Target::below(block_on(user.root()).unwrap(), path)
}

const NEW: OpenFlags = OpenFlags::READ.with(OpenFlags::WRITE).with(OpenFlags::CREATE);

#[test]
fn what_is_written_is_read_again_whatever_the_sizes_and_offsets() {
    let cluster = TestCluster::start(4);
    let user = cluster.user();
    let file =
        block_on(user.open_regular(below(&user, "f"), NEW, 0o644, Striping::default())).unwrap();
    let content = pattern(9 << 20, 7);
    block_on(user.write_at(&file, 0, &content, false)).unwrap();
    for (offset, length) in
        [(0, 9 << 20), (1, 4096), (65_535, 2), (65_536 * 3 + 7, 1 << 20), (5, 0)]
    {
        let mut buffer = vec![1; length];
        let got = block_on(user.read_at(&file, offset as u64, &mut buffer)).unwrap();
        assert_eq!(got, length);
        assert!(buffer == content[offset..offset + length], "offset {offset} length {length}");
    }
    let mut tail = vec![1; 100];
    let got = block_on(user.read_at(&file, content.len() as u64 - 10, &mut tail)).unwrap();
    assert_eq!((got, &tail[..10]), (10, &content[content.len() - 10..]));
    assert_eq!(block_on(user.read_at(&file, 1 << 40, &mut tail)).unwrap(), 0);
    block_on(user.close(file)).unwrap();
}

#[test]
fn holes_are_zeros_and_the_size_is_known_to_all_at_once() {
    let cluster = TestCluster::start(3);
    let (writer, reader) = (cluster.user(), cluster.user());
    let file = block_on(writer.open_regular(below(&writer, "h"), NEW, 0o644, Striping::default()))
        .unwrap();
    block_on(writer.write_at(&file, 1_000_000, b"end", false)).unwrap();
    let seen = block_on(reader.stat(below(&reader, "h"), true)).unwrap();
    assert_eq!((seen.size, seen.size_state), (1_000_003, SizeState::Alone));
    let mut buffer = vec![1; 1_000_003];
    assert_eq!(block_on(writer.read_at(&file, 0, &mut buffer)).unwrap(), 1_000_003);
    assert!(buffer[..1_000_000].iter().all(|byte| *byte == 0));
    assert_eq!(&buffer[1_000_000..], b"end");
    block_on(writer.close(file)).unwrap();
    let seen = block_on(reader.stat_lite(below(&reader, "h"), true)).unwrap();
    assert_eq!((seen.size, seen.size_state), (1_000_003, SizeState::Settled));
}

#[test]
fn a_truncated_file_grows_with_zeros() {
    let cluster = TestCluster::start(4);
    let user = cluster.user();
    let target = || below(&user, "t");
    let file = block_on(user.open_regular(target(), NEW, 0o644, Striping::default())).unwrap();
    block_on(user.write_at(&file, 0, &pattern(1 << 20, 3), false)).unwrap();
    assert_eq!(block_on(user.truncate_file(&file, 100_000)).unwrap().size, 100_000);
    assert_eq!(block_on(user.truncate(target(), true, 500_000)).unwrap().size, 500_000);
    let mut buffer = vec![1; 600_000];
    assert_eq!(block_on(user.read_at(&file, 0, &mut buffer)).unwrap(), 500_000);
    assert!(buffer[..100_000] == pattern(1 << 20, 3)[..100_000]);
    assert!(buffer[100_000..500_000].iter().all(|byte| *byte == 0));
    block_on(user.close(file)).unwrap();
    let flags = NEW.with(OpenFlags::TRUNCATE);
    let file = block_on(user.open_regular(target(), flags, 0o644, Striping::default())).unwrap();
    assert_eq!(block_on(user.read_at(&file, 0, &mut buffer)).unwrap(), 0);
}

#[test]
fn names_come_and_go() {
    let cluster = TestCluster::start(2);
    let user = cluster.user();
    let root = block_on(user.root()).unwrap();
    block_on(user.mkdir(below(&user, "d"), 0o755)).unwrap();
    for index in 0..300 {
        let target = below(&user, &format!("d/file{index}"));
        let file = block_on(user.open_regular(target, NEW, 0o600, Striping::default())).unwrap();
        block_on(user.close(file)).unwrap();
    }
    let dir = block_on(user.stat(below(&user, "d"), true)).unwrap().handle;
    let entries = block_on(user.list(dir, true)).unwrap();
    assert_eq!(entries.len(), 300);
    assert!(entries.iter().all(|entry| entry.attr.unwrap().mode == 0o600));
    assert_eq!(block_on(user.rmdir(below(&user, "d"))).unwrap_err().errno(), Errno::ENOTEMPTY);
    for entry in entries {
        block_on(user.unlink(Target::below(dir, &*entry.name))).unwrap();
    }
    block_on(user.rmdir(below(&user, "d"))).unwrap();
    assert!(block_on(user.list(root, false)).unwrap().is_empty());
    let gone = block_on(user.stat(Target::object(dir), true)).unwrap_err();
    assert_eq!(gone.errno(), Errno::ESTALE);
}

#[test]
fn appends_of_many_threads_never_overlap() {
    let cluster = TestCluster::start(4);
    let user = cluster.user();
    let flags = NEW.with(OpenFlags::APPEND);
    std::thread::scope(|scope| {
        for byte in 0..4u8 {
            let cluster = &cluster;
            scope.spawn(move || {
                let user = cluster.user();
                let target = below(&user, "log");
                let file =
                    block_on(user.open_regular(target, flags, 0o644, Striping::default())).unwrap();
                for _ in 0..50 {
                    block_on(user.append(&file, &[b'a' + byte; 100], false)).unwrap();
                }
                block_on(user.close(file)).unwrap();
            });
        }
    });
    let file =
        block_on(user.open_regular(below(&user, "log"), NEW, 0, Striping::default())).unwrap();
    let mut content = vec![0; 30_000];
    assert_eq!(block_on(user.read_at(&file, 0, &mut content)).unwrap(), 20_000);
    for record in content[..20_000].chunks(100) {
        assert!(record.iter().all(|byte| *byte == record[0]), "torn record");
    }
}

#[test]
fn an_unlinked_open_file_lives_until_it_is_closed() {
    let cluster = TestCluster::start(2);
    let (user, other) = (cluster.user(), cluster.user());
    let file =
        block_on(user.open_regular(below(&user, "u"), NEW, 0o644, Striping::default())).unwrap();
    block_on(user.write_at(&file, 0, b"still here", false)).unwrap();
    block_on(other.unlink(below(&other, "u"))).unwrap();
    let mut buffer = [0; 10];
    assert_eq!(block_on(user.read_at(&file, 0, &mut buffer)).unwrap(), 10);
    assert_eq!(&buffer, b"still here");
    let handle = file.handle;
    block_on(user.close(file)).unwrap();
    let gone = block_on(user.stat(Target::object(handle), true)).unwrap_err();
    assert_eq!(gone.errno(), Errno::ESTALE);
}
