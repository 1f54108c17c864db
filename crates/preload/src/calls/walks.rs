//! What the C library does with many names at once, by functions of its own that do not come through ours: listing a
//! directory in order, walking a tree, expanding patterns.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use libc::{AT_FDCWD, O_CLOEXEC, O_DIRECTORY, O_RDONLY, dirent64, key_t};
use pvfs_wire::Errno;

use super::directories::{closedir, fdopendir, opendir, readdir64};
use super::open::{open, openat};
use super::stat::{lstat, stat};
use super::working::{chdir, fchdir, getcwd};
use crate::interpose;
use pvfs_posix::c::answer::{Answer, errno, fail, set_errno};
use pvfs_posix::c::route::leads_in;

type Dir = libc::DIR;
type Stat = libc::stat64;
type List = *mut *mut *mut dirent64;
type Filter = Option<unsafe extern "C" fn(*const dirent64) -> c_int>;
type Order = Option<Compare<dirent64>>;
/// Which of two elements comes first.
pub(super) type Compare<T> = unsafe extern "C" fn(*mut *const T, *mut *const T) -> c_int;
type Visit = unsafe extern "C" fn(*const c_char, *const Stat, c_int) -> c_int;
type VisitAt = unsafe extern "C" fn(*const c_char, *const Stat, c_int, *mut Place) -> c_int;

interpose! {
    /// scandir(3)
    fn scandir(path: *const c_char, list: List, filter: Filter, order: Order) -> c_int as real {
        scanned(AT_FDCWD, path, list, filter, order, || real(path, list, filter, order))
    }
    /// scandir(3)
    fn scandir64(path: *const c_char, list: List, filter: Filter, order: Order) -> c_int as real {
        scanned(AT_FDCWD, path, list, filter, order, || real(path, list, filter, order))
    }
    /// scandirat(3)
    fn scandirat(dir: c_int, path: *const c_char, list: List, filter: Filter, order: Order) -> c_int as real {
        scanned(dir, path, list, filter, order, || real(dir, path, list, filter, order))
    }
    /// scandirat(3)
    fn scandirat64(dir: c_int, path: *const c_char, list: List, filter: Filter, order: Order) -> c_int as real {
        scanned(dir, path, list, filter, order, || real(dir, path, list, filter, order))
    }
    /// ftw(3)
    fn ftw(path: *const c_char, visit: Visit, descriptors: c_int) -> c_int as real {
        if !leads_in(AT_FDCWD, path) {
            return real(path, visit, descriptors);
        }
        walked(path, 0, &mut |path, stat, kind, _| visit(path, stat, plain(kind)))
    }
    /// ftw(3)
    fn ftw64(path: *const c_char, visit: Visit, descriptors: c_int) -> c_int as real {
        if !leads_in(AT_FDCWD, path) {
            return real(path, visit, descriptors);
        }
        walked(path, 0, &mut |path, stat, kind, _| visit(path, stat, plain(kind)))
    }
    /// nftw(3)
    fn nftw(path: *const c_char, visit: VisitAt, descriptors: c_int, flags: c_int) -> c_int as real {
        if !leads_in(AT_FDCWD, path) {
            return real(path, visit, descriptors, flags);
        }
        walked(path, flags, &mut |path, stat, kind, place| visit(path, stat, kind, place))
    }
    /// nftw(3)
    fn nftw64(path: *const c_char, visit: VisitAt, descriptors: c_int, flags: c_int) -> c_int as real {
        if !leads_in(AT_FDCWD, path) {
            return real(path, visit, descriptors, flags);
        }
        walked(path, flags, &mut |path, stat, kind, place| visit(path, stat, kind, place))
    }
    /// glob(3)
    fn glob(pattern: *const c_char, flags: c_int, failed: *mut c_void, found: *mut Found) -> c_int as real {
        expanded(pattern, flags, found, |flags| real(pattern, flags, failed, found))
    }
    /// glob(3)
    fn glob64(pattern: *const c_char, flags: c_int, failed: *mut c_void, found: *mut Found) -> c_int as real {
        expanded(pattern, flags, found, |flags| real(pattern, flags, failed, found))
    }
    /// ftok(3)
    fn ftok(path: *const c_char, project: c_int) -> key_t as real {
        if !leads_in(AT_FDCWD, path) {
            return real(path, project);
        }
        let mut seen = MaybeUninit::<Stat>::uninit();
        if stat(path, seen.as_mut_ptr()) != 0 {
            return -1;
        }
        let Stat { st_ino, st_dev, .. } = seen.assume_init();
        (st_ino as key_t & 0xffff) | (st_dev as key_t & 0xff) << 16 | (project & 0xff) << 24
    }
}

