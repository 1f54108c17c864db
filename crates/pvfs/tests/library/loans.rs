//! Objects that iods of this node lend: what is read and written directly is as if the iods had been asked.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use pvfs_client::{OpenFile, Region, User, block_on};
use pvfs_conformance::chance::Chance;
use pvfs_net::blocking::Blocking;
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::OpenFlags;
use rustix::process::Signal;

use crate::support::{TestCluster, pattern};
use crate::{NEW, below};

fn of(region: &Region) -> Range<usize> {
    region.offset as usize..region.end() as usize
}

/// Any regions, in any order, some beyond the end.
fn any_regions(chance: &mut Chance) -> Vec<Region> {
    let mut region = || {
        let (offset, len) = (chance.below(2 << 20) as u64, 1 + chance.below(9000) as u64);
        Region { offset, len }
    };
    (0..40).map(|_| region()).collect()
}

/// What these regions hold, zeros beyond the end, and how many of the bytes are before it.
fn held(model: &[u8], regions: &[Region]) -> (u64, Vec<u8>) {
    let (mut bytes, mut before) = (Vec::new(), 0);
    for region in regions {
        let range = of(region);
        let end = range.end.min(model.len());
        let inside = &model[range.start.min(end)..end];
        before += inside.len() as u64;
        bytes.extend_from_slice(inside);
        bytes.resize(bytes.len() + range.len() - inside.len(), 0);
    }
    (before, bytes)
}

/// A reader that has borrowed the objects of this file.
fn borrower(cluster: &TestCluster, path: &str) -> (User<Blocking>, OpenFile) {
    let user = cluster.user();
    let target = below(&user, path);
    let file =
        block_on(user.open_regular(target, OpenFlags::READ, 0, Striping::default())).unwrap();
    let mut buffer = vec![0; 4 << 20];
    for _ in 0..2 {
        block_on(user.read_at(&file, 0, &mut buffer)).unwrap();
    }
    (user, file)
}

#[test]
fn what_iods_of_this_node_lend_is_read_without_a_message() {
    let cluster = TestCluster::start(3);
    let user = cluster.user();
    let file =
        block_on(user.open_regular(below(&user, "f"), NEW, 0o644, Striping::default())).unwrap();
    let content = pattern(3 << 20, 11);
    block_on(user.write_at(&file, 0, &content, false)).unwrap();
    let (reader, borrowed) = borrower(&cluster, "f");
    let iods = ["io0", "io1", "io2"];
    iods.iter().for_each(|iod| cluster.hang(iod));
    for (offset, length) in [(0, 3 << 20), (65_535, 70_000), (1, 1)] {
        let mut buffer = vec![0; length];
        let got = block_on(reader.read_at(&borrowed, offset as u64, &mut buffer)).unwrap();
        assert!(got == length && buffer == content[offset..offset + length], "offset {offset}");
    }
    let column: Vec<Region> =
        (0..300).map(|row| Region { offset: (299 - row) * 10_000 + 17, len: 100 }).collect();
    let mut buffer = vec![0; 30_000];
    let got = block_on(reader.readx(&borrowed, &mut [&mut buffer], &column)).unwrap();
    let wanted: Vec<u8> = column.iter().flat_map(|region| &content[of(region)]).copied().collect();
    assert!(got == 30_000 && buffer == wanted, "a column");
    iods.iter().for_each(|iod| cluster.wake(iod));
}

#[test]
fn a_loan_ends_with_an_emergency_stop() {
    let cluster = TestCluster::start(2);
    let user = cluster.user();
    let file =
        block_on(user.open_regular(below(&user, "f"), NEW, 0o644, Striping::default())).unwrap();
    block_on(user.write_at(&file, 0, &pattern(1 << 20, 5), false)).unwrap();
    let (reader, borrowed) = borrower(&cluster, "f");
    cluster.shell("pvfs estop all").succeeds();
    let mut buffer = vec![0; 1000];
    let refused = block_on(reader.read_at(&borrowed, 0, &mut buffer)).unwrap_err();
    assert_eq!(refused.errno(), Errno::EIO);
    cluster.shell("pvfs resume all").succeeds();
    assert_eq!(block_on(reader.read_at(&borrowed, 0, &mut buffer)).unwrap(), 1000);
}

