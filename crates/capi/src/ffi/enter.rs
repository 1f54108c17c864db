//! Coming in and going out: the library begins with the first call, panics end here, errno is set only on failure.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pvfs_posix::Settings;
use pvfs_posix::c::answer::{Answer, errno, fail, set_errno};
use pvfs_posix::c::state;
use pvfs_wire::Errno;

/// Defines functions of the header.
///
/// A body is unsafe code as a whole. Its reason is the same for all: the caller is a program in C that keeps to the
/// header, so that pointers which are not null and are aligned, lengths and texts are what it says there.
#[macro_export]
macro_rules! export {
    ($(
        $(#[$meta:meta])*
        fn $name:ident($($argument:ident: $kind:ty),* $(,)?) -> $result:ty $body:block
    )*) => {$(
        $(#[$meta])*
        ///
        /// # Safety
        ///
        /// As pvfs.h demands.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            #[allow(unused_unsafe)]
            // SAFETY: what the body does with its arguments is what the header allows.
            $crate::ffi::enter::entered(|| unsafe { $body })
        }
    )*};
}

/// Runs a call of the header.
pub fn entered<T: Answer>(call: impl FnOnce() -> T) -> T {
    let before = errno();
    begin();
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) if answer.is_failed() => answer,
        Ok(answer) => {
            set_errno(before);
            answer
        }
        Err(_) => fail(Errno::EIO),
    }
}

fn begin() {
    static BEGUN: Once = Once::new();
    if BEGUN.is_completed() {
        return;
    }
    BEGUN.call_once(|| {
        BEGINNING.store(true, Ordering::Relaxed);
        // SAFETY: the handlers live as long as the library, which is never unloaded.
        unsafe {
            libc::pthread_atfork(Some(wait_for_beginning), None, None);
            libc::atexit(end);
        }
        let _ = catch_unwind(|| state::begin(Settings::of_process_or_mount, None));
        BEGINNING.store(false, Ordering::Relaxed);
    });
}

/// A child that is forked meanwhile would wait for ever for a thread that it does not have.
extern "C" fn wait_for_beginning() {
    for _ in 0..BEGINNING_LOOKS_MAX {
        if !BEGINNING.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

extern "C" fn end() {
    let _ = catch_unwind(|| {
        super::blk::end_all();
        state::end();
    });
}

static BEGINNING: AtomicBool = AtomicBool::new(false);

/// The beginning adopts inherited files, which ends after seconds where nobody answers.
const BEGINNING_LOOKS_MAX: u32 = 10_000;

const LOOK_AGAIN: Duration = Duration::from_millis(1);
