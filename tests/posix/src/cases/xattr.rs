//! Extended attributes: xattr(7).

use crate::sys::*;
use crate::wants::*;

cases! { "xattr"
    any [
        values_come_back_as_they_were_set,
        create_and_replace_mean_it,
        a_value_longer_than_the_room_is_erange,
        what_is_absent_is_enodata,
        all_are_listed,
        setting_and_removing_change_the_change_time,
        names_without_a_known_family_are_refused,
        names_and_values_have_limits,
        symlinks_and_special_files_have_none_of_the_users,
        belong_to_the_file_and_not_to_the_name,
        can_be_set_through_a_descriptor,
        a_hundred_can_be_set,
    ]
    root [
        follow_the_permissions_for_the_data,
        trusted_ones_are_roots,
        security_ones_are_read_by_all_and_set_by_root,
        on_sticky_directories_only_the_owner_sets_them,
    ]
}

fn values_come_back_as_they_were_set() {
    drop(file("f", b""));
    mkdir("d", 0o755).unwrap();
    for name in ["f", "d"] {
        for value in [&b""[..], b"x", b"\0\xff\n", &[7; 3000]] {
            setxattr(name, "user.a", value, 0).unwrap();
            assert_eq!(getxattr(name, "user.a").unwrap(), value);
        }
    }
}

fn create_and_replace_mean_it() {
    drop(file("f", b""));
    fails(setxattr("f", "user.a", b"1", XATTR_REPLACE), Errno::ENODATA);
    setxattr("f", "user.a", b"1", XATTR_CREATE).unwrap();
    fails(setxattr("f", "user.a", b"2", XATTR_CREATE), Errno::EEXIST);
    setxattr("f", "user.a", b"3", XATTR_REPLACE).unwrap();
    assert_eq!(getxattr("f", "user.a").unwrap(), b"3");
}

fn a_value_longer_than_the_room_is_erange() {
    drop(file("f", b""));
    setxattr("f", "user.a", b"0123456789", 0).unwrap();
    fails(getxattr_into("f", "user.a", 9), Errno::ERANGE);
    assert_eq!(getxattr_into("f", "user.a", 10).unwrap(), b"0123456789");
    assert_eq!(getxattr_into("f", "user.a", 0).unwrap().len(), 10);
}

fn what_is_absent_is_enodata() {
    drop(file("f", b""));
    fails(getxattr("f", "user.a"), Errno::ENODATA);
    fails(removexattr("f", "user.a"), Errno::ENODATA);
    setxattr("f", "user.a", b"", 0).unwrap();
    removexattr("f", "user.a").unwrap();
    fails(getxattr("f", "user.a"), Errno::ENODATA);
}

fn all_are_listed() {
    drop(file("f", b""));
    assert!(listxattr("f").unwrap().is_empty());
    for name in ["user.c", "user.a", "user.b"] {
        setxattr("f", name, b"x", 0).unwrap();
    }
    assert_eq!(listxattr("f").unwrap(), ["user.a", "user.b", "user.c"]);
    removexattr("f", "user.b").unwrap();
    assert_eq!(listxattr("f").unwrap(), ["user.a", "user.c"]);
}

fn setting_and_removing_change_the_change_time() {
    drop(file("f", b""));
    let before = mtime("f");
    changes_ctime("f", || setxattr("f", "user.a", b"x", 0).unwrap());
    changes_ctime("f", || removexattr("f", "user.a").unwrap());
    assert_eq!(mtime("f"), before);
}

fn names_without_a_known_family_are_refused() {
    drop(file("f", b""));
    for name in ["a", "nobody.a", "user"] {
        fails(setxattr("f", name, b"x", 0), Errno::EOPNOTSUPP);
        fails(getxattr("f", name), Errno::EOPNOTSUPP);
    }
    fails(setxattr("f", "user.", b"x", 0), Errno::EINVAL);
}

