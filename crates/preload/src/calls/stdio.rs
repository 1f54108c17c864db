//! Streams. The C library moves a stream's bytes by calls of its own that nobody stands in front of, so a stream
//! on a file of ours is one with functions of ours (fopencookie).
//!
//! Standard streams exist already. When descriptor 0, 1 or 2 becomes ours, the variable `stdin`, `stdout` or
//! `stderr` is made to name a stream with our functions; when it becomes another's, its first value again.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{AT_FDCWD, FILE, off64_t, size_t, ssize_t};
use pvfs_posix::numbers::OURS;
use pvfs_wire::Errno;

use super::open::opened;
use crate::interpose;
use pvfs_posix::c::answer::fail;
use pvfs_posix::c::memory::text;
use pvfs_posix::c::route::leads_in;
use pvfs_posix::c::state::is_borrowed;

interpose! {
    /// fopen(3)
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE as real {
        if !leads_in(AT_FDCWD, path) {
            let stream = real(path, mode);
            if !stream.is_null() || pvfs_posix::c::answer::errno() != Errno::ENOENT {
                return stream;
            }
        }
        open_stream(path, mode)
    }
    /// fopen(3)
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE as real {
        if !leads_in(AT_FDCWD, path) {
            let stream = real(path, mode);
            if !stream.is_null() || pvfs_posix::c::answer::errno() != Errno::ENOENT {
                return stream;
            }
        }
        open_stream(path, mode)
    }
    /// fdopen(3)
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE as real {
        if !OURS.has(fd) {
            return real(fd, mode);
        }
        stream_on(fd, mode)
    }
    /// freopen(3)
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE as real {
        if !(leads_in(AT_FDCWD, path) || is_ours(stream)) {
            return real(path, mode, stream);
        }
        reopen(path, mode, stream)
    }
    /// freopen(3)
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE as real {
        if !(leads_in(AT_FDCWD, path) || is_ours(stream)) {
            return real(path, mode, stream);
        }
        reopen(path, mode, stream)
    }
    /// fileno(3)
    fn fileno(stream: *mut FILE) -> c_int as real {
        descriptor_of(stream).unwrap_or_else(|| real(stream))
    }
    /// fileno(3)
    fn fileno_unlocked(stream: *mut FILE) -> c_int as real {
        descriptor_of(stream).unwrap_or_else(|| real(stream))
    }
}

unsafe extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
}

/// What a stream of ours is given to its functions: the descriptor, which freopen changes.
struct Cookie {
    fd: AtomicUsize,
    /// A standard stream's descriptor is the program's to close.
    closes: bool,
}

/// The streams of ours, by their addresses.
static STREAMS: Mutex<Option<HashMap<usize, usize>>> = Mutex::new(None);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The first values of the standard streams' variables, while ours are in their place.
static FIRST: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(null_mut()) }; 3];

/// Our streams in their place, which are kept to be used again.
static OWN: [AtomicPtr<FILE>; 3] = [const { AtomicPtr::new(null_mut()) }; 3];

/// Makes the standard streams follow their descriptors.
pub fn follow_descriptors() {
    if is_borrowed() {
        return;
    }
    for fd in 0..3 {
        let index = fd as usize;
        let swapped = !FIRST[index].load(Ordering::Relaxed).is_null();
        if OURS.has(fd) == swapped {
            continue;
        }
        let variable = variable(fd);
        if swapped {
            flush(fd);
            // SAFETY: the variable is the C library's, for whoever wants to set it.
            unsafe { variable.write(FIRST[index].swap(null_mut(), Ordering::Relaxed)) };
        } else if let Some(own) = own_stream(fd) {
            // SAFETY: as above. Null would mean all streams, but the variable names one.
            unsafe {
                let first = variable.read();
                if !first.is_null() {
                    FIRST[index].store(first, Ordering::Relaxed);
                    variable.write(own);
                }
            }
        }
    }
}

/// Writes what a standard stream of ours still has, before its descriptor means something else.
pub fn flush(fd: c_int) {
    if (1..3).contains(&fd) && !FIRST[fd as usize].load(Ordering::Relaxed).is_null() {
        // SAFETY: our stream, which is never closed.
        unsafe { libc::fflush(OWN[fd as usize].load(Ordering::Relaxed)) };
    }
}

fn variable(fd: c_int) -> *mut *mut FILE {
    match fd {
        0 => &raw mut stdin,
        1 => &raw mut stdout,
        _ => &raw mut stderr,
    }
}

