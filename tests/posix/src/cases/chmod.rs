//! chmod(2), fchmod(2).

use crate::sys::*;
use crate::wants::*;

cases! { "chmod"
    any [
        sets_all_permission_bits,
        changes_the_change_time_and_nothing_else,
        follows_symlinks,
        works_through_a_descriptor_opened_for_reading,
        works_on_every_kind_of_file,
        a_removed_file_that_is_open_can_still_be_changed,
    ]
    root [
        only_the_owner_or_root_may,
        a_failed_change_leaves_the_change_time,
        loses_setgid_for_a_group_the_owner_is_not_in,
        keeps_setgid_for_a_supplementary_group,
        sets_the_sticky_bit_on_directories_for_their_owner,
        a_write_by_another_user_takes_setuid_and_setgid,
        a_write_by_root_keeps_setuid,
    ]
}

fn sets_all_permission_bits() {
    drop(file("f", b""));
    for bits in [0o000, 0o644, 0o111, 0o777, 0o4755, 0o2755, 0o1644, 0o7777] {
        chmod("f", bits).unwrap();
        assert_eq!(mode("f"), bits, "{bits:o}");
    }
    mkdir("d", 0o755).unwrap();
    for bits in [0o000, 0o1777, 0o2755, 0o700] {
        chmod("d", bits).unwrap();
        assert_eq!(mode("d"), bits, "{bits:o}");
    }
}

fn changes_the_change_time_and_nothing_else() {
    drop(file("f", b"x"));
    let before = times("f");
    changes_ctime("f", || chmod("f", 0o600).unwrap());
    assert_eq!(times("f")[..2], before[..2]);
    assert_eq!(size("f"), 1);
    // The same mode again is a change all the same.
    changes_ctime("f", || chmod("f", 0o600).unwrap());
}

fn follows_symlinks() {
    drop(file("f", b""));
    symlink("f", "s").unwrap();
    keeps_ctime("s", || chmod("s", 0o640).unwrap());
    assert_eq!(mode("f"), 0o640);
    symlink("absent", "dangling").unwrap();
    fails(chmod("dangling", 0o600), Errno::ENOENT);
}

fn works_through_a_descriptor_opened_for_reading() {
    drop(file("f", b""));
    let file = open("f", O_RDONLY, 0).unwrap();
    changes_ctime("f", || fchmod(&file, 0o604).unwrap());
    assert_eq!(mode("f"), 0o604);
    let path = open("f", O_PATH, 0).unwrap();
    fails(fchmod(&path, 0o600), Errno::EBADF);
}

fn works_on_every_kind_of_file() {
    for name in one_of_each() {
        if kind(name) == S_IFLNK {
            continue;
        }
        changes_ctime(name, || chmod(name, 0o711).unwrap());
        assert_eq!(mode(name), 0o711, "{name}");
    }
}

fn a_removed_file_that_is_open_can_still_be_changed() {
    let open = file("f", b"x");
    unlink("f").unwrap();
    fchmod(&open, 0o751).unwrap();
    assert_eq!(fstat(&open).unwrap().st_mode & 0o7777, 0o751);
}

fn only_the_owner_or_root_may() {
    open_directory("d");
    drop(file("d/f", b""));
    as_nobody(|| fails(chmod("d/f", 0o666), Errno::EPERM));
    chown("d/f", NOBODY, NOBODY).unwrap();
    as_nobody(|| chmod("d/f", 0o600).unwrap());
    assert_eq!(mode("d/f"), 0o600);
    as_user(OTHER, &[NOBODY], || fails(chmod("d/f", 0o666), Errno::EPERM));
}

fn a_failed_change_leaves_the_change_time() {
    drop(file("f", b""));
    keeps_ctime("f", || as_nobody(|| fails(chmod("f", 0o666), Errno::EPERM)));
}

fn loses_setgid_for_a_group_the_owner_is_not_in() {
    drop(file("f", b""));
    chown("f", NOBODY, GROUP).unwrap();
    as_nobody(|| chmod("f", 0o2755).unwrap());
    assert_eq!(mode("f"), 0o755);
    chmod("f", 0o2755).unwrap();
    assert_eq!(mode("f"), 0o2755, "root may");
}

fn keeps_setgid_for_a_supplementary_group() {
    drop(file("f", b""));
    chown("f", NOBODY, GROUP).unwrap();
    as_user(NOBODY, &[7, GROUP], || chmod("f", 0o2755).unwrap());
    assert_eq!(mode("f"), 0o2755);
}

fn sets_the_sticky_bit_on_directories_for_their_owner() {
    mkdir("d", 0o755).unwrap();
    chown("d", NOBODY, NOBODY).unwrap();
    as_nobody(|| chmod("d", 0o1755).unwrap());
    assert_eq!(mode("d"), 0o1755);
}

fn a_write_by_another_user_takes_setuid_and_setgid() {
    for (before, after) in [(0o6777, 0o777), (0o4777, 0o777), (0o2777, 0o777)] {
        drop(file("f", b"x"));
        chmod("f", before).unwrap();
        as_nobody(|| {
            let file = open("f", O_WRONLY, 0).unwrap();
            assert_eq!(write(&file, b"y"), Ok(1));
        });
        assert_eq!(mode("f"), after, "{before:o}");
    }
}

fn a_write_by_root_keeps_setuid() {
    let file = file("f", b"x");
    chmod("f", 0o6777).unwrap();
    assert_eq!(pwrite(&file, b"y", 0), Ok(1));
    assert_eq!(mode("f"), 0o6777);
}
