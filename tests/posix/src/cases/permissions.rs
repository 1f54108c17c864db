//! Who may do what: classes, groups, directories, the special bits.

use crate::sys::*;
use crate::wants::*;

cases! { "permissions"
    any []
    root [
        the_first_class_that_fits_decides,
        supplementary_groups_count,
        searching_and_listing_are_different_rights,
        root_reads_everything_and_executes_nothing_without_a_bit,
        a_setgid_directory_takes_setgid_from_programs_of_foreign_groups,
        a_user_works_in_a_directory_of_their_own,
    ]
}

fn the_first_class_that_fits_decides() {
    drop(file("f", b"x"));
    chown("f", OTHER, GROUP).unwrap();
    // The owner may not, although everybody else may.
    chmod("f", 0o077).unwrap();
    as_user(OTHER, &[GROUP], || fails(open("f", O_RDONLY, 0), Errno::EACCES));
    // Members may not, although strangers may.
    chmod("f", 0o707).unwrap();
    as_user(NOBODY, &[GROUP], || fails(open("f", O_RDONLY, 0), Errno::EACCES));
    as_nobody(|| drop(open("f", O_RDWR, 0).unwrap()));
}

fn supplementary_groups_count() {
    drop(file("f", b"x"));
    chown("f", OTHER, GROUP).unwrap();
    chmod("f", 0o060).unwrap();
    as_user(NOBODY, &[1, 2, 3, GROUP], || drop(open("f", O_RDWR, 0).unwrap()));
    let many: Vec<u32> = (10_000..10_100).chain([GROUP]).collect();
    as_user(NOBODY, &many, || drop(open("f", O_RDWR, 0).unwrap()));
    as_user(NOBODY, &[1, 2, 3], || fails(open("f", O_RDONLY, 0), Errno::EACCES));
}

fn searching_and_listing_are_different_rights() {
    mkdir("d", 0o755).unwrap();
    drop(file("d/f", b"x"));
    chmod("d", 0o711).unwrap();
    as_nobody(|| {
        assert_eq!(content("d/f"), b"x");
        assert_eq!(Stream::open("d").err(), Some(Errno::EACCES));
        fails(open("d/absent", O_RDONLY, 0), Errno::ENOENT);
    });
    chmod("d", 0o744).unwrap();
    as_nobody(|| {
        assert_eq!(names("d"), ["f"]);
        fails(lstat("d/f"), Errno::EACCES);
        fails(chdir("d"), Errno::EACCES);
    });
}

fn root_reads_everything_and_executes_nothing_without_a_bit() {
    drop(file("f", b"x"));
    mkdir("d", 0o000).unwrap();
    chmod("f", 0o000).unwrap();
    drop(open("f", O_RDWR, 0).unwrap());
    drop(file("d/g", b""));
    assert_eq!(names("d"), ["g"]);
    fails(access("f", libc::X_OK), Errno::EACCES);
    access("d", libc::X_OK).unwrap();
}

fn a_setgid_directory_takes_setgid_from_programs_of_foreign_groups() {
    open_directory("d");
    chown("d", 0, GROUP).unwrap();
    chmod("d", 0o2777).unwrap();
    umask(0);
    as_nobody(|| drop(open("d/stranger", O_WRONLY | O_CREAT, 0o2775).unwrap()));
    as_user(NOBODY, &[GROUP], || drop(open("d/member", O_WRONLY | O_CREAT, 0o2775).unwrap()));
    assert_eq!((mode("d/stranger"), mode("d/member")), (0o775, 0o2775));
}

fn a_user_works_in_a_directory_of_their_own() {
    mkdir("home", 0o700).unwrap();
    chown("home", NOBODY, NOBODY).unwrap();
    as_nobody(|| {
        chdir("home").unwrap();
        mkdir("a", 0o755).unwrap();
        drop(file("a/f", b"mine"));
        rename("a/f", "f").unwrap();
        link("f", "a/g").unwrap();
        symlink("f", "s").unwrap();
        assert_eq!(content("s"), b"mine");
        unlink("f").unwrap();
        assert_eq!(content("a/g"), b"mine");
    });
    as_user(OTHER, &[], || fails(stat("home/a"), Errno::EACCES));
}