fn own_stream(fd: c_int) -> Option<*mut FILE> {
    let known = OWN[fd as usize].load(Ordering::Relaxed);
    if !known.is_null() {
        return Some(known);
    }
    let mode = if fd == 0 { c"r" } else { c"w" };
    let stream = make_stream(fd, mode.as_ptr(), false);
    if stream.is_null() {
        return None;
    }
    if fd == 2 {
        // SAFETY: a stream that was just made; no buffer is given.
        unsafe { libc::setvbuf(stream, null_mut(), libc::_IONBF, 0) };
    }
    OWN[fd as usize].store(stream, Ordering::Relaxed);
    Some(stream)
}

/// # Safety
///
/// Both are C strings.
unsafe fn open_stream(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller's promise.
    let Some(flags) = flags_of(unsafe { text(mode) }) else { return fail(Errno::EINVAL) };
    // SAFETY: the caller's promise.
    let fd = unsafe {
        opened(AT_FDCWD, path, flags, 0o666, |_, path| super::open::open(path, flags, 0o666))
    };
    if fd < 0 {
        return null_mut();
    }
    if !OURS.has(fd) {
        // SAFETY: the path led out; the descriptor is the C library's own affair.
        return unsafe { fdopen(fd, mode) };
    }
    if flags & libc::O_APPEND != 0 && flags & libc::O_ACCMODE == libc::O_WRONLY {
        // As the C library has it: a stream that only appends tells its place from the end on.
        // SAFETY: the call takes numbers.
        unsafe { super::data::lseek(fd, 0, libc::SEEK_END) };
    }
    // SAFETY: the caller's promise.
    let stream = unsafe { stream_on(fd, mode) };
    if stream.is_null() {
        // SAFETY: closing a number that was just opened.
        unsafe { super::descriptors::close(fd) };
    }
    stream
}

/// # Safety
///
/// `mode` is a C string.
unsafe fn stream_on(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the caller's promise.
    let Some(flags) = flags_of(unsafe { text(mode) }) else { return fail(Errno::EINVAL) };
    if flags & libc::O_APPEND != 0 {
        // SAFETY: these commands take numbers.
        unsafe {
            let now = super::fcntl::fcntl(fd, libc::F_GETFL, null_mut());
            let flags = (now | libc::O_APPEND) as usize;
            super::fcntl::fcntl(fd, libc::F_SETFL, std::ptr::without_provenance_mut(flags));
        }
    }
    make_stream(fd, mode, true)
}

fn make_stream(fd: c_int, mode: *const c_char, closes: bool) -> *mut FILE {
    let cookie = Box::into_raw(Box::new(Cookie { fd: AtomicUsize::new(fd as usize), closes }));
    let functions = CookieFunctions {
        read: Some(read_stream),
        write: Some(write_stream),
        seek: Some(seek_stream),
        close: Some(close_stream),
    };
    // SAFETY: the cookie lives until `close_stream`, the functions for ever.
    let stream = unsafe { fopencookie(cookie.cast(), mode, functions) };
    if stream.is_null() {
        // SAFETY: nobody else has it.
        drop(unsafe { Box::from_raw(cookie) });
        return stream;
    }
    streams().get_or_insert_default().insert(stream.addr(), cookie.addr());
    COUNT.fetch_add(1, Ordering::Relaxed);
    // SAFETY: a stream that was just made; no buffer is given, so the C library takes one of that size.
    unsafe { libc::setvbuf(stream, null_mut(), libc::_IOFBF, BUFFER_BYTES) };
    stream
}

/// # Safety
///
/// The texts are C strings, `path` may be null; `stream` is a stream.
unsafe fn reopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE {
    // SAFETY: the caller's promise.
    let flags = unsafe { text(mode) };
    let (Some(flags), false) = (flags_of(flags), path.is_null()) else {
        return fail(Errno::EINVAL);
    };
    // SAFETY: the caller's promise.
    unsafe {
        libc::fflush(stream);
        let old = fileno(stream);
        let new =
            opened(AT_FDCWD, path, flags, 0o666, |_, path| super::open::open(path, flags, 0o666));
        if new < 0 {
            return null_mut();
        }
        if old >= 0 && old != new {
            // The stream keeps its descriptor's number, and follows if it is a standard one.
            let moved = super::descriptors::dup2(new, old);
            super::descriptors::close(new);
            if moved < 0 {
                return null_mut();
            }
        }
        match old {
            0..3 => {
                libc::clearerr(variable(old).read());
                variable(old).read()
            }
            _ if is_ours(stream) => {
                libc::clearerr(stream);
                stream
            }
            // A stream of the C library's cannot be made ours: the program gets another.
            fd => stream_on(fd, mode),
        }
    }
}

