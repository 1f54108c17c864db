//! The system calls of the cases, through libc so that a preloaded library may take them, or through the library that
//! the environment names: one of C's kind by its symbols, the one for Rust by [`rust`].
//!
//! Each is what its man page says: the error is the number, the rest is the value. Nothing is retried.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::ptr;
use std::sync::OnceLock;

use pvfs_posix::{Object, Stop};

use crate::library::{self, Library};

mod directory;
mod rust;

pub use directory::Stream;

pub use libc::{
    AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW,
    FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE,
    LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY,
    O_DSYNC, O_EXCL, O_NOATIME, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDONLY, O_RDWR, O_SYNC,
    O_TMPFILE, O_TRUNC, O_WRONLY, RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT, S_IFBLK,
    S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, S_IFSOCK, SEEK_CUR, SEEK_DATA, SEEK_END,
    SEEK_HOLE, SEEK_SET, UTIME_NOW, UTIME_OMIT, XATTR_CREATE, XATTR_REPLACE, stat64 as Stat,
};
pub use nix::errno::Errno;

/// What a call says.
pub type Result<T> = std::result::Result<T, Errno>;

/// Calls a function that has to do with files, of the library or of libc; the number is the error when the call returns
/// -1. What stands behind a semicolon are the further arguments of a variadic function.
macro_rules! call {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        let of_c: unsafe extern "C" fn($(any!($argument)),*) -> _ = libc::$function;
        let function = chosen(stringify!($function), of_c);
        // SAFETY: every pointer among the arguments is to a live value of this stack frame or of the caller's
        // borrow, its length is passed beside it, and the call keeps none of them.
        Errno::result(unsafe { function($($argument),*) })
    }};
    ($function:ident($($argument:expr),*; $($further:expr),*)) => {{
        let of_c: unsafe extern "C" fn($(any!($argument)),*, ...) -> _ = libc::$function;
        let function = chosen(stringify!($function), of_c);
        // SAFETY: as above.
        Errno::result(unsafe { function($($argument),*, $($further),*) })
    }};
}

/// The type of an argument, to be inferred.
macro_rules! any {
    ($argument:expr) => {
        _
    };
}

/// Where the library is the one for Rust, ends the function with what that says.
macro_rules! in_rust {
    ($function:ident($($argument:expr),* $(,)?)) => {
        if Library::Rust.is_named() {
            match rust::$function($($argument),*) {
                // It is the kernel's.
                Err(Stop::NotOurs) => {}
                reach => return reach.map_err(number),
            }
        }
    };
}

/// Calls a function of libc that is about this process or about memory, whoever keeps the files.
macro_rules! own_call {
    ($function:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: as for `call`.
        Errno::result(unsafe { libc::$function($($argument),*) })
    }};
}

/// The function that a case calls by this name: that of C, or the library's of the same type.
fn chosen<F: Copy>(name: &str, of_c: F) -> F {
    let Some(handle) = opened_library() else { return of_c };
    let found = symbol(handle, name);
    if found.is_null() {
        library::set_aside(name);
    }
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
    // SAFETY: F is a pointer to a function, as `call` has it; the library declares its own like the C library's.
    unsafe { mem::transmute_copy(&found) }
}

/// The library's function for a call of C; null where it has none.
fn symbol(handle: usize, name: &str) -> *mut c_void {
    let symbol = CString::new(format!("{}{name}", library::PREFIX)).expect("a name of C");
    // SAFETY: the library is open for ever, and the name is a live string.
    unsafe { libc::dlsym(handle as *mut c_void, symbol.as_ptr()) }
}

/// Whether a call can be made, for random steps, of which a library is spared those that it lacks.
pub fn has(name: &str) -> bool {
    match library::named() {
        None => true,
        Some(Library::C(_)) => opened_library().is_some_and(|it| !symbol(it, name).is_null()),
        Some(Library::Rust) => name != "mmap",
    }
}

/// The handle of the library for C that the environment names.
fn opened_library() -> Option<usize> {
    static OPENED: OnceLock<Option<usize>> = OnceLock::new();
    *OPENED.get_or_init(|| {
        let Some(Library::C(path)) = library::named() else { return None };
        let path = CString::new(path.as_bytes()).expect("from the environment");
        // SAFETY: the path is a live string; what the library does when it is loaded is its own matter.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{path:?} cannot be loaded");
        Some(handle as usize)
    })
}

fn number(stop: Stop) -> Errno {
    Errno::from_raw(stop.errno().0 as i32)
}

/// A path.
fn c(path: &str) -> CString {
    text(&library::whole(path))
}

