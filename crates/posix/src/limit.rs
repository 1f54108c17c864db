//! How long this process may make files: RLIMIT_FSIZE, where somebody tells what it is.
//!
//! The kernel is not asked, which would cost a system call for each write: who stands in front of all calls that change the
//! limit notes it here. Without that there is none.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use pvfs_wire::Errno;

/// Where files have to end.
static END: AtomicU64 = AtomicU64::new(NONE);

thread_local! {
    /// This thread was refused something for it.
    static EXCEEDED: Cell<bool> = const { Cell::new(false) };
}

/// What the limit is, in bytes; `None` if there is none.
pub fn note(end: Option<u64>) {
    END.store(end.unwrap_or(NONE), Ordering::Relaxed);
}

/// Whether there is one.
#[inline]
pub fn is_set() -> bool {
    END.load(Ordering::Relaxed) != NONE
}

/// Whether this thread was refused something since it was last asked: it is due SIGXFSZ.
pub fn take_exceeded() -> bool {
    EXCEEDED.replace(false)
}

/// How many of these bytes may be written; EFBIG where none may.
pub(crate) fn within(start: u64, bytes: u64) -> Result<u64, Errno> {
    let room = END.load(Ordering::Relaxed).saturating_sub(start);
    if room == 0 && bytes > 0 { Err(exceeded()) } else { Ok(bytes.min(room)) }
}

/// EFBIG for a file that would grow beyond it.
pub(crate) fn check_growth(size: u64, before: u64) -> Result<(), Errno> {
    let is_beyond = size > before && size > END.load(Ordering::Relaxed);
    if is_beyond { Err(exceeded()) } else { Ok(()) }
}

fn exceeded() -> Errno {
    EXCEEDED.set(true);
    Errno::EFBIG
}

const NONE: u64 = u64::MAX;
