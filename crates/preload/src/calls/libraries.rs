//! Shared libraries that lie in the file system.
//!
//! The loader opens files by calls of its own, which nobody sees. What is loaded from the file system is therefore a copy
//! in memory, and what a library needs of libraries that lie there as well is loaded before it: the loader takes what
//! is there by its name (`DT_SONAME`) for what is needed.
//!
//! ```text
//!   dlopen /pvfs/env/x.so  -> needs y.so.1, RUNPATH $ORIGIN/libs
//!                             dlopen /proc/self/fd/800    a copy of /pvfs/env/libs/y.so.1
//!                             dlopen /proc/self/fd/801    a copy of /pvfs/env/x.so
//! ```
//!
//! What a program is linked with is loaded before we are there.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::panic::catch_unwind;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{AT_FDCWD, O_CLOEXEC, O_RDONLY, RTLD_LAZY, RTLD_NOLOAD};
use pvfs_posix::c::memory::text;
use pvfs_posix::c::route::leads_in;
use pvfs_posix::c::state::with;
use pvfs_posix::numbers::OURS;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::execute::in_memory;
use crate::interpose;
use crate::needs::{Needs, directories};
use crate::real::{Address, Real};

type Handle = *mut c_void;

/// A library that was loaded from here.
struct Loaded {
    file: Identity,
    /// What the loader knows it by.
    name: CString,
    /// Where it lay.
    path: &'static CStr,
}

/// Which file, and which of its contents.
#[derive(Clone, Copy, Eq, PartialEq)]
struct Identity {
    device: u64,
    inode: u64,
    bytes: i64,
    changed: (i64, i64),
}

/// All of them; none goes, for the loader may know it longer than whoever loaded it.
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

static REAL: Real = Real::new(c"dlopen");

/// What becomes of a call of dlopen: the function to go on with, or null and the answer.
#[repr(C)]
pub struct Found {
    handle: Handle,
    onward: Address,
}

/// dlopen(3). Where the library is none of ours this is a jump, so that the C library sees who called: it looks in the
/// directories which that one names.
///
/// # Safety
///
/// As the C function of this name demands.
// SAFETY: the arguments are kept over the call, at which the stack is aligned; it is given back before the jump or the return.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(path: *const c_char, flags: c_int) -> Handle {
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {find}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rdx, rdx",
        "jne 2f",
        "ret",
        "2:",
        "jmp rdx",
        find = sym find,
    )
}

interpose! {
    /// dladdr(3)
    fn dladdr(address: *const c_void, about: *mut libc::Dl_info) -> c_int as real {
        let found = real(address, about);
        if found != 0 && !(*about).dli_fname.is_null() {
            let name = CStr::from_ptr((*about).dli_fname);
            if let Some(library) = loaded().iter().find(|library| *library.name == *name) {
                (*about).dli_fname = library.path.as_ptr();
            }
        }
        found
    }
}

/// # Safety
///
/// As dlopen demands.
unsafe extern "C" fn find(path: *const c_char, flags: c_int) -> Found {
    let handle = match path.is_null() {
        true => None,
        // SAFETY: the caller's promise.
        false => catch_unwind(|| unsafe { find_ours(text(path), flags) }).ok().flatten(),
    };
    match handle {
        Some(handle) => Found { handle, onward: null_mut() },
        None => Found { handle: null_mut(), onward: REAL.address() },
    }
}

/// Loads a library if it is one of ours; null if it cannot be loaded.
fn find_ours(path: &[u8], flags: c_int) -> Option<Handle> {
    if path.contains(&b'/') {
        let may_be_ours = !is_the_kernels(path);
        return may_be_ours.then(|| load(path, flags, &mut Vec::new(), &[]))?;
    }
    // Directories that libraries name are looked at by the loader alone.
    let listed: Vec<Vec<u8>> =
        searched().iter().map(|directory| in_directory(directory, path)).collect();
    if !listed.iter().any(|path| is_inside(path)) {
        return None;
    }
    if let Some(known) = real(path, flags | RTLD_NOLOAD) {
        return Some(known);
    }
    // The first directory in which it is counts, whosever that is.
    let found = |path: &Vec<u8>| match is_inside(path) {
        true => Some(load(path, flags, &mut Vec::new(), &[])?),
        false => is_the_kernels(path).then(null_mut),
    };
    listed.iter().find_map(found).filter(|handle| !handle.is_null())
}

