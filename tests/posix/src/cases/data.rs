//! read(2), write(2) and their relatives.

use crate::sys::*;
use crate::wants::*;

cases! { "data"
    any [
        what_is_written_is_read,
        positions_move_with_reads_and_writes,
        holes_read_as_zeros,
        reads_end_with_the_file,
        large_and_odd_transfers_come_out_whole,
        gathered_writes_are_one,
        asynchronous_transfers_move_the_bytes_of_the_file,
        a_duplicate_shares_the_position,
        children_share_the_position,
        seeks_go_where_they_say,
        a_fifo_has_no_position,
        a_write_beyond_the_largest_offset_is_efbig,
        sendfile_sends_a_part,
        a_done_write_is_seen_by_another_process,
        bytes_of_two_writers_do_not_disturb_each_other,
        fsync_and_fdatasync_work_on_files_and_directories,
        a_write_while_reading_elsewhere_keeps_pages_apart,
    ]
    root []
}

fn what_is_written_is_read() {
    let open_file = file("f", b"");
    for (seed, bytes) in [(1, 1), (2, 4096), (3, 65_536), (4, 65_537), (5, 1_000_003)] {
        let data = pattern(bytes, seed);
        assert_eq!(pwrite(&open_file, &data, 0), Ok(bytes));
        assert!(pread(&open_file, bytes, 0).unwrap() == data, "{bytes}");
        assert!(content("f") == data, "{bytes}");
    }
}

fn positions_move_with_reads_and_writes() {
    let open_file = file("f", b"0123456789");
    assert_eq!(lseek(&open_file, 3, SEEK_SET), Ok(3));
    assert_eq!(read(&open_file, 2).unwrap(), b"34");
    assert_eq!(write(&open_file, b"xx"), Ok(2));
    assert_eq!(lseek(&open_file, 0, SEEK_CUR), Ok(7));
    assert_eq!(pread(&open_file, 3, 0).unwrap(), b"012");
    assert_eq!(pwrite(&open_file, b"y", 9), Ok(1));
    assert_eq!(read(&open_file, 10).unwrap(), b"78y");
    assert_eq!(read(&open_file, 10).unwrap(), b"");
    assert_eq!(content("f"), b"01234xx78y");
}

fn holes_read_as_zeros() {
    let open_file = file("f", b"begin");
    assert_eq!(pwrite(&open_file, b"end", 1_000_000), Ok(3));
    let all = content("f");
    assert_eq!((all.len(), &all[..5], &all[1_000_000..]), (1_000_003, &b"begin"[..], &b"end"[..]));
    assert!(all[5..1_000_000].iter().all(|byte| *byte == 0));
}

fn reads_end_with_the_file() {
    let open_file = file("f", &pattern(100_000, 1));
    assert_eq!(pread(&open_file, 1000, 99_990).unwrap().len(), 10);
    assert_eq!(pread(&open_file, 1000, 100_000).unwrap().len(), 0);
    assert_eq!(pread(&open_file, 1000, 1 << 40).unwrap().len(), 0);
    assert_eq!(read(&open_file, 0).unwrap().len(), 0);
}

fn large_and_odd_transfers_come_out_whole() {
    let open_file = file("f", b"");
    let data = pattern(5_000_001, 8);
    assert_eq!(pwrite(&open_file, &data, 12_345), Ok(data.len()));
    assert!(pread(&open_file, data.len(), 12_345).unwrap() == data);
    assert!(content("f")[12_345..] == data);
    // Piece by piece, in pieces that fit nothing.
    for (index, piece) in data.chunks(77_777).enumerate() {
        assert_eq!(pwrite(&open_file, piece, (index * 77_777) as i64), Ok(piece.len()));
    }
    assert!(content("f")[..data.len()] == data);
}

fn asynchronous_transfers_move_the_bytes_of_the_file() {
    let open_file = file("f", b"");
    let data = pattern(300_000, 5);
    assert_eq!(aio_write(&open_file, &data, 0), Ok(data.len()));
    assert!(content("f") == data);
    assert!(aio_read(&open_file, 100_000, 65_000).unwrap() == data[65_000..165_000]);
    assert_eq!(aio_read(&open_file, 1000, 299_990).unwrap().len(), 10);
    assert_eq!(lseek(&open_file, 0, SEEK_CUR), Ok(0), "the position stays");
    assert_eq!(aio_write_two(&open_file, [(b"one", 10), (b"two", 300_000)]), Ok([3, 3]));
    assert_eq!((pread(&open_file, 3, 10), content("f").len()), (Ok(b"one".to_vec()), 300_003));
    let read_only = open("f", O_RDONLY, 0).unwrap();
    assert_eq!(aio_write(&read_only, b"x", 0), Err(Errno::EBADF));
}

