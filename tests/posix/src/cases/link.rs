//! link(2), linkat(2).

use crate::sys::*;
use crate::wants::*;

cases! { "link"
    any [
        makes_another_name_for_the_same_file,
        changes_the_times_of_file_and_directory,
        works_for_everything_but_directories,
        refuses_a_name_that_is_there,
        names_the_symlink_or_what_it_leads_to_as_asked,
        a_removed_open_file_cannot_be_named_again,
        the_last_name_takes_the_file,
        a_file_may_have_thousands_of_names,
        crossing_into_another_file_system_is_refused,
    ]
    root [needs_a_writable_directory, directories_are_refused_to_root_too]
}

fn makes_another_name_for_the_same_file() {
    drop(file("a", b"content"));
    link("a", "b").unwrap();
    link("b", "c").unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!((links(name), lstat(name).unwrap().st_ino), (3, lstat("a").unwrap().st_ino));
    }
    chmod("b", 0o604).unwrap();
    assert_eq!((mode("a"), mode("c")), (0o604, 0o604));
    pwrite(&open("c", O_WRONLY, 0).unwrap(), b"CON", 0).unwrap();
    assert_eq!(content("a"), b"CONtent");
}

fn changes_the_times_of_file_and_directory() {
    mkdir("d", 0o755).unwrap();
    drop(file("f", b""));
    let (file_mtime, directory) = (mtime("f"), times("d"));
    changes_ctime("f", || link("f", "d/g").unwrap());
    assert_eq!(mtime("f"), file_mtime);
    assert!(mtime("d") > directory[1] && ctime("d") > directory[2]);
}

fn works_for_everything_but_directories() {
    for name in one_of_each() {
        let new = format!("{name}-too");
        if kind(name) == S_IFDIR {
            fails(link(name, &new), Errno::EPERM);
        } else {
            link(name, &new).unwrap();
            assert_eq!((links(name), kind(&new)), (2, kind(name)), "{name}");
        }
    }
}

fn refuses_a_name_that_is_there() {
    drop(file("f", b""));
    for name in one_of_each() {
        fails(link("f", name), Errno::EEXIST);
    }
    assert_eq!(links("f"), 1);
}

fn names_the_symlink_or_what_it_leads_to_as_asked() {
    drop(file("f", b""));
    symlink("f", "s").unwrap();
    linkat("s", "same", 0).unwrap();
    assert_eq!((kind("same"), links("s")), (S_IFLNK, 2));
    linkat("s", "followed", AT_SYMLINK_FOLLOW).unwrap();
    assert_eq!((kind("followed"), links("f")), (S_IFREG, 2));
}

fn a_removed_open_file_cannot_be_named_again() {
    let open = file("f", b"");
    unlink("f").unwrap();
    fails(link_open(&open, "g"), Errno::ENOENT);
}

fn the_last_name_takes_the_file() {
    drop(file("a", b"kept"));
    link("a", "b").unwrap();
    changes_ctime("b", || unlink("a").unwrap());
    assert_eq!((links("b"), content("b")), (1, b"kept".to_vec()));
    unlink("b").unwrap();
    fails(lstat("b"), Errno::ENOENT);
}

fn a_file_may_have_thousands_of_names() {
    drop(file("f", b""));
    (0..2000).for_each(|index| link("f", &format!("f{index}")).unwrap());
    assert_eq!(links("f1999"), 2001);
}

fn crossing_into_another_file_system_is_refused() {
    drop(file("f", b""));
    fails(link("/proc/self/status", "g"), Errno::EXDEV);
    fails(rename("f", "/proc/g"), Errno::EXDEV);
}

fn needs_a_writable_directory() {
    open_directory("open");
    mkdir("closed", 0o755).unwrap();
    as_nobody(|| {
        drop(file("open/f", b""));
        fails(link("open/f", "closed/g"), Errno::EACCES);
        link("open/f", "open/g").unwrap();
    });
    chmod("open", 0o700).unwrap();
    as_nobody(|| fails(link("open/f", "open/h"), Errno::EACCES));
}

fn directories_are_refused_to_root_too() {
    mkdir("d", 0o755).unwrap();
    fails(link("d", "e"), Errno::EPERM);
    assert_eq!(links("d"), 2);
}