/// What is no path: the name of an attribute, the target of a symlink.
fn text(text: &str) -> CString {
    CString::new(text).expect("a text of a case has no zero byte")
}

/// A descriptor, closed in the end by whom it was opened by.
#[derive(Debug)]
pub struct File(RawFd);

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = close_number(self.0);
    }
}

fn close_number(fd: RawFd) -> Result<()> {
    in_rust!(close(fd));
    call!(close(fd)).map(drop)
}

/// open(2)
pub fn open(path: &str, flags: c_int, mode: u32) -> Result<File> {
    in_rust!(open(path, flags, mode));
    call!(open(c(path).as_ptr(), flags | O_CLOEXEC; mode)).map(File)
}

/// openat(2)
pub fn openat(directory: &File, path: &str, flags: c_int, mode: u32) -> Result<File> {
    in_rust!(openat(directory, path, flags, mode));
    call!(openat(directory.as_raw_fd(), c(path).as_ptr(), flags | O_CLOEXEC; mode)).map(File)
}

/// close(2), whose error counts.
pub fn close(file: File) -> Result<()> {
    close_number(mem::ManuallyDrop::new(file).0)
}

/// dup(2)
pub fn dup(file: &File) -> Result<File> {
    in_rust!(dup(file));
    call!(dup(file.as_raw_fd())).map(File)
}

/// read(2)
pub fn read(file: &File, bytes: usize) -> Result<Vec<u8>> {
    in_rust!(read(file, bytes));
    let mut into = vec![0; bytes];
    let count = call!(read(file.as_raw_fd(), into.as_mut_ptr().cast(), bytes))?;
    into.truncate(count as usize);
    Ok(into)
}

/// pread(2)
pub fn pread(file: &File, bytes: usize, offset: i64) -> Result<Vec<u8>> {
    in_rust!(pread(file, bytes, offset));
    let mut into = vec![0; bytes];
    let count = call!(pread(file.as_raw_fd(), into.as_mut_ptr().cast(), bytes, offset))?;
    into.truncate(count as usize);
    Ok(into)
}

/// write(2)
pub fn write(file: &File, data: &[u8]) -> Result<usize> {
    in_rust!(write(file, data));
    call!(write(file.as_raw_fd(), data.as_ptr().cast(), data.len())).map(|count| count as usize)
}

/// pwrite(2)
pub fn pwrite(file: &File, data: &[u8], offset: i64) -> Result<usize> {
    in_rust!(pwrite(file, data, offset));
    call!(pwrite(file.as_raw_fd(), data.as_ptr().cast(), data.len(), offset))
        .map(|count| count as usize)
}

/// aio_read(3), and the wait for it
pub fn aio_read(file: &File, bytes: usize, offset: i64) -> Result<Vec<u8>> {
    Library::Rust.lacks("aio_read");
    let mut into = vec![0; bytes];
    let mut control = asked(file, into.as_mut_ptr(), bytes, offset);
    call!(aio_read(&mut control))?;
    into.truncate(outcome(&mut control)?);
    Ok(into)
}

/// aio_write(3), and the wait for it
pub fn aio_write(file: &File, data: &[u8], offset: i64) -> Result<usize> {
    Library::Rust.lacks("aio_write");
    let mut control = asked(file, data.as_ptr().cast_mut(), data.len(), offset);
    call!(aio_write(&mut control))?;
    outcome(&mut control)
}

/// Two writes by one lio_listio(3) that waits for both.
pub fn aio_write_two(file: &File, writes: [(&[u8], i64); 2]) -> Result<[usize; 2]> {
    Library::Rust.lacks("lio_listio");
    let mut controls = writes.map(|(data, offset)| {
        let mut control = asked(file, data.as_ptr().cast_mut(), data.len(), offset);
        control.aio_lio_opcode = libc::LIO_WRITE;
        control
    });
    let list = controls.each_mut().map(ptr::from_mut);
    call!(lio_listio(libc::LIO_WAIT, list.as_ptr(), 2, ptr::null_mut()))?;
    let [first, second] = &mut controls;
    Ok([outcome(first)?, outcome(second)?])
}

fn asked(file: &File, memory: *mut u8, bytes: usize, offset: i64) -> libc::aiocb {
    // SAFETY: zeros are a value of this type.
    let mut control: libc::aiocb = unsafe { MaybeUninit::zeroed().assume_init() };
    control.aio_fildes = file.as_raw_fd();
    control.aio_buf = memory.cast();
    control.aio_nbytes = bytes;
    control.aio_offset = offset;
    control.aio_sigevent.sigev_notify = libc::SIGEV_NONE;
    control
}

