//! symlink(2), readlink(2), and how paths go through symlinks.

use crate::sys::*;
use crate::wants::*;

cases! { "symlink"
    any [
        keeps_its_target_as_given,
        has_its_targets_length_as_size,
        refuses_a_name_that_is_there,
        an_empty_target_is_refused,
        the_longest_target_is_kept_and_a_longer_one_refused,
        changes_the_times_of_the_directory,
        reading_what_is_none_is_refused,
        is_followed_in_the_middle_of_a_path,
        a_loop_is_refused,
        forty_are_followed,
        a_trailing_slash_follows,
        absolute_targets_work,
    ]
    root [belongs_to_the_caller_and_needs_a_writable_directory]
}

fn keeps_its_target_as_given() {
    for target in ["f", "../x//y/", "/absolute/../path", " ", "\u{e4}\u{f6}"] {
        symlink(target, "s").unwrap();
        assert_eq!((readlink("s").as_deref(), kind("s")), (Ok(target), S_IFLNK));
        unlink("s").unwrap();
    }
}

fn has_its_targets_length_as_size() {
    symlink("twelve bytes", "s").unwrap();
    assert_eq!((size("s"), mode("s")), (12, 0o777));
}

fn refuses_a_name_that_is_there() {
    for name in one_of_each() {
        fails(symlink("x", name), Errno::EEXIST);
    }
}

fn an_empty_target_is_refused() {
    fails(symlink("", "s"), Errno::ENOENT);
}

fn the_longest_target_is_kept_and_a_longer_one_refused() {
    let longest = "t".repeat(4095);
    symlink(&longest, "s").unwrap();
    assert_eq!(readlink("s"), Ok(longest.clone()));
    fails(symlink(&format!("{longest}t"), "u"), Errno::ENAMETOOLONG);
}

fn changes_the_times_of_the_directory() {
    mkdir("d", 0o755).unwrap();
    let before = mtime("d");
    changes_ctime("d", || symlink("x", "d/s").unwrap());
    assert!(mtime("d") > before);
}

fn reading_what_is_none_is_refused() {
    for name in one_of_each() {
        if kind(name) != S_IFLNK {
            fails(readlink(name), Errno::EINVAL);
        }
    }
}

fn is_followed_in_the_middle_of_a_path() {
    mkdir("d", 0o755).unwrap();
    mkdir("d/e", 0o755).unwrap();
    drop(file("d/e/f", b"found"));
    symlink("d/e", "s").unwrap();
    symlink("../../d", "d/e/up").unwrap();
    assert_eq!(content("s/f"), b"found");
    assert_eq!(content("s/up/e/f"), b"found");
    // `..` after a symlink is that of where it leads.
    assert_eq!(names("s/.."), ["e"]);
}

fn a_loop_is_refused() {
    symlink("b", "a").unwrap();
    symlink("a", "b").unwrap();
    symlink("self", "self").unwrap();
    for name in ["a", "b", "self", "a/x", "self/x"] {
        fails(stat(name), Errno::ELOOP);
        fails(open(name, O_RDONLY, 0), Errno::ELOOP);
        fails(chmod(name, 0o600), Errno::ELOOP);
    }
    assert_eq!(kind("self"), S_IFLNK);
    unlink("self").unwrap();
}

fn forty_are_followed() {
    drop(file("f0", b"x"));
    for index in 1..=41 {
        symlink(&format!("f{}", index - 1), &format!("f{index}")).unwrap();
    }
    assert_eq!(content("f40"), b"x");
    fails(stat("f41"), Errno::ELOOP);
}

fn a_trailing_slash_follows() {
    mkdir("d", 0o755).unwrap();
    drop(file("f", b""));
    symlink("d", "to-d").unwrap();
    symlink("f", "to-f").unwrap();
    assert_eq!(kind("to-d/"), S_IFDIR);
    fails(lstat("to-f/"), Errno::ENOTDIR);
    fails_with_any(unlink("to-d/"), &[Errno::ENOTDIR, Errno::EISDIR]);
}

fn absolute_targets_work() {
    drop(file("f", b"x"));
    let path = format!("{}/f", getcwd().unwrap());
    symlink(&path, "s").unwrap();
    assert_eq!(content("s"), b"x");
}

fn belongs_to_the_caller_and_needs_a_writable_directory() {
    open_directory("d");
    mkdir("closed", 0o755).unwrap();
    as_nobody(|| {
        symlink("x", "d/s").unwrap();
        fails(symlink("x", "closed/s"), Errno::EACCES);
    });
    assert_eq!(owner("d/s"), (NOBODY, NOBODY));
}