/// One client writes and cuts through the iods; one reads by loan, one by messages; both must see the model.
#[test]
fn reads_by_loan_see_every_change_as_reads_by_message_do() {
    let cluster = TestCluster::start(3);
    let seed = 20_261_121;
    let mut chance = Chance::new(seed);
    let user = cluster.user();
    let file =
        block_on(user.open_regular(below(&user, "f"), NEW, 0o644, Striping::default())).unwrap();
    let mut model = pattern(1 << 20, 3);
    block_on(user.write_at(&file, 0, &model, false)).unwrap();
    let (borrower, borrowed) = borrower(&cluster, "f");
    let asker = cluster.user_with(|options| options.borrows = false);
    let flags = OpenFlags::READ;
    let asked =
        block_on(asker.open_regular(below(&asker, "f"), flags, 0, Striping::default())).unwrap();
    for step in 0..600 {
        let offset = chance.below(2 << 20);
        let length = 1 + chance.below(300_000);
        match chance.below(4) {
            0 => {
                let content = pattern(length, step);
                block_on(user.write_at(&file, offset as u64, &content, false)).unwrap();
                model.resize(model.len().max(offset + length), 0);
                model[offset..offset + length].copy_from_slice(&content);
            }
            1 if step % 3 == 0 => {
                block_on(user.truncate_file(&file, offset as u64)).unwrap();
                model.resize(offset, 0);
            }
            _ => {
                let end = (offset + length).min(model.len());
                let expected = &model[offset.min(end)..end];
                for (how, reader, file) in
                    [("asking", &asker, &asked), ("by loan", &borrower, &borrowed)]
                {
                    let mut buffer = vec![7; length];
                    let got = block_on(reader.read_at(file, offset as u64, &mut buffer)).unwrap();
                    let same = buffer.iter().zip(expected).take_while(|(a, b)| a == b).count();
                    let wanted = expected.len();
                    assert!(
                        (got, same) == (wanted, wanted),
                        "seed {seed} step {step} {how}: {got} of {wanted} bytes, wrong from {same}"
                    );
                }
                let regions = any_regions(&mut chance);
                let (before, expected) = held(&model, &regions);
                for (how, reader, file) in
                    [("asking", &asker, &asked), ("by loan", &borrower, &borrowed)]
                {
                    let mut buffer = vec![7; expected.len()];
                    let (first, second) = buffer.split_at_mut(expected.len() / 3);
                    let got = block_on(reader.readx(file, &mut [first, second], &regions)).unwrap();
                    assert_eq!(got, before, "seed {seed} step {step} {how}");
                    assert!(buffer == expected, "seed {seed} step {step} {how}: {regions:?}");
                }
            }
        }
    }
}

/// A writer that has borrowed the objects of this new file, of this many pages, all of them zeros, and has trays.
fn borrowing_writer(cluster: &TestCluster, path: &str, pages: u64) -> (User<Blocking>, OpenFile) {
    let user = cluster.user();
    let target = below(&user, path);
    let file = block_on(user.open_regular(target, NEW, 0o644, Striping::default())).unwrap();
    for page in 0..pages {
        block_on(user.write_at(&file, page * 4096, &[0; 4096], false)).unwrap();
    }
    block_on(user.write_at(&file, 0, &vec![0; pages as usize * 4096], false)).unwrap();
    (user, file)
}

fn open(user: &User<Blocking>, path: &str) -> OpenFile {
    let flags = OpenFlags::READ.with(OpenFlags::WRITE);
    block_on(user.open_regular(below(user, path), flags, 0, Striping::default())).unwrap()
}

fn content(user: &User<Blocking>, file: &OpenFile) -> Vec<u8> {
    let mut buffer = vec![7; 8 << 20];
    let got = block_on(user.read_at(file, 0, &mut buffer)).unwrap();
    buffer.truncate(got);
    buffer
}

