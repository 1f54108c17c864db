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
//! What a program of ours is linked with is loaded before we are there. Who executes it therefore hands copies on, open
//! and at the end of LD_PRELOAD, from where the program takes them off when it begins ([`super::execute`]).

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::catch_unwind;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{AT_FDCWD, RTLD_LAZY, RTLD_NOLOAD};
use pvfs_posix::c::answer::fail;
use pvfs_posix::c::memory::text;
use pvfs_posix::c::route::{at_path, leads_in};
use pvfs_posix::c::state::with;
use pvfs_posix::{At, Process, Reach};
use pvfs_wire::{Errno, Handle};
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::interpose;
use crate::memory::{copied, look};
use crate::needs::{Needs, directories};
use crate::real::{Address, Real};

type Loader = *mut c_void;

/// A library that was loaded from here.
struct Loaded {
    file: Identity,
    /// What the loader knows it by.
    name: CString,
    /// Where it lay.
    path: &'static CStr,
}

/// Which file, and which of its contents.
type Identity = (Handle, u64);

/// All of them; none goes, for the loader may know it longer than whoever loaded it.
static LOADED: Mutex<Vec<Loaded>> = Mutex::new(Vec::new());

static REAL: Real = Real::new(c"dlopen");

/// What becomes of a call of dlopen: the function to go on with, or null and the answer.
#[repr(C)]
pub struct Found {
    handle: Loader,
    onward: Address,
}

/// dlopen(3). Where the library is none of ours this is a jump, so that the C library sees who called: it looks in the
/// directories which that one names.
///
/// # Safety
///
/// As the C function of this name demands.
// SAFETY: the arguments are kept over the call, at which the stack is aligned; it is given back before the jump or the return.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn dlopen(path: *const c_char, flags: c_int) -> Loader {
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
            let is_it = |library: &&Loaded| *library.name == *name;
            // Programs that crash ask from a signal handler: nobody is waited for.
            let library = LOADED.try_lock().ok().and_then(|all| Some(all.iter().find(is_it)?.path));
            if let Some(path) = library {
                (*about).dli_fname = path.as_ptr();
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
fn find_ours(path: &[u8], flags: c_int) -> Option<Loader> {
    if path.contains(&b'/') {
        return match found(path)? {
            Content::Outside(same) if same == path => None,
            content => load(path, content, flags, &mut Vec::new(), &[]),
        };
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
    let (path, content) = listed.iter().find_map(|path| Some((path, found(path)?)))?;
    load(path, content, flags, &mut Vec::new(), &[])
}

/// Loads a library that was found at a path, after what it needs. `None` where it cannot be; null where the loader does
/// not take it, which has said why. `above`: what is being loaded that needs it; `rpath`: the directories that those name
/// for all.
fn load(
    path: &[u8],
    content: Content,
    flags: c_int,
    above: &mut Vec<Identity>,
    rpath: &[Vec<u8>],
) -> Option<Loader> {
    let Library { file, absolute } = match content {
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
    let copy = with(|process| copy_of(process, &absolute)).ok()?;
    let needs = needs_of(&copy, &absolute);
    let rpath = [&needs.rpath, rpath].concat();
    let places = needs.places(&rpath, &searched());
    above.push(file);
    let held = needs.names.iter().filter_map(|name| need(name, &places, above, &rpath));
    let held: Vec<Loader> = held.collect();
    above.pop();
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
) -> Option<Loader> {
    let paths = places.iter().map(|directory| in_directory(directory, name));
    let mut paths = paths.filter(|path| is_inside(path)).peekable();
    paths.peek()?;
    let mut load = |path: Vec<u8>| load(&path, found(&path)?, RTLD_LAZY, above, rpath);
    let handle = real(name, RTLD_LAZY | RTLD_NOLOAD).or_else(|| paths.find_map(&mut load));
    handle.filter(|handle| !handle.is_null())
}

/// Copies of those of our libraries that the program at a path is linked with, and that those are linked with. `listed`:
/// the list of directories that it is given.
pub fn copies(process: &Process, content: &[u8], path: &[u8], listed: &[u8]) -> Vec<OwnedFd> {
    let needs = Needs::of(content, directory_of(&absolute(process, path)));
    let listed = directories(listed, b"");
    let mut copying = Copying { process, listed, seen: BTreeSet::new(), copies: Vec::new() };
    copying.add(&needs, &[]);
    copying.copies
}

/// Whether a list of directories names one of ours.
pub fn names_ours(listed: &[u8]) -> bool {
    directories(listed, b"").iter().any(|directory| is_inside(directory))
}

struct Copying<'a> {
    process: &'a Process,
    listed: Vec<Vec<u8>>,
    seen: BTreeSet<Vec<u8>>,
    copies: Vec<OwnedFd>,
}

impl Copying<'_> {
    /// Copies what is needed; `above`: the directories that those name for all which need it.
    fn add(&mut self, needs: &Needs, above: &[Vec<u8>]) {
        let rpath = [&needs.rpath, above].concat();
        let places = needs.places(&rpath, &self.listed);
        for name in &needs.names {
            if self.copies.len() >= COPIES_MAX || self.seen.contains(name) {
                continue;
            }
            let paths = places.iter().map(|directory| in_directory(directory, name));
            let mut found = paths.filter_map(|path| match is_inside(&path) {
                true => Some(Some((copy_of(self.process, &path).ok()?, path))),
                false => is_the_kernels(&path).then_some(None),
            });
            let Some((copy, path)) = found.next().flatten() else { continue };
            self.seen.insert(name.clone());
            let needs = needs_of(&copy, &absolute(self.process, &path));
            self.copies.push(copy);
            self.add(&needs, &rpath);
        }
    }
}

fn in_directory(directory: &[u8], name: &[u8]) -> Vec<u8> {
    [directory, b"/", name].concat()
}

/// One that was loaded before and still is.
fn known(file: Identity, flags: c_int) -> Option<Loader> {
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
}

/// A copy of a library of ours, by its name in memory too.
fn copy_of(process: &Process, path: &[u8]) -> Reach<OwnedFd> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    copied(name, |to| process.copy_library(At::Working, path, to))
}