/// ftw knows fewer kinds.
fn plain(kind: c_int) -> c_int {
    if kind == DANGLING { NOT_KNOWN } else { kind }
}

/// Lists a directory of ours. The C library is asked first about what does not lead in by its text: a link may.
///
/// # Safety
///
/// As scandirat demands.
unsafe fn scanned(
    dir: c_int,
    path: *const c_char,
    list: List,
    filter: Filter,
    order: Order,
    real: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if !leads_in(dir, path) {
            let outcome = real();
            if !outcome.is_failed() || errno() != Errno::ENOENT {
                return outcome;
            }
        }
        let fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
        let dir = if fd < 0 { null_mut() } else { fdopendir(fd) };
        listed(dir, list, filter, order)
    }
}

/// Lists and closes a directory as scandir does, into memory that the program frees.
///
/// # Safety
///
/// As scandir demands.
unsafe fn listed(dir: *mut Dir, list: List, filter: Filter, order: Order) -> c_int {
    if dir.is_null() {
        return -1;
    }
    let before = errno();
    // SAFETY: the directory is open; entries are as long as they say; the caller's promise for the rest.
    unsafe {
        let mut entries: Vec<*mut dirent64> = Vec::new();
        let outcome = loop {
            set_errno(Errno(0));
            let entry = readdir64(dir);
            if entry.is_null() {
                break errno();
            }
            if filter.is_some_and(|filter| filter(entry) == 0) {
                continue;
            }
            let bytes = usize::from((*entry).d_reclen);
            let copy = libc::malloc(bytes).cast::<dirent64>();
            if copy.is_null() {
                break Errno::ENOMEM;
            }
            std::ptr::copy_nonoverlapping(entry.cast::<u8>(), copy.cast(), bytes);
            entries.push(copy);
        };
        closedir(dir);
        let room = libc::malloc(entries.len().max(1) * size_of::<*mut dirent64>());
        if outcome != Errno(0) || room.is_null() {
            entries.into_iter().for_each(|entry| libc::free(entry.cast()));
            libc::free(room);
            return fail(if outcome == Errno(0) { Errno::ENOMEM } else { outcome });
        }
        if let Some(order) = order {
            sort(&mut entries, order);
        }
        room.cast::<*mut dirent64>().copy_from_nonoverlapping(entries.as_ptr(), entries.len());
        list.write(room.cast());
        set_errno(before);
        entries.len() as c_int
    }
}

/// Sorts as the C library does: a program's order may contradict itself, at which what Rust sorts by panics.
///
/// # Safety
///
/// The order takes the addresses of two elements, and leaves them as they are.
pub(super) unsafe fn sort<T>(entries: &mut [*mut T], order: Compare<T>) {
    let (list, bytes) = (entries.as_mut_ptr().cast(), size_of::<*mut T>());
    // SAFETY: the functions differ only in what the pointers they take are said to point to; the caller's promise for the
    // rest.
    unsafe {
        let order = std::mem::transmute::<
            Compare<T>,
            unsafe extern "C" fn(*const c_void, *const c_void) -> c_int,
        >(order);
        libc::qsort(list, entries.len(), bytes, Some(order));
    }
}

/// Where nftw is: `struct FTW`.
#[repr(C)]
pub struct Place {
    /// Where the last name begins in the path.
    base: c_int,
    level: c_int,
}

/// A walk of a tree, and whom it tells of what it sees.
struct Walk<'a> {
    flags: c_int,
    visit: &'a mut dyn FnMut(*const c_char, *const Stat, c_int, *mut Place) -> c_int,
    /// Where relative paths begin, if the working directory changes meanwhile; with a slash at the end.
    begin: Vec<u8>,
    /// Directories that were seen, where links are followed: each once.
    seen: HashSet<(libc::dev_t, libc::ino_t)>,
    device: Option<libc::dev_t>,
}

