//! Access control lists: `system.posix_acl_access` and `system.posix_acl_default`, as acl(5) has them.

use crate::sys::*;
use crate::wants::*;

cases! { "acl"
    any [
        a_file_without_a_list_has_none,
        a_list_comes_back_as_it_was_set,
        a_list_that_says_no_more_than_the_mode_is_not_kept,
        the_groups_bits_of_the_mode_are_the_mask,
        a_malformed_list_is_refused,
        only_directories_have_default_lists,
        lists_are_removed,
        lists_are_named_among_the_attributes,
        symlinks_have_no_lists,
        setting_a_list_changes_the_change_time,
    ]
    root [
        a_named_user_has_what_the_list_says,
        a_named_group_has_what_the_list_says,
        the_mask_limits_named_users_and_groups,
        chmod_sets_the_mask,
        the_owner_is_not_limited_by_the_mask,
        what_is_made_inherits_the_default_list,
        directories_hand_the_default_list_on,
        the_umask_does_not_count_where_there_is_a_default_list,
        only_the_owner_may_set_a_list,
        the_copy_of_a_list_works_as_the_original,
    ]
}

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// An entry: who, and what they may.
#[derive(Clone, Copy)]
enum Entry {
    Owner(u16),
    User(u32, u16),
    OwningGroup(u16),
    Group(u32, u16),
    Mask(u16),
    Others(u16),
}

