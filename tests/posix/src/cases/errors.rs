//! Which error a bad path gives, for every call that takes one.

use crate::sys::*;
use crate::wants::*;

cases! { "errors"
    any [
        a_component_that_is_a_file_is_enotdir,
        a_component_that_is_absent_is_enoent,
        a_component_that_loops_is_eloop,
        a_name_of_256_bytes_is_enametoolong,
        a_name_of_255_bytes_is_fine,
        a_path_of_4096_bytes_is_enametoolong,
        an_empty_path_is_enoent,
        what_is_absent_is_enoent,
        bytes_of_any_value_make_a_name,
    ]
    root [a_directory_without_search_permission_is_eacces]
}

/// Every call with a path, as it ends.
fn every_call(path: &str) -> Vec<(&'static str, Result<()>)> {
    drop(file("source", b""));
    chmod("source", 0o666).unwrap();
    let calls = vec![
        ("open", open(path, O_RDONLY, 0).map(drop)),
        ("creat", open(path, O_WRONLY | O_CREAT, 0o644).map(drop)),
        ("mkdir", mkdir(path, 0o755)),
        ("rmdir", rmdir(path)),
        ("mkfifo", mkfifo(path, 0o644)),
        ("symlink", symlink("x", path)),
        ("link from", link(path, "made")),
        ("link to", link("source", path)),
        ("rename from", rename(path, "made")),
        ("rename to", rename("source", path)),
        ("unlink", unlink(path)),
        ("chmod", chmod(path, 0o600)),
        ("chown", chown(path, u32::MAX, u32::MAX)),
        ("lchown", lchown(path, u32::MAX, u32::MAX)),
        ("truncate", truncate(path, 0)),
        ("stat", stat(path).map(drop)),
        ("lstat", lstat(path).map(drop)),
        ("readlink", readlink(path).map(drop)),
        ("access", access(path, libc::F_OK)),
        ("utimensat", utimensat(path, NOW, NOW, 0)),
        ("getxattr", getxattr(path, "user.x").map(drop)),
        ("setxattr", setxattr(path, "user.x", b"", 0)),
        ("opendir", Stream::open(path).map(drop)),
        ("chdir", chdir(path)),
        ("statvfs", statvfs(path).map(drop)),
    ];
    // It has been moved when a call did what it was asked.
    let _ = unlink("source");
    calls
}

#[track_caller]
fn all_fail(path: &str, expected: Errno) {
    for (call, outcome) in every_call(path) {
        assert_eq!(outcome, Err(expected), "{call}");
    }
}

fn a_component_that_is_a_file_is_enotdir() {
    drop(file("f", b""));
    all_fail("f/x", Errno::ENOTDIR);
    mkfifo("p", 0o644).unwrap();
    all_fail("p/x", Errno::ENOTDIR);
}

fn a_component_that_is_absent_is_enoent() {
    all_fail("absent/x", Errno::ENOENT);
    symlink("absent", "dangling").unwrap();
    all_fail("dangling/x", Errno::ENOENT);
}

fn a_component_that_loops_is_eloop() {
    symlink("loop", "loop").unwrap();
    all_fail("loop/x", Errno::ELOOP);
}

fn a_name_of_256_bytes_is_enametoolong() {
    let long = format!("{}n", longest_name());
    all_fail(&long, Errno::ENAMETOOLONG);
    all_fail(&format!("{long}/x"), Errno::ENAMETOOLONG);
}

fn a_name_of_255_bytes_is_fine() {
    let name = longest_name();
    drop(file(&name, b"x"));
    mkdir("d", 0o755).unwrap();
    rename(&name, &format!("d/{name}")).unwrap();
    assert_eq!(names("d").concat(), name);
    unlink(&format!("d/{name}")).unwrap();
    mkdir(&name, 0o755).unwrap();
    symlink("x", &format!("{name}/{name}")).unwrap();
    assert_eq!(readlink(&format!("{name}/{name}")).as_deref(), Ok("x"));
}

fn a_path_of_4096_bytes_is_enametoolong() {
    let long = format!("{}x", "./".repeat(2048));
    all_fail(&long, Errno::ENAMETOOLONG);
    let longest = format!("{}x", "./".repeat(2047));
    drop(file(&longest, b""));
    assert_eq!(names("."), ["x"]);
}

fn an_empty_path_is_enoent() {
    all_fail("", Errno::ENOENT);
}

fn what_is_absent_is_enoent() {
    let makes = ["creat", "mkdir", "mkfifo", "symlink", "link to", "rename to"];
    for (call, outcome) in every_call("d/absent") {
        assert_eq!(outcome, Err(Errno::ENOENT), "{call}, without its directory");
    }
    mkdir("d", 0o755).unwrap();
    for (call, outcome) in every_call("d/absent") {
        if makes.contains(&call) {
            break;
        }
        assert_eq!(outcome, Err(Errno::ENOENT), "{call}");
    }
}

fn bytes_of_any_value_make_a_name() {
    for name in ["a b", "\t", "\n", "\\", "*", "\u{7f}", "\u{1}", "...", "-", "\u{20ac}", "~"] {
        drop(file(name, b""));
        assert!(names(".").contains(&name.to_owned()), "{name:?}");
        unlink(name).unwrap();
    }
}

fn a_directory_without_search_permission_is_eacces() {
    mkdir("d", 0o755).unwrap();
    drop(file("d/x", b""));
    chmod("d", 0o666).unwrap();
    chmod(".", 0o777).unwrap();
    as_nobody(|| all_fail("d/x", Errno::EACCES));
}
