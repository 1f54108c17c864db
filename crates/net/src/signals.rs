//! Signals while an operation waits long, as it does for a lock.
//!
//! A system call that waits either is interrupted by a signal or returns before it. An operation here is many system
//! calls, and a signal that is handled between two of them would go unnoticed and the wait go on. So whoever has to
//! notice holds them: they are pending outside of the sleeps of this thread, and let in by those (`ppoll`).

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr;

use libc::{c_int, sigset_t};

thread_local! {
    static OUTER: Cell<Option<sigset_t>> = const { Cell::new(None) };
}

/// Holds the signals of this thread back until a sleep, or its own end, lets them in.
pub struct Held {
    outer: Option<sigset_t>,
    /// The mask is that of a thread.
    _stays: PhantomData<*const ()>,
}

/// Those that an instruction of the thread itself causes cannot wait.
const AT_ONCE: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT];

/// Holds signals back from here on.
#[must_use]
pub fn hold() -> Held {
    Held { outer: OUTER.replace(Some(mask_all())), _stays: PhantomData }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(mask) = OUTER.replace(self.outer) {
            set_mask(&mask);
        }
    }
}

/// The signals that a sleep has to let in, where they are held.
pub(crate) fn mask_of_sleeps() -> Option<sigset_t> {
    OUTER.get()
}

/// Whether every handler of this process wants interrupted calls to go on (`SA_RESTART`). Which one has run cannot be
/// known; where they differ, the call ends.
#[allow(unsafe_code)]
pub fn all_restart() -> bool {
    (1..=libc::SIGRTMAX()).all(|signal| {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: no new action is given, and the old one is written to a place of its type.
        if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
            return true;
        }
        // SAFETY: all zeros are a value of it, and the call succeeded.
        let action = unsafe { action.assume_init() };
        let is_handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
        !is_handled || action.sa_flags & libc::SA_RESTART != 0
    })
}

/// Masks all that may wait, and tells what was masked before.
#[allow(unsafe_code)]
fn mask_all() -> sigset_t {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `sigfillset` writes the whole set, which the calls after it change and read; `before` is written by
    // `pthread_sigmask`, which fails for an unknown first argument only.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        for signal in AT_ONCE {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}

#[allow(unsafe_code)]
fn set_mask(mask: &sigset_t) {
    // SAFETY: `mask` is a set that `pthread_sigmask` wrote.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}
