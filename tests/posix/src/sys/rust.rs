//! The calls of the cases through the library for Rust: a [`Process`], whose methods are the calls of POSIX.
//!
//! What it does not have is not here, and sets a case aside; so do numbers that its types cannot say, as negative
//! offsets: that they were refused here would prove nothing about the library. Paths and descriptors of the kernel's are
//! none of its own, and go there.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

use pvfs_posix::c::space::statfs_of;
use pvfs_posix::c::stat::{stat_of, type_bits};
use pvfs_posix::{At, Family, From, Object, Process, Reach, Settings, Stop, Times, Wanted, shared};
use pvfs_wire::attr::{FileKind, Time as WireTime};
use pvfs_wire::ops::{AccessBits, Allocation, LockKind, RenameFlags, SetTime, XattrFlags};
use rustix::fs::OFlags;

use super::{Conflict, File, Lock, Owner, Result, Stat, Time};
use crate::library;

thread_local! {
    /// Cases have one thread.
    static PROCESS: Cell<Option<&'static Process>> = const { Cell::new(None) };
}

fn process() -> &'static Process {
    PROCESS.get().unwrap_or_else(|| become_process(Process::new(Settings::of_process())))
}

fn become_process(process: Process) -> &'static Process {
    let process = Box::leak(Box::new(process));
    PROCESS.set(Some(process));
    process
}

/// Does a fork, with what a program does about it whose libraries have no hooks of their own.
pub fn around_fork(fork: impl FnOnce() -> Result<i32>) -> Result<i32> {
    let before = process();
    let locked = before.before_fork();
    let pid = fork()?;
    match pid {
        0 => become_process(Process::after_fork(before)).adopt_all(),
        _ => Process::await_child(locked),
    }
    Ok(pid)
}

pub fn open(path: &str, flags: c_int, mode: u32) -> Reach<File> {
    opened(At::Working, path, flags, mode)
}

pub fn openat(directory: &File, path: &str, flags: c_int, mode: u32) -> Reach<File> {
    opened(At::Directory(directory.as_raw_fd()), path, flags, mode)
}

fn opened(at: At, path: &str, flags: c_int, mode: u32) -> Reach<File> {
    let flags = OFlags::from_bits_retain(flags as u32) | OFlags::CLOEXEC;
    process().open(at, path.as_bytes(), flags, mode).map(File)
}

pub fn close(fd: RawFd) -> Reach<()> {
    process().close(fd)
}

pub fn dup(file: &File) -> Reach<File> {
    let copy = rustix::io::dup(shared::borrow(file.as_raw_fd())).map_err(Stop::from);
    let copy = File(copy?.into_raw_fd());
    process().duplicated(file.as_raw_fd(), copy.as_raw_fd())?;
    Ok(copy)
}

pub fn read(file: &File, bytes: usize) -> Reach<Vec<u8>> {
    read_into(bytes, |into| process().read(file.as_raw_fd(), into))
}

pub fn pread(file: &File, bytes: usize, offset: i64) -> Reach<Vec<u8>> {
    let offset = positive(offset);
    read_into(bytes, |into| process().read_at(file.as_raw_fd(), offset, into))
}

fn read_into(bytes: usize, read: impl FnOnce(&mut [u8]) -> Reach<usize>) -> Reach<Vec<u8>> {
    let mut into = vec![0; bytes];
    let count = read(&mut into)?;
    into.truncate(count);
    Ok(into)
}

pub fn write(file: &File, data: &[u8]) -> Reach<usize> {
    process().write(file.as_raw_fd(), data)
}

pub fn pwrite(file: &File, data: &[u8], offset: i64) -> Reach<usize> {
    process().write_at(file.as_raw_fd(), positive(offset), data)
}

pub fn lseek(file: &File, offset: i64, whence: c_int) -> Reach<i64> {
    let from = match whence {
        libc::SEEK_SET => From::Start,
        libc::SEEK_CUR => From::Here,
        libc::SEEK_END => From::End,
        libc::SEEK_DATA => From::Data,
        libc::SEEK_HOLE => From::Hole,
        _ => library::set_aside("unknown places to seek from"),
    };
    let position = process().seek(file.as_raw_fd(), from, offset)?;
    Ok(position as i64)
}

