//! The words of cases: what is expected, who does it, what is made in passing.

use std::thread;
use std::time::Duration;

use crate::sys::{self, *};

/// A user without privileges, as most systems know it.
pub const NOBODY: u32 = 65534;
/// Another one.
pub const OTHER: u32 = 1234;
/// A group that neither is in unless told so.
pub const GROUP: u32 = 4321;

/// The call fails with this number.
#[track_caller]
pub fn fails<T>(outcome: Result<T>, expected: Errno) {
    match outcome {
        Ok(_) => panic!("it succeeds, and should fail with {expected:?}"),
        Err(errno) => assert_eq!(errno, expected),
    }
}

/// The call fails with one of these numbers, where POSIX or file systems differ.
#[track_caller]
pub fn fails_with_any<T>(outcome: Result<T>, expected: &[Errno]) {
    match outcome {
        Ok(_) => panic!("it succeeds, and should fail with one of {expected:?}"),
        Err(errno) => assert!(expected.contains(&errno), "{errno:?} is none of {expected:?}"),
    }
}

/// What a user without privileges does, in a process of its own, which must go well.
#[track_caller]
pub fn as_nobody(what: impl FnOnce()) {
    as_user(NOBODY, &[], what);
}

/// The like for any user, whose group has the same number, with further groups.
#[track_caller]
pub fn as_user(uid: u32, groups: &[u32], what: impl FnOnce()) {
    child(|| {
        become_user(uid, uid, groups).expect("only root can run this");
        what();
    })
    .succeeds();
}

/// A file of this content, mode 0644.
pub fn file(path: &str, content: &[u8]) -> File {
    let made = open(path, O_RDWR | O_CREAT | O_TRUNC, 0o644).expect(path);
    assert_eq!(sys::write(&made, content), Ok(content.len()), "{path}");
    made
}

/// A directory that everybody may change.
pub fn open_directory(path: &str) {
    mkdir(path, 0o777).expect(path);
    chmod(path, 0o777).expect(path);
}

/// The content of a file.
pub fn content(path: &str) -> Vec<u8> {
    let file = open(path, O_RDONLY, 0).expect(path);
    let (mut all, mut offset) = (Vec::new(), 0);
    loop {
        let piece = pread(&file, 1 << 20, offset).expect(path);
        if piece.is_empty() {
            return all;
        }
        offset += piece.len() as i64;
        all.extend(piece);
    }
}

/// Permission bits with setuid, setgid and sticky.
pub fn mode(path: &str) -> u32 {
    lstat(path).expect(path).st_mode & 0o7777
}

/// What it is: S_IFREG and so on.
pub fn kind(path: &str) -> u32 {
    lstat(path).expect(path).st_mode & S_IFMT
}

/// Owner and group.
pub fn owner(path: &str) -> (u32, u32) {
    let stat = lstat(path).expect(path);
    (stat.st_uid, stat.st_gid)
}

/// Size in bytes.
pub fn size(path: &str) -> i64 {
    lstat(path).expect(path).st_size
}

/// Names it has.
pub fn links(path: &str) -> u64 {
    lstat(path).expect(path).st_nlink
}

/// Access, modification and change time, each (seconds, nanoseconds).
pub fn times(path: &str) -> [(i64, i64); 3] {
    let stat = lstat(path).expect(path);
    [
        (stat.st_atime, stat.st_atime_nsec),
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    ]
}

/// Modification time.
pub fn mtime(path: &str) -> (i64, i64) {
    times(path)[1]
}

/// Change time.
pub fn ctime(path: &str) -> (i64, i64) {
    times(path)[2]
}

/// Longer than the clocks of file systems tick.
pub fn moment() {
    thread::sleep(Duration::from_millis(20));
}

/// The action changes the change time of `path`.
#[track_caller]
pub fn changes_ctime(path: &str, action: impl FnOnce()) {
    let before = ctime(path);
    moment();
    action();
    assert!(ctime(path) > before, "the change time of {path} stays");
}

/// The action leaves the change time of `path` as it is.
#[track_caller]
pub fn keeps_ctime(path: &str, action: impl FnOnce()) {
    let before = ctime(path);
    moment();
    action();
    assert_eq!(ctime(path), before, "the change time of {path} moves");
}

/// The names in a directory, sorted, without `.` and `..`.
pub fn names(path: &str) -> Vec<String> {
    let mut stream = Stream::open(path).expect(path);
    let mut names: Vec<String> = std::iter::from_fn(|| stream.next().map(|entry| entry.0))
        .filter(|name| name != "." && name != "..")
        .collect();
    names.sort();
    names
}

/// The longest name there may be.
pub fn longest_name() -> String {
    "n".repeat(255)
}

/// Bytes that differ everywhere.
pub fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(bytes).collect()
}

/// Makes one thing of each kind; returns their names.
pub fn one_of_each() -> Vec<&'static str> {
    drop(file("regular", b"x"));
    mkdir("directory", 0o755).unwrap();
    symlink("regular", "symlink").unwrap();
    mkfifo("fifo", 0o644).unwrap();
    mknod("socket", S_IFSOCK | 0o644, 0).unwrap();
    let mut made = vec!["regular", "directory", "symlink", "fifo", "socket"];
    if nix::unistd::geteuid().is_root() {
        mknod("char", S_IFCHR | 0o644, device(1, 3)).unwrap();
        mknod("block", S_IFBLK | 0o644, device(7, 250)).unwrap();
        made.extend(["char", "block"]);
    }
    made
}
