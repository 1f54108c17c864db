//! O_APPEND: every write goes to the end, whoever else writes.

use crate::sys::*;
use crate::wants::*;

cases! { "append"
    any [
        every_write_goes_to_the_end,
        the_position_follows,
        appends_of_several_processes_are_whole,
        appends_larger_than_a_transfer_are_whole,
        a_write_by_position_appends_too,
        the_flag_can_be_set_later,
        appending_after_a_truncation_goes_to_the_new_end,
        gathered_appends_are_whole,
    ]
    root []
}

fn every_write_goes_to_the_end() {
    let log = open("f", O_WRONLY | O_CREAT | O_APPEND, 0o644).unwrap();
    let other = open("f", O_WRONLY, 0).unwrap();
    assert_eq!(write(&log, b"one"), Ok(3));
    assert_eq!(pwrite(&other, b"OTHER", 3), Ok(5));
    lseek(&log, 0, SEEK_SET).unwrap();
    assert_eq!(write(&log, b"two"), Ok(3));
    assert_eq!(content("f"), b"oneOTHERtwo");
}

fn the_position_follows() {
    drop(file("f", b"0123"));
    let log = open("f", O_RDWR | O_APPEND, 0).unwrap();
    assert_eq!(read(&log, 2).unwrap(), b"01");
    assert_eq!(write(&log, b"45"), Ok(2));
    assert_eq!(lseek(&log, 0, SEEK_CUR), Ok(6));
}

/// Several processes append records at once; each record must be one piece.
fn whole(record_bytes: usize, count: usize, append: fn(&File, u8, usize)) {
    drop(file("f", b""));
    let writers: Vec<Child> = (1..=3u8)
        .map(|byte| {
            child(move || {
                let log = open("f", O_WRONLY | O_APPEND, 0).unwrap();
                (0..count).for_each(|_| append(&log, byte, record_bytes));
            })
        })
        .collect();
    writers.into_iter().for_each(Child::succeeds);
    let all = content("f");
    assert_eq!(all.len(), 3 * count * record_bytes);
    for record in all.chunks(record_bytes) {
        assert!(record.iter().all(|byte| *byte == record[0] && *byte != 0), "a torn record");
    }
}

fn one_write(log: &File, byte: u8, bytes: usize) {
    assert_eq!(write(log, &vec![byte; bytes]), Ok(bytes));
}

fn appends_of_several_processes_are_whole() {
    whole(700, 100, one_write);
}

fn appends_larger_than_a_transfer_are_whole() {
    whole((3 << 20) + 17, 4, one_write);
}

fn gathered_appends_are_whole() {
    whole(999, 60, |log, byte, bytes| {
        let third = vec![byte; bytes / 3];
        assert_eq!(writev(log, &[&third, &third, &third]), Ok(bytes));
    });
}

/// As Linux does, contrary to POSIX: pwrite(2), BUGS.
fn a_write_by_position_appends_too() {
    drop(file("f", b"0123"));
    let log = open("f", O_RDWR | O_APPEND, 0).unwrap();
    assert_eq!(pwrite(&log, b"45", 0), Ok(2));
    assert_eq!(content("f"), b"012345");
}

fn the_flag_can_be_set_later() {
    let open_file = file("f", b"0123");
    lseek(&open_file, 0, SEEK_SET).unwrap();
    set_status_flags(&open_file, O_APPEND).unwrap();
    assert_eq!(write(&open_file, b"45"), Ok(2));
    assert_eq!(content("f"), b"012345");
    set_status_flags(&open_file, 0).unwrap();
    assert_eq!(pwrite(&open_file, b"x", 0), Ok(1));
    assert_eq!(content("f"), b"x12345");
}

fn appending_after_a_truncation_goes_to_the_new_end() {
    let log = open("f", O_WRONLY | O_CREAT | O_APPEND, 0o644).unwrap();
    assert_eq!(write(&log, &[1; 100_000]), Ok(100_000));
    truncate("f", 3).unwrap();
    assert_eq!(write(&log, &[2; 3]), Ok(3));
    assert_eq!(content("f"), [1, 1, 1, 2, 2, 2]);
}
