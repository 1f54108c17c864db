//! open(2) and its flags.

use crate::sys::*;
use crate::wants::*;

cases! { "open"
    any [
        creates_a_file_with_the_umask_taken_off,
        creating_changes_the_directory_and_opening_does_not,
        exclusive_creation_refuses_any_name_that_is_there,
        creates_what_a_dangling_symlink_names,
        truncation_empties_the_file_and_changes_its_times,
        truncating_an_empty_file_changes_its_times,
        read_only_and_write_only_mean_it,
        directories_cannot_be_written,
        o_directory_refuses_what_is_none,
        o_nofollow_refuses_symlinks_at_the_end_only,
        o_path_gives_a_name_and_no_data,
        a_file_created_without_permissions_is_usable_through_its_descriptor,
        names_below_a_descriptor,
        a_trailing_slash_is_refused_for_files,
        opening_at_a_removed_directory_fails,
        a_temporary_file_has_no_name_until_it_is_given_one,
        a_temporary_file_leaves_its_directory_as_it_is,
        a_temporary_file_is_asked_for_with_write_access_to_a_directory,
        an_exclusive_temporary_file_never_has_a_name,
        synchronous_writes_work,
        direct_reads_and_writes_work,
        many_descriptors_of_one_file_share_its_content,
        status_flags_are_those_asked_for,
    ]
    root [
        permissions_are_checked_for_what_is_asked,
        permissions_are_not_checked_again_later,
        creating_needs_a_writable_directory,
        truncating_needs_write_permission,
        truncating_takes_setuid_from_the_file_of_a_user,
        noatime_is_for_owners,
        a_temporary_file_is_its_makers_in_a_directory_that_is_writable,
        a_temporary_file_is_named_by_its_descriptor,
    ]
}

fn creates_a_file_with_the_umask_taken_off() {
    for (mask, asked, given) in
        [(0o022, 0o666, 0o644), (0o077, 0o777, 0o700), (0, 0o606, 0o606), (0o7, 0o4777, 0o4770)]
    {
        umask(mask);
        drop(open("f", O_WRONLY | O_CREAT, asked).unwrap());
        assert_eq!((mode("f"), size("f"), links("f")), (given, 0, 1), "{mask:o} {asked:o}");
        unlink("f").unwrap();
    }
}

fn creating_changes_the_directory_and_opening_does_not() {
    mkdir("d", 0o755).unwrap();
    let before = mtime("d");
    changes_ctime("d", || drop(open("d/f", O_WRONLY | O_CREAT, 0o644).unwrap()));
    assert!(mtime("d") > before);
    keeps_ctime("d", || drop(open("d/f", O_WRONLY | O_CREAT, 0o644).unwrap()));
    keeps_ctime("d/f", || drop(open("d/f", O_RDWR | O_CREAT, 0o600).unwrap()));
    assert_eq!(mode("d/f"), 0o644);
}

fn exclusive_creation_refuses_any_name_that_is_there() {
    symlink("absent", "dangling").unwrap();
    for name in one_of_each().into_iter().chain(["dangling"]) {
        fails(open(name, O_WRONLY | O_CREAT | O_EXCL, 0o644), Errno::EEXIST);
    }
    fails(lstat("absent"), Errno::ENOENT);
    drop(open("new", O_WRONLY | O_CREAT | O_EXCL, 0o644).unwrap());
}

fn creates_what_a_dangling_symlink_names() {
    symlink("target", "s").unwrap();
    drop(open("s", O_WRONLY | O_CREAT, 0o644).unwrap());
    assert_eq!((kind("target"), kind("s")), (S_IFREG, S_IFLNK));
}

fn truncation_empties_the_file_and_changes_its_times() {
    drop(file("f", b"something"));
    let before = times("f");
    moment();
    drop(open("f", O_WRONLY | O_TRUNC, 0).unwrap());
    let after = times("f");
    assert_eq!(size("f"), 0);
    assert!(after[1] > before[1] && after[2] > before[2]);
}

fn truncating_an_empty_file_changes_its_times() {
    drop(file("f", b""));
    let before = mtime("f");
    changes_ctime("f", || drop(open("f", O_WRONLY | O_TRUNC, 0).unwrap()));
    assert!(mtime("f") > before);
}