/// Waits for an operation; the memory it names is the caller's until then.
fn outcome(control: &mut libc::aiocb) -> Result<usize> {
    while call!(aio_error(control))? == libc::EINPROGRESS {
        call!(aio_suspend(&ptr::from_ref(control), 1, ptr::null()))?;
    }
    let errno = call!(aio_error(control))?;
    let returned = call!(aio_return(control));
    if errno == 0 { returned.map(|count| count as usize) } else { Err(Errno::from_raw(errno)) }
}

/// writev(2)
pub fn writev(file: &File, pieces: &[&[u8]]) -> Result<usize> {
    Library::Rust.lacks("writev");
    let pieces: Vec<libc::iovec> = pieces
        .iter()
        .map(|piece| libc::iovec { iov_base: piece.as_ptr() as *mut _, iov_len: piece.len() })
        .collect();
    call!(writev(file.as_raw_fd(), pieces.as_ptr(), pieces.len() as c_int))
        .map(|count| count as usize)
}

/// lseek(2)
pub fn lseek(file: &File, offset: i64, whence: c_int) -> Result<i64> {
    in_rust!(lseek(file, offset, whence));
    call!(lseek(file.as_raw_fd(), offset, whence))
}

/// truncate(2)
pub fn truncate(path: &str, size: i64) -> Result<()> {
    in_rust!(truncate(path, size));
    call!(truncate(c(path).as_ptr(), size)).map(drop)
}

/// ftruncate(2)
pub fn ftruncate(file: &File, size: i64) -> Result<()> {
    in_rust!(ftruncate(file, size));
    call!(ftruncate(file.as_raw_fd(), size)).map(drop)
}

/// fsync(2)
pub fn fsync(file: &File) -> Result<()> {
    in_rust!(fsync(file));
    call!(fsync(file.as_raw_fd())).map(drop)
}

/// fdatasync(2)
pub fn fdatasync(file: &File) -> Result<()> {
    in_rust!(fsync(file));
    call!(fdatasync(file.as_raw_fd())).map(drop)
}

/// fallocate(2)
pub fn fallocate(file: &File, mode: c_int, offset: i64, bytes: i64) -> Result<()> {
    in_rust!(fallocate(file, mode, offset, bytes));
    call!(fallocate(file.as_raw_fd(), mode, offset, bytes)).map(drop)
}

/// posix_fallocate(3)
pub fn posix_fallocate(file: &File, offset: i64, bytes: i64) -> Result<()> {
    library::lacks("posix_fallocate");
    // SAFETY: no pointers.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, bytes) } {
        0 => Ok(()),
        number => Err(Errno::from_raw(number)),
    }
}

/// copy_file_range(2) with explicit offsets.
pub fn copy_file_range(from: (&File, i64), to: (&File, i64), bytes: usize) -> Result<usize> {
    in_rust!(copy_file_range(from, to, bytes));
    let (mut source, mut target) = (from.1, to.1);
    let (source, target): (*mut i64, *mut i64) = (&mut source, &mut target);
    call!(copy_file_range(from.0.as_raw_fd(), source, to.0.as_raw_fd(), target, bytes, 0))
        .map(|count| count as usize)
}

/// sendfile(2) from an explicit offset.
pub fn sendfile(from: (&File, i64), to: &File, bytes: usize) -> Result<usize> {
    Library::Rust.lacks("sendfile");
    let mut offset = from.1;
    call!(sendfile(to.as_raw_fd(), from.0.as_raw_fd(), &mut offset, bytes))
        .map(|count| count as usize)
}

/// fcntl(2) with F_GETFL.
pub fn status_flags(file: &File) -> Result<c_int> {
    in_rust!(status_flags(file));
    call!(fcntl(file.as_raw_fd(), libc::F_GETFL; 0))
}

/// fcntl(2) with F_SETFL.
pub fn set_status_flags(file: &File, flags: c_int) -> Result<()> {
    in_rust!(set_status_flags(file, flags));
    call!(fcntl(file.as_raw_fd(), libc::F_SETFL; flags)).map(drop)
}

/// mkdir(2)
pub fn mkdir(path: &str, mode: u32) -> Result<()> {
    in_rust!(mkdir(path, mode));
    call!(mkdir(c(path).as_ptr(), mode)).map(drop)
}

/// rmdir(2)
pub fn rmdir(path: &str) -> Result<()> {
    in_rust!(rmdir(path));
    call!(rmdir(c(path).as_ptr())).map(drop)
}

