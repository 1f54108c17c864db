//! rename(2), renameat2(2).

use crate::sys::*;
use crate::wants::*;

cases! { "rename"
    any [
        moves_every_kind_of_file,
        replaces_what_was_there,
        changes_the_times_of_both_directories,
        of_two_names_of_one_file_does_nothing,
        to_itself_does_nothing,
        a_directory_replaces_an_empty_directory_only,
        files_and_directories_do_not_replace_each_other,
        a_directory_cannot_go_below_itself,
        dot_and_dot_dot_are_refused,
        an_open_file_that_is_replaced_stays_readable,
        a_moved_directory_has_another_parent,
        noreplace_keeps_what_is_there,
        exchange_swaps_two_names,
        exchange_swaps_a_file_and_a_directory_tree,
        exchange_needs_both,
        flags_that_contradict_are_refused,
        a_replaced_name_is_never_absent,
    ]
    root [
        needs_both_directories_writable,
        the_sticky_bit_protects_source_and_target,
        moving_a_directory_of_others_needs_write_permission_on_it,
        a_whiteout_is_refused_or_made,
    ]
}

fn moves_every_kind_of_file() {
    mkdir("to", 0o755).unwrap();
    for name in one_of_each() {
        let before = lstat(name).unwrap();
        let new = format!("to/{name}-moved");
        rename(name, &new).unwrap();
        let after = lstat(&new).unwrap();
        assert_eq!(
            (before.st_ino, before.st_mode, before.st_nlink),
            (after.st_ino, after.st_mode, after.st_nlink)
        );
        fails(lstat(name), Errno::ENOENT);
    }
}

fn replaces_what_was_there() {
    drop(file("old", b"old"));
    drop(file("new", b"new"));
    link("new", "other-name").unwrap();
    changes_ctime("other-name", || rename("old", "new").unwrap());
    assert_eq!(content("new"), b"old");
    assert_eq!((content("other-name"), links("other-name")), (b"new".to_vec(), 1));
    assert_eq!(names("."), ["new", "other-name"]);
}

fn changes_the_times_of_both_directories() {
    mkdir("a", 0o755).unwrap();
    mkdir("b", 0o755).unwrap();
    drop(file("a/f", b""));
    let (a, b) = (times("a"), times("b"));
    moment();
    rename("a/f", "b/f").unwrap();
    for (before, after) in [(a, times("a")), (b, times("b"))] {
        assert!(after[1] > before[1] && after[2] > before[2]);
    }
}

fn of_two_names_of_one_file_does_nothing() {
    drop(file("a", b""));
    link("a", "b").unwrap();
    rename("a", "b").unwrap();
    assert_eq!((names("."), links("a")), (vec!["a".to_owned(), "b".to_owned()], 2));
}

fn to_itself_does_nothing() {
    drop(file("f", b"x"));
    mkdir("d", 0o755).unwrap();
    keeps_ctime("f", || rename("f", "f").unwrap());
    rename("d", "d").unwrap();
    rename("d", "./d").unwrap();
    assert_eq!(names("."), ["d", "f"]);
}

fn a_directory_replaces_an_empty_directory_only() {
    for name in ["a", "empty", "full"] {
        mkdir(name, 0o755).unwrap();
    }
    drop(file("a/inside", b""));
    drop(file("full/f", b""));
    fails_with_any(rename("a", "full"), &[Errno::ENOTEMPTY, Errno::EEXIST]);
    rename("a", "empty").unwrap();
    assert_eq!((names("empty"), names(".").len()), (vec!["inside".to_owned()], 2));
}

fn files_and_directories_do_not_replace_each_other() {
    drop(file("f", b""));
    mkdir("d", 0o755).unwrap();
    fails(rename("f", "d"), Errno::EISDIR);
    fails(rename("d", "f"), Errno::ENOTDIR);
    symlink("d", "s").unwrap();
    rename("f", "s").unwrap();
    assert_eq!(kind("s"), S_IFREG, "the symlink itself is replaced");
}

fn a_directory_cannot_go_below_itself() {
    mkdir("a", 0o755).unwrap();
    mkdir("a/b", 0o755).unwrap();
    mkdir("a/b/c", 0o755).unwrap();
    for below in ["a/x", "a/b/x", "a/b/c", "a/b/c/x"] {
        fails(rename("a", below), Errno::EINVAL);
    }
    fails_with_any(rename("a/b/c", "a"), &[Errno::ENOTEMPTY, Errno::EEXIST]);
}

fn dot_and_dot_dot_are_refused() {
    mkdir("d", 0o755).unwrap();
    for name in ["d/.", "d/..", ".", ".."] {
        fails_with_any(rename(name, "x"), &[Errno::EBUSY, Errno::EINVAL]);
        fails_with_any(
            rename("d", name),
            &[Errno::EBUSY, Errno::EINVAL, Errno::EEXIST, Errno::ENOTEMPTY],
        );
    }
}

fn an_open_file_that_is_replaced_stays_readable() {
    let old = file("f", b"old");
    drop(file("g", b"new"));
    rename("g", "f").unwrap();
    assert_eq!(pread(&old, 10, 0).unwrap(), b"old");
    assert_eq!((fstat(&old).unwrap().st_nlink, content("f")), (0, b"new".to_vec()));
}

