//! mknod(2), mkfifo(3), sockets.

use crate::sys::*;
use crate::wants::*;

cases! { "mknod"
    any [
        a_fifo_carries_bytes_from_writer_to_reader,
        a_regular_file_can_be_made,
        takes_the_umask_off,
        refuses_a_name_that_is_there,
        changes_the_times_of_the_parent,
        a_socket_has_a_name_that_can_be_removed,
        opening_a_socket_is_refused,
        a_fifo_without_reader_refuses_a_writer_that_does_not_wait,
    ]
    root [
        devices_keep_their_numbers,
        devices_are_refused_to_users,
        users_make_fifos,
        an_unknown_kind_is_refused,
    ]
}

fn a_fifo_carries_bytes_from_writer_to_reader() {
    mkfifo("p", 0o644).unwrap();
    assert_eq!(kind("p"), S_IFIFO);
    let writer = child(|| {
        let end = open("p", O_WRONLY, 0).unwrap();
        assert_eq!(write(&end, b"through"), Ok(7));
    });
    let end = open("p", O_RDONLY, 0).unwrap();
    assert_eq!(read(&end, 7).unwrap(), b"through");
    writer.succeeds();
}

fn a_regular_file_can_be_made() {
    mknod("f", S_IFREG | 0o640, 0).unwrap();
    assert_eq!((kind("f"), mode("f"), size("f")), (S_IFREG, 0o640, 0));
    mknod("g", 0o600, 0).unwrap();
    assert_eq!(kind("g"), S_IFREG);
    assert_eq!(write(&open("g", O_WRONLY, 0).unwrap(), b"x"), Ok(1));
}

fn takes_the_umask_off() {
    umask(0o027);
    mkfifo("p", 0o666).unwrap();
    mknod("f", S_IFREG | 0o666, 0).unwrap();
    assert_eq!((mode("p"), mode("f")), (0o640, 0o640));
}

fn refuses_a_name_that_is_there() {
    for name in one_of_each() {
        fails(mkfifo(name, 0o644), Errno::EEXIST);
        fails(mknod(name, S_IFREG | 0o644, 0), Errno::EEXIST);
    }
    symlink("absent", "dangling").unwrap();
    fails(mkfifo("dangling", 0o644), Errno::EEXIST);
}

fn changes_the_times_of_the_parent() {
    mkdir("d", 0o755).unwrap();
    let before = mtime("d");
    changes_ctime("d", || mkfifo("d/p", 0o644).unwrap());
    assert!(mtime("d") > before);
}

fn a_socket_has_a_name_that_can_be_removed() {
    let _socket = bind("s").unwrap();
    assert_eq!(kind("s"), S_IFSOCK);
    fails(bind("s"), Errno::EADDRINUSE);
    unlink("s").unwrap();
    drop(bind("s").unwrap());
}

fn opening_a_socket_is_refused() {
    mknod("s", S_IFSOCK | 0o644, 0).unwrap();
    fails(open("s", O_RDONLY, 0), Errno::ENXIO);
}

fn a_fifo_without_reader_refuses_a_writer_that_does_not_wait() {
    mkfifo("p", 0o644).unwrap();
    fails(open("p", O_WRONLY | O_NONBLOCK, 0), Errno::ENXIO);
    let _reader = open("p", O_RDONLY | O_NONBLOCK, 0).unwrap();
    let _writer = open("p", O_WRONLY | O_NONBLOCK, 0).unwrap();
}

fn devices_keep_their_numbers() {
    for (name, of_kind, number) in [
        ("null", S_IFCHR, device(1, 3)),
        ("loop", S_IFBLK, device(7, 250)),
        ("large", S_IFCHR, device(4000, 1_000_000)),
    ] {
        mknod(name, of_kind | 0o600, number).unwrap();
        let stat = lstat(name).unwrap();
        assert_eq!((stat.st_mode & S_IFMT, stat.st_rdev), (of_kind, number), "{name}");
    }
}

fn devices_are_refused_to_users() {
    open_directory("d");
    as_nobody(|| {
        fails(mknod("d/c", S_IFCHR | 0o600, device(1, 3)), Errno::EPERM);
        fails(mknod("d/b", S_IFBLK | 0o600, device(7, 250)), Errno::EPERM);
    });
}

fn users_make_fifos() {
    open_directory("d");
    mkdir("closed", 0o755).unwrap();
    as_nobody(|| {
        mkfifo("d/p", 0o644).unwrap();
        fails(mkfifo("closed/p", 0o644), Errno::EACCES);
    });
    assert_eq!(owner("d/p"), (NOBODY, NOBODY));
}

fn an_unknown_kind_is_refused() {
    fails(mknod("d", S_IFDIR | 0o755, 0), Errno::EPERM);
    fails(mknod("l", S_IFLNK | 0o755, 0), Errno::EINVAL);
    assert!(names(".").is_empty());
}