pub fn truncate(path: &str, size: i64) -> Reach<()> {
    process().truncate(At::Working, path.as_bytes(), positive(size))
}

pub fn ftruncate(file: &File, size: i64) -> Reach<()> {
    process().truncate_open(file.as_raw_fd(), positive(size))
}

/// Of data and attributes alike, so fdatasync(2) too.
pub fn fsync(file: &File) -> Reach<()> {
    process().sync(file.as_raw_fd())
}

pub fn fallocate(file: &File, mode: c_int, offset: i64, bytes: i64) -> Reach<()> {
    let keeps = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
    let how = match mode & !libc::FALLOC_FL_KEEP_SIZE {
        0 => Allocation::Reserve,
        libc::FALLOC_FL_PUNCH_HOLE if keeps => Allocation::Punch,
        libc::FALLOC_FL_ZERO_RANGE => Allocation::Zero,
        _ => library::set_aside(UNKNOWN_FLAGS),
    };
    let range = (positive(offset), positive(bytes));
    process().allocate(file.as_raw_fd(), how, range, !keeps)
}

pub fn copy_file_range(from: (&File, i64), to: (&File, i64), bytes: usize) -> Reach<usize> {
    let [from, to] = [from, to].map(|(file, at)| (file.as_raw_fd(), Some(positive(at))));
    let copied = process().copy(from, to, bytes as u64)?;
    Ok(copied as usize)
}

pub fn status_flags(file: &File) -> Reach<c_int> {
    let description = process().description(file.as_raw_fd())?;
    Ok(description.flags().bits() as c_int)
}

pub fn set_status_flags(file: &File, flags: c_int) -> Reach<()> {
    let flags = OFlags::from_bits_retain(flags as u32);
    process().set_flags(file.as_raw_fd(), flags)
}

pub fn mkdir(path: &str, mode: u32) -> Reach<()> {
    process().make_directory(At::Working, path.as_bytes(), mode)
}

pub fn rmdir(path: &str) -> Reach<()> {
    process().remove_directory(At::Working, path.as_bytes())
}

pub fn unlink(path: &str) -> Reach<()> {
    process().unlink(At::Working, path.as_bytes())
}

pub fn unlinkat(directory: &File, path: &str, flags: c_int) -> Reach<()> {
    let at = At::Directory(directory.as_raw_fd());
    match flags {
        0 => process().unlink(at, path.as_bytes()),
        libc::AT_REMOVEDIR => process().remove_directory(at, path.as_bytes()),
        _ => library::set_aside(UNKNOWN_FLAGS),
    }
}

pub fn link(old: &str, new: &str) -> Reach<()> {
    linkat(old, new, 0)
}

pub fn linkat(old: &str, new: &str, flags: c_int) -> Reach<()> {
    let follow = match flags {
        0 => false,
        libc::AT_SYMLINK_FOLLOW => true,
        _ => library::set_aside(UNKNOWN_FLAGS),
    };
    let [old, new] = [old, new].map(|path| (At::Working, path.as_bytes()));
    process().link(old, new, follow)
}

pub fn link_open(file: &File, new: &str) -> Reach<()> {
    process().link_open(file.as_raw_fd(), (At::Working, new.as_bytes()))
}

pub fn symlink(target: &str, path: &str) -> Reach<()> {
    process().make_symlink(target.as_bytes(), At::Working, path.as_bytes())
}

pub fn readlink(path: &str) -> Reach<String> {
    let target = process().read_link(At::Working, path.as_bytes())?;
    Ok(String::from_utf8_lossy(&target).into_owned())
}

pub fn rename(old: &str, new: &str, flags: u32) -> Reach<()> {
    let flags = RenameFlags::from_bits(flags);
    let flags = flags.unwrap_or_else(|| library::set_aside(UNKNOWN_FLAGS));
    let [old, new] = [old, new].map(|path| (At::Working, path.as_bytes()));
    process().rename(old, new, flags)
}

pub fn chmod(path: &str, mode: u32) -> Reach<()> {
    process().set_mode(At::Working, path.as_bytes(), true, mode)
}