/// unlink(2)
pub fn unlink(path: &str) -> Result<()> {
    in_rust!(unlink(path));
    call!(unlink(c(path).as_ptr())).map(drop)
}

/// unlinkat(2)
pub fn unlinkat(directory: &File, path: &str, flags: c_int) -> Result<()> {
    in_rust!(unlinkat(directory, path, flags));
    call!(unlinkat(directory.as_raw_fd(), c(path).as_ptr(), flags)).map(drop)
}

/// link(2)
pub fn link(old: &str, new: &str) -> Result<()> {
    in_rust!(link(old, new));
    call!(link(c(old).as_ptr(), c(new).as_ptr())).map(drop)
}

/// linkat(2) from the working directory.
pub fn linkat(old: &str, new: &str, flags: c_int) -> Result<()> {
    in_rust!(linkat(old, new, flags));
    call!(linkat(AT_FDCWD, c(old).as_ptr(), AT_FDCWD, c(new).as_ptr(), flags)).map(drop)
}

/// linkat(2) of an open file, by its name in /proc.
pub fn link_open(file: &File, new: &str) -> Result<()> {
    in_rust!(link_open(file, new));
    linkat(&format!("/proc/self/fd/{}", file.as_raw_fd()), new, AT_SYMLINK_FOLLOW)
}

/// The like by its descriptor alone, which is not for everybody.
pub fn link_descriptor(file: &File, new: &str) -> Result<()> {
    in_rust!(link_open(file, new));
    call!(linkat(file.as_raw_fd(), c("").as_ptr(), AT_FDCWD, c(new).as_ptr(), AT_EMPTY_PATH))
        .map(drop)
}

/// symlink(2)
pub fn symlink(target: &str, path: &str) -> Result<()> {
    in_rust!(symlink(target, path));
    call!(symlink(text(target).as_ptr(), c(path).as_ptr())).map(drop)
}

/// readlink(2)
pub fn readlink(path: &str) -> Result<String> {
    in_rust!(readlink(path));
    let mut into = vec![0u8; 5000];
    let count = call!(readlink(c(path).as_ptr(), into.as_mut_ptr().cast(), into.len()))?;
    into.truncate(count as usize);
    Ok(String::from_utf8_lossy(&into).into_owned())
}

/// rename(2)
pub fn rename(old: &str, new: &str) -> Result<()> {
    in_rust!(rename(old, new, 0));
    call!(rename(c(old).as_ptr(), c(new).as_ptr())).map(drop)
}

/// renameat2(2) from the working directory.
pub fn renameat2(old: &str, new: &str, flags: u32) -> Result<()> {
    in_rust!(rename(old, new, flags));
    call!(renameat2(AT_FDCWD, c(old).as_ptr(), AT_FDCWD, c(new).as_ptr(), flags)).map(drop)
}

/// chmod(2)
pub fn chmod(path: &str, mode: u32) -> Result<()> {
    in_rust!(chmod(path, mode));
    call!(chmod(c(path).as_ptr(), mode)).map(drop)
}

/// fchmod(2)
pub fn fchmod(file: &File, mode: u32) -> Result<()> {
    in_rust!(fchmod(file, mode));
    call!(fchmod(file.as_raw_fd(), mode)).map(drop)
}

/// chown(2); -1 leaves one as it is.
pub fn chown(path: &str, uid: u32, gid: u32) -> Result<()> {
    in_rust!(chown(path, true, (uid, gid)));
    call!(chown(c(path).as_ptr(), uid, gid)).map(drop)
}

/// lchown(2)
pub fn lchown(path: &str, uid: u32, gid: u32) -> Result<()> {
    in_rust!(chown(path, false, (uid, gid)));
    call!(lchown(c(path).as_ptr(), uid, gid)).map(drop)
}

/// fchown(2)
pub fn fchown(file: &File, uid: u32, gid: u32) -> Result<()> {
    in_rust!(fchown(file, (uid, gid)));
    call!(fchown(file.as_raw_fd(), uid, gid)).map(drop)
}

/// mknod(2)
pub fn mknod(path: &str, mode: u32, device: u64) -> Result<()> {
    in_rust!(mknod(path, mode, device));
    call!(mknod(c(path).as_ptr(), mode, device)).map(drop)
}

/// mkfifo(3)
pub fn mkfifo(path: &str, mode: u32) -> Result<()> {
    in_rust!(mknod(path, S_IFIFO | mode, 0));
    call!(mkfifo(c(path).as_ptr(), mode)).map(drop)
}

/// The number of a device.
pub fn device(major: u32, minor: u32) -> u64 {
    libc::makedev(major, minor)
}