fn read_only_and_write_only_mean_it() {
    drop(file("f", b"x"));
    let reader = open("f", O_RDONLY, 0).unwrap();
    fails(write(&reader, b"y"), Errno::EBADF);
    fails_with_any(ftruncate(&reader, 0), &[Errno::EINVAL, Errno::EBADF]);
    let writer = open("f", O_WRONLY, 0).unwrap();
    fails(read(&writer, 1), Errno::EBADF);
}

fn directories_cannot_be_written() {
    mkdir("d", 0o755).unwrap();
    for flags in [O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC, O_RDONLY | O_CREAT] {
        fails(open("d", flags, 0o644), Errno::EISDIR);
    }
    let directory = open("d", O_RDONLY, 0).unwrap();
    fails(read(&directory, 10), Errno::EISDIR);
}

fn o_directory_refuses_what_is_none() {
    for name in one_of_each() {
        match kind(name) {
            S_IFDIR => drop(open(name, O_RDONLY | O_DIRECTORY, 0).unwrap()),
            _ => fails(open(name, O_RDONLY | O_DIRECTORY, 0), Errno::ENOTDIR),
        }
    }
}

fn o_nofollow_refuses_symlinks_at_the_end_only() {
    mkdir("d", 0o755).unwrap();
    drop(file("d/f", b""));
    symlink("d", "to-d").unwrap();
    symlink("d/f", "to-f").unwrap();
    fails(open("to-f", O_RDONLY | O_NOFOLLOW, 0), Errno::ELOOP);
    drop(open("to-d/f", O_RDONLY | O_NOFOLLOW, 0).unwrap());
    fails(open("to-d", O_RDONLY | O_NOFOLLOW | O_DIRECTORY, 0), Errno::ENOTDIR);
}

fn o_path_gives_a_name_and_no_data() {
    drop(file("f", b"x"));
    let path = open("f", O_PATH, 0).unwrap();
    fails(read(&path, 1), Errno::EBADF);
    assert_eq!(fstat(&path).unwrap().st_size, 1);
    symlink("f", "s").unwrap();
    let link = open("s", O_PATH | O_NOFOLLOW, 0).unwrap();
    assert_eq!(fstat(&link).unwrap().st_mode & S_IFMT, S_IFLNK);
}

fn a_file_created_without_permissions_is_usable_through_its_descriptor() {
    let file = open("f", O_RDWR | O_CREAT, 0o000).unwrap();
    assert_eq!(write(&file, b"x"), Ok(1));
    assert_eq!(pread(&file, 1, 0).unwrap(), b"x");
    assert_eq!(mode("f"), 0);
}

fn names_below_a_descriptor() {
    mkdir("d", 0o755).unwrap();
    let directory = open("d", O_RDONLY | O_DIRECTORY, 0).unwrap();
    drop(openat(&directory, "f", O_WRONLY | O_CREAT, 0o644).unwrap());
    rename("d", "moved").unwrap();
    drop(openat(&directory, "g", O_WRONLY | O_CREAT, 0o644).unwrap());
    assert_eq!(names("moved"), ["f", "g"]);
    unlinkat(&directory, "f", 0).unwrap();
    assert_eq!(names("moved"), ["g"]);
    let not_one = file("file", b"");
    fails(openat(&not_one, "f", O_RDONLY, 0), Errno::ENOTDIR);
}

fn a_trailing_slash_is_refused_for_files() {
    drop(file("f", b""));
    fails(open("f/", O_RDONLY, 0), Errno::ENOTDIR);
    fails(open("new/", O_WRONLY | O_CREAT, 0o644), Errno::EISDIR);
    fails(lstat("f/"), Errno::ENOTDIR);
}

fn opening_at_a_removed_directory_fails() {
    mkdir("d", 0o755).unwrap();
    let directory = open("d", O_RDONLY | O_DIRECTORY, 0).unwrap();
    rmdir("d").unwrap();
    fails(openat(&directory, "f", O_WRONLY | O_CREAT, 0o644), Errno::ENOENT);
    assert_eq!(fstat(&directory).unwrap().st_nlink, 0);
}