/// Walks a tree as nftw does, with one directory open at a time.
///
/// # Safety
///
/// `path` is null or a C string.
unsafe fn walked(
    path: *const c_char,
    flags: c_int,
    visit: &mut dyn FnMut(*const c_char, *const Stat, c_int, *mut Place) -> c_int,
) -> c_int {
    if path.is_null() {
        return fail(Errno::EINVAL);
    }
    // SAFETY: the caller's promise; the descriptor is open.
    unsafe {
        let mut top = CStr::from_ptr(path).to_bytes().to_vec();
        while top.len() > 1 && top.last() == Some(&b'/') {
            top.pop();
        }
        let changes = flags & FTW_CHDIR != 0;
        let mut begin = Vec::new();
        if changes && top.first() != Some(&b'/') {
            let mut room = vec![0; libc::PATH_MAX as usize];
            if getcwd(room.as_mut_ptr(), room.len()).is_null() {
                return -1;
            }
            begin = [CStr::from_ptr(room.as_ptr()).to_bytes(), b"/"].concat();
        }
        let here =
            if changes { open(c".".as_ptr(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) } else { -1 };
        let mut walk = Walk { flags, visit, begin, seen: HashSet::new(), device: None };
        let outcome = walk.step(&top, 0);
        if here >= 0 {
            let why = errno();
            fchdir(here);
            super::descriptors::close(here);
            set_errno(why);
        }
        // What only skips has done its work.
        let skips =
            flags & FTW_ACTIONRETVAL != 0 && [SKIP_SUBTREE, SKIP_SIBLINGS].contains(&outcome);
        if skips { 0 } else { outcome }
    }
}

impl Walk<'_> {
    /// Visits what a path names, and what is below. Returns what ends the walk, or 0.
    fn step(&mut self, path: &[u8], level: c_int) -> c_int {
        let (text, whole) = (c_text(path), c_text(&[&self.begin, path].concat()));
        let base = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let mut place = Place { base: base.min(path.len().saturating_sub(1)) as c_int, level };
        let (kind, stat) = match self.look(&whole) {
            Some(seen) => seen,
            // The top has to be there.
            None if level == 0 && errno() != Errno::EACCES => return -1,
            None => (NOT_KNOWN, zeroed()),
        };
        if *self.device.get_or_insert(stat.st_dev) != stat.st_dev && self.flags & FTW_MOUNT != 0 {
            return 0;
        }
        if kind != DIRECTORY {
            return self.tell(&text, &stat, kind, &mut place);
        }
        if self.flags & FTW_PHYS == 0 && !self.seen.insert((stat.st_dev, stat.st_ino)) {
            return 0;
        }
        let names = match names(&whole) {
            Ok(names) => names,
            Err(Errno::EACCES) => return self.tell(&text, &stat, NOT_READABLE, &mut place),
            Err(error) => return fail(error),
        };
        let is_last = self.flags & FTW_DEPTH != 0;
        if !is_last {
            let outcome = self.tell(&text, &stat, DIRECTORY, &mut place);
            if self.flags & FTW_ACTIONRETVAL != 0 && outcome == SKIP_SUBTREE {
                return 0;
            }
            if outcome != 0 {
                return outcome;
            }
        }
        for name in names {
            let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
            let outcome = self.step(&[path, slash, &name].concat(), level + 1);
            if self.flags & FTW_ACTIONRETVAL != 0 && outcome == SKIP_SIBLINGS {
                break;
            }
            if outcome != 0 {
                return outcome;
            }
        }
        if is_last { self.tell(&text, &stat, DIRECTORY_LAST, &mut place) } else { 0 }
    }

    /// What is there, and its attributes.
    fn look(&self, path: &CStr) -> Option<(c_int, Stat)> {
        let mut seen = zeroed();
        // SAFETY: a C string and room for the attributes.
        unsafe {
            let of_link = lstat(path.as_ptr(), &raw mut seen) == 0;
            if self.flags & FTW_PHYS == 0 && of_link && is(&seen, libc::S_IFLNK) {
                let link = seen;
                return match stat(path.as_ptr(), &raw mut seen) {
                    0 => Some((kind_of(&seen), seen)),
                    _ => Some((DANGLING, link)),
                };
            }
            of_link.then(|| (kind_of(&seen), seen))
        }
    }

    fn tell(&mut self, path: &CStr, stat: &Stat, kind: c_int, place: &mut Place) -> c_int {
        if self.flags & FTW_CHDIR != 0 {
            // What comes after all that is in it is told while still there, as by the C library.
            let end = if kind == DIRECTORY_LAST { path.count_bytes() } else { place.base as usize };
            let above = &path.to_bytes()[..end];
            let above = c_text(&[&self.begin, above].concat());
            // SAFETY: a C string.
            if !above.is_empty() && unsafe { chdir(above.as_ptr()) } != 0 {
                return -1;
            }
        }
        (self.visit)(path.as_ptr(), stat, kind, place)
    }
}

