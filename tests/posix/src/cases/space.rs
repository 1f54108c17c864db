//! fallocate(2), posix_fallocate(3), SEEK_DATA and SEEK_HOLE.

use crate::sys::*;
use crate::wants::*;

cases! { "space"
    any [
        preallocation_extends_with_zeros,
        preallocation_within_the_file_changes_no_byte,
        preallocation_can_keep_the_size,
        preallocation_takes_space,
        a_hole_takes_none,
        a_file_that_was_extended_by_name_takes_no_more,
        what_is_skipped_takes_nothing_until_it_is_written,
        preallocation_beyond_the_end_takes_space,
        punching_leaves_zeros_and_the_size,
        punching_gives_space_back,
        punching_beyond_the_end_changes_nothing,
        zeroing_leaves_zeros_and_may_extend,
        punching_needs_keep_size,
        collapsing_is_refused_or_done,
        a_read_only_descriptor_cannot_allocate,
        ranges_that_make_no_sense_are_refused,
        allocation_changes_the_times,
        data_and_holes_are_found,
        a_file_without_holes_is_data_to_its_end,
        a_hole_of_a_whole_file_is_found,
        seeking_beyond_the_end_is_enxio,
        a_punched_hole_is_found,
        the_data_in_between_survive_a_copy_by_data_and_holes,
    ]
    root []
}

const KEEP: i32 = FALLOC_FL_KEEP_SIZE;
const PUNCH: i32 = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
const ZERO: i32 = FALLOC_FL_ZERO_RANGE;
const MIB: i64 = 1 << 20;

fn preallocation_extends_with_zeros() {
    let open_file = file("f", b"begin");
    fallocate(&open_file, 0, 100_000, 200_000).unwrap();
    assert_eq!(size("f"), 300_000);
    let all = content("f");
    assert!(&all[..5] == b"begin" && all[5..].iter().all(|byte| *byte == 0));
    posix_fallocate(&open_file, 0, 400_000).unwrap();
    assert_eq!(size("f"), 400_000);
}

fn preallocation_within_the_file_changes_no_byte() {
    let data = pattern(500_000, 3);
    let open_file = file("f", &data);
    fallocate(&open_file, 0, 0, 500_000).unwrap();
    fallocate(&open_file, 0, 77_777, 100_000).unwrap();
    assert!(content("f") == data);
}

fn preallocation_can_keep_the_size() {
    let open_file = file("f", b"short");
    fallocate(&open_file, KEEP, 0, MIB).unwrap();
    assert_eq!((size("f"), content("f")), (5, b"short".to_vec()));
    // What lies there already is never seen.
    assert_eq!(pwrite(&open_file, b"x", 700_000), Ok(1));
    assert!(content("f")[5..700_000].iter().all(|byte| *byte == 0));
}

fn preallocation_takes_space() {
    let open_file = file("f", b"");
    fallocate(&open_file, 0, 0, 8 * MIB).unwrap();
    let taken = fstat(&open_file).unwrap().st_blocks * 512;
    assert!(taken >= 8 * MIB, "{taken}");
}

fn a_hole_takes_none() {
    let open_file = file("f", b"x");
    ftruncate(&open_file, 5 << 30).unwrap();
    drop(open_file);
    assert!(lstat("f").unwrap().st_blocks * 512 < MIB);
}

fn a_file_that_was_extended_by_name_takes_no_more() {
    drop(file("f", &[1; 1000]));
    truncate("f", 5 << 30).unwrap();
    let stat = lstat("f").unwrap();
    assert!(stat.st_size == 5 << 30 && stat.st_blocks * 512 < MIB, "{}", stat.st_blocks);
}

fn what_is_skipped_takes_nothing_until_it_is_written() {
    let open_file = file("f", b"begin");
    pwrite(&open_file, b"end", 12 * MIB).unwrap();
    drop(open_file);
    let sparse = lstat("f").unwrap().st_blocks * 512;
    assert!((1..MIB).contains(&sparse), "{sparse}");
    let open_file = open("f", O_WRONLY, 0).unwrap();
    pwrite(&open_file, &vec![1; 12 << 20], 0).unwrap();
    drop(open_file);
    let filled = lstat("f").unwrap().st_blocks * 512;
    assert!((12 * MIB..14 * MIB).contains(&filled), "{filled}");
}

