//! rmdir(2).

use crate::sys::*;
use crate::wants::*;

cases! { "rmdir"
    any [
        removes_an_empty_directory,
        a_directory_with_anything_in_it_stays,
        changes_the_times_of_the_parent,
        dot_and_dot_dot_are_refused,
        what_is_no_directory_is_refused,
        a_removed_working_directory_is_empty_and_stays_usable,
        a_trailing_slash_is_fine,
    ]
    root [needs_a_writable_parent, the_sticky_bit_protects]
}

fn removes_an_empty_directory() {
    mkdir("d", 0o000).unwrap();
    rmdir("d").unwrap();
    fails(rmdir("d"), Errno::ENOENT);
    mkdir("d", 0o755).unwrap();
}

fn a_directory_with_anything_in_it_stays() {
    mkdir("d", 0o755).unwrap();
    chdir("d").unwrap();
    for name in one_of_each() {
        fails_with_any(rmdir("../d"), &[Errno::ENOTEMPTY, Errno::EEXIST]);
        if kind(name) == S_IFDIR { rmdir(name).unwrap() } else { unlink(name).unwrap() }
    }
    rmdir("../d").unwrap();
}

fn changes_the_times_of_the_parent() {
    mkdir("d", 0o755).unwrap();
    mkdir("d/e", 0o755).unwrap();
    let before = mtime("d");
    changes_ctime("d", || rmdir("d/e").unwrap());
    assert!(mtime("d") > before);
}

fn dot_and_dot_dot_are_refused() {
    mkdir("d", 0o755).unwrap();
    mkdir("d/e", 0o755).unwrap();
    fails(rmdir("d/e/."), Errno::EINVAL);
    fails_with_any(rmdir("d/e/.."), &[Errno::ENOTEMPTY, Errno::EEXIST]);
    fails(rmdir("."), Errno::EINVAL);
}

fn what_is_no_directory_is_refused() {
    for name in one_of_each() {
        if kind(name) != S_IFDIR {
            fails(rmdir(name), Errno::ENOTDIR);
        }
    }
    symlink("directory", "to-directory").unwrap();
    fails(rmdir("to-directory"), Errno::ENOTDIR);
}

fn a_removed_working_directory_is_empty_and_stays_usable() {
    mkdir("d", 0o755).unwrap();
    chdir("d").unwrap();
    rmdir("../d").unwrap();
    fails(open("f", O_WRONLY | O_CREAT, 0o644), Errno::ENOENT);
    fails(mkdir("e", 0o755), Errno::ENOENT);
    fails(getcwd(), Errno::ENOENT);
    assert_eq!(lstat(".").unwrap().st_nlink, 0);
    chdir("..").unwrap();
    assert!(names(".").is_empty());
}

fn a_trailing_slash_is_fine() {
    mkdir("d", 0o755).unwrap();
    rmdir("d///").unwrap();
}

fn needs_a_writable_parent() {
    mkdir("d", 0o755).unwrap();
    mkdir("d/e", 0o777).unwrap();
    chown("d/e", NOBODY, NOBODY).unwrap();
    as_nobody(|| fails(rmdir("d/e"), Errno::EACCES));
    chmod("d", 0o777).unwrap();
    as_nobody(|| rmdir("d/e").unwrap());
}

fn the_sticky_bit_protects() {
    open_directory("d");
    chmod("d", 0o1777).unwrap();
    mkdir("d/roots", 0o777).unwrap();
    as_nobody(|| {
        fails(rmdir("d/roots"), Errno::EPERM);
        mkdir("d/mine", 0o755).unwrap();
        rmdir("d/mine").unwrap();
    });
}