fn a_temporary_file_has_no_name_until_it_is_given_one() {
    let file = open(".", O_RDWR | O_TMPFILE, 0o600).unwrap();
    assert_eq!(write(&file, b"hidden"), Ok(6));
    assert!(names(".").is_empty());
    assert_eq!(fstat(&file).unwrap().st_nlink, 0);
    link_open(&file, "f").unwrap();
    link_open(&file, "g").unwrap();
    assert_eq!((content("f"), links("g"), mode("f")), (b"hidden".to_vec(), 2, 0o600));
    unlink("f").unwrap();
    unlink("g").unwrap();
    fails(link_open(&file, "f"), Errno::ENOENT);
    assert_eq!(pread(&file, 6, 0).unwrap(), b"hidden");
}

fn a_temporary_file_leaves_its_directory_as_it_is() {
    mkdir("d", 0o755).unwrap();
    keeps_ctime("d", || drop(open("d", O_WRONLY | O_TMPFILE, 0o600).unwrap()));
    rmdir("d").unwrap();
}

fn a_temporary_file_is_asked_for_with_write_access_to_a_directory() {
    drop(file("f", b""));
    symlink(".", "s").unwrap();
    fails(open(".", O_RDONLY | O_TMPFILE, 0o600), Errno::EINVAL);
    fails(open(".", O_RDWR | O_TMPFILE & !O_DIRECTORY, 0o600), Errno::EINVAL);
    fails(open(".", O_RDWR | O_TMPFILE | O_CREAT, 0o600), Errno::EINVAL);
    fails(open("f", O_RDWR | O_TMPFILE, 0o600), Errno::ENOTDIR);
    fails(open("none", O_RDWR | O_TMPFILE, 0o600), Errno::ENOENT);
    fails(open("s", O_RDWR | O_TMPFILE | O_NOFOLLOW, 0o600), Errno::ENOTDIR);
    umask(0o027);
    let made = open("s", O_WRONLY | O_TMPFILE | O_TRUNC | O_APPEND, 0o4666).unwrap();
    assert_eq!(fstat(&made).unwrap().st_mode, S_IFREG | 0o4640);
    fails(read(&made, 1), Errno::EBADF);
}

fn an_exclusive_temporary_file_never_has_a_name() {
    let file = open(".", O_RDWR | O_TMPFILE | O_EXCL, 0o600).unwrap();
    assert_eq!(write(&file, b"hidden"), Ok(6));
    fails(link_open(&file, "f"), Errno::ENOENT);
    assert!(names(".").is_empty());
    assert_eq!(pread(&file, 6, 0).unwrap(), b"hidden");
}

fn synchronous_writes_work() {
    for flag in [O_SYNC, O_DSYNC] {
        let file = open("f", O_RDWR | O_CREAT | O_TRUNC | flag, 0o644).unwrap();
        let data = pattern(300_000, 5);
        assert_eq!(write(&file, &data), Ok(data.len()));
        assert_eq!(content("f"), data);
    }
}

fn direct_reads_and_writes_work() {
    let file = open("f", O_RDWR | O_CREAT | O_DIRECT, 0o644).unwrap();
    // Aligned memory: a page of a larger buffer.
    let data = pattern((1 << 20) + 8192, 6);
    let start = data.as_ptr().align_offset(4096);
    let data = &data[start..start + (1 << 20)];
    assert_eq!(write(&file, data), Ok(1 << 20));
    assert_eq!(content("f"), data);
    assert_eq!(size("f"), 1 << 20);
}

fn many_descriptors_of_one_file_share_its_content() {
    let first = file("f", b"");
    let others: Vec<_> = (0..50).map(|_| open("f", O_RDWR, 0).unwrap()).collect();
    for (index, other) in others.iter().enumerate() {
        assert_eq!(pwrite(other, &[index as u8], index as i64), Ok(1));
    }
    assert_eq!(pread(&first, 100, 0).unwrap(), (0..50).collect::<Vec<u8>>());
}