pub fn fchmod(file: &File, mode: u32) -> Reach<()> {
    process().set_mode_open(file.as_raw_fd(), mode)
}

pub fn chown(path: &str, follow: bool, owner: (u32, u32)) -> Reach<()> {
    process().set_owner(At::Working, path.as_bytes(), follow, changed(owner))
}

pub fn fchown(file: &File, owner: (u32, u32)) -> Reach<()> {
    process().set_owner_open(file.as_raw_fd(), changed(owner))
}

/// In C all bits set means: as it is.
fn changed((uid, gid): (u32, u32)) -> (Option<u32>, Option<u32>) {
    let given = |id: u32| (id != u32::MAX).then_some(id);
    (given(uid), given(gid))
}

pub fn mknod(path: &str, mode: u32, device: u64) -> Reach<()> {
    let kinds = [
        FileKind::Regular,
        FileKind::Fifo,
        FileKind::CharDevice,
        FileKind::BlockDevice,
        FileKind::Socket,
    ];
    let bits = if mode & libc::S_IFMT == 0 { libc::S_IFREG } else { mode & libc::S_IFMT };
    let kind = kinds.into_iter().find(|kind| type_bits(*kind) == bits);
    let kind = kind.unwrap_or_else(|| library::set_aside("unknown kinds of files"));
    process().make_node(At::Working, path.as_bytes(), kind, mode, device)
}

pub fn stat(path: &str, follow: bool) -> Reach<Stat> {
    let attr = process().stat(At::Working, path.as_bytes(), follow)?;
    Ok(stat_of(&attr))
}

pub fn fstat(file: &File) -> Reach<Stat> {
    let attr = process().stat_open(file.as_raw_fd())?;
    Ok(stat_of(&attr))
}

pub fn statvfs(path: &str, mut stat: libc::statvfs) -> Reach<libc::statvfs> {
    let told = statfs_of(&process().space(At::Working, path.as_bytes())?)?;
    (stat.f_bsize, stat.f_frsize) = (told.f_bsize as u64, told.f_frsize as u64);
    (stat.f_blocks, stat.f_bfree, stat.f_bavail) = (told.f_blocks, told.f_bfree, told.f_bavail);
    (stat.f_files, stat.f_ffree, stat.f_favail) = (told.f_files, told.f_ffree, told.f_ffree);
    stat.f_namemax = told.f_namelen as u64;
    Ok(stat)
}

pub fn access(path: &str, mode: c_int) -> Reach<()> {
    let wanted = u32::try_from(mode).ok().and_then(AccessBits::from_bits);
    let wanted = wanted.unwrap_or_else(|| library::set_aside(UNKNOWN_FLAGS));
    process().access(At::Working, path.as_bytes(), true, wanted)
}

pub fn utimensat(path: &str, [access, modification]: [Time; 2], flags: c_int) -> Reach<()> {
    let follow = match flags {
        0 => true,
        libc::AT_SYMLINK_NOFOLLOW => false,
        _ => library::set_aside(UNKNOWN_FLAGS),
    };
    let times = times(access, modification);
    process().set_times(At::Working, path.as_bytes(), follow, times)
}

pub fn futimens(file: &File, [access, modification]: [Time; 2]) -> Reach<()> {
    process().set_times_open(file.as_raw_fd(), times(access, modification))
}

fn times(access: Time, modification: Time) -> Times {
    let one = |Time(seconds, nanos)| match nanos {
        libc::UTIME_NOW => Some(SetTime::Now),
        libc::UTIME_OMIT => None,
        0..1_000_000_000 => Some(SetTime::At(WireTime { seconds, nanos: nanos as u32 })),
        _ => library::set_aside("impossible nanoseconds"),
    };
    Times { access: one(access), modification: one(modification) }
}

pub fn setxattr(object: Object<'_>, name: &str, value: &[u8], flags: c_int) -> Reach<()> {
    let flags = match flags {
        0 => XattrFlags::NONE,
        libc::XATTR_CREATE => XattrFlags::CREATE,
        libc::XATTR_REPLACE => XattrFlags::REPLACE,
        _ => library::set_aside(UNKNOWN_FLAGS),
    };
    process().set_xattr(object, name.as_bytes(), value, flags)
}