/// A listening socket of this name.
pub fn bind(path: &str) -> Result<File> {
    library::lacks("bind");
    // SAFETY: an address of zeros is a valid value of this plain structure.
    let mut address: libc::sockaddr_un = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sun_family = libc::AF_UNIX as u16;
    for (into, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *into = from as _;
    }
    let socket = own_call!(socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0))?;
    let socket = File(socket);
    let bytes = size_of::<libc::sockaddr_un>() as u32;
    call!(bind(socket.as_raw_fd(), ptr::from_ref(&address).cast(), bytes))?;
    call!(listen(socket.as_raw_fd(), 1))?;
    Ok(socket)
}

fn filled(fill: impl FnOnce(*mut Stat) -> Result<c_int>) -> Result<Stat> {
    let mut stat = MaybeUninit::uninit();
    fill(stat.as_mut_ptr())?;
    // SAFETY: the call has succeeded, so it has filled the structure, which is the same with files of any size.
    Ok(unsafe { stat.assume_init() })
}

/// stat(2)
pub fn stat(path: &str) -> Result<Stat> {
    in_rust!(stat(path, true));
    filled(|into| call!(stat(c(path).as_ptr(), into.cast())))
}

/// lstat(2)
pub fn lstat(path: &str) -> Result<Stat> {
    in_rust!(stat(path, false));
    filled(|into| call!(lstat(c(path).as_ptr(), into.cast())))
}

/// fstat(2)
pub fn fstat(file: &File) -> Result<Stat> {
    in_rust!(fstat(file));
    filled(|into| call!(fstat(file.as_raw_fd(), into.cast())))
}

/// statx(2) of everything.
pub fn statx(path: &str) -> Result<libc::statx> {
    Library::Rust.lacks("statx");
    let mut stat = MaybeUninit::<libc::statx>::zeroed();
    call!(statx(AT_FDCWD, c(path).as_ptr(), 0, libc::STATX_ALL, stat.as_mut_ptr()))?;
    // SAFETY: the call has succeeded, so it has filled the structure, which was zeros before.
    Ok(unsafe { stat.assume_init() })
}

/// statvfs(3)
pub fn statvfs(path: &str) -> Result<libc::statvfs> {
    // SAFETY: zeros are a value of this type.
    let mut stat: libc::statvfs = unsafe { MaybeUninit::zeroed().assume_init() };
    in_rust!(statvfs(path, stat));
    let into: *mut libc::statvfs = &mut stat;
    call!(statvfs(c(path).as_ptr(), into))?;
    Ok(stat)
}

/// pathconf(3)
pub fn pathconf(path: &str, name: c_int) -> i64 {
    library::lacks("pathconf");
    // SAFETY: the path is a live string.
    unsafe { libc::pathconf(c(path).as_ptr(), name) }
}

/// access(2)
pub fn access(path: &str, mode: c_int) -> Result<()> {
    in_rust!(access(path, mode));
    call!(access(c(path).as_ptr(), mode)).map(drop)
}

/// A time for utimensat(2).
#[derive(Clone, Copy, Debug)]
pub struct Time(pub i64, pub i64);

/// Now.
pub const NOW: Time = Time(0, UTIME_NOW);
/// As it is.
pub const OMIT: Time = Time(0, UTIME_OMIT);

fn timespecs(atime: Time, mtime: Time) -> [libc::timespec; 2] {
    [atime, mtime].map(|time| libc::timespec { tv_sec: time.0, tv_nsec: time.1 })
}

/// utimensat(2) from the working directory.
pub fn utimensat(path: &str, atime: Time, mtime: Time, flags: c_int) -> Result<()> {
    in_rust!(utimensat(path, [atime, mtime], flags));
    let times = timespecs(atime, mtime);
    call!(utimensat(AT_FDCWD, c(path).as_ptr(), times.as_ptr(), flags)).map(drop)
}

/// utimensat(2) with no times at all.
pub fn touch(path: &str) -> Result<()> {
    in_rust!(utimensat(path, [NOW, NOW], 0));
    call!(utimensat(AT_FDCWD, c(path).as_ptr(), ptr::null(), 0)).map(drop)
}

/// futimens(3); in the library utimensat without a path, as pvfs_utimensat has it.
pub fn futimens(file: &File, atime: Time, mtime: Time) -> Result<()> {
    in_rust!(futimens(file, [atime, mtime]));
    let times = timespecs(atime, mtime);
    if let Some(Library::C(_)) = library::named() {
        return call!(utimensat(file.as_raw_fd(), ptr::null(), times.as_ptr(), 0)).map(drop);
    }
    call!(futimens(file.as_raw_fd(), times.as_ptr())).map(drop)
}