/// Loads the library at a path of ours, after what it needs. `None` where there is none; null where the loader does not
/// take it, which has said why. `above`: what is being loaded that needs it; `rpath`: the directories that those name for all.
fn load(path: &[u8], flags: c_int, above: &mut Vec<Identity>, rpath: &[Vec<u8>]) -> Option<Handle> {
    let Library { file, absolute, content } = match read(path)? {
        Content::Ours(library) => library,
        Content::Outside(path) => return Some(real(&path, flags).unwrap_or(null_mut())),
    };
    if let Some(handle) = known(file, flags) {
        return Some(handle);
    }
    if flags & RTLD_NOLOAD != 0 {
        return Some(null_mut());
    }
    if above.contains(&file) || above.len() > DEPTH_MAX {
        return None;
    }
    let slash = absolute.iter().rposition(|byte| *byte == b'/')?;
    let (origin, name) = (&absolute[..slash], &absolute[slash + 1..]);
    let needs = Needs::of(&content, origin);
    let rpath = [&needs.rpath, rpath].concat();
    above.push(file);
    let held: Vec<Handle> = needs
        .names
        .iter()
        .filter(|name| !name.contains(&b'/'))
        .filter_map(|name| {
            let listed = if needs.runpath.is_empty() { &rpath[..] } else { &[] };
            let places = [listed, &searched(), &needs.runpath].concat();
            need(name, &places, above, &rpath)
        })
        .collect();
    above.pop();
    let copy = in_memory(&CString::new(name).ok()?, &content).ok()?;
    let known_as = name_of_its_own(copy.as_raw_fd());
    let handle = real(known_as.to_bytes(), flags);
    held.into_iter().for_each(close);
    if handle.is_some() {
        let path = CString::new(path).unwrap_or_default().into_boxed_c_str();
        loaded().push(Loaded { file, name: known_as, path: Box::leak(path) });
    }
    Some(handle.unwrap_or(null_mut()))
}

/// Loads what a library needs, if that is one of ours which is not there yet.
fn need(
    name: &[u8],
    places: &[Vec<u8>],
    above: &mut Vec<Identity>,
    rpath: &[Vec<u8>],
) -> Option<Handle> {
    let paths = places.iter().map(|directory| in_directory(directory, name));
    let mut paths = paths.filter(|path| is_inside(path)).peekable();
    paths.peek()?;
    let load = |path: Vec<u8>| load(&path, RTLD_LAZY, above, rpath);
    let handle = real(name, RTLD_LAZY | RTLD_NOLOAD).or_else(|| paths.find_map(load));
    handle.filter(|handle| !handle.is_null())
}

fn in_directory(directory: &[u8], name: &[u8]) -> Vec<u8> {
    [directory, b"/", name].concat()
}

/// One that was loaded before and still is.
fn known(file: Identity, flags: c_int) -> Option<Handle> {
    let name = loaded().iter().rev().find(|library| library.file == file)?.name.clone();
    real(name.to_bytes(), flags | RTLD_NOLOAD)
}

/// What a path leads to.
enum Content {
    /// A file of ours.
    Ours(Library),
    /// One of the kernel's, at this path.
    Outside(Vec<u8>),
}

/// A library that lies here.
struct Library {
    file: Identity,
    /// Its path from the root on.
    absolute: Vec<u8>,
    content: Vec<u8>,
}

