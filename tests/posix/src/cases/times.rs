//! utimensat(2), futimens(3), and which operations change which times.

use crate::sys::*;
use crate::wants::*;

cases! { "times"
    any [
        both_are_set_to_the_nanosecond,
        one_can_be_left_as_it_is,
        now_is_now,
        setting_times_changes_the_change_time,
        works_on_symlinks_themselves,
        works_through_a_descriptor,
        works_on_every_kind_of_file,
        times_before_1970_and_after_2038_are_kept,
        nanoseconds_out_of_range_are_refused,
        omitting_both_changes_nothing,
        a_write_changes_modification_and_change_time,
        a_write_of_nothing_changes_no_time,
        chosen_times_survive_the_close_of_a_writer,
        reading_leaves_modification_and_change_time,
        a_directorys_times_follow_its_names,
        writing_through_a_map_changes_the_modification_time,
    ]
    root [
        an_owner_without_write_permission_may_set_any_time,
        others_with_write_permission_may_set_now_only,
        others_without_write_permission_may_set_nothing,
    ]
}

const SOME: Time = Time(1_000_000_000, 123_456_789);
const ANOTHER: Time = Time(1_100_000_000, 987_654_321);

fn pair(path: &str) -> [(i64, i64); 2] {
    let [atime, mtime, _] = times(path);
    [atime, mtime]
}

fn both_are_set_to_the_nanosecond() {
    drop(file("f", b""));
    utimensat("f", SOME, ANOTHER, 0).unwrap();
    assert_eq!(pair("f"), [(SOME.0, SOME.1), (ANOTHER.0, ANOTHER.1)]);
}

fn one_can_be_left_as_it_is() {
    drop(file("f", b""));
    utimensat("f", SOME, ANOTHER, 0).unwrap();
    utimensat("f", ANOTHER, OMIT, 0).unwrap();
    assert_eq!(pair("f"), [(ANOTHER.0, ANOTHER.1), (ANOTHER.0, ANOTHER.1)]);
    utimensat("f", OMIT, SOME, 0).unwrap();
    assert_eq!(pair("f"), [(ANOTHER.0, ANOTHER.1), (SOME.0, SOME.1)]);
}

fn now_is_now() {
    drop(file("f", b""));
    utimensat("f", SOME, SOME, 0).unwrap();
    utimensat("f", NOW, OMIT, 0).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let [atime, mtime] = pair("f");
    assert!((atime.0 - now.as_secs() as i64).abs() < 60, "{atime:?}");
    assert_eq!(mtime, (SOME.0, SOME.1));
    touch("f").unwrap();
    assert!((pair("f")[1].0 - now.as_secs() as i64).abs() < 60);
}

fn setting_times_changes_the_change_time() {
    drop(file("f", b""));
    changes_ctime("f", || utimensat("f", SOME, SOME, 0).unwrap());
    changes_ctime("f", || utimensat("f", SOME, SOME, 0).unwrap());
    changes_ctime("f", || touch("f").unwrap());
}

fn works_on_symlinks_themselves() {
    drop(file("f", b""));
    symlink("f", "s").unwrap();
    let before = pair("f");
    utimensat("s", SOME, ANOTHER, AT_SYMLINK_NOFOLLOW).unwrap();
    assert_eq!((pair("s")[1], pair("f")), ((ANOTHER.0, ANOTHER.1), before));
    utimensat("s", SOME, SOME, 0).unwrap();
    assert_eq!(pair("f")[1], (SOME.0, SOME.1));
}

fn works_through_a_descriptor() {
    let open_file = file("f", b"");
    futimens(&open_file, SOME, ANOTHER).unwrap();
    assert_eq!(pair("f"), [(SOME.0, SOME.1), (ANOTHER.0, ANOTHER.1)]);
    drop(open_file);
    let reader = open("f", O_RDONLY, 0).unwrap();
    futimens(&reader, ANOTHER, SOME).unwrap();
    assert_eq!(pair("f")[1], (SOME.0, SOME.1));
}

fn works_on_every_kind_of_file() {
    for name in one_of_each() {
        changes_ctime(name, || utimensat(name, SOME, ANOTHER, AT_SYMLINK_NOFOLLOW).unwrap());
        assert_eq!(pair(name)[1], (ANOTHER.0, ANOTHER.1), "{name}");
    }
}

