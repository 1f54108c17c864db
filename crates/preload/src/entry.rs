//! Where the library is entered when a program begins and ends.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;
use std::sync::atomic::Ordering::Relaxed;

use pvfs_posix::Settings;
use pvfs_posix::c::state;
use pvfs_posix::numbers::IS_KEPT_SAFE;

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: unsafe extern "C" fn(c_int, Texts, Texts) = begin;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

type Texts = *const *const c_char;

unsafe extern "C" {
    static mut environ: Texts;
}

/// The loader calls it before all others, even before the C library has set `environ`, to this same list.
unsafe extern "C" fn begin(_count: c_int, _arguments: Texts, environment: Texts) {
    // SAFETY: there is one thread, and nothing but the loader has run.
    unsafe {
        if environ.is_null() {
            environ = environment;
        }
    }
    IS_KEPT_SAFE.store(true, Relaxed);
    // SAFETY: as above.
    unsafe { crate::calls::execute::put_away_libraries(environment) };
    let _ = catch_unwind(|| {
        let working = std::env::var(state::WORKING_VARIABLE).ok();
        state::begin(Settings::of_process, working.as_deref());
        // Every change of it comes through us from now on; that it is nothing for a moment is seen by no other thread.
        let umask = rustix::process::umask(rustix::fs::Mode::empty());
        rustix::process::umask(umask);
        let _ = state::with(|process| {
            process.note_umask(umask.bits());
            Ok(())
        });
        crate::calls::limits::note();
        crate::calls::stdio::follow_descriptors();
    });
}

extern "C" fn end() {
    let _ = catch_unwind(|| {
        // What is still in buffers of streams comes after us otherwise.
        // SAFETY: null means all streams.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        state::end();
    });
}
