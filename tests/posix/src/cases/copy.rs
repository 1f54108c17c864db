//! copy_file_range(2).

use crate::sys::*;
use crate::wants::*;

cases! { "copy"
    any [
        a_whole_file_is_copied,
        parts_go_where_they_are_told,
        within_one_file,
        overlapping_ranges_of_one_file_are_refused,
        stops_at_the_end_of_the_source,
        holes_are_copied_as_zeros,
        over_old_data,
        descriptors_must_allow_it,
        changes_the_times_of_the_target,
        needs_regular_files,
        needs_no_fifo,
    ]
    root []
}

/// Copies all of a range, in as many calls as it takes.
fn copy_all(from: (&File, i64), to: (&File, i64), bytes: usize) -> usize {
    let mut done = 0;
    while done < bytes {
        let at = done as i64;
        let copied = copy_file_range((from.0, from.1 + at), (to.0, to.1 + at), bytes - done);
        match copied.unwrap() {
            0 => break,
            more => done += more,
        }
    }
    done
}

fn a_whole_file_is_copied() {
    let data = pattern(3_333_333, 1);
    let (source, target) = (file("f", &data), file("g", b""));
    assert_eq!(copy_all((&source, 0), (&target, 0), data.len()), data.len());
    assert!(content("g") == data);
    assert_eq!(size("g"), 3_333_333);
}

fn parts_go_where_they_are_told() {
    let data = pattern(1_000_000, 2);
    for (from, to, bytes) in [
        (0, 0, 1),
        (1, 0, 65_536),
        (0, 1, 65_536),
        (65_536, 65_536, 65_536),
        (65_536, 0, 200_000),
        (262_144, 524_288, 300_001),
        (123_456, 654_321, 345_678),
    ] {
        let (source, target) = (file("f", &data), file("g", b""));
        assert_eq!(copy_all((&source, from), (&target, to), bytes), bytes);
        let mut expected = vec![0; to as usize];
        expected.extend(&data[from as usize..from as usize + bytes]);
        assert!(content("g") == expected, "{from} {to} {bytes}");
    }
}

fn within_one_file() {
    let data = pattern(600_000, 3);
    let open_file = file("f", &data);
    assert_eq!(copy_all((&open_file, 0), (&open_file, 400_000), 300_000), 300_000);
    let expected = [&data[..400_000], &data[..300_000]].concat();
    assert!(content("f") == expected);
}

fn overlapping_ranges_of_one_file_are_refused() {
    let open_file = file("f", &[1; 1000]);
    fails(copy_file_range((&open_file, 0), (&open_file, 500), 600), Errno::EINVAL);
    fails(copy_file_range((&open_file, 100), (&open_file, 0), 600), Errno::EINVAL);
}

fn stops_at_the_end_of_the_source() {
    let (source, target) = (file("f", &[1; 1000]), file("g", b""));
    assert_eq!(copy_all((&source, 900), (&target, 0), 5000), 100);
    assert_eq!(copy_file_range((&source, 1000), (&target, 0), 10), Ok(0));
    assert_eq!(copy_file_range((&source, 5000), (&target, 0), 10), Ok(0));
    assert_eq!(size("g"), 100);
}

fn holes_are_copied_as_zeros() {
    let (source, target) = (file("f", b""), file("g", &[7; 2_000_000]));
    pwrite(&source, b"end", 1_900_000).unwrap();
    assert_eq!(copy_all((&source, 0), (&target, 0), 1_900_003), 1_900_003);
    let all = content("g");
    assert!(all[..1_900_000].iter().all(|byte| *byte == 0));
    assert_eq!(all[1_900_000..1_900_004], *b"end\x07");
}

fn over_old_data() {
    let (source, target) = (file("f", &[1; 300_000]), file("g", &[2; 500_000]));
    assert_eq!(copy_all((&source, 0), (&target, 100_000), 300_000), 300_000);
    let expected = [vec![2; 100_000], vec![1; 300_000], vec![2; 100_000]].concat();
    assert!(content("g") == expected);
}

fn descriptors_must_allow_it() {
    drop(file("f", b"x"));
    drop(file("g", b"x"));
    let (reader, writer) = (open("f", O_RDONLY, 0).unwrap(), open("g", O_WRONLY, 0).unwrap());
    fails(copy_file_range((&writer, 0), (&writer, 10), 1), Errno::EBADF);
    fails(copy_file_range((&reader, 0), (&reader, 10), 1), Errno::EBADF);
    let log = open("g", O_WRONLY | O_APPEND, 0).unwrap();
    fails(copy_file_range((&reader, 0), (&log, 0), 1), Errno::EBADF);
    assert_eq!(copy_file_range((&reader, 0), (&writer, 0), 1), Ok(1));
}

fn changes_the_times_of_the_target() {
    let (source, target) = (file("f", &[1; 100_000]), file("g", &[1; 100_000]));
    let (before, unchanged) = (times("g"), times("f"));
    moment();
    copy_all((&source, 0), (&target, 0), 100_000);
    let after = times("g");
    assert!(after[1] > before[1] && after[2] > before[2]);
    assert_eq!(times("f")[1..], unchanged[1..]);
}

fn needs_regular_files() {
    let source = file("f", b"x");
    let directory = open(".", O_RDONLY, 0).unwrap();
    fails(copy_file_range((&directory, 0), (&source, 0), 1), Errno::EISDIR);
}

fn needs_no_fifo() {
    let source = file("f", b"x");
    mkfifo("p", 0o644).unwrap();
    let pipe = open("p", O_RDWR | O_NONBLOCK, 0).unwrap();
    fails_with_any(copy_file_range((&pipe, 0), (&source, 0), 1), &[Errno::EINVAL, Errno::ESPIPE]);
}