/// setxattr(2)
pub fn setxattr(path: &str, name: &str, value: &[u8], flags: c_int) -> Result<()> {
    in_rust!(setxattr(Object::Path(path.as_bytes(), true), name, value, flags));
    let (path, name, bytes) = (c(path), text(name), value.len());
    call!(setxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), bytes, flags)).map(drop)
}

/// lsetxattr(2)
pub fn lsetxattr(path: &str, name: &str, value: &[u8], flags: c_int) -> Result<()> {
    in_rust!(setxattr(Object::Path(path.as_bytes(), false), name, value, flags));
    let (path, name, bytes) = (c(path), text(name), value.len());
    call!(lsetxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), bytes, flags)).map(drop)
}

/// fsetxattr(2)
pub fn fsetxattr(file: &File, name: &str, value: &[u8], flags: c_int) -> Result<()> {
    in_rust!(setxattr(Object::Open(file.as_raw_fd()), name, value, flags));
    let (name, bytes) = (text(name), value.len());
    call!(fsetxattr(file.as_raw_fd(), name.as_ptr(), value.as_ptr().cast(), bytes, flags)).map(drop)
}

/// getxattr(2) with so much room.
pub fn getxattr_into(path: &str, name: &str, room: usize) -> Result<Vec<u8>> {
    Library::Rust.lacks("room for getxattr");
    let (path, name, mut into) = (c(path), text(name), vec![0u8; room]);
    let count = call!(getxattr(path.as_ptr(), name.as_ptr(), into.as_mut_ptr().cast(), room))?;
    into.resize(count as usize, 0);
    Ok(into)
}

/// getxattr(2)
pub fn getxattr(path: &str, name: &str) -> Result<Vec<u8>> {
    in_rust!(getxattr(Object::Path(path.as_bytes(), true), name));
    getxattr_into(path, name, 65536)
}

/// fgetxattr(2)
pub fn fgetxattr(file: &File, name: &str) -> Result<Vec<u8>> {
    in_rust!(getxattr(Object::Open(file.as_raw_fd()), name));
    let (name, mut into) = (text(name), vec![0u8; 65536]);
    let (room, pointer) = (into.len(), into.as_mut_ptr().cast());
    let count = call!(fgetxattr(file.as_raw_fd(), name.as_ptr(), pointer, room))?;
    into.truncate(count as usize);
    Ok(into)
}

/// listxattr(2), sorted.
pub fn listxattr(path: &str) -> Result<Vec<String>> {
    listed_xattrs(path).map(|names| sorted(&names))
}

fn listed_xattrs(path: &str) -> Result<Vec<u8>> {
    in_rust!(listxattr(path));
    let (path, mut into) = (c(path), vec![0u8; 65536]);
    let count = call!(listxattr(path.as_ptr(), into.as_mut_ptr().cast(), into.len()))?;
    into.truncate(count as usize);
    Ok(into)
}

fn sorted(names: &[u8]) -> Vec<String> {
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    names
}

/// removexattr(2)
pub fn removexattr(path: &str, name: &str) -> Result<()> {
    in_rust!(removexattr(path, name));
    call!(removexattr(c(path).as_ptr(), text(name).as_ptr())).map(drop)
}

/// Which kind of record lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lock {
    /// F_RDLCK
    Read,
    /// F_WRLCK
    Write,
    /// F_UNLCK
    Unlock,
}

/// Whose record locks are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    /// The process's: F_SETLK.
    Process,
    /// The open file's: F_OFD_SETLK.
    OpenFile,
}

fn record(lock: Lock, start: i64, bytes: i64) -> libc::flock {
    let l_type = match lock {
        Lock::Read => libc::F_RDLCK,
        Lock::Write => libc::F_WRLCK,
        Lock::Unlock => libc::F_UNLCK,
    } as i16;
    libc::flock { l_type, l_whence: SEEK_SET as i16, l_start: start, l_len: bytes, l_pid: 0 }
}

/// fcntl(2) with F_SETLK or F_OFD_SETLK.
pub fn lock(file: &File, owner: Owner, lock: Lock, start: i64, bytes: i64) -> Result<()> {
    in_rust!(lock(file, owner, lock, (start, bytes), false));
    let command = match owner {
        Owner::Process => libc::F_SETLK,
        Owner::OpenFile => libc::F_OFD_SETLK,
    };
    let record = record(lock, start, bytes);
    call!(fcntl(file.as_raw_fd(), command; ptr::from_ref(&record))).map(drop)
}