/// What the library at an absolute path needs, of which this is a copy.
fn needs_of(copy: &OwnedFd, absolute: &[u8]) -> Needs {
    look(copy, |content| Needs::of(content, directory_of(absolute)))
}

/// What a path leads to, for who is not inside a call of ours.
fn found(path: &[u8]) -> Option<Content> {
    let (found, path) = (RefCell::new(None), CString::new(path).ok()?);
    // SAFETY: C strings, ours and those that the function hands on.
    unsafe {
        at_path(
            AT_FDCWD,
            path.as_ptr(),
            |_, path| match is_the_kernels(text(path)) {
                true => {
                    found.replace(Some(Content::Outside(text(path).to_vec())));
                    0
                }
                false => fail(Errno::ENOENT),
            },
            |process, at, path| {
                let attr = process.stat(at, path, true)?;
                let (file, absolute) = ((attr.handle, attr.change), absolute(process, path));
                found.replace(Some(Content::Ours(Library { file, absolute })));
                Ok(0)
            },
        );
    }
    found.into_inner()
}

/// A path from the root on.
fn absolute(process: &Process, path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        return path.to_vec();
    }
    [&process.working().unwrap_or_default(), b"/".as_slice(), path].concat()
}

/// The directory of an absolute path.
fn directory_of(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)]
}

/// The C library's own.
fn real(path: &[u8], flags: c_int) -> Option<Loader> {
    type Function = unsafe extern "C" fn(*const c_char, c_int) -> Loader;
    let path = CString::new(path).ok()?;
    // SAFETY: the next function of this name is the C library's, of this type; it is given a C string.
    let handle = unsafe {
        let function = std::mem::transmute::<Address, Function>(REAL.address());
        function(path.as_ptr(), flags)
    };
    (!handle.is_null()).then_some(handle)
}

fn close(handle: Loader) {
    // SAFETY: one that the loader gave, and that is not used any more.
    unsafe { libc::dlclose(handle) };
}

fn is_inside(path: &[u8]) -> bool {
    // SAFETY: a C string.
    CString::new(path).is_ok_and(|path| unsafe { leads_in(AT_FDCWD, path.as_ptr()) })
}

/// Whether the kernel knows a path that is not inside; else it leads to us if it leads anywhere.
fn is_the_kernels(path: &[u8]) -> bool {
    accessat(CWD, path, Access::EXISTS, AtFlags::empty()).is_ok()
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
    // From one on: a plain number may be that of a library which the program is linked with.
    let number = loaded().len() + 1;
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

/// Libraries that are handed on to a program. Each takes a descriptor until it has begun.
const COPIES_MAX: usize = 128;