/// A list as the kernel wants it: version 2, then tag, permissions and id of each entry.
fn list(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for entry in entries {
        let (tag, permissions, id) = match *entry {
            Entry::Owner(permissions) => (0x01u16, permissions, u32::MAX),
            Entry::User(id, permissions) => (0x02, permissions, id),
            Entry::OwningGroup(permissions) => (0x04, permissions, u32::MAX),
            Entry::Group(id, permissions) => (0x08, permissions, id),
            Entry::Mask(permissions) => (0x10, permissions, u32::MAX),
            Entry::Others(permissions) => (0x20, permissions, u32::MAX),
        };
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

/// Owner rw, a named user, group and others as given, with a mask.
fn with_user(uid: u32, permissions: u16, mask: u16) -> Vec<u8> {
    use Entry::*;
    list(&[Owner(6), User(uid, permissions), OwningGroup(4), Mask(mask), Others(0)])
}

fn a_file_without_a_list_has_none() {
    drop(file("f", b""));
    fails(getxattr("f", ACCESS), Errno::ENODATA);
    mkdir("d", 0o755).unwrap();
    fails(getxattr("d", DEFAULT), Errno::ENODATA);
    assert!(listxattr("f").unwrap().is_empty());
}

fn a_list_comes_back_as_it_was_set() {
    use Entry::*;
    drop(file("f", b""));
    let set = list(&[
        Owner(7),
        User(5, 6),
        User(70_000, 1),
        OwningGroup(4),
        Group(9, 5),
        Mask(7),
        Others(1),
    ]);
    setxattr("f", ACCESS, &set, 0).unwrap();
    assert_eq!(getxattr("f", ACCESS).unwrap(), set);
    assert_eq!(mode("f"), 0o771);
    mkdir("d", 0o755).unwrap();
    setxattr("d", DEFAULT, &set, 0).unwrap();
    assert_eq!((getxattr("d", DEFAULT).unwrap(), mode("d")), (set, 0o755));
}

fn a_list_that_says_no_more_than_the_mode_is_not_kept() {
    use Entry::*;
    drop(file("f", b""));
    setxattr("f", ACCESS, &list(&[Owner(6), OwningGroup(2), Others(1)]), 0).unwrap();
    assert_eq!(mode("f"), 0o621);
    fails(getxattr("f", ACCESS), Errno::ENODATA);
}

fn the_groups_bits_of_the_mode_are_the_mask() {
    drop(file("f", b""));
    setxattr("f", ACCESS, &with_user(5, 7, 5), 0).unwrap();
    assert_eq!(mode("f"), 0o650);
}

fn a_malformed_list_is_refused() {
    use Entry::*;
    drop(file("f", b""));
    for wrong in [
        list(&[Owner(6), OwningGroup(4)]),
        list(&[Owner(6), User(5, 7), OwningGroup(4), Others(0)]),
        list(&[Owner(6), Owner(6), OwningGroup(4), Others(0)]),
        list(&[Owner(8), OwningGroup(4), Others(0)]),
        list(&[Others(0), OwningGroup(4), Owner(6)]),
    ] {
        fails(setxattr("f", ACCESS, &wrong, 0), Errno::EINVAL);
    }
    let mut cut = list(&[Owner(6), OwningGroup(4), Others(0)]);
    cut.pop();
    fails(setxattr("f", ACCESS, &cut, 0), Errno::EINVAL);
    let mut version = list(&[Owner(6), OwningGroup(4), Others(0)]);
    version[0] = 3;
    fails(setxattr("f", ACCESS, &version, 0), Errno::EOPNOTSUPP);
    assert_eq!(mode("f"), 0o644);
}

fn only_directories_have_default_lists() {
    drop(file("f", b""));
    fails(setxattr("f", DEFAULT, &with_user(5, 7, 7), 0), Errno::EACCES);
    mkdir("d", 0o755).unwrap();
    setxattr("d", DEFAULT, &with_user(5, 7, 7), 0).unwrap();
}

fn lists_are_removed() {
    drop(file("f", b""));
    setxattr("f", ACCESS, &with_user(5, 7, 5), 0).unwrap();
    removexattr("f", ACCESS).unwrap();
    fails(getxattr("f", ACCESS), Errno::ENODATA);
    mkdir("d", 0o755).unwrap();
    setxattr("d", DEFAULT, &with_user(5, 7, 5), 0).unwrap();
    removexattr("d", DEFAULT).unwrap();
    drop(file("d/f", b""));
    assert_eq!(mode("d/f"), 0o644);
}

fn lists_are_named_among_the_attributes() {
    mkdir("d", 0o755).unwrap();
    setxattr("d", ACCESS, &with_user(5, 7, 5), 0).unwrap();
    setxattr("d", DEFAULT, &with_user(5, 7, 5), 0).unwrap();
    assert_eq!(listxattr("d").unwrap(), [ACCESS, DEFAULT]);
}

fn symlinks_have_no_lists() {
    symlink("absent", "s").unwrap();
    fails(lsetxattr("s", ACCESS, &with_user(5, 7, 5), 0), Errno::EOPNOTSUPP);
}

fn setting_a_list_changes_the_change_time() {
    drop(file("f", b""));
    changes_ctime("f", || setxattr("f", ACCESS, &with_user(5, 7, 5), 0).unwrap());
}

fn a_named_user_has_what_the_list_says() {
    drop(file("f", b"x"));
    setxattr("f", ACCESS, &with_user(NOBODY, 6, 7), 0).unwrap();
    as_nobody(|| {
        drop(open("f", O_RDWR, 0).unwrap());
        access("f", libc::R_OK | libc::W_OK).unwrap();
        fails(access("f", libc::X_OK), Errno::EACCES);
    });
    as_user(OTHER, &[], || fails(open("f", O_RDONLY, 0), Errno::EACCES));
    // Named with less than the others have.
    use Entry::*;
    let less = list(&[Owner(6), User(NOBODY, 0), OwningGroup(4), Mask(7), Others(4)]);
    setxattr("f", ACCESS, &less, 0).unwrap();
    as_nobody(|| fails(open("f", O_RDONLY, 0), Errno::EACCES));
    as_user(OTHER, &[], || drop(open("f", O_RDONLY, 0).unwrap()));
}

fn a_named_group_has_what_the_list_says() {
    use Entry::*;
    drop(file("f", b"x"));
    chown("f", 0, GROUP).unwrap();
    let set = list(&[Owner(6), OwningGroup(4), Group(77, 2), Group(78, 6), Mask(7), Others(0)]);
    setxattr("f", ACCESS, &set, 0).unwrap();
    as_user(NOBODY, &[77], || {
        drop(open("f", O_WRONLY, 0).unwrap());
        fails(open("f", O_RDONLY, 0), Errno::EACCES);
    });
    as_user(NOBODY, &[78], || drop(open("f", O_RDWR, 0).unwrap()));
    // Each right may come from another group, but all that is asked at once from one.
    as_user(NOBODY, &[77, GROUP], || {
        drop(open("f", O_RDONLY, 0).unwrap());
        drop(open("f", O_WRONLY, 0).unwrap());
        fails(open("f", O_RDWR, 0), Errno::EACCES);
    });
}

fn the_mask_limits_named_users_and_groups() {
    drop(file("f", b"x"));
    setxattr("f", ACCESS, &with_user(NOBODY, 7, 4), 0).unwrap();
    as_nobody(|| {
        drop(open("f", O_RDONLY, 0).unwrap());
        fails(open("f", O_WRONLY, 0), Errno::EACCES);
    });
}

fn chmod_sets_the_mask() {
    use Entry::*;
    drop(file("f", b"x"));
    setxattr("f", ACCESS, &with_user(NOBODY, 7, 7), 0).unwrap();
    chmod("f", 0o640).unwrap();
    as_nobody(|| fails(open("f", O_WRONLY, 0), Errno::EACCES));
    let expected = list(&[Owner(6), User(NOBODY, 7), OwningGroup(4), Mask(4), Others(0)]);
    assert_eq!(getxattr("f", ACCESS).unwrap(), expected);
    chmod("f", 0o461).unwrap();
    let expected = list(&[Owner(4), User(NOBODY, 7), OwningGroup(4), Mask(6), Others(1)]);
    assert_eq!(getxattr("f", ACCESS).unwrap(), expected);
    as_nobody(|| drop(open("f", O_RDWR, 0).unwrap()));
}

fn the_owner_is_not_limited_by_the_mask() {
    drop(file("f", b"x"));
    chown("f", NOBODY, GROUP).unwrap();
    setxattr("f", ACCESS, &with_user(OTHER, 7, 0), 0).unwrap();
    as_nobody(|| drop(open("f", O_RDWR, 0).unwrap()));
    as_user(OTHER, &[GROUP], || fails(open("f", O_RDONLY, 0), Errno::EACCES));
}

fn what_is_made_inherits_the_default_list() {
    use Entry::*;
    open_directory("d");
    let default = list(&[Owner(7), User(NOBODY, 7), OwningGroup(5), Mask(7), Others(1)]);
    setxattr("d", DEFAULT, &default, 0).unwrap();
    drop(open("d/f", O_WRONLY | O_CREAT, 0o640).unwrap());
    mkfifo("d/p", 0o640).unwrap();
    let inherited = list(&[Owner(6), User(NOBODY, 7), OwningGroup(5), Mask(4), Others(0)]);
    for name in ["d/f", "d/p"] {
        assert_eq!((getxattr(name, ACCESS).unwrap(), mode(name)), (inherited.clone(), 0o640));
        fails(getxattr(name, DEFAULT), Errno::ENODATA);
    }
    as_nobody(|| {
        drop(open("d/f", O_RDONLY, 0).unwrap());
        fails(open("d/f", O_WRONLY, 0), Errno::EACCES);
    });
    symlink("f", "d/s").unwrap();
    assert_eq!(mode("d/s"), 0o777);
}

fn directories_hand_the_default_list_on() {
    use Entry::*;
    mkdir("d", 0o755).unwrap();
    let default = list(&[Owner(7), User(NOBODY, 7), OwningGroup(5), Mask(7), Others(0)]);
    setxattr("d", DEFAULT, &default, 0).unwrap();
    mkdir("d/e", 0o777).unwrap();
    mkdir("d/e/g", 0o777).unwrap();
    assert_eq!(getxattr("d/e", DEFAULT).unwrap(), default);
    assert_eq!(getxattr("d/e/g", DEFAULT).unwrap(), default);
    assert_eq!((getxattr("d/e/g", ACCESS).unwrap(), mode("d/e/g")), (default, 0o770));
    as_nobody(|| drop(file("d/e/g/made", b"")));
}

fn the_umask_does_not_count_where_there_is_a_default_list() {
    use Entry::*;
    mkdir("d", 0o755).unwrap();
    setxattr("d", DEFAULT, &list(&[Owner(7), OwningGroup(7), Others(5)]), 0).unwrap();
    umask(0o077);
    drop(open("d/f", O_WRONLY | O_CREAT, 0o666).unwrap());
    mkdir("d/e", 0o777).unwrap();
    mknod("d/n", S_IFREG | 0o666, 0).unwrap();
    assert_eq!((mode("d/f"), mode("d/e"), mode("d/n")), (0o664, 0o775, 0o664));
    drop(open("f", O_WRONLY | O_CREAT, 0o666).unwrap());
    assert_eq!(mode("f"), 0o600, "elsewhere it counts");
}

fn only_the_owner_may_set_a_list() {
    drop(file("f", b""));
    chmod("f", 0o666).unwrap();
    as_nobody(|| {
        fails(setxattr("f", ACCESS, &with_user(NOBODY, 7, 7), 0), Errno::EPERM);
        fails(getxattr("f", ACCESS), Errno::ENODATA);
    });
    chown("f", NOBODY, NOBODY).unwrap();
    as_nobody(|| {
        setxattr("f", ACCESS, &with_user(OTHER, 7, 7), 0).unwrap();
        removexattr("f", ACCESS).unwrap();
    });
    setxattr("f", ACCESS, &with_user(OTHER, 7, 7), 0).unwrap();
    chmod("f", 0o004).unwrap();
    as_user(4, &[], || drop(getxattr("f", ACCESS).unwrap()));
}

fn the_copy_of_a_list_works_as_the_original() {
    drop(file("f", b"x"));
    setxattr("f", ACCESS, &with_user(NOBODY, 4, 7), 0).unwrap();
    drop(file("g", b"y"));
    chmod("g", 0o600).unwrap();
    setxattr("g", ACCESS, &getxattr("f", ACCESS).unwrap(), 0).unwrap();
    as_nobody(|| assert_eq!(content("g"), b"y"));
}