fn c_text(path: &[u8]) -> CString {
    CString::new(path).expect("it is made of names, which have no zero")
}

/// The names in a directory, but for the dots.
fn names(path: &CStr) -> Result<Vec<Vec<u8>>, Errno> {
    // SAFETY: a C string; the directory is open until it is closed; names end in a zero.
    unsafe {
        let dir = opendir(path.as_ptr());
        if dir.is_null() {
            return Err(errno());
        }
        let mut names = Vec::new();
        loop {
            let entry = readdir64(dir);
            if entry.is_null() {
                break;
            }
            let name = CStr::from_ptr((*entry).d_name.as_ptr()).to_bytes();
            if ![&b"."[..], b".."].contains(&name) {
                names.push(name.to_vec());
            }
        }
        closedir(dir);
        Ok(names)
    }
}

fn kind_of(stat: &Stat) -> c_int {
    match stat.st_mode & libc::S_IFMT {
        libc::S_IFDIR => DIRECTORY,
        libc::S_IFLNK => LINK,
        _ => FILE,
    }
}

fn is(stat: &Stat, kind: libc::mode_t) -> bool {
    stat.st_mode & libc::S_IFMT == kind
}

fn zeroed() -> Stat {
    // SAFETY: all zeros are a value of it.
    unsafe { std::mem::zeroed() }
}

/// `glob_t`, whose functions for directories are nameless elsewhere.
#[repr(C)]
pub struct Found {
    count: usize,
    paths: *mut *mut c_char,
    offset: usize,
    flags: c_int,
    closedir: unsafe extern "C" fn(*mut Dir) -> c_int,
    readdir: unsafe extern "C" fn(*mut Dir) -> *mut dirent64,
    opendir: unsafe extern "C" fn(*const c_char) -> *mut Dir,
    lstat: unsafe extern "C" fn(*const c_char, *mut Stat) -> c_int,
    stat: unsafe extern "C" fn(*const c_char, *mut Stat) -> c_int,
}

/// Expands a pattern by our functions where it leads in, which glob has a flag for.
///
/// # Safety
///
/// As glob demands.
unsafe fn expanded(
    pattern: *const c_char,
    flags: c_int,
    found: *mut Found,
    real: impl Fn(c_int) -> c_int,
) -> c_int {
    // SAFETY: the caller's promise; the fields are only looked at with the flag.
    unsafe {
        if flags & GLOB_ALTDIRFUNC != 0 || !leads_in(AT_FDCWD, pattern) {
            return real(flags);
        }
        (&raw mut (*found).closedir).write(closedir);
        (&raw mut (*found).readdir).write(readdir64);
        (&raw mut (*found).opendir).write(opendir);
        (&raw mut (*found).lstat).write(lstat);
        (&raw mut (*found).stat).write(stat);
        let outcome = real(flags | GLOB_ALTDIRFUNC);
        (*found).flags &= !GLOB_ALTDIRFUNC;
        outcome
    }
}

// As the C library's ftw.h and glob.h number them.
const FTW_PHYS: c_int = 1;
const FTW_MOUNT: c_int = 2;
const FTW_CHDIR: c_int = 4;
const FTW_DEPTH: c_int = 8;
const FTW_ACTIONRETVAL: c_int = 16;
const FILE: c_int = 0;
const DIRECTORY: c_int = 1;
const NOT_READABLE: c_int = 2;
const NOT_KNOWN: c_int = 3;
const LINK: c_int = 4;
const DIRECTORY_LAST: c_int = 5;
const DANGLING: c_int = 6;
const SKIP_SUBTREE: c_int = 2;
const SKIP_SIBLINGS: c_int = 3;
const GLOB_ALTDIRFUNC: c_int = 1 << 9;
