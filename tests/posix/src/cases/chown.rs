//! chown(2), fchown(2), lchown(2).

use crate::sys::*;
use crate::wants::*;

cases! { "chown"
    any [changing_nothing_is_allowed_to_the_owner]
    root [
        sets_owner_and_group_of_every_kind,
        minus_one_leaves_one_alone,
        changes_the_change_time,
        lchown_changes_the_symlink_and_chown_what_it_leads_to,
        a_user_cannot_give_a_file_away,
        an_owner_may_change_to_own_groups_only,
        somebody_else_may_change_nothing,
        takes_setuid_and_setgid_from_programs,
        keeps_setgid_without_group_execution_for_members_only,
        keeps_the_bits_of_directories,
        works_through_a_descriptor,
        large_numbers_are_kept,
        a_failed_change_leaves_the_change_time,
    ]
}

/// "Leave it alone", in chown(2).
const SAME: u32 = u32::MAX;

fn changing_nothing_is_allowed_to_the_owner() {
    drop(file("f", b""));
    chown("f", SAME, SAME).unwrap();
    let (uid, gid) = owner("f");
    chown("f", uid, gid).unwrap();
    assert_eq!(owner("f"), (uid, gid));
}

fn sets_owner_and_group_of_every_kind() {
    for name in one_of_each() {
        lchown(name, 123, 456).unwrap();
        assert_eq!(owner(name), (123, 456), "{name}");
    }
}

fn minus_one_leaves_one_alone() {
    drop(file("f", b""));
    chown("f", 1, 2).unwrap();
    chown("f", 3, SAME).unwrap();
    assert_eq!(owner("f"), (3, 2));
    chown("f", SAME, 4).unwrap();
    assert_eq!(owner("f"), (3, 4));
}

fn changes_the_change_time() {
    for name in one_of_each() {
        changes_ctime(name, || lchown(name, 5, 6).unwrap());
    }
}

fn lchown_changes_the_symlink_and_chown_what_it_leads_to() {
    drop(file("f", b""));
    symlink("f", "s").unwrap();
    chown("s", 10, 11).unwrap();
    assert_eq!((owner("f"), owner("s")), ((10, 11), (0, 0)));
    lchown("s", 20, 21).unwrap();
    assert_eq!((owner("f"), owner("s")), ((10, 11), (20, 21)));
}

fn a_user_cannot_give_a_file_away() {
    drop(file("f", b""));
    chown("f", NOBODY, NOBODY).unwrap();
    as_nobody(|| {
        fails(chown("f", OTHER, SAME), Errno::EPERM);
        fails(chown("f", 0, 0), Errno::EPERM);
        chown("f", NOBODY, SAME).unwrap();
    });
    assert_eq!(owner("f"), (NOBODY, NOBODY));
}

fn an_owner_may_change_to_own_groups_only() {
    drop(file("f", b""));
    chown("f", NOBODY, NOBODY).unwrap();
    as_user(NOBODY, &[GROUP, 77], || {
        chown("f", SAME, GROUP).unwrap();
        chown("f", NOBODY, 77).unwrap();
        fails(chown("f", SAME, 78), Errno::EPERM);
    });
    assert_eq!(owner("f"), (NOBODY, 77));
}

fn somebody_else_may_change_nothing() {
    drop(file("f", b""));
    chown("f", OTHER, GROUP).unwrap();
    as_user(NOBODY, &[GROUP], || {
        fails(chown("f", NOBODY, SAME), Errno::EPERM);
        fails(chown("f", SAME, GROUP), Errno::EPERM);
        fails(chown("f", SAME, NOBODY), Errno::EPERM);
    });
}

fn takes_setuid_and_setgid_from_programs() {
    drop(file("f", b""));
    chown("f", NOBODY, NOBODY).unwrap();
    chmod("f", 0o6755).unwrap();
    as_user(NOBODY, &[GROUP], || chown("f", SAME, GROUP).unwrap());
    assert_eq!(mode("f"), 0o755);
    // On Linux root is treated alike.
    chmod("f", 0o6755).unwrap();
    chown("f", 1, 1).unwrap();
    assert_eq!(mode("f"), 0o755);
}

fn keeps_setgid_without_group_execution_for_members_only() {
    drop(file("f", b""));
    chown("f", NOBODY, NOBODY).unwrap();
    chmod("f", 0o2745).unwrap();
    as_user(NOBODY, &[GROUP], || chown("f", SAME, GROUP).unwrap());
    assert_eq!(mode("f"), 0o2745);
}

fn keeps_the_bits_of_directories() {
    mkdir("d", 0o755).unwrap();
    chmod("d", 0o6755).unwrap();
    chown("d", NOBODY, NOBODY).unwrap();
    assert_eq!(mode("d"), 0o6755);
}

fn works_through_a_descriptor() {
    let open = file("f", b"");
    changes_ctime("f", || fchown(&open, 8, 9).unwrap());
    assert_eq!(owner("f"), (8, 9));
    unlink("f").unwrap();
    fchown(&open, 10, 11).unwrap();
    let stat = fstat(&open).unwrap();
    assert_eq!((stat.st_uid, stat.st_gid), (10, 11));
}

fn large_numbers_are_kept() {
    drop(file("f", b""));
    chown("f", 0xffff_fffe, 0x8000_0001).unwrap();
    assert_eq!(owner("f"), (0xffff_fffe, 0x8000_0001));
}

fn a_failed_change_leaves_the_change_time() {
    drop(file("f", b""));
    keeps_ctime("f", || as_nobody(|| fails(chown("f", NOBODY, NOBODY), Errno::EPERM)));
}