fn a_moved_directory_has_another_parent() {
    for name in ["a", "b", "a/d"] {
        mkdir(name, 0o755).unwrap();
    }
    rename("a/d", "b/d").unwrap();
    assert_eq!(lstat("b/d/..").unwrap().st_ino, lstat("b").unwrap().st_ino);
    assert_eq!((links("a"), links("b")), (2, 3));
}

fn noreplace_keeps_what_is_there() {
    drop(file("a", b"a"));
    for name in one_of_each() {
        fails(renameat2("a", name, RENAME_NOREPLACE), Errno::EEXIST);
    }
    renameat2("a", "new", RENAME_NOREPLACE).unwrap();
    assert_eq!(content("new"), b"a");
}

fn exchange_swaps_two_names() {
    drop(file("a", b"a"));
    drop(file("b", b"b"));
    let before = ctime("a");
    moment();
    renameat2("a", "b", RENAME_EXCHANGE).unwrap();
    assert_eq!((content("a"), content("b")), (b"b".to_vec(), b"a".to_vec()));
    assert!(ctime("b") > before);
}

fn exchange_swaps_a_file_and_a_directory_tree() {
    mkdir("d", 0o755).unwrap();
    mkdir("d/e", 0o755).unwrap();
    mkdir("other", 0o755).unwrap();
    drop(file("other/f", b"f"));
    renameat2("d", "other/f", RENAME_EXCHANGE).unwrap();
    assert_eq!((kind("d"), kind("other/f/e"), links("other")), (S_IFREG, S_IFDIR, 3));
    assert_eq!(lstat("other/f/..").unwrap().st_ino, lstat("other").unwrap().st_ino);
    fails(renameat2("other", "other/f/e", RENAME_EXCHANGE), Errno::EINVAL);
}

fn exchange_needs_both() {
    drop(file("a", b""));
    fails(renameat2("a", "b", RENAME_EXCHANGE), Errno::ENOENT);
    fails(renameat2("b", "a", RENAME_EXCHANGE), Errno::ENOENT);
}

fn flags_that_contradict_are_refused() {
    drop(file("a", b""));
    drop(file("b", b""));
    fails(renameat2("a", "b", RENAME_EXCHANGE | RENAME_NOREPLACE), Errno::EINVAL);
    fails(renameat2("a", "b", RENAME_EXCHANGE | RENAME_WHITEOUT), Errno::EINVAL);
    fails(renameat2("a", "b", 1 << 10), Errno::EINVAL);
}

fn a_replaced_name_is_never_absent() {
    drop(file("f", b"0"));
    let renamer = child(|| {
        for _ in 0..200 {
            drop(file("new", b"1"));
            rename("new", "f").unwrap();
        }
    });
    for _ in 0..400 {
        assert!(matches!(&content("f")[..], b"0" | b"1"));
    }
    renamer.succeeds();
}

fn needs_both_directories_writable() {
    open_directory("open");
    mkdir("closed", 0o755).unwrap();
    drop(file("open/f", b""));
    drop(file("closed/g", b""));
    as_nobody(|| {
        fails(rename("open/f", "closed/f"), Errno::EACCES);
        fails(rename("closed/g", "open/g"), Errno::EACCES);
        fails(rename("closed/g", "closed/h"), Errno::EACCES);
        rename("open/f", "open/h").unwrap();
    });
}

fn the_sticky_bit_protects_source_and_target() {
    open_directory("sticky");
    open_directory("open");
    chmod("sticky", 0o1777).unwrap();
    drop(file("sticky/roots", b""));
    drop(file("open/f", b""));
    as_nobody(|| {
        fails(rename("sticky/roots", "open/x"), Errno::EPERM);
        drop(file("open/mine", b""));
        fails(rename("open/mine", "sticky/roots"), Errno::EPERM);
        rename("open/mine", "sticky/mine").unwrap();
        rename("sticky/mine", "sticky/mine-too").unwrap();
        fails(renameat2("sticky/mine-too", "sticky/roots", RENAME_EXCHANGE), Errno::EPERM);
    });
    // Who owns the directory may move everything in it.
    chown("sticky", OTHER, OTHER).unwrap();
    as_user(OTHER, &[], || rename("sticky/roots", "sticky/x").unwrap());
}

fn moving_a_directory_of_others_needs_write_permission_on_it() {
    open_directory("a");
    open_directory("b");
    mkdir("a/d", 0o755).unwrap();
    as_nobody(|| {
        fails(rename("a/d", "b/d"), Errno::EACCES);
        rename("a/d", "a/e").unwrap();
    });
}

fn a_whiteout_is_refused_or_made() {
    drop(file("a", b"x"));
    match renameat2("a", "b", RENAME_WHITEOUT) {
        Ok(()) => assert_eq!((kind("a"), lstat("a").unwrap().st_rdev), (S_IFCHR, 0)),
        Err(errno) => assert!((errno, content("a")) == (Errno::EINVAL, b"x".to_vec())),
    }
}