fn status_flags_are_those_asked_for() {
    let file = open("f", O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK, 0o644).unwrap();
    let flags = status_flags(&file).unwrap();
    assert_eq!(flags & (O_RDWR | O_APPEND | O_NONBLOCK), O_RDWR | O_APPEND | O_NONBLOCK);
    set_status_flags(&file, 0).unwrap();
    assert_eq!(status_flags(&file).unwrap() & (O_APPEND | O_NONBLOCK), 0);
}

fn permissions_are_checked_for_what_is_asked() {
    drop(file("f", b"x"));
    for (bits, readable, writable) in
        [(0o600, false, false), (0o604, true, false), (0o602, false, true), (0o606, true, true)]
    {
        chmod("f", bits).unwrap();
        as_nobody(|| {
            for (flags, allowed) in
                [(O_RDONLY, readable), (O_WRONLY, writable), (O_RDWR, readable && writable)]
            {
                match open("f", flags, 0) {
                    Ok(_) => assert!(allowed, "{bits:o} {flags}"),
                    Err(errno) => assert!(!allowed && errno == Errno::EACCES, "{bits:o} {flags}"),
                }
            }
        });
    }
}

fn permissions_are_not_checked_again_later() {
    drop(file("f", b"before"));
    chmod("f", 0o666).unwrap();
    let open_file = open("f", O_RDWR, 0).unwrap();
    chmod("f", 0o000).unwrap();
    child(|| {
        become_user(NOBODY, NOBODY, &[]).unwrap();
        assert_eq!(pwrite(&open_file, b"AFTER", 0), Ok(5));
        assert_eq!(pread(&open_file, 5, 0).unwrap(), b"AFTER");
        fails(open("f", O_RDONLY, 0), Errno::EACCES);
    })
    .succeeds();
}

fn creating_needs_a_writable_directory() {
    mkdir("d", 0o755).unwrap();
    as_nobody(|| fails(open("d/f", O_WRONLY | O_CREAT, 0o644), Errno::EACCES));
    chmod("d", 0o766).unwrap();
    as_nobody(|| fails(open("d/f", O_WRONLY | O_CREAT, 0o644), Errno::EACCES));
    chmod("d", 0o773).unwrap();
    as_nobody(|| drop(open("d/f", O_WRONLY | O_CREAT, 0o644).unwrap()));
    assert_eq!(owner("d/f"), (NOBODY, NOBODY));
}

fn truncating_needs_write_permission() {
    drop(file("f", b"kept"));
    as_nobody(|| fails(open("f", O_RDONLY | O_TRUNC, 0), Errno::EACCES));
    assert_eq!(content("f"), b"kept");
}

fn truncating_takes_setuid_from_the_file_of_a_user() {
    drop(file("f", b"x"));
    chown("f", OTHER, OTHER).unwrap();
    chmod("f", 0o6777).unwrap();
    as_nobody(|| drop(open("f", O_WRONLY | O_TRUNC, 0).unwrap()));
    assert_eq!(mode("f"), 0o777);
}

fn noatime_is_for_owners() {
    drop(file("f", b"x"));
    drop(open("f", O_RDONLY | O_NOATIME, 0).unwrap());
    as_nobody(|| fails(open("f", O_RDONLY | O_NOATIME, 0), Errno::EPERM));
}

fn a_temporary_file_is_its_makers_in_a_directory_that_is_writable() {
    mkdir("d", 0o755).unwrap();
    as_nobody(|| fails(open("d", O_WRONLY | O_TMPFILE, 0o600), Errno::EACCES));
    chmod("d", 0o766).unwrap();
    as_nobody(|| fails(open("d", O_WRONLY | O_TMPFILE, 0o600), Errno::EACCES));
    chown("d", 0, GROUP).unwrap();
    chmod("d", 0o2773).unwrap();
    as_nobody(|| {
        let stat = fstat(&open("d", O_WRONLY | O_TMPFILE, 0o000).unwrap()).unwrap();
        assert_eq!((stat.st_uid, stat.st_gid, stat.st_mode), (NOBODY, GROUP, S_IFREG));
    });
}

fn a_temporary_file_is_named_by_its_descriptor() {
    let file = open(".", O_WRONLY | O_TMPFILE, 0o600).unwrap();
    link_descriptor(&file, "f").unwrap();
    assert_eq!(links("f"), 1);
}