fn read(path: &[u8]) -> Option<Content> {
    let c_path = CString::new(path).ok()?;
    // SAFETY: a C string, a structure and a buffer of ours; the number is closed by who opened it.
    unsafe {
        let fd = super::open::open(c_path.as_ptr(), O_RDONLY | O_CLOEXEC, 0);
        if fd < 0 {
            return None;
        }
        let (mut about, mut content) = (std::mem::zeroed::<libc::stat64>(), Vec::new());
        if !OURS.has(fd) {
            let path = rustix::fs::readlink(format!("/proc/self/fd/{fd}"), Vec::new());
            super::descriptors::close(fd);
            return Some(Content::Outside(path.ok()?.into_bytes()));
        }
        let mut is_whole = super::stat::fstat(fd, &raw mut about) == 0;
        while is_whole && (content.len() as i64) < about.st_size {
            let start = content.len();
            content.resize(start + PIECE_BYTES.min((about.st_size as usize) - start), 0);
            let rest = &mut content[start..];
            let got = super::data::read(fd, rest.as_mut_ptr().cast(), rest.len());
            is_whole = got > 0;
            content.truncate(start + usize::try_from(got).unwrap_or(0));
        }
        let of_ours = || with(|process| Ok(process.description(fd)?.path().to_vec())).ok();
        let absolute = if path.starts_with(b"/") { Some(path.to_vec()) } else { of_ours() };
        super::descriptors::close(fd);
        let file = Identity {
            device: about.st_dev,
            inode: about.st_ino,
            bytes: about.st_size,
            changed: (about.st_ctime, about.st_ctime_nsec),
        };
        let absolute = absolute.filter(|_| is_whole)?;
        Some(Content::Ours(Library { file, absolute, content }))
    }
}

/// The C library's own.
fn real(path: &[u8], flags: c_int) -> Option<Handle> {
    type Function = unsafe extern "C" fn(*const c_char, c_int) -> Handle;
    let path = CString::new(path).ok()?;
    // SAFETY: the next function of this name is the C library's, of this type; it is given a C string.
    let handle = unsafe {
        let function = std::mem::transmute::<Address, Function>(REAL.address());
        function(path.as_ptr(), flags)
    };
    (!handle.is_null()).then_some(handle)
}

fn close(handle: Handle) {
    // SAFETY: one that the loader gave, and that is not used any more.
    unsafe { libc::dlclose(handle) };
}

fn is_inside(path: &[u8]) -> bool {
    // SAFETY: a C string.
    CString::new(path).is_ok_and(|path| unsafe { leads_in(AT_FDCWD, path.as_ptr()) })
}

/// Whether the kernel knows the path; else it leads to us if it leads anywhere.
fn is_the_kernels(path: &[u8]) -> bool {
    !is_inside(path) && accessat(CWD, path, Access::EXISTS, AtFlags::empty()).is_ok()
}

/// The directories of `LD_LIBRARY_PATH`.
fn searched() -> Vec<Vec<u8>> {
    // SAFETY: a C string is given; who changes the environment meanwhile has to look out.
    unsafe {
        let list = libc::getenv(c"LD_LIBRARY_PATH".as_ptr());
        if list.is_null() { Vec::new() } else { directories(text(list), b"") }
    }
}

/// A path of the descriptor that was never given to the loader before: it tells libraries apart by those. A number
/// in slashes and dots, which mean nothing to the kernel.
fn name_of_its_own(fd: c_int) -> CString {
    let number = loaded().len();
    let bits = usize::BITS - number.leading_zeros();
    let marks: String =
        (0..bits).map(|bit| if number >> bit & 1 == 1 { "/." } else { "/" }).collect();
    CString::new(format!("/proc/self/fd{marks}/{fd}")).expect("it has no zero")
}

fn loaded() -> MutexGuard<'static, Vec<Loaded>> {
    LOADED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Libraries that need one another, one in the other.
const DEPTH_MAX: usize = 32;

/// Bytes read at a time.
const PIECE_BYTES: usize = 4 << 20;
