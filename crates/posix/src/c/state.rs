//! This process's use of the file system: made when the library is loaded, made anew in a forked child.

#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use crate::{Description, Prefix, Process, Reach, Settings, Stop, limit};
use pvfs_wire::Errno;

/// Relative paths begin in the file system.
pub static INSIDE: AtomicBool = AtomicBool::new(false);

static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());
static PREFIX: OnceLock<Prefix> = OnceLock::new();
static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The process that [`PROCESS`] is of.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// A page that the kernel clears in a forked child, however it was forked; null where that is not to be had.
static SAME_PROCESS: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

thread_local! {
    /// This thread is inside already.
    static INSIDE_CALL: Cell<bool> = const { Cell::new(false) };

    /// The open files with locks that this thread's fork hands on.
    static FORKING: RefCell<Vec<(Arc<Description>, u32)>> = const { RefCell::new(Vec::new()) };
}

/// The path under which the file system appears; none before the library has begun.
#[inline]
pub fn prefix() -> Option<&'static Prefix> {
    PREFIX.get()
}

/// Does something that is ours. What goes wrong in it is an error number, whatever it is.
pub fn with<T>(operation: impl FnOnce(&'static Process) -> Reach<T>) -> Reach<T> {
    if PREFIX.get().is_none() {
        return Err(Stop::NotOurs);
    }
    if INSIDE_CALL.replace(true) {
        return Err(Errno::EDEADLK.into());
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| operation(process())));
    INSIDE_CALL.set(false);
    if limit::is_set() && limit::take_exceeded() {
        // Only now, since its handler may do whatever it likes.
        // SAFETY: to be sent a signal has no demands.
        unsafe { libc::raise(libc::SIGXFSZ) };
    }
    outcome.unwrap_or_else(|_| Err(Errno::EIO.into()))
}

/// Whether this is a child that runs in its parent's memory until it executes something (vfork): what it does with
/// its own descriptors is nothing that the parent's table may learn of.
pub fn is_borrowed() -> bool {
    let owner = OWNER.load(Ordering::Relaxed);
    owner != 0 && owner != own_pid() && is_same_memory()
}

/// Makes what is needed, when the library begins. A `working` directory that is given is resumed in.
pub fn begin(settings: impl FnOnce() -> Settings, working: Option<&str>) {
    mark_memory();
    // Until the prefix is known no path is ours, so that finding it out cannot wait for itself.
    let settings = SETTINGS.get_or_init(settings);
    let _ = PREFIX.set(Prefix::new(&settings.prefix).and(settings.also.as_deref()));
    OWNER.store(own_pid(), Ordering::Relaxed);
    // SAFETY: the handlers are functions that live as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(forking), Some(has_forked), Some(forked)) };
    let _ = with(|process| {
        if working.is_some_and(|text| process.resume_in(text)) {
            INSIDE.store(true, Ordering::Relaxed);
        }
        process.after_exec();
        Ok(())
    });
}

/// Tells the manager what is closed, before the process ends.
pub fn end() {
    if PROCESS.load(Ordering::Acquire).is_null() || is_borrowed() {
        return;
    }
    let _ = with(|process| {
        process.end_all();
        Ok(())
    });
}

fn process() -> &'static Process {
    let known = PROCESS.load(Ordering::Acquire);
    if known.is_null() {
        return publish(Process::new(SETTINGS.get_or_init(Settings::of_process).clone()));
    }
    // SAFETY: it was leaked by `publish`, so it lives for ever.
    let known = unsafe { &*known };
    if is_same_memory() {
        return known;
    }
    // Forked without the handlers of pthread_atfork.
    mark_memory();
    OWNER.store(own_pid(), Ordering::Relaxed);
    publish(Process::after_fork(known))
}

/// In the parent, before a fork.
extern "C" fn forking() {
    if PROCESS.load(Ordering::Acquire).is_null() {
        return;
    }
    let _ = with(|process| {
        let locked = process.before_fork();
        FORKING.with_borrow_mut(|forking| *forking = locked);
        Ok(())
    });
}

/// In the parent, after it.
extern "C" fn has_forked() {
    let locked = FORKING.with_borrow_mut(std::mem::take);
    if !locked.is_empty() {
        let _ = catch_unwind(|| Process::await_child(locked));
    }
}

/// In the child of a fork.
extern "C" fn forked() {
    let parent = PROCESS.load(Ordering::Acquire);
    mark_memory();
    OWNER.store(own_pid(), Ordering::Relaxed);
    if parent.is_null() {
        return;
    }
    // The thread that forked was not inside, or its copy would never leave.
    INSIDE_CALL.set(false);
    // SAFETY: it was leaked by `publish`; the fork copied it.
    let parent = unsafe { &*parent };
    let _ = catch_unwind(|| {
        publish(Process::after_fork(parent));
    });
    let _ = with(|process| {
        process.adopt_all();
        Ok(())
    });
}

fn publish(process: Process) -> &'static Process {
    let leaked: &'static Process = Box::leak(Box::new(process));
    PROCESS.store(std::ptr::from_ref(leaked).cast_mut(), Ordering::Release);
    leaked
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn is_same_memory() -> bool {
    let mark = SAME_PROCESS.load(Ordering::Relaxed);
    // SAFETY: the page is never unmapped.
    mark.is_null() || unsafe { &*mark }.load(Ordering::Relaxed) == MARKED
}

fn mark_memory() {
    let mut mark = SAME_PROCESS.load(Ordering::Relaxed);
    if mark.is_null() {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping of a page at an address of the kernel's choice, never unmapped.
        let page = unsafe { libc::mmap(null_mut(), PAGE_BYTES, protection, flags, -1, 0) };
        if page == libc::MAP_FAILED {
            return;
        }
        // SAFETY: advice on the page that was just made.
        if unsafe { libc::madvise(page, PAGE_BYTES, libc::MADV_WIPEONFORK) } != 0 {
            return;
        }
        mark = page.cast();
        SAME_PROCESS.store(mark, Ordering::Relaxed);
    }
    // SAFETY: the page is never unmapped, and any bytes are an atomic's.
    unsafe { &*mark }.store(MARKED, Ordering::Relaxed);
}

/// Carries the working directory over exec.
pub const WORKING_VARIABLE: &str = "PVFS_WORKING_DIRECTORY";

const MARKED: u32 = 1;
const PAGE_BYTES: usize = 4096;
