//! unlink(2), and files that are open without a name.

use crate::sys::*;
use crate::wants::*;

cases! { "unlink"
    any [
        removes_every_kind_of_file_but_directories,
        changes_the_times_of_directory_and_file,
        an_open_file_stays_whole_without_a_name,
        the_name_can_be_used_again_at_once,
        a_name_that_was_removed_is_absent,
        an_open_file_without_a_name_keeps_growing,
        a_mapped_file_stays_whole_without_a_name,
    ]
    root [
        needs_a_writable_directory_and_not_the_file,
        the_sticky_bit_protects_files_of_others,
        the_owner_of_a_sticky_directory_removes_all,
    ]
}

fn removes_every_kind_of_file_but_directories() {
    for name in one_of_each() {
        if kind(name) == S_IFDIR {
            fails_with_any(unlink(name), &[Errno::EISDIR, Errno::EPERM]);
            fails(unlinkat(&open(".", O_RDONLY, 0).unwrap(), name, 0), Errno::EISDIR);
            unlinkat(&open(".", O_RDONLY, 0).unwrap(), name, AT_REMOVEDIR).unwrap();
        } else {
            unlink(name).unwrap();
        }
        fails(lstat(name), Errno::ENOENT);
    }
}

fn changes_the_times_of_directory_and_file() {
    mkdir("d", 0o755).unwrap();
    drop(file("d/f", b""));
    link("d/f", "other").unwrap();
    let (directory, other) = (times("d"), ctime("other"));
    moment();
    unlink("d/f").unwrap();
    assert!(times("d")[1] > directory[1] && times("d")[2] > directory[2]);
    assert!(ctime("other") > other);
}

fn an_open_file_stays_whole_without_a_name() {
    let data = pattern(300_000, 9);
    let open_file = file("f", &data);
    unlink("f").unwrap();
    let stat = fstat(&open_file).unwrap();
    assert_eq!((stat.st_nlink, stat.st_size), (0, 300_000));
    assert!(pread(&open_file, 300_000, 0).unwrap() == data);
    assert_eq!(pwrite(&open_file, b"changed", 100_000), Ok(7));
    assert_eq!(pread(&open_file, 7, 100_000).unwrap(), b"changed");
    fsync(&open_file).unwrap();
}

fn the_name_can_be_used_again_at_once() {
    let old = file("f", b"old");
    unlink("f").unwrap();
    let new = file("f", b"new");
    assert_ne!(fstat(&old).unwrap().st_ino, fstat(&new).unwrap().st_ino);
    assert_eq!((pread(&old, 3, 0).unwrap(), content("f")), (b"old".to_vec(), b"new".to_vec()));
}

fn a_name_that_was_removed_is_absent() {
    drop(file("f", b""));
    unlink("f").unwrap();
    fails(unlink("f"), Errno::ENOENT);
    fails(open("f", O_RDONLY, 0), Errno::ENOENT);
    fails(chmod("f", 0o600), Errno::ENOENT);
    fails(truncate("f", 0), Errno::ENOENT);
    fails(rename("f", "g"), Errno::ENOENT);
}

fn an_open_file_without_a_name_keeps_growing() {
    let open_file = file("f", b"");
    unlink("f").unwrap();
    let data = pattern(100_000, 2);
    for _ in 0..10 {
        assert_eq!(write(&open_file, &data), Ok(data.len()));
    }
    assert_eq!(fstat(&open_file).unwrap().st_size, 1_000_000);
    assert!(pread(&open_file, 100_000, 900_000).unwrap() == data);
}

fn a_mapped_file_stays_whole_without_a_name() {
    let open_file = file("f", &pattern(100_000, 3));
    let map = Map::shared(&open_file, 100_000).unwrap();
    drop(open_file);
    unlink("f").unwrap();
    assert!(map.get(0, 100_000) == pattern(100_000, 3));
    map.set(50_000, b"changed");
    map.sync().unwrap();
    assert_eq!(map.get(50_000, 7), b"changed");
}

fn needs_a_writable_directory_and_not_the_file() {
    mkdir("d", 0o755).unwrap();
    drop(file("d/f", b""));
    chown("d/f", NOBODY, NOBODY).unwrap();
    as_nobody(|| fails(unlink("d/f"), Errno::EACCES));
    chown("d/f", 0, 0).unwrap();
    chmod("d/f", 0o000).unwrap();
    chmod("d", 0o777).unwrap();
    as_nobody(|| unlink("d/f").unwrap());
}

fn the_sticky_bit_protects_files_of_others() {
    open_directory("d");
    chmod("d", 0o1777).unwrap();
    drop(file("d/f", b""));
    chmod("d/f", 0o666).unwrap();
    as_nobody(|| {
        fails(unlink("d/f"), Errno::EPERM);
        drop(file("d/mine", b""));
        unlink("d/mine").unwrap();
    });
}

fn the_owner_of_a_sticky_directory_removes_all() {
    open_directory("d");
    drop(file("d/f", b""));
    chown("d", NOBODY, NOBODY).unwrap();
    chmod("d", 0o1755).unwrap();
    as_nobody(|| unlink("d/f").unwrap());
}