fn preallocation_beyond_the_end_takes_space() {
    let open_file = file("f", b"short");
    fallocate(&open_file, KEEP, 0, 8 * MIB).unwrap();
    let open_blocks = fstat(&open_file).unwrap().st_blocks;
    drop(open_file);
    let stat = lstat("f").unwrap();
    assert!(stat.st_size == 5 && stat.st_blocks * 512 >= 8 * MIB, "{}", stat.st_blocks);
    assert_eq!(stat.st_blocks, open_blocks);
}

fn punching_leaves_zeros_and_the_size() {
    let data = pattern(1_000_000, 4);
    for (offset, bytes) in [
        (0, 10),
        (100_000, 300_000),
        (65_536, 65_536),
        (65_535, 2),
        (999_000, 5000),
        (0, 1_000_000),
    ] {
        let open_file = file("f", &data);
        fallocate(&open_file, PUNCH, offset, bytes).unwrap();
        let mut expected = data.clone();
        let end = (offset + bytes).min(1_000_000) as usize;
        expected[offset as usize..end].fill(0);
        assert_eq!(size("f"), 1_000_000);
        assert!(content("f") == expected, "{offset} {bytes}");
        assert!(pread(&open_file, 1_000_000, 0).unwrap() == expected, "{offset} {bytes}");
    }
}

fn punching_gives_space_back() {
    let open_file = file("f", &vec![1; 8 << 20]);
    fsync(&open_file).unwrap();
    let before = fstat(&open_file).unwrap().st_blocks;
    fallocate(&open_file, PUNCH, 0, 7 * MIB).unwrap();
    fsync(&open_file).unwrap();
    let after = fstat(&open_file).unwrap().st_blocks;
    assert!(after * 512 <= 2 * MIB, "{before} {after}");
}

fn punching_beyond_the_end_changes_nothing() {
    let open_file = file("f", b"short");
    fallocate(&open_file, PUNCH, 100, MIB).unwrap();
    assert_eq!(content("f"), b"short");
}

fn zeroing_leaves_zeros_and_may_extend() {
    let data = pattern(300_000, 5);
    let open_file = file("f", &data);
    fallocate(&open_file, ZERO | KEEP, 200_000, 200_000).unwrap();
    assert_eq!(size("f"), 300_000);
    let mut expected = data;
    expected[200_000..].fill(0);
    assert!(content("f") == expected);
    fallocate(&open_file, ZERO, 100_000, 400_000).unwrap();
    expected.resize(500_000, 0);
    expected[100_000..].fill(0);
    assert!(content("f") == expected);
}

fn punching_needs_keep_size() {
    let open_file = file("f", b"x");
    fails_with_any(
        fallocate(&open_file, FALLOC_FL_PUNCH_HOLE, 0, 10),
        &[Errno::EOPNOTSUPP, Errno::EINVAL],
    );
}

fn collapsing_is_refused_or_done() {
    let data = pattern(3 << 20, 6);
    let open_file = file("f", &data);
    match fallocate(&open_file, FALLOC_FL_COLLAPSE_RANGE, MIB, MIB) {
        Ok(()) => assert!(content("f") == [&data[..1 << 20], &data[2 << 20..]].concat()),
        Err(errno) => assert!(errno == Errno::EOPNOTSUPP && content("f") == data, "{errno}"),
    }
}

fn a_read_only_descriptor_cannot_allocate() {
    drop(file("f", b"x"));
    let reader = open("f", O_RDONLY, 0).unwrap();
    fails(fallocate(&reader, 0, 0, 10), Errno::EBADF);
    fails(fallocate(&reader, PUNCH, 0, 10), Errno::EBADF);
}

fn ranges_that_make_no_sense_are_refused() {
    let open_file = file("f", b"x");
    fails(fallocate(&open_file, 0, -1, 10), Errno::EINVAL);
    fails(fallocate(&open_file, 0, 0, 0), Errno::EINVAL);
    fails(fallocate(&open_file, 0, 0, -5), Errno::EINVAL);
    fails_with_any(fallocate(&open_file, 0, i64::MAX - 5, 5), &[Errno::EFBIG, Errno::EINVAL]);
    let directory = open(".", O_RDONLY, 0).unwrap();
    fails_with_any(fallocate(&directory, 0, 0, 10), &[Errno::EBADF, Errno::EISDIR, Errno::ENODEV]);
}

fn allocation_changes_the_times() {
    let open_file = file("f", &[1; 100_000]);
    for (flags, offset, bytes) in [(PUNCH, 0, 50_000), (0, 0, 200_000), (ZERO, 60_000, 10_000)] {
        let before = times("f");
        moment();
        fallocate(&open_file, flags, offset, bytes).unwrap();
        let after = times("f");
        assert!(after[1] > before[1] && after[2] > before[2], "{flags}: {before:?} {after:?}");
    }
}

