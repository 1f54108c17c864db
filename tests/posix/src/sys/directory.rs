//! Directory streams, whoever keeps the directories.

#![allow(unsafe_code)]

use std::ffi::CStr;

use pvfs_posix::Stop;

use super::{Errno, Result, c, number, rust};
use crate::library::{self, Library};
use crate::listing::Listing;

/// A directory stream: the C library's, one made of a library's getdents, or the one of the library for Rust.
pub enum Stream {
    /// Of opendir(3).
    C(*mut libc::DIR),
    /// Without it.
    Listing(Listing),
    /// In Rust.
    Rust(rust::Stream),
}

impl Stream {
    /// opendir(3)
    pub fn open(path: &str) -> Result<Self> {
        match library::named() {
            Some(Library::C(_)) => return Listing::open(path).map(Self::Listing),
            Some(Library::Rust) => match rust::Stream::open(path) {
                Err(Stop::NotOurs) => {}
                reach => return reach.map(Self::Rust).map_err(number),
            },
            None => {}
        }
        // SAFETY: the path is a live string.
        let stream = unsafe { libc::opendir(c(path).as_ptr()) };
        if stream.is_null() { Err(Errno::last()) } else { Ok(Self::C(stream)) }
    }

    /// telldir(3)
    pub fn tell(&self) -> i64 {
        match self {
            // SAFETY: the stream is open until we are dropped.
            Self::C(stream) => unsafe { libc::telldir(*stream) },
            Self::Listing(listing) => listing.position(),
            Self::Rust(stream) => stream.position(),
        }
    }

    /// seekdir(3)
    pub fn seek(&mut self, position: i64) {
        match self {
            // SAFETY: the stream is open until we are dropped.
            Self::C(stream) => unsafe { libc::seekdir(*stream, position) },
            Self::Listing(listing) => listing.seek(position),
            Self::Rust(stream) => stream.seek(position),
        }
    }

    /// rewinddir(3)
    pub fn rewind(&mut self) {
        match self {
            // SAFETY: the stream is open until we are dropped.
            Self::C(stream) => unsafe { libc::rewinddir(*stream) },
            Self::Listing(listing) => listing.seek(0),
            Self::Rust(stream) => stream.seek(0),
        }
    }
}

/// readdir(3): name and inode number; `.` and `..` too.
impl Iterator for Stream {
    type Item = (String, u64);

    fn next(&mut self) -> Option<(String, u64)> {
        let stream = match self {
            Self::C(stream) => *stream,
            Self::Listing(listing) => return listing.next(),
            Self::Rust(stream) => return stream.next(),
        };
        // SAFETY: the stream is open until we are dropped, and nobody else uses it.
        let entry = unsafe { libc::readdir(stream) };
        // SAFETY: an entry is valid until the next call on its stream; its name ends with a zero.
        let entry = unsafe { entry.as_ref() }?;
        // SAFETY: as above.
        let name = unsafe { CStr::from_ptr(entry.d_name.as_ptr()) };
        Some((name.to_string_lossy().into_owned(), entry.d_ino))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Self::C(stream) = self {
            // SAFETY: the stream is open, and never used again.
            unsafe { libc::closedir(*stream) };
        }
    }
}
