//! truncate(2), ftruncate(2).

use crate::sys::*;
use crate::wants::*;

cases! { "truncate"
    any [
        cuts_and_extends,
        what_was_cut_never_comes_back,
        changes_the_times_even_when_the_size_stays,
        works_through_a_descriptor_and_on_a_removed_file,
        directories_and_special_files_are_refused,
        a_negative_size_is_refused,
        sizes_beyond_four_gibibytes_work,
        a_size_no_file_can_have_is_refused,
        leaves_the_position_of_descriptors,
        follows_symlinks,
    ]
    root [
        needs_write_permission,
        an_open_descriptor_stands_for_the_permission,
        takes_setuid_from_the_file_of_a_user,
    ]
}

fn cuts_and_extends() {
    let data = pattern(200_000, 1);
    drop(file("f", &data));
    for bytes in [150_000, 65_537, 65_536, 65_535, 1, 0] {
        truncate("f", bytes).unwrap();
        assert_eq!(size("f"), bytes);
        assert!(content("f") == data[..bytes as usize], "{bytes}");
    }
    truncate("f", 300_000).unwrap();
    assert!(content("f") == vec![0; 300_000]);
}

fn what_was_cut_never_comes_back() {
    let data = vec![7; 400_000];
    for cut in [0, 1, 4095, 4096, 65_000, 65_536, 131_073, 399_999] {
        let file = file("f", &data);
        ftruncate(&file, cut).unwrap();
        ftruncate(&file, 400_000).unwrap();
        let after = content("f");
        assert!(after[..cut as usize].iter().all(|byte| *byte == 7), "{cut}");
        assert!(after[cut as usize..].iter().all(|byte| *byte == 0), "{cut}");
    }
}

fn changes_the_times_even_when_the_size_stays() {
    drop(file("f", b"four"));
    for bytes in [2, 4] {
        let before = mtime("f");
        changes_ctime("f", || truncate("f", bytes).unwrap());
        assert!(mtime("f") > before, "{bytes}");
    }
}

fn works_through_a_descriptor_and_on_a_removed_file() {
    let open = file("f", b"something");
    unlink("f").unwrap();
    ftruncate(&open, 4).unwrap();
    assert_eq!(fstat(&open).unwrap().st_size, 4);
    assert_eq!(pread(&open, 10, 0).unwrap(), b"some");
}

fn directories_and_special_files_are_refused() {
    mkdir("d", 0o755).unwrap();
    fails(truncate("d", 0), Errno::EISDIR);
    mkfifo("p", 0o644).unwrap();
    fails(truncate("p", 0), Errno::EINVAL);
    fails(truncate("absent", 0), Errno::ENOENT);
}

fn a_negative_size_is_refused() {
    let open = file("f", b"x");
    fails(truncate("f", -1), Errno::EINVAL);
    fails(ftruncate(&open, -1), Errno::EINVAL);
}

fn sizes_beyond_four_gibibytes_work() {
    let open = file("f", b"x");
    let large = (5 << 30) + 3;
    ftruncate(&open, large).unwrap();
    assert_eq!(size("f"), large);
    assert_eq!(pwrite(&open, b"end", large - 3), Ok(3));
    assert_eq!(pread(&open, 10, large - 4).unwrap(), b"\0end");
}

fn a_size_no_file_can_have_is_refused() {
    drop(file("f", b"x"));
    fails_with_any(truncate("f", i64::MAX), &[Errno::EFBIG, Errno::EINVAL]);
    assert_eq!(size("f"), 1);
}

fn leaves_the_position_of_descriptors() {
    let open = file("f", b"0123456789");
    ftruncate(&open, 5).unwrap();
    assert_eq!(lseek(&open, 0, SEEK_CUR), Ok(10));
    assert_eq!(write(&open, b"x"), Ok(1));
    assert_eq!(content("f"), b"01234\0\0\0\0\0x");
}

fn follows_symlinks() {
    drop(file("f", b"xyz"));
    symlink("f", "s").unwrap();
    truncate("s", 1).unwrap();
    assert_eq!(size("f"), 1);
}

fn needs_write_permission() {
    drop(file("f", b"x"));
    as_nobody(|| fails(truncate("f", 0), Errno::EACCES));
    assert_eq!(size("f"), 1);
}

fn an_open_descriptor_stands_for_the_permission() {
    let open = file("f", b"xyz");
    chmod("f", 0o000).unwrap();
    as_nobody(|| ftruncate(&open, 1).unwrap());
    assert_eq!(size("f"), 1);
}

fn takes_setuid_from_the_file_of_a_user() {
    drop(file("f", b"x"));
    chmod("f", 0o6777).unwrap();
    as_nobody(|| truncate("f", 0).unwrap());
    assert_eq!(mode("f"), 0o777);
}