fn gathered_writes_are_one() {
    let open_file = file("f", b"");
    let pieces: Vec<Vec<u8>> = (0..20).map(|index| pattern(index * 997, index as u64)).collect();
    let borrowed: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    let all = pieces.concat();
    assert_eq!(writev(&open_file, &borrowed), Ok(all.len()));
    assert!(content("f") == all);
}

fn a_duplicate_shares_the_position() {
    let open_file = file("f", b"0123456789");
    let duplicate = dup(&open_file).unwrap();
    lseek(&open_file, 2, SEEK_SET).unwrap();
    assert_eq!(read(&duplicate, 3).unwrap(), b"234");
    assert_eq!(read(&open_file, 3).unwrap(), b"567");
    let other = open("f", O_RDONLY, 0).unwrap();
    assert_eq!(read(&other, 1).unwrap(), b"0");
}

fn children_share_the_position() {
    let open_file = file("f", b"");
    for index in 0..10u8 {
        child(|| assert_eq!(write(&open_file, &[index]), Ok(1))).succeeds();
    }
    assert_eq!(content("f"), (0..10).collect::<Vec<u8>>());
    assert_eq!(lseek(&open_file, 0, SEEK_CUR), Ok(10));
}

fn seeks_go_where_they_say() {
    let open_file = file("f", b"0123456789");
    assert_eq!(lseek(&open_file, -3, SEEK_END), Ok(7));
    assert_eq!(lseek(&open_file, 100, SEEK_CUR), Ok(107));
    fails(lseek(&open_file, -1, SEEK_SET), Errno::EINVAL);
    fails(lseek(&open_file, 0, 99), Errno::EINVAL);
    assert_eq!(lseek(&open_file, 0, SEEK_CUR), Ok(107));
}

fn a_fifo_has_no_position() {
    mkfifo("p", 0o644).unwrap();
    fails(lseek(&open("p", O_RDONLY | O_NONBLOCK, 0).unwrap(), 0, SEEK_SET), Errno::ESPIPE);
}

fn a_write_beyond_the_largest_offset_is_efbig() {
    let open_file = file("f", b"");
    fails_with_any(pwrite(&open_file, b"xy", i64::MAX - 1), &[Errno::EFBIG, Errno::EINVAL]);
    fails(pwrite(&open_file, b"xy", -1), Errno::EINVAL);
    assert_eq!(size("f"), 0);
}

fn sendfile_sends_a_part() {
    let data = pattern(500_000, 1);
    let source = file("f", &data);
    let target = file("g", b"");
    let mut sent = 0;
    while sent < 300_000 {
        sent += sendfile((&source, (100_000 + sent) as i64), &target, 300_000 - sent).unwrap();
    }
    assert!(content("g") == data[100_000..400_000]);
}

fn a_done_write_is_seen_by_another_process() {
    let reader = file("f", b"");
    for round in 0..20u8 {
        child(|| {
            let writer = open("f", O_WRONLY, 0).unwrap();
            assert_eq!(pwrite(&writer, &[round; 5000], i64::from(round) * 5000), Ok(5000));
        })
        .succeeds();
        let seen = pread(&reader, 5000, i64::from(round) * 5000).unwrap();
        assert!(seen == [round; 5000], "round {round}: {} bytes", seen.len());
    }
}

fn bytes_of_two_writers_do_not_disturb_each_other() {
    drop(file("f", b""));
    let write_every = |first: i64| {
        move || {
            let mine = open("f", O_WRONLY, 0).unwrap();
            (0..400).for_each(|index| {
                assert_eq!(pwrite(&mine, &[first as u8 + 1], index * 2 + first), Ok(1));
            });
        }
    };
    let other = child(write_every(1));
    write_every(0)();
    other.succeeds();
    let all = content("f");
    assert_eq!(all.len(), 800);
    assert!(all.chunks(2).all(|pair| pair == [1, 2]));
}

fn fsync_and_fdatasync_work_on_files_and_directories() {
    let open_file = file("f", b"x");
    fsync(&open_file).unwrap();
    fdatasync(&open_file).unwrap();
    let reader = open("f", O_RDONLY, 0).unwrap();
    fsync(&reader).unwrap();
    mkdir("d", 0o755).unwrap();
    fsync(&open("d", O_RDONLY, 0).unwrap()).unwrap();
    let path = open("f", O_PATH, 0).unwrap();
    fails(fsync(&path), Errno::EBADF);
}

fn a_write_while_reading_elsewhere_keeps_pages_apart() {
    let open_file = file("f", &[0; 200_000]);
    for offset in (0..200_000).step_by(1111) {
        assert_eq!(pwrite(&open_file, &[9; 11], offset), Ok(11));
        assert_eq!(pread(&open_file, 11, offset).unwrap(), [9; 11]);
    }
    let all = content("f");
    for (offset, byte) in all.iter().enumerate().take(199_000) {
        assert_eq!(*byte, if offset % 1111 < 11 { 9 } else { 0 }, "byte {offset}");
    }
}