#[test]
fn what_is_written_without_a_message_is_seen_by_all() {
    let cluster = TestCluster::start(3);
    let (writer, file) = borrowing_writer(&cluster, "f", 192);
    let mut model = vec![0; 192 * 4096];
    let iods = ["io0", "io1", "io2"];
    iods.iter().for_each(|iod| cluster.hang(iod));
    let end = 192 * 4096;
    // Within a page, all of one, over two, over several iods' strips, and after the end.
    let ranges = [(5, 10), (65_536, 4096), (16_383, 1), (4095, 2), (70_001, 300_000), (end, 4096)];
    for (offset, length) in ranges.into_iter().chain([(end + 9, 500_000)]) {
        let bytes = pattern(length, offset as u64);
        block_on(writer.write_at(&file, offset as u64, &bytes, false)).unwrap();
        model.resize(model.len().max(offset + length), 0);
        model[offset..offset + length].copy_from_slice(&bytes);
    }
    iods.iter().for_each(|iod| cluster.wake(iod));
    for borrows in [false, true] {
        let reader = cluster.user_with(|options| options.borrows = borrows);
        let seen = block_on(reader.stat(below(&reader, "f"), true)).unwrap();
        assert_eq!(seen.size, model.len() as u64);
        let file = open(&reader, "f");
        assert!(content(&reader, &file) == model);
        block_on(reader.close(file)).unwrap();
    }
    block_on(writer.sync(&file)).unwrap();
    block_on(writer.close(file)).unwrap();
    let seen = block_on(writer.stat_lite(below(&writer, "f"), true)).unwrap();
    assert_eq!(seen.size, model.len() as u64, "the manager was told");
}

#[test]
fn an_emergency_stop_ends_writing_by_loan() {
    let cluster = TestCluster::start(1);
    let (writer, file) = borrowing_writer(&cluster, "f", 64);
    cluster.shell("pvfs estop all").succeeds();
    let refused = block_on(writer.write_at(&file, 0, b"late", false)).unwrap_err();
    assert_eq!(refused.errno(), Errno::EIO);
    cluster.shell("pvfs resume all").succeeds();
    assert!(content(&writer, &file)[..4] == [0; 4], "nothing of it is there");
    block_on(writer.write_at(&file, 0, b"in time", false)).unwrap();
}

/// The words of a daemon that was killed change no more, so what it has lent goes on.
#[test]
fn what_a_killed_daemon_had_lent_is_seen_through_the_next_one() {
    let cluster = TestCluster::start(1);
    let (writer, file) = borrowing_writer(&cluster, "f", 64);
    cluster.signal("io0", Signal::KILL);
    cluster.up();
    let asking = cluster.user_with(|options| options.borrows = false);
    let by_message = open(&asking, "f");
    let size = || block_on(asking.stat(below(&asking, "f"), true)).unwrap().size;
    assert_eq!(size(), 64 * 4096);
    assert_eq!(content(&asking, &by_message).len(), 64 * 4096);
    cluster.hang("io0");
    // Within a page: what is longer goes to the next daemon, which would find what a killed client leaves.
    block_on(writer.write_at(&file, 64 * 4096, b"more", false)).unwrap();
    cluster.wake("io0");
    assert_eq!(size(), 64 * 4096 + 4);
    assert!(content(&asking, &by_message).ends_with(b"more"));
    let longer = pattern(100_000, 1);
    block_on(writer.write_at(&file, 64 * 4096, &longer, false)).unwrap();
    assert!(content(&asking, &by_message).ends_with(&longer));
    block_on(writer.sync(&file)).unwrap();
}

