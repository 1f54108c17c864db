//! fts(3), which in the C library does not come through our functions either.
//!
//! ```text
//!   above ─ level -1
//!     root ── link ──> root      level 0        current: what was told last
//!       └─ child ── link ──> child              listed:  what is in it, as fts_children showed it
//! ```
//!
//! A walk that begins in the file system is ours from its beginning to its end. It leaves the working directory as it
//! is, which callers must be prepared for (`FTS_NOCHDIR`): an entry is reached by its whole path.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::mem::offset_of;
use std::ptr::{addr_of_mut, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::AT_FDCWD;
use pvfs_wire::Errno;

use super::directories::{closedir, opendir, readdir64};
use super::stat::{lstat, stat};
use super::walks::{Compare, sort};
use crate::interpose;
use pvfs_posix::c::answer::{errno, fail, set_errno};
use pvfs_posix::c::route::leads_in;

type Stat = libc::stat64;
type Order = Option<Compare<Entry>>;

interpose! {
    /// fts_open(3)
    fn fts_open(paths: *const *const c_char, options: c_int, order: Order) -> *mut Tree as real {
        if is_ours(paths) { Tree::open(paths, options, order) } else { real(paths, options, order) }
    }
    /// fts_open(3)
    fn fts64_open(paths: *const *const c_char, options: c_int, order: Order) -> *mut Tree as real {
        if is_ours(paths) { Tree::open(paths, options, order) } else { real(paths, options, order) }
    }
    /// fts_read(3)
    fn fts_read(tree: *mut Tree) -> *mut Entry as real {
        if is_known(tree) { (*tree).next() } else { real(tree) }
    }
    /// fts_read(3)
    fn fts64_read(tree: *mut Tree) -> *mut Entry as real {
        if is_known(tree) { (*tree).next() } else { real(tree) }
    }
    /// fts_children(3)
    fn fts_children(tree: *mut Tree, options: c_int) -> *mut Entry as real {
        if is_known(tree) { (*tree).children(options) } else { real(tree, options) }
    }
    /// fts_children(3)
    fn fts64_children(tree: *mut Tree, options: c_int) -> *mut Entry as real {
        if is_known(tree) { (*tree).children(options) } else { real(tree, options) }
    }
    /// fts_set(3)
    fn fts_set(tree: *mut Tree, entry: *mut Entry, instruction: c_int) -> c_int as real {
        if is_known(tree) { instructed(entry, instruction) } else { real(tree, entry, instruction) }
    }
    /// fts_set(3)
    fn fts64_set(tree: *mut Tree, entry: *mut Entry, instruction: c_int) -> c_int as real {
        if is_known(tree) { instructed(entry, instruction) } else { real(tree, entry, instruction) }
    }
    /// fts_close(3)
    fn fts_close(tree: *mut Tree) -> c_int as real {
        if is_known(tree) { Tree::close(tree) } else { real(tree) }
    }
    /// fts_close(3)
    fn fts64_close(tree: *mut Tree) -> c_int as real {
        if is_known(tree) { Tree::close(tree) } else { real(tree) }
    }
}

/// `FTSENT`. Its path and what follows its name are its own.
#[repr(C)]
pub struct Entry {
    cycle: *mut Entry,
    parent: *mut Entry,
    link: *mut Entry,
    number: c_long,
    pointer: *mut c_void,
    access_path: *mut c_char,
    path: *mut c_char,
    error: c_int,
    link_descriptor: c_int,
    path_length: u16,
    name_length: u16,
    object: libc::ino_t,
    device: libc::dev_t,
    links: libc::nlink_t,
    level: i16,
    info: u16,
    flags: u16,
    instruction: u16,
    attributes: *mut Stat,
    /// The name, which ends in a zero, and the attributes behind it.
    name: [c_char; 1],
}

/// A walk; programs know where it is and nothing else of it.
pub struct Tree {
    options: c_int,
    order: Order,
    current: *mut Entry,
    listed: *mut Entry,
    /// What was listed has names only.
    has_names_only: bool,
    /// Of the root that is being walked.
    device: libc::dev_t,
}

/// Our walks, by their addresses.
static KNOWN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<usize>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_known(tree: *mut Tree) -> bool {
    known().contains(&tree.addr())
}

/// # Safety
///
/// `paths` is a list of C strings that ends in null.
unsafe fn is_ours(paths: *const *const c_char) -> bool {
    // SAFETY: the caller's promise.
    unsafe { pvfs_posix::c::memory::texts(paths).any(|path| leads_in(AT_FDCWD, path)) }
}

/// # Safety
///
/// The entry is one that was told and not yet left.
unsafe fn instructed(entry: *mut Entry, instruction: c_int) -> c_int {
    match u16::try_from(instruction) {
        Ok(known @ (0 | AGAIN | FOLLOW | NO_INSTRUCTION | SKIP)) => {
            // SAFETY: the caller's promise.
            unsafe { (*entry).instruction = known };
            0
        }
        _ => {
            set_errno(Errno::EINVAL);
            1
        }
    }
}

// SAFETY of all below: entries are made by `Entry::new`, are linked by this file alone, and are freed once, when the walk
// leaves them: none that is reached by a link was freed.
impl Tree {
    /// # Safety
    ///
    /// As fts_open demands.
    unsafe fn open(paths: *const *const c_char, options: c_int, order: Order) -> *mut Self {
        if options & !OPTIONS != 0 {
            return fail(Errno::EINVAL);
        }
        // SAFETY: the caller's promise, and the one above.
        unsafe {
            let above = Entry::new(null_mut(), b"", b"", -1);
            let begin = Entry::new(above, b"", b"", -1);
            (*begin).info = INITIAL;
            let (current, listed, has_names_only, device) = (begin, null_mut(), false, 0);
            let tree = Self { options, order, current, listed, has_names_only, device };
            let tree = Box::into_raw(Box::new(tree));
            let mut roots = Vec::new();
            for path in pvfs_posix::c::memory::texts(paths) {
                let path = CStr::from_ptr(path).to_bytes();
                let root = Entry::new(above, path, path, 0);
                (*root).info = (*tree).look(root, options & FOLLOW_ROOTS != 0);
                if (*root).info == DOT {
                    (*root).info = DIRECTORY;
                }
                roots.push(root);
            }
            let has_empty = roots.iter().any(|root| (**root).name_length == 0);
            (*begin).link = (*tree).linked(roots);
            known().push(tree.addr());
            if has_empty {
                Self::close(tree);
                return fail(Errno::ENOENT);
            }
            tree
        }
    }

    /// # Safety
    ///
    /// It is a walk of ours, which nobody uses afterwards.
    unsafe fn close(tree: *mut Self) -> c_int {
        known().retain(|other| *other != tree.addr());
        // SAFETY: the caller's promise, and the one above.
        unsafe {
            let tree = Box::from_raw(tree);
            free_all(tree.listed);
            let mut entry = tree.current;
            while !entry.is_null() {
                let parent = (*entry).parent;
                free_all(entry);
                entry = parent;
            }
        }
        0
    }

    /// The next entry; null at the end.
    fn next(&mut self) -> *mut Entry {
        let entry = self.current;
        if entry.is_null() {
            return null_mut();
        }
        // SAFETY: as above.
        unsafe {
            let instruction = std::mem::replace(&mut (*entry).instruction, NO_INSTRUCTION);
            let is_link = matches!((*entry).info, LINK | DANGLING);
            if instruction == AGAIN || instruction == FOLLOW && is_link {
                (*entry).info = self.look(entry, instruction == FOLLOW);
                return entry;
            }
            if (*entry).info == DIRECTORY {
                let is_elsewhere = self.options & ONE_DEVICE != 0 && (*entry).device != self.device;
                if instruction == SKIP || is_elsewhere {
                    self.forget_listed();
                    (*entry).info = DIRECTORY_LAST;
                    return entry;
                }
                if self.has_names_only {
                    self.forget_listed();
                }
                if self.listed.is_null() {
                    self.listed = match self.list(entry, false) {
                        Ok(listed) => listed,
                        Err(error) => {
                            (*entry).info = NOT_READABLE;
                            (*entry).error = error.0 as c_int;
                            return entry;
                        }
                    };
                }
                if self.listed.is_null() {
                    (*entry).info = DIRECTORY_LAST;
                    return entry;
                }
                // Whatever is to be done with the first, the C library tells it.
                self.current = std::mem::replace(&mut self.listed, null_mut());
                return self.current;
            }
            self.onward(entry)
        }
    }

    /// What comes after an entry and all below it: the next beside it, or the directory that it is in.
    ///
    /// # Safety
    ///
    /// It is part of this walk, and is left.
    unsafe fn onward(&mut self, mut entry: *mut Entry) -> *mut Entry {
        // SAFETY: the caller's promise, and the one above.
        unsafe {
            loop {
                let (beside, parent) = ((*entry).link, (*entry).parent);
                Entry::free(entry);
                if beside.is_null() {
                    self.current = parent;
                    if (*parent).level < 0 {
                        Entry::free(parent);
                        self.current = null_mut();
                        set_errno(Errno(0));
                        return null_mut();
                    }
                    (*parent).info = DIRECTORY_LAST;
                    return parent;
                }
                entry = beside;
                if let Some(told) = self.told(entry) {
                    return told;
                }
            }
        }
    }

    /// The entry, as it is to be told; nothing if it is to be skipped.
    ///
    /// # Safety
    ///
    /// It is part of this walk.
    unsafe fn told(&mut self, entry: *mut Entry) -> Option<*mut Entry> {
        // SAFETY: the caller's promise.
        unsafe {
            self.current = entry;
            if (*entry).level == 0 {
                (*entry).keep_last_name();
                self.device = (*entry).device;
                return Some(entry);
            }
            match (*entry).instruction {
                SKIP => return None,
                FOLLOW => {
                    (*entry).info = self.look(entry, true);
                    (*entry).instruction = NO_INSTRUCTION;
                }
                _ => {}
            }
            Some(entry)
        }
    }

    /// What is in the directory that was told last.
    fn children(&mut self, options: c_int) -> *mut Entry {
        if options != 0 && options != NAMES_ONLY {
            return fail(Errno::EINVAL);
        }
        set_errno(Errno(0));
        let entry = self.current;
        // SAFETY: as above.
        unsafe {
            if entry.is_null() {
                return null_mut();
            }
            match (*entry).info {
                INITIAL => return (*entry).link,
                DIRECTORY => {}
                _ => return null_mut(),
            }
            self.forget_listed();
            self.has_names_only = options == NAMES_ONLY;
            self.listed = self.list(entry, self.has_names_only).unwrap_or_else(fail);
            self.listed
        }
    }

    fn forget_listed(&mut self) {
        // SAFETY: as above; nobody has them any more.
        unsafe { free_all(std::mem::replace(&mut self.listed, null_mut())) };
        self.has_names_only = false;
    }

    /// # Safety
    ///
    /// It is part of this walk.
    unsafe fn list(&self, entry: *mut Entry, names_only: bool) -> Result<*mut Entry, Errno> {
        // SAFETY: the caller's promise; the directory is open until it is closed.
        unsafe {
            let dir = opendir((*entry).access_path);
            if dir.is_null() {
                return Err(errno());
            }
            let above = CStr::from_ptr((*entry).path).to_bytes();
            let above = above.strip_suffix(b"/").unwrap_or(above);
            let mut found = Vec::new();
            loop {
                let item = readdir64(dir);
                if item.is_null() {
                    break;
                }
                let name = CStr::from_ptr((*item).d_name.as_ptr()).to_bytes();
                if self.options & WITH_DOTS == 0 && is_dots(name) {
                    continue;
                }
                let path = [above, b"/", name].concat();
                let child = Entry::new(entry, name, &path, (*entry).level.saturating_add(1));
                let is_plain = ![libc::DT_DIR, libc::DT_UNKNOWN].contains(&(*item).d_type);
                let both = NOT_ATTRIBUTES | NO_LINKS;
                let unasked = names_only || self.options & both == both && is_plain;
                (*child).info = if unasked { NOT_ASKED } else { self.look(child, false) };
                found.push(child);
            }
            closedir(dir);
            Ok(self.linked(found))
        }
    }

    /// The first of these, in their order, each with a link to the next.
    ///
    /// # Safety
    ///
    /// They are part of this walk.
    unsafe fn linked(&self, mut entries: Vec<*mut Entry>) -> *mut Entry {
        // SAFETY: the caller's promise; the order is one of entries, as fts_open demands.
        unsafe {
            if let Some(order) = self.order {
                sort(&mut entries, order);
            }
            let mut next = null_mut();
            for entry in entries.into_iter().rev() {
                (*entry).link = next;
                next = entry;
            }
            next
        }
    }

    /// Looks at an entry: what it is.
    ///
    /// # Safety
    ///
    /// It is part of this walk.
    unsafe fn look(&self, entry: *mut Entry, follow: bool) -> u16 {
        // SAFETY: the caller's promise; there is room for attributes.
        unsafe {
            let (path, seen) = ((*entry).access_path, (*entry).attributes);
            let failed = if self.options & LINKS_FOLLOWED != 0 || follow {
                stat(path, seen) != 0 && {
                    let why = errno();
                    if lstat(path, seen) == 0 {
                        set_errno(Errno(0));
                        return DANGLING;
                    }
                    set_errno(why);
                    true
                }
            } else {
                lstat(path, seen) != 0
            };
            if failed {
                (*entry).error = errno().0 as c_int;
                seen.write_bytes(0, 1);
                return NO_ATTRIBUTES;
            }
            match (*seen).st_mode & libc::S_IFMT {
                libc::S_IFDIR => {}
                libc::S_IFLNK => return LINK,
                libc::S_IFREG => return FILE,
                _ => return OTHER,
            }
            let (object, device) = ((*seen).st_ino, (*seen).st_dev);
            (*entry).object = object;
            (*entry).device = device;
            (*entry).links = (*seen).st_nlink;
            if is_dots((*entry).name()) {
                return DOT;
            }
            let mut above = (*entry).parent;
            while (*above).level >= 0 {
                if ((*above).object, (*above).device) == (object, device) {
                    (*entry).cycle = above;
                    return CIRCLE;
                }
                above = (*above).parent;
            }
            DIRECTORY
        }
    }
}

impl Entry {
    /// A new one, with nothing known of what it is.
    fn new(parent: *mut Self, name: &[u8], path: &[u8], level: i16) -> *mut Self {
        let name_at = offset_of!(Self, name);
        let attributes_at = (name_at + name.len() + 1).next_multiple_of(align_of::<Stat>());
        let path = CString::new(path).expect("it is made of C strings");
        // SAFETY: there is room for the fields, the name, its zero and the attributes; all zeros are a value of each.
        unsafe {
            let room = libc::calloc(1, attributes_at + size_of::<Stat>());
            if room.is_null() {
                std::alloc::handle_alloc_error(std::alloc::Layout::new::<Self>());
            }
            let entry = room.cast::<Self>();
            room.byte_add(name_at).cast::<u8>().copy_from_nonoverlapping(name.as_ptr(), name.len());
            (*entry).attributes = room.byte_add(attributes_at).cast();
            (*entry).parent = parent;
            (*entry).level = level;
            (*entry).instruction = NO_INSTRUCTION;
            (*entry).link_descriptor = -1;
            (*entry).name_length = u16::try_from(name.len()).unwrap_or(u16::MAX);
            (*entry).path_length = u16::try_from(path.count_bytes()).unwrap_or(u16::MAX);
            (*entry).path = path.into_raw();
            (*entry).access_path = (*entry).path;
            entry
        }
    }

    /// # Safety
    ///
    /// Nobody uses it afterwards.
    unsafe fn free(entry: *mut Self) {
        // SAFETY: the caller's promise; both were made by `new`.
        unsafe {
            drop(CString::from_raw((*entry).path));
            libc::free(entry.cast());
        }
    }

    /// # Safety
    ///
    /// It was made by `new`.
    unsafe fn name(&mut self) -> &[u8] {
        // SAFETY: the name ends in a zero.
        unsafe { CStr::from_ptr(addr_of_mut!(self.name).cast()).to_bytes() }
    }

    /// Of the path by which a root was named, its last component is its name once the walk is there.
    ///
    /// # Safety
    ///
    /// It was made by `new`.
    unsafe fn keep_last_name(&mut self) {
        // SAFETY: the caller's promise; the rest of the name and its zero move to its beginning.
        unsafe {
            let whole = self.name();
            let Some(slash) = whole.iter().rposition(|byte| *byte == b'/') else { return };
            let left = whole.len() - slash - 1;
            if slash == 0 && left == 0 {
                return;
            }
            let name = addr_of_mut!(self.name).cast::<c_char>();
            name.copy_from(name.add(slash + 1), left + 1);
            self.name_length = left as u16;
        }
    }
}

/// Frees an entry and those that it links to.
///
/// # Safety
///
/// Nobody uses them afterwards.
unsafe fn free_all(mut entry: *mut Entry) {
    while !entry.is_null() {
        // SAFETY: the caller's promise.
        unsafe {
            let next = (*entry).link;
            Entry::free(entry);
            entry = next;
        }
    }
}

fn is_dots(name: &[u8]) -> bool {
    [&b"."[..], b".."].contains(&name)
}

/// Options, as fts.h numbers them.
const FOLLOW_ROOTS: c_int = 0x01;
const LINKS_FOLLOWED: c_int = 0x02;
const NOT_ATTRIBUTES: c_int = 0x08;
const NO_LINKS: c_int = 0x10;
const WITH_DOTS: c_int = 0x20;
const ONE_DEVICE: c_int = 0x40;
const OPTIONS: c_int = 0xff;
const NAMES_ONLY: c_int = 0x100;

/// What an entry is.
const DIRECTORY: u16 = 1;
const CIRCLE: u16 = 2;
const OTHER: u16 = 3;
const NOT_READABLE: u16 = 4;
const DOT: u16 = 5;
const DIRECTORY_LAST: u16 = 6;
const FILE: u16 = 8;
const INITIAL: u16 = 9;
const NO_ATTRIBUTES: u16 = 10;
const NOT_ASKED: u16 = 11;
const LINK: u16 = 12;
const DANGLING: u16 = 13;

/// What is to be done with one.
const AGAIN: u16 = 1;
const FOLLOW: u16 = 2;
const NO_INSTRUCTION: u16 = 3;
const SKIP: u16 = 4;