/// fcntl(2) with F_SETLKW or F_OFD_SETLKW.
pub fn lock_wait(file: &File, owner: Owner, lock: Lock, start: i64, bytes: i64) -> Result<()> {
    in_rust!(lock(file, owner, lock, (start, bytes), true));
    let command = match owner {
        Owner::Process => libc::F_SETLKW,
        Owner::OpenFile => libc::F_OFD_SETLKW,
    };
    let record = record(lock, start, bytes);
    call!(fcntl(file.as_raw_fd(), command; ptr::from_ref(&record))).map(drop)
}

/// What stands in the way of a record lock.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Conflict {
    /// Its kind.
    pub lock: Lock,
    /// Its first byte.
    pub start: i64,
    /// How long it is; 0 to the end of all files.
    pub bytes: i64,
    /// Whose it is; -1 of an open file's.
    pub pid: i32,
}

/// fcntl(2) with F_GETLK or F_OFD_GETLK; nothing when the lock could be had.
pub fn test_lock(
    file: &File,
    owner: Owner,
    lock: Lock,
    start: i64,
    bytes: i64,
) -> Result<Option<Conflict>> {
    in_rust!(test_lock(file, owner, lock, (start, bytes)));
    let command = match owner {
        Owner::Process => libc::F_GETLK,
        Owner::OpenFile => libc::F_OFD_GETLK,
    };
    let mut found = record(lock, start, bytes);
    call!(fcntl(file.as_raw_fd(), command; ptr::from_mut(&mut found)))?;
    let lock = match c_int::from(found.l_type) {
        libc::F_RDLCK => Lock::Read,
        libc::F_WRLCK => Lock::Write,
        _ => return Ok(None),
    };
    Ok(Some(Conflict { lock, start: found.l_start, bytes: found.l_len, pid: found.l_pid }))
}

/// flock(2)
pub fn flock(file: &File, operation: c_int) -> Result<()> {
    in_rust!(flock(file, operation));
    call!(flock(file.as_raw_fd(), operation)).map(drop)
}

/// Part of a file in memory.
pub struct Map {
    start: *mut u8,
    bytes: usize,
}

impl Map {
    /// mmap(2)
    pub fn new(file: &File, bytes: usize, protection: c_int, flags: c_int) -> Result<Self> {
        library::lacks("mmap");
        // SAFETY: the kernel chooses the place, so nothing of ours is overwritten.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            Err(Errno::last())
        } else {
            Ok(Self { start: start.cast(), bytes })
        }
    }

    /// Shared, for reading and writing.
    pub fn shared(file: &File, bytes: usize) -> Result<Self> {
        Self::new(file, bytes, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED)
    }

    /// A copy of some bytes.
    pub fn get(&self, at: usize, bytes: usize) -> Vec<u8> {
        assert!(at + bytes <= self.bytes);
        // SAFETY: the bytes are inside the mapping, as just checked; others may change them meanwhile, so
        // each is read once and volatile.
        (at..at + bytes).map(|at| unsafe { self.start.add(at).read_volatile() }).collect()
    }

    /// Changes some bytes.
    pub fn set(&self, at: usize, data: &[u8]) {
        assert!(at + data.len() <= self.bytes);
        for (index, byte) in data.iter().enumerate() {
            // SAFETY: inside the mapping, as just checked, which was made writable by those who call this.
            unsafe { self.start.add(at + index).write_volatile(*byte) };
        }
    }

    /// msync(2), waiting.
    pub fn sync(&self) -> Result<()> {
        own_call!(msync(self.start.cast(), self.bytes, libc::MS_SYNC)).map(drop)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let _ = own_call!(munmap(self.start.cast(), self.bytes));
    }
}

/// umask(2)
pub fn umask(mask: u32) -> u32 {
    // SAFETY: no pointers; it cannot fail.
    unsafe { libc::umask(mask) }
}

/// chdir(2)
pub fn chdir(path: &str) -> Result<()> {
    in_rust!(chdir(path));
    call!(chdir(c(path).as_ptr())).map(drop)
}

/// fchdir(2)
pub fn fchdir(directory: &File) -> Result<()> {
    in_rust!(fchdir(directory));
    call!(fchdir(directory.as_raw_fd())).map(drop)
}

/// getcwd(3)
pub fn getcwd() -> Result<String> {
    in_rust!(getcwd());
    library::lacks("getcwd");
    let mut into = vec![0u8; 4096];
    // SAFETY: the buffer is live and its length beside it.
    let path = unsafe { libc::getcwd(into.as_mut_ptr().cast(), into.len()) };
    if path.is_null() {
        return Err(Errno::last());
    }
    let path = CStr::from_bytes_until_nul(&into).expect("getcwd ends its answer with a zero");
    Ok(path.to_string_lossy().into_owned())
}