fn names_and_values_have_limits() {
    drop(file("f", b""));
    let longest = format!("user.{}", "n".repeat(250));
    setxattr("f", &longest, b"x", 0).unwrap();
    assert_eq!(getxattr("f", &longest).unwrap(), b"x");
    fails(setxattr("f", &format!("{longest}n"), b"x", 0), Errno::ERANGE);
    fails(setxattr("f", "", b"x", 0), Errno::ERANGE);
    fails(setxattr("f", "user.large", &[0; 65_537], 0), Errno::E2BIG);
}

fn symlinks_and_special_files_have_none_of_the_users() {
    for name in one_of_each() {
        if !matches!(kind(name), S_IFREG | S_IFDIR) {
            fails(lsetxattr(name, "user.a", b"x", 0), Errno::EPERM);
        }
    }
}

fn belong_to_the_file_and_not_to_the_name() {
    drop(file("f", b""));
    setxattr("f", "user.a", b"x", 0).unwrap();
    link("f", "g").unwrap();
    rename("f", "h").unwrap();
    assert_eq!(
        (getxattr("g", "user.a"), getxattr("h", "user.a")),
        (Ok(b"x".to_vec()), Ok(b"x".to_vec()))
    );
    drop(file("f", b""));
    fails(getxattr("f", "user.a"), Errno::ENODATA);
}

fn can_be_set_through_a_descriptor() {
    let open_file = file("f", b"");
    fsetxattr(&open_file, "user.a", b"x", 0).unwrap();
    unlink("f").unwrap();
    fsetxattr(&open_file, "user.b", b"y", 0).unwrap();
    assert_eq!(fgetxattr(&open_file, "user.a").unwrap(), b"x");
    assert_eq!(fgetxattr(&open_file, "user.b").unwrap(), b"y");
}

fn a_hundred_can_be_set() {
    drop(file("f", b""));
    for index in 0..100 {
        setxattr("f", &format!("user.{index:03}"), &[index; 10], 0).unwrap();
    }
    assert_eq!(listxattr("f").unwrap().len(), 100);
    assert_eq!(getxattr("f", "user.042").unwrap(), [42; 10]);
}

fn follow_the_permissions_for_the_data() {
    drop(file("f", b""));
    setxattr("f", "user.a", b"x", 0).unwrap();
    chmod("f", 0o604).unwrap();
    as_nobody(|| {
        assert_eq!(getxattr("f", "user.a").unwrap(), b"x");
        fails(setxattr("f", "user.a", b"y", 0), Errno::EACCES);
        fails(removexattr("f", "user.a"), Errno::EACCES);
    });
    chmod("f", 0o602).unwrap();
    as_nobody(|| {
        fails(getxattr("f", "user.a"), Errno::EACCES);
        setxattr("f", "user.a", b"y", 0).unwrap();
    });
}

fn trusted_ones_are_roots() {
    drop(file("f", b""));
    setxattr("f", "trusted.a", b"x", 0).unwrap();
    assert_eq!(getxattr("f", "trusted.a").unwrap(), b"x");
    assert_eq!(listxattr("f").unwrap(), ["trusted.a"]);
    chmod("f", 0o666).unwrap();
    as_nobody(|| {
        fails(getxattr("f", "trusted.a"), Errno::ENODATA);
        fails(setxattr("f", "trusted.a", b"y", 0), Errno::EPERM);
        assert!(listxattr("f").unwrap().is_empty());
    });
}

fn security_ones_are_read_by_all_and_set_by_root() {
    drop(file("f", b""));
    setxattr("f", "security.pvfstest", b"x", 0).unwrap();
    chmod("f", 0o666).unwrap();
    as_nobody(|| {
        assert_eq!(getxattr("f", "security.pvfstest").unwrap(), b"x");
        fails(setxattr("f", "security.pvfstest", b"y", 0), Errno::EPERM);
    });
    removexattr("f", "security.pvfstest").unwrap();
}

fn on_sticky_directories_only_the_owner_sets_them() {
    open_directory("d");
    as_nobody(|| setxattr("d", "user.a", b"x", 0).unwrap());
    chmod("d", 0o1777).unwrap();
    as_nobody(|| fails(setxattr("d", "user.a", b"x", 0), Errno::EPERM));
    chown("d", NOBODY, NOBODY).unwrap();
    as_nobody(|| setxattr("d", "user.a", b"x", 0).unwrap());
}
