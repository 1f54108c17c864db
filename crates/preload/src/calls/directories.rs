//! Directory streams. Ours begin with a word that no stream of the C library begins with.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_long, c_void};

use libc::{AT_FDCWD, O_CLOEXEC, O_DIRECTORY, O_RDONLY, dirent64, size_t, ssize_t};
use pvfs_posix::Stream;
use pvfs_posix::c::entries::{entries, entry_of};
use pvfs_posix::numbers::OURS;
use pvfs_wire::Errno;

use super::open::opened;
use crate::interpose;
use pvfs_posix::c::answer::{errno, fail, set_errno};
use pvfs_posix::c::memory::room;
use pvfs_posix::c::route::{finish, leads_in};
use pvfs_posix::c::state::with;

/// What `DIR *` points to when it is ours.
#[repr(C)]
struct OurDir {
    mark: u64,
    fd: c_int,
    stream: Stream,
    entry: dirent64,
}

type Dir = libc::DIR;

interpose! {
    /// opendir(3)
    fn opendir(path: *const c_char) -> *mut Dir as real {
        if !leads_in(AT_FDCWD, path) {
            let dir = real(path);
            if !dir.is_null() || errno() != Errno::ENOENT {
                return dir;
            }
        }
        let flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
        let fd = opened(AT_FDCWD, path, flags, 0, |_, path| {
            // It leads out, or was not ours.
            super::open::open(path, flags, 0)
        });
        if fd < 0 {
            return std::ptr::null_mut();
        }
        fdopendir(fd)
    }
    /// fdopendir(3)
    fn fdopendir(fd: c_int) -> *mut Dir as real {
        if !OURS.has(fd) {
            return real(fd);
        }
        match with(|process| process.stream(fd)) {
            Err(pvfs_posix::Stop::NotOurs) => real(fd),
            stream => finish(stream.map(|stream| {
                let entry: dirent64 = std::mem::zeroed();
                let dir = OurDir { mark: MARK, fd, stream, entry };
                Box::into_raw(Box::new(dir)).cast::<Dir>()
            }), |_| fail(Errno::EBADF)),
        }
    }
    /// closedir(3)
    fn closedir(dir: *mut Dir) -> c_int as real {
        let Some(own) = ours(dir) else { return real(dir) };
        let fd = own.fd;
        drop(Box::from_raw(dir.cast::<OurDir>()));
        super::descriptors::close(fd)
    }
    /// readdir(3)
    fn readdir(dir: *mut Dir) -> *mut dirent64 as real {
        match ours(dir) {
            Some(own) => next(own),
            None => real(dir),
        }
    }
    /// readdir(3)
    fn readdir64(dir: *mut Dir) -> *mut dirent64 as real {
        match ours(dir) {
            Some(own) => next(own),
            None => real(dir),
        }
    }
    /// readdir_r(3)
    fn readdir_r(dir: *mut Dir, entry: *mut dirent64, result: *mut *mut dirent64) -> c_int as real {
        match ours(dir) {
            Some(own) => next_into(own, entry, result),
            None => real(dir, entry, result),
        }
    }
    /// readdir_r(3)
    fn readdir64_r(dir: *mut Dir, entry: *mut dirent64, result: *mut *mut dirent64) -> c_int as real {
        match ours(dir) {
            Some(own) => next_into(own, entry, result),
            None => real(dir, entry, result),
        }
    }
    /// rewinddir(3)
    fn rewinddir(dir: *mut Dir) -> () as real {
        match ours(dir) {
            Some(own) => own.stream.seek(0),
            None => real(dir),
        }
    }
    /// telldir(3)
    fn telldir(dir: *mut Dir) -> c_long as real {
        match ours(dir) {
            Some(own) => own.stream.position() as c_long,
            None => real(dir),
        }
    }
    /// seekdir(3)
    fn seekdir(dir: *mut Dir, position: c_long) -> () as real {
        match ours(dir) {
            Some(own) => own.stream.seek(position as u64),
            None => real(dir, position),
        }
    }
    /// dirfd(3)
    fn dirfd(dir: *mut Dir) -> c_int as real {
        match ours(dir) {
            Some(own) => own.fd,
            None => real(dir),
        }
    }
    /// getdents64(2)
    fn getdents64(fd: c_int, to: *mut c_void, size: size_t) -> ssize_t as real {
        pvfs_posix::c::route::at_descriptor(fd, || real(fd, to, size), |process| {
            entries(process, fd, room(to, size)).map(|used| used as ssize_t)
        })
    }
}

/// The stream, if it is one of ours.
///
/// # Safety
///
/// `dir` is null or a stream that nobody else uses meanwhile.
unsafe fn ours<'a>(dir: *mut Dir) -> Option<&'a mut OurDir> {
    if dir.is_null() {
        return None;
    }
    // SAFETY: streams of either kind are longer than a word and aligned to one.
    let mark = unsafe { dir.cast::<u64>().read() };
    // SAFETY: only our streams begin with the mark: those of the C library begin with a descriptor and a lock.
    (mark == MARK).then(|| unsafe { &mut *dir.cast::<OurDir>() })
}

fn next(own: &mut OurDir) -> *mut dirent64 {
    let before = errno();
    match with(|process| process.next_item(&mut own.stream)) {
        Ok(Some(item)) => {
            own.entry = entry_of(&item);
            &raw mut own.entry
        }
        Ok(None) => {
            set_errno(before);
            std::ptr::null_mut()
        }
        stop => finish(stop.map(|_| std::ptr::null_mut()), |_| fail(Errno::EBADF)),
    }
}

/// # Safety
///
/// Both may be written.
unsafe fn next_into(own: &mut OurDir, entry: *mut dirent64, result: *mut *mut dirent64) -> c_int {
    let next = with(|process| process.next_item(&mut own.stream));
    // SAFETY: the caller's promise.
    unsafe {
        result.write(std::ptr::null_mut());
        match next {
            Ok(Some(item)) => {
                entry.write(entry_of(&item));
                result.write(entry);
                0
            }
            Ok(None) => 0,
            Err(stop) => stop.errno().0 as c_int,
        }
    }
}

const MARK: u64 = u64::from_ne_bytes(*b"pvfs-dir");
