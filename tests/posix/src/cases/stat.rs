//! stat(2) and its relatives, statx(2), statvfs(3).

use crate::sys::*;
use crate::wants::*;

cases! { "stat"
    any [
        every_kind_is_told_apart,
        stat_follows_and_lstat_does_not,
        a_descriptor_tells_the_same_as_the_name,
        the_size_of_a_file_being_written_is_seen_at_once,
        inode_numbers_are_each_files_own,
        statx_tells_the_birth_time,
        statvfs_tells_space_and_the_longest_name,
        blocks_count_what_is_written,
        the_root_of_the_working_directory_is_found_by_dot_dot,
    ]
    root [access_tells_what_the_user_may]
}

fn every_kind_is_told_apart() {
    for name in one_of_each() {
        let expected = match name {
            "regular" => S_IFREG,
            "directory" => S_IFDIR,
            "symlink" => S_IFLNK,
            "fifo" => S_IFIFO,
            "socket" => S_IFSOCK,
            "char" => S_IFCHR,
            _ => S_IFBLK,
        };
        assert_eq!(kind(name), expected, "{name}");
    }
}

fn stat_follows_and_lstat_does_not() {
    drop(file("f", b"xyz"));
    symlink("f", "s").unwrap();
    assert_eq!(stat("s").unwrap().st_ino, lstat("f").unwrap().st_ino);
    assert_eq!(lstat("s").unwrap().st_mode & S_IFMT, S_IFLNK);
    symlink("absent", "dangling").unwrap();
    fails(stat("dangling"), Errno::ENOENT);
    lstat("dangling").unwrap();
}

fn a_descriptor_tells_the_same_as_the_name() {
    let open_file = file("f", b"xyz");
    let (by_name, by_file) = (stat("f").unwrap(), fstat(&open_file).unwrap());
    assert_eq!((by_name.st_ino, by_name.st_dev), (by_file.st_ino, by_file.st_dev));
    assert_eq!((by_name.st_size, by_name.st_mode), (by_file.st_size, by_file.st_mode));
    assert_eq!(by_name.st_mtime_nsec, by_file.st_mtime_nsec);
}

fn the_size_of_a_file_being_written_is_seen_at_once() {
    let open_file = file("f", b"");
    for count in 1..=20 {
        write(&open_file, &[1; 10_000]).unwrap();
        assert_eq!(
            (size("f"), fstat(&open_file).unwrap().st_size),
            (count * 10_000, count * 10_000)
        );
    }
}

fn inode_numbers_are_each_files_own() {
    let made: Vec<u64> = (0..100)
        .map(|index| {
            let name = format!("f{index}");
            fstat(&file(&name, b"")).unwrap().st_ino
        })
        .collect();
    let different: std::collections::HashSet<_> = made.iter().collect();
    assert_eq!(different.len(), 100);
}

fn statx_tells_the_birth_time() {
    drop(file("f", b"x"));
    moment();
    chmod("f", 0o600).unwrap();
    drop(file("f", b"y"));
    let stat = statx("f").unwrap();
    assert!(stat.stx_mask & libc::STATX_BTIME != 0, "no birth time");
    let born = (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec);
    assert!(born < (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec));
    assert!(born.0 > 1_700_000_000);
}

fn statvfs_tells_space_and_the_longest_name() {
    let told = statvfs(".").unwrap();
    assert!(told.f_blocks > 0 && told.f_bavail > 0 && told.f_bavail <= told.f_blocks);
    assert_eq!(told.f_namemax, 255);
    assert_eq!(pathconf(".", libc::_PC_NAME_MAX), 255);
    assert!(pathconf(".", libc::_PC_PATH_MAX) >= 4096);
}

fn blocks_count_what_is_written() {
    let open_file = file("f", &[1; 1 << 20]);
    fsync(&open_file).unwrap();
    let blocks = fstat(&open_file).unwrap().st_blocks * 512;
    assert!((1 << 20..2 << 20).contains(&blocks), "{blocks}");
}

fn the_root_of_the_working_directory_is_found_by_dot_dot() {
    mkdir("d", 0o755).unwrap();
    let above = getcwd().unwrap();
    chdir("d").unwrap();
    assert_eq!(getcwd().unwrap(), format!("{above}/d"));
    assert_eq!(lstat("..").unwrap().st_ino, lstat(&above).unwrap().st_ino);
}

fn access_tells_what_the_user_may() {
    drop(file("f", b""));
    chmod("f", 0o754).unwrap();
    chown("f", OTHER, GROUP).unwrap();
    as_user(OTHER, &[], || access("f", libc::R_OK | libc::W_OK | libc::X_OK).unwrap());
    as_user(NOBODY, &[GROUP], || {
        access("f", libc::R_OK | libc::X_OK).unwrap();
        fails(access("f", libc::W_OK), Errno::EACCES);
    });
    as_nobody(|| {
        access("f", libc::F_OK).unwrap();
        access("f", libc::R_OK).unwrap();
        fails(access("f", libc::X_OK), Errno::EACCES);
    });
    chmod("f", 0o600).unwrap();
    fails(access("f", libc::X_OK), Errno::EACCES);
    access("f", libc::R_OK | libc::W_OK).unwrap();
}