/// Writes by loan, and everything else through the iods by another client, in turns.
#[test]
fn writes_by_loan_and_by_message_make_one_file() {
    let cluster = TestCluster::start(3);
    let seed = 20_261_122;
    let mut chance = Chance::new(seed);
    let (lent, by_loan) = borrowing_writer(&cluster, "f", 256);
    let asking = cluster.user_with(|options| options.borrows = false);
    let by_message = open(&asking, "f");
    let mut model = vec![0; 256 * 4096];
    for step in 0..2000 {
        let offset = chance.below(2 << 20);
        let (length, kind) = (1 + chance.below(200_000), chance.below(200));
        let length = if kind < 60 { 1 + length % (4096 - offset % 4096) } else { length };
        let bytes = pattern(length, step);
        let (place, end) = (offset as u64, offset + length);
        match kind {
            0..120 => block_on(lent.write_at(&by_loan, place, &bytes, false)).unwrap(),
            120..150 => block_on(asking.write_at(&by_message, place, &bytes, false)).unwrap(),
            150..159 => {
                block_on(asking.truncate_file(&by_message, place)).unwrap();
                model.resize(offset, 0);
                continue;
            }
            159 => {
                // Many small pieces, which an iod moves together with what is between them. It takes the loan back for that.
                let regions: Vec<Region> =
                    (0..200).map(|at| Region { offset: place + at * 700, len: 100 }).collect();
                let bytes = pattern(20_000, step);
                block_on(asking.writex(&by_message, &[&bytes], &regions, false)).unwrap();
                for (region, piece) in regions.iter().zip(bytes.chunks(100)) {
                    model.resize(model.len().max(region.end() as usize), 0);
                    model[of(region)].copy_from_slice(piece);
                }
                continue;
            }
            _ => {
                for (user, file) in [(&lent, &by_loan), (&asking, &by_message)] {
                    assert!(content(user, file) == model, "seed {seed} step {step}");
                }
                continue;
            }
        }
        model.resize(model.len().max(end), 0);
        model[offset..end].copy_from_slice(&bytes);
    }
}

/// Contract D3, whoever writes: of what overlaps within a strip the last one is there as a whole.
#[test]
fn strips_written_by_several_at_once_are_of_one_of_them_each() {
    const STRIP: usize = 64 << 10;
    let cluster = TestCluster::start(2);
    let (first, _) = borrowing_writer(&cluster, "f", 256);
    let second = cluster.user();
    let third = cluster.user_with(|options| options.borrows = false);
    thread::scope(|scope| {
        for (number, user) in (1..).zip([&first, &second, &third]) {
            let file = open(user, "f");
            scope.spawn(move || {
                let mut chance = Chance::new(number);
                for step in 0..400u64 {
                    let strips = 1 + chance.below(4);
                    let offset = chance.below(16 - strips) * STRIP;
                    let words = (number << 32 | step).to_le_bytes().repeat(strips * STRIP / 8);
                    block_on(user.write_at(&file, offset as u64, &words, false)).unwrap();
                }
                block_on(user.close(file)).unwrap();
            });
        }
    });
    for (at, strip) in content(&third, &open(&third, "f")).chunks(STRIP).enumerate() {
        let mut words: Vec<&[u8]> = strip.chunks(8).collect();
        words.dedup();
        assert_eq!(words.len(), 1, "strip {at}");
    }
}

/// One writes the even cells by loan, the other all odd ones at once again and again: an iod reads what is between
/// them and writes it back.
#[test]
fn a_list_of_pieces_leaves_alone_what_is_written_by_loan_between_them() {
    const CELL: usize = 64;
    const CELLS: usize = 1024;
    let cluster = TestCluster::start(1);
    let (lent, by_loan) = borrowing_writer(&cluster, "f", 16);
    let asking = cluster.user_with(|options| options.borrows = false);
    let by_message = open(&asking, "f");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let odd = |at: usize| Region { offset: ((2 * at + 1) * CELL) as u64, len: CELL as u64 };
            let regions: Vec<Region> = (0..CELLS / 2).map(odd).collect();
            while !is_done.load(SeqCst) {
                let bytes = vec![255; CELL * CELLS / 2];
                block_on(asking.writex(&by_message, &[&bytes], &regions, false)).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut chance = Chance::new(7);
        for round in 0..30_000u64 {
            let cell = 2 * chance.below(CELLS / 2) * CELL;
            block_on(lent.write_at(&by_loan, cell as u64, &round.to_le_bytes(), false)).unwrap();
            let mut seen = [0; 8];
            block_on(lent.read_at(&by_loan, cell as u64, &mut seen)).unwrap();
            assert_eq!(u64::from_le_bytes(seen), round, "cell {cell}");
        }
        is_done.store(true, SeqCst);
    });
}