/// Where data begin and end, from the start of the file to its end.
fn parts(open_file: &File) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        match lseek(open_file, at, SEEK_DATA) {
            Ok(start) => {
                let end = lseek(open_file, start, SEEK_HOLE).unwrap();
                assert!(end > start && start >= at, "{at} {start} {end}");
                found.push((start, end));
                at = end;
            }
            Err(errno) => {
                assert_eq!(errno, Errno::ENXIO);
                return found;
            }
        }
    }
}

/// Data may be told to be more than there are, by blocks, but never less, and a hole of many megabytes is
/// expected to be seen.
fn data_and_holes_are_found() {
    let open_file = file("f", b"");
    let places = [0, 16 * MIB, 40 * MIB];
    for place in places {
        assert_eq!(pwrite(&open_file, &[1; 100_000], place), Ok(100_000));
    }
    ftruncate(&open_file, 64 * MIB).unwrap();
    let found = parts(&open_file);
    assert!(found.len() >= 3, "{found:?}");
    for place in places {
        assert!(covered(&found, place, place + 100_000), "{found:?}");
    }
    for hole in [8 * MIB, 30 * MIB, 60 * MIB] {
        assert!(!found.iter().any(|(start, end)| (*start..*end).contains(&hole)), "{found:?}");
    }
    assert_eq!(lseek(&open_file, 5, SEEK_DATA), Ok(5));
    assert_eq!(lseek(&open_file, 50 * MIB, SEEK_HOLE), Ok(50 * MIB));
    assert_eq!(lseek(&open_file, 0, SEEK_CUR), Ok(50 * MIB), "the position follows");
}

/// Whether every byte of the range is in some part, which may be cut up.
fn covered(parts: &[(i64, i64)], start: i64, end: i64) -> bool {
    let mut at = start;
    for (from, to) in parts {
        if (*from..*to).contains(&at) {
            at = *to;
        }
    }
    at >= end
}

fn a_file_without_holes_is_data_to_its_end() {
    let open_file = file("f", &[1; 1_000_000]);
    assert_eq!(lseek(&open_file, 0, SEEK_DATA), Ok(0));
    assert_eq!(lseek(&open_file, 0, SEEK_HOLE), Ok(1_000_000));
    assert_eq!(lseek(&open_file, 999_999, SEEK_DATA), Ok(999_999));
    assert_eq!(lseek(&open_file, 999_999, SEEK_HOLE), Ok(1_000_000));
}

fn a_hole_of_a_whole_file_is_found() {
    let open_file = file("f", b"");
    ftruncate(&open_file, 10 * MIB).unwrap();
    fails(lseek(&open_file, 0, SEEK_DATA), Errno::ENXIO);
    assert_eq!(lseek(&open_file, 0, SEEK_HOLE), Ok(0));
    assert_eq!(lseek(&open_file, 12_345, SEEK_HOLE), Ok(12_345));
}

fn seeking_beyond_the_end_is_enxio() {
    let open_file = file("f", b"12345");
    for whence in [SEEK_DATA, SEEK_HOLE] {
        fails(lseek(&open_file, 5, whence), Errno::ENXIO);
        fails(lseek(&open_file, 500, whence), Errno::ENXIO);
        fails(lseek(&open_file, -1, whence), Errno::ENXIO);
    }
}

fn a_punched_hole_is_found() {
    let open_file = file("f", &vec![1; 16 << 20]);
    fallocate(&open_file, PUNCH, 4 * MIB, 8 * MIB).unwrap();
    assert_eq!(lseek(&open_file, 0, SEEK_HOLE), Ok(4 * MIB));
    assert_eq!(lseek(&open_file, 5 * MIB, SEEK_DATA), Ok(12 * MIB));
}

fn the_data_in_between_survive_a_copy_by_data_and_holes() {
    let open_file = file("f", b"");
    for index in 0..20i64 {
        let data = pattern(30_000 + index as usize * 1000, index as u64);
        pwrite(&open_file, &data, index * 555_555).unwrap();
    }
    ftruncate(&open_file, 12_000_000).unwrap();
    let copy = file("g", b"");
    for (start, end) in parts(&open_file) {
        let data = pread(&open_file, (end - start) as usize, start).unwrap();
        pwrite(&copy, &data, start).unwrap();
    }
    ftruncate(&copy, 12_000_000).unwrap();
    assert!(content("f") == content("g"));
}