/// getdents64(2): records of entries, and how many bytes of them there are.
pub fn getdents(directory: &File, into: &mut [u8]) -> Result<usize> {
    Library::Rust.lacks("getdents");
    unsafe extern "C" fn of_kernel(fd: c_int, into: *mut c_void, bytes: usize) -> isize {
        // SAFETY: the caller's promise, which is what the kernel demands.
        unsafe { libc::syscall(libc::SYS_getdents64, fd, into, bytes) as isize }
    }
    let of_kernel: unsafe extern "C" fn(_, _, _) -> _ = of_kernel;
    let function = chosen("getdents", of_kernel);
    // SAFETY: the room is live and its length beside it.
    let used = unsafe { function(directory.as_raw_fd(), into.as_mut_ptr().cast(), into.len()) };
    Errno::result(used).map(|used| used as usize)
}

/// A program to be executed; a library has no execve(2).
pub fn program(path: &str) -> Command {
    library::lacks("execve");
    Command::new(path)
}

/// Makes the directory of a case and goes there.
pub fn enter(directory: &str) -> Result<()> {
    mkdir(directory, 0o755)?;
    chmod(directory, 0o755)?;
    if let Some(Library::C(_)) = library::named() {
        library::begin_in(directory);
        return Ok(());
    }
    chdir(directory)
}

/// Removes a directory with all that is in it.
pub fn clear(directory: &str) -> Result<()> {
    if library::named().is_none() {
        let cleared = std::fs::remove_dir_all(directory);
        return cleared.map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)));
    }
    for (name, _) in Stream::open(directory)?.filter(|entry| entry.0 != "." && entry.0 != "..") {
        let path = format!("{directory}/{name}");
        match unlink(&path) {
            Err(Errno::EISDIR) => clear(&path)?,
            removed => removed?,
        }
    }
    rmdir(directory)
}

/// Makes this process another user's, with these groups and no others, for good.
pub fn become_user(uid: u32, gid: u32, groups: &[u32]) -> Result<()> {
    own_call!(setgroups(groups.len(), groups.as_ptr()))?;
    own_call!(setresgid(gid, gid, gid))?;
    own_call!(setresuid(uid, uid, uid)).map(drop)
}

/// A process made by [`child`].
pub struct Child(i32);

/// Does something in a process of its own. Cases have one thread, so the child may do what it likes.
pub fn child(what: impl FnOnce()) -> Child {
    match fork().expect("fork") {
        0 => {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what));
            let status = library::status(outcome);
            // SAFETY: ends the child without running what its parent registered.
            unsafe { libc::_exit(status) }
        }
        pid => Child(pid),
    }
}

fn fork() -> Result<i32> {
    // SAFETY: this process has a single thread, so the child's memory is whole.
    let fork = || Errno::result(unsafe { libc::fork() });
    if Library::Rust.is_named() { rust::around_fork(fork) } else { fork() }
}

impl Child {
    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.0
    }

    /// kill(2)
    pub fn signal(&self, signal: c_int) {
        let _ = own_call!(kill(self.0, signal));
    }

    /// Waits for its end; the raw status. A child that ends for want of a call takes the case with it.
    pub fn wait(self) -> c_int {
        let mut status = 0;
        while own_call!(waitpid(self.0, &mut status, 0)) == Err(Errno::EINTR) {}
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == library::SET_ASIDE_STATUS {
            library::end();
        }
        status
    }

    /// Waits for its end, which must be a good one.
    pub fn succeeds(self) {
        assert_eq!(self.wait(), 0, "what the child did, above");
    }
}

/// Sends this process SIGALRM every so many milliseconds, or not any more when 0; the signal is caught and
/// does nothing, but interrupts what waits.
pub fn interrupt_every_ms(ms: i64) {
    extern "C" fn nothing(_: c_int) {}
    // SAFETY: an action of zeros with a handler that touches nothing is valid; no SA_RESTART on purpose.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = nothing as extern "C" fn(c_int) as usize;
        libc::sigaction(libc::SIGALRM, &action, ptr::null_mut());
    }
    let value = libc::timeval { tv_sec: ms / 1000, tv_usec: ms % 1000 * 1000 };
    let timer = libc::itimerval { it_interval: value, it_value: value };
    // SAFETY: the structure is live and plain.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, ptr::null_mut()) };
}
