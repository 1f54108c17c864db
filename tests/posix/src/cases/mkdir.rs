//! mkdir(2).

use crate::sys::*;
use crate::wants::*;

cases! { "mkdir"
    any [
        makes_an_empty_directory,
        takes_the_umask_off,
        counts_subdirectories_as_links,
        changes_the_times_of_the_parent,
        refuses_a_name_that_is_there,
        a_trailing_slash_is_fine,
        gives_a_thousand_levels,
    ]
    root [
        belongs_to_the_caller,
        inherits_group_and_setgid,
        the_sticky_bit_is_taken_and_setuid_is_not,
        needs_a_writable_directory,
    ]
}

fn makes_an_empty_directory() {
    mkdir("d", 0o755).unwrap();
    let [atime, mtime, ctime] = times("d");
    assert!(atime == mtime && mtime == ctime, "{atime:?} {mtime:?} {ctime:?}");
    assert_eq!((kind("d"), links("d"), names("d").len()), (S_IFDIR, 2, 0));
}

fn takes_the_umask_off() {
    for (mask, asked, given) in [(0o022, 0o777, 0o755), (0o077, 0o750, 0o700), (0, 0o777, 0o777)] {
        umask(mask);
        mkdir("d", asked).unwrap();
        assert_eq!(mode("d"), given, "{mask:o} {asked:o}");
        rmdir("d").unwrap();
    }
}

fn counts_subdirectories_as_links() {
    mkdir("d", 0o755).unwrap();
    mkdir("d/a", 0o755).unwrap();
    mkdir("d/b", 0o755).unwrap();
    drop(file("d/f", b""));
    assert_eq!(links("d"), 4);
    rmdir("d/a").unwrap();
    assert_eq!(links("d"), 3);
    rename("d/b", "b").unwrap();
    assert_eq!(links("d"), 2);
}

fn changes_the_times_of_the_parent() {
    mkdir("d", 0o755).unwrap();
    let before = mtime("d");
    changes_ctime("d", || mkdir("d/e", 0o755).unwrap());
    assert!(mtime("d") > before);
}

fn refuses_a_name_that_is_there() {
    for name in one_of_each() {
        fails(mkdir(name, 0o755), Errno::EEXIST);
    }
    symlink("absent", "dangling").unwrap();
    fails(mkdir("dangling", 0o755), Errno::EEXIST);
    fails(mkdir(".", 0o755), Errno::EEXIST);
    fails(mkdir("..", 0o755), Errno::EEXIST);
}

fn a_trailing_slash_is_fine() {
    mkdir("d//", 0o755).unwrap();
    mkdir("d/e/", 0o755).unwrap();
    assert_eq!(names("d"), ["e"]);
}

fn gives_a_thousand_levels() {
    for _ in 0..1000 {
        mkdir("d", 0o755).unwrap();
        chdir("d").unwrap();
    }
    for _ in 0..1000 {
        chdir("..").unwrap();
        rmdir("d").unwrap();
    }
}

fn belongs_to_the_caller() {
    open_directory("d");
    as_user(OTHER, &[GROUP], || mkdir("d/e", 0o755).unwrap());
    assert_eq!(owner("d/e"), (OTHER, OTHER));
}

fn inherits_group_and_setgid() {
    open_directory("d");
    chown("d", 0, GROUP).unwrap();
    chmod("d", 0o2777).unwrap();
    as_nobody(|| {
        mkdir("d/e", 0o755).unwrap();
        drop(file("d/f", b""));
        mkfifo("d/p", 0o644).unwrap();
        symlink("f", "d/s").unwrap();
    });
    for name in ["d/e", "d/f", "d/p", "d/s"] {
        assert_eq!(owner(name), (NOBODY, GROUP), "{name}");
    }
    assert_eq!((mode("d/e"), mode("d/f")), (0o2755, 0o644));
}

fn the_sticky_bit_is_taken_and_setuid_is_not() {
    umask(0);
    mkdir("d", 0o7777).unwrap();
    assert_eq!(mode("d"), 0o1777);
}

fn needs_a_writable_directory() {
    mkdir("d", 0o755).unwrap();
    as_nobody(|| fails(mkdir("d/e", 0o755), Errno::EACCES));
    chmod("d", 0o777).unwrap();
    as_nobody(|| mkdir("d/e", 0o755).unwrap());
}