fn times_before_1970_and_after_2038_are_kept() {
    drop(file("f", b""));
    for seconds in [-1, -1_000_000_000, 0, (1 << 31) - 1, 1 << 31, 1 << 32, 10_000_000_000] {
        utimensat("f", Time(seconds, 5), Time(seconds, 7), 0).unwrap();
        assert_eq!(pair("f"), [(seconds, 5), (seconds, 7)]);
    }
}

fn nanoseconds_out_of_range_are_refused() {
    drop(file("f", b""));
    for nanoseconds in [1_000_000_000, -1, i64::from(i32::MAX)] {
        fails(utimensat("f", Time(0, nanoseconds), SOME, 0), Errno::EINVAL);
        fails(utimensat("f", SOME, Time(0, nanoseconds), 0), Errno::EINVAL);
    }
}

fn omitting_both_changes_nothing() {
    drop(file("f", b""));
    let before = times("f");
    moment();
    utimensat("f", OMIT, OMIT, 0).unwrap();
    assert_eq!(times("f"), before);
}

fn a_write_changes_modification_and_change_time() {
    let open_file = file("f", b"x");
    let before = times("f");
    moment();
    assert_eq!(pwrite(&open_file, b"y", 0), Ok(1));
    drop(open_file);
    let after = times("f");
    assert!(after[1] > before[1] && after[2] > before[2], "{before:?} {after:?}");
}

fn a_write_of_nothing_changes_no_time() {
    let open_file = file("f", b"x");
    drop(open_file);
    let open_file = open("f", O_WRONLY, 0).unwrap();
    let before = times("f");
    moment();
    assert_eq!(write(&open_file, b""), Ok(0));
    drop(open_file);
    assert_eq!(times("f"), before);
}

fn chosen_times_survive_the_close_of_a_writer() {
    let open_file = file("f", b"some data");
    futimens(&open_file, SOME, ANOTHER).unwrap();
    assert_eq!(mtime("f"), (ANOTHER.0, ANOTHER.1));
    drop(open_file);
    moment();
    assert_eq!(mtime("f"), (ANOTHER.0, ANOTHER.1));
    assert_eq!(content("f"), b"some data");
    assert_eq!(mtime("f"), (ANOTHER.0, ANOTHER.1));
}

fn reading_leaves_modification_and_change_time() {
    drop(file("f", b"x"));
    let before = times("f");
    moment();
    assert_eq!(content("f"), b"x");
    assert_eq!(times("f")[1..], before[1..]);
}

fn a_directorys_times_follow_its_names() {
    mkdir("d", 0o755).unwrap();
    drop(file("d/f", b""));
    let before = times("d");
    moment();
    // Neither content nor attributes of what is in it are the directory's.
    drop(file("d/f", b"more"));
    chmod("d/f", 0o600).unwrap();
    assert_eq!(times("d")[1..], before[1..]);
    rename("d/f", "d/g").unwrap();
    assert!(mtime("d") > before[1]);
}

fn writing_through_a_map_changes_the_modification_time() {
    let open_file = file("f", &[0; 8192]);
    let before = times("f");
    moment();
    let map = Map::shared(&open_file, 8192).unwrap();
    map.set(5, b"x");
    map.sync().unwrap();
    let after = times("f");
    assert!(after[1] > before[1] && after[2] > before[2], "{before:?} {after:?}");
}

fn an_owner_without_write_permission_may_set_any_time() {
    drop(file("f", b""));
    chown("f", NOBODY, NOBODY).unwrap();
    chmod("f", 0o400).unwrap();
    as_nobody(|| {
        utimensat("f", SOME, ANOTHER, 0).unwrap();
        touch("f").unwrap();
    });
}

fn others_with_write_permission_may_set_now_only() {
    drop(file("f", b""));
    chmod("f", 0o666).unwrap();
    as_nobody(|| {
        touch("f").unwrap();
        utimensat("f", NOW, NOW, 0).unwrap();
        fails(utimensat("f", SOME, SOME, 0), Errno::EPERM);
        fails(utimensat("f", NOW, OMIT, 0), Errno::EPERM);
        fails(utimensat("f", NOW, SOME, 0), Errno::EPERM);
    });
}

fn others_without_write_permission_may_set_nothing() {
    drop(file("f", b""));
    as_nobody(|| {
        fails(touch("f"), Errno::EACCES);
        fails(utimensat("f", NOW, NOW, 0), Errno::EACCES);
        fails(utimensat("f", SOME, SOME, 0), Errno::EPERM);
    });
}