fn is_ours(stream: *mut FILE) -> bool {
    COUNT.load(Ordering::Relaxed) > 0
        && streams().as_ref().is_some_and(|streams| streams.contains_key(&stream.addr()))
}

fn descriptor_of(stream: *mut FILE) -> Option<c_int> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let cookie = *streams().as_ref()?.get(&stream.addr())?;
    // SAFETY: a cookie in the table lives: `close_stream` takes it out before it goes.
    let cookie = unsafe { &*std::ptr::with_exposed_provenance::<Cookie>(cookie) };
    Some(cookie.fd.load(Ordering::Relaxed) as c_int)
}

fn streams() -> MutexGuard<'static, Option<HashMap<usize, usize>>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// # Safety
///
/// The C library calls it with the stream's cookie.
unsafe fn number(cookie: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { &*cookie.cast::<Cookie>() }.fd.load(Ordering::Relaxed) as c_int
}

unsafe extern "C" fn read_stream(cookie: *mut c_void, to: *mut c_char, size: size_t) -> ssize_t {
    // SAFETY: the C library passes the cookie and its buffer.
    unsafe { super::data::read(number(cookie), to.cast(), size) }
}

/// A cookie's write tells of failure by 0. The C library takes less than all for a failure too, where it would go on with a
/// descriptor of the kernel's: so it is gone on with here, which tells why.
unsafe extern "C" fn write_stream(
    cookie: *mut c_void,
    from: *const c_char,
    size: size_t,
) -> ssize_t {
    let mut done = 0;
    while done < size {
        // SAFETY: the C library's promise: so many bytes can be read; fewer are left.
        let more =
            unsafe { super::data::write(number(cookie), from.add(done).cast(), size - done) };
        if more <= 0 {
            break;
        }
        done += more as size_t;
    }
    done as ssize_t
}

unsafe extern "C" fn seek_stream(
    cookie: *mut c_void,
    offset: *mut off64_t,
    whence: c_int,
) -> c_int {
    // SAFETY: the C library passes the cookie and a place for the new position.
    unsafe {
        let position = super::data::lseek(number(cookie), *offset, whence);
        if position < 0 {
            return -1;
        }
        *offset = position;
    }
    0
}

unsafe extern "C" fn close_stream(cookie: *mut c_void) -> c_int {
    let mut table = streams();
    if let Some(streams) = table.as_mut() {
        streams.retain(|_, known| *known != cookie.addr());
        COUNT.store(streams.len(), Ordering::Relaxed);
    }
    drop(table);
    // SAFETY: the C library calls this once, and the cookie no more.
    let cookie = unsafe { Box::from_raw(cookie.cast::<Cookie>()) };
    if !cookie.closes {
        return 0;
    }
    // SAFETY: the stream's own descriptor.
    unsafe { super::descriptors::close(cookie.fd.load(Ordering::Relaxed) as c_int) }
}

/// The flags of open(2) that a mode stands for.
fn flags_of(mode: &[u8]) -> Option<c_int> {
    let (first, rest) = mode.split_first()?;
    let rest = rest.split(|byte| *byte == b',').next().unwrap_or_default();
    let has = |letter| rest.contains(&letter);
    let access = match (first, has(b'+')) {
        (_, true) => libc::O_RDWR,
        (b'r', false) => libc::O_RDONLY,
        _ => libc::O_WRONLY,
    };
    let creates = match first {
        b'r' => 0,
        b'w' => libc::O_CREAT | libc::O_TRUNC,
        b'a' => libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    let exclusive = if has(b'x') { libc::O_EXCL } else { 0 };
    let closes = if has(b'e') { libc::O_CLOEXEC } else { 0 };
    Some(access | creates | exclusive | closes)
}

/// cookie_io_functions_t
#[repr(C)]
struct CookieFunctions {
    read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t>,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t>,
    seek: Option<unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int>,
    close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

unsafe extern "C" {
    fn fopencookie(
        cookie: *mut c_void,
        mode: *const c_char,
        functions: CookieFunctions,
    ) -> *mut FILE;
}

/// Streams move that much at once: a round trip is dearer than a system call.
const BUFFER_BYTES: size_t = 64 << 10;
