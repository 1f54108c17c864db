//! Another library in place of the C library: which it is, where its cases are, and what it does not have.
//!
//! A process whose environment names a library makes the calls of its case through it: `pvfs_open` for `open`. A
//! library for C has no working directory, so that relative paths are made whole here. A case that needs a call which
//! the library does not have is neither kept nor broken: it is set aside, with the name of the call.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::OnceLock;

/// Names the library of a process's case: a shared object, or [`RUST`].
pub const VARIABLE: &str = "PVFS_CASE_LIBRARY";

/// The library for Rust, with which every case is linked.
pub const RUST: &str = "pvfs-posix";

/// What a case makes its calls through instead of the C library.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Library {
    /// A shared object with functions like those of C.
    C(OsString),
    /// [`RUST`].
    Rust,
}

/// What the names of a shared object's calls begin with.
pub const PREFIX: &str = "pvfs_";

/// The status of a process whose case is set aside.
pub const SET_ASIDE_STATUS: i32 = 77;

/// What such a process says before the name of the call.
pub const SET_ASIDE: &str = "set aside for want of ";

/// Unwinds a case that is set aside.
struct SetAside;

static BASE: OnceLock<String> = OnceLock::new();

/// The library, if there is one.
pub fn named() -> Option<&'static Library> {
    static NAMED: OnceLock<Option<Library>> = OnceLock::new();
    let of_name = |name| if name == RUST { Library::Rust } else { Library::C(name) };
    NAMED.get_or_init(|| std::env::var_os(VARIABLE).map(of_name)).as_ref()
}

impl Library {
    /// Whether it is the one.
    pub fn is_named(&self) -> bool {
        named() == Some(self)
    }

    /// What follows is not for this library: with it the case ends here.
    pub fn lacks(&self, call: &str) {
        if self.is_named() {
            set_aside(call);
        }
    }
}

/// Relative paths begin here from now on.
pub fn begin_in(directory: &str) {
    BASE.set(directory.to_owned()).expect("a case begins once");
}

/// A path as the library is given it. The empty one stays what it is: no path.
pub fn whole(path: &str) -> Cow<'_, str> {
    match BASE.get() {
        Some(base) if !path.is_empty() && !path.starts_with('/') => format!("{base}/{path}").into(),
        _ => path.into(),
    }
}

/// What follows is for the C library and the kernel: with another library the case ends here.
pub fn lacks(call: &str) {
    if named().is_some() {
        set_aside(call);
    }
}

/// Says why, and ends the case.
pub fn set_aside(call: &str) -> ! {
    // In one piece: the processes of a case may say so at the same time.
    let _ = io::stderr().write_all(format!("{SET_ASIDE}{call}\n").as_bytes());
    end()
}

/// Ends the case, as a child of it has that said why. What it has open is closed on the way.
pub fn end() -> ! {
    std::panic::resume_unwind(Box::new(SetAside))
}

/// The status with which the process ends that ran a case, or a part of it.
pub fn status(outcome: std::thread::Result<()>) -> i32 {
    match outcome {
        Ok(()) => 0,
        Err(why) if why.is::<SetAside>() => SET_ASIDE_STATUS,
        Err(_) => BROKEN_STATUS,
    }
}

/// As a process ends whose main thread panics.
const BROKEN_STATUS: i32 = 101;