pub fn getxattr(object: Object<'_>, name: &str) -> Reach<Vec<u8>> {
    process().get_xattr(object, name.as_bytes())
}

/// Names, each ended by a zero byte.
pub fn listxattr(path: &str) -> Reach<Vec<u8>> {
    process().list_xattrs(Object::Path(path.as_bytes(), true))
}

pub fn removexattr(path: &str, name: &str) -> Reach<()> {
    let object = Object::Path(path.as_bytes(), true);
    process().remove_xattr(object, name.as_bytes())
}

pub fn lock(file: &File, owner: Owner, lock: Lock, range: (i64, i64), wait: bool) -> Reach<()> {
    process().lock(file.as_raw_fd(), wanted(owner, lock, range, wait))
}

pub fn test_lock(
    file: &File,
    owner: Owner,
    lock: Lock,
    range: (i64, i64),
) -> Reach<Option<Conflict>> {
    let wanted = wanted(owner, lock, range, false);
    let held = process().test_lock(file.as_raw_fd(), wanted)?;
    Ok(held.map(|held| Conflict {
        lock: if held.kind == LockKind::Write { Lock::Write } else { Lock::Read },
        start: held.start as i64,
        bytes: if held.end == u64::MAX { 0 } else { (held.end - held.start) as i64 },
        pid: if owner == Owner::Process { held.pid as i32 } else { -1 },
    }))
}

fn wanted(owner: Owner, lock: Lock, (start, bytes): (i64, i64), wait: bool) -> Wanted {
    let family = match owner {
        Owner::Process => Family::Process,
        Owner::OpenFile => Family::Open,
    };
    let kind = match lock {
        Lock::Read => LockKind::Read,
        Lock::Write => LockKind::Write,
        Lock::Unlock => LockKind::Unlock,
    };
    let (start, bytes) = (positive(start), positive(bytes));
    let end = if bytes == 0 { u64::MAX } else { start + bytes };
    Wanted { family, kind, start, end, wait }
}

pub fn flock(file: &File, operation: c_int) -> Reach<()> {
    let kind = match operation & !libc::LOCK_NB {
        libc::LOCK_SH => LockKind::Read,
        libc::LOCK_EX => LockKind::Write,
        libc::LOCK_UN => LockKind::Unlock,
        _ => library::set_aside(UNKNOWN_FLAGS),
    };
    let wait = operation & libc::LOCK_NB == 0;
    let wanted = Wanted { family: Family::Whole, kind, start: 0, end: u64::MAX, wait };
    process().lock(file.as_raw_fd(), wanted)
}

pub fn chdir(path: &str) -> Reach<()> {
    process().change_directory(At::Working, path.as_bytes())
}

pub fn fchdir(directory: &File) -> Reach<()> {
    process().change_to(directory.as_raw_fd())
}

pub fn getcwd() -> Reach<String> {
    process().check_working()?;
    let path = process().working().expect("cases never leave the file system");
    Ok(String::from_utf8_lossy(&path).into_owned())
}

/// A directory stream.
pub struct Stream {
    /// Closed after it.
    _directory: File,
    stream: pvfs_posix::Stream,
}

impl Stream {
    pub fn open(path: &str) -> Reach<Self> {
        let directory = open(path, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
        let stream = process().stream(directory.as_raw_fd())?;
        Ok(Self { _directory: directory, stream })
    }

    pub fn position(&self) -> i64 {
        self.stream.position() as i64
    }

    pub fn seek(&mut self, position: i64) {
        self.stream.seek(positive(position));
    }
}

impl Iterator for Stream {
    type Item = (String, u64);

    fn next(&mut self) -> Option<(String, u64)> {
        let item = process().next_item(&mut self.stream).expect("a page of the directory")?;
        Some((String::from_utf8_lossy(&item.name).into_owned(), item.object))
    }
}

fn positive(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or_else(|_| library::set_aside("negative offsets"))
}

const UNKNOWN_FLAGS: &str = "unknown flags";
