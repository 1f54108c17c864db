//! Data of a request between two processes of one node: put down in memory that both see, instead of being copied
//! into the socket by one and out of it by the other.
//!
//! ```text
//!   client                                        daemon
//!   lane: tray, 1 MiB  <-- the same memory -->    connection: tray, read-only
//!     1 copies the data onto it
//!     2 sends header and body  ---------------->  3 writes from it to the file
//!       (the first time with the file of the tray)
//!     5 may use it again      <---------- reply   4
//! ```
//!
//! A lane carries one exchange at a time, so its tray carries one request's data at a time. An exchange that was given
//! up takes its lane with it, and the tray with that: what a daemon may still be reading is never used again.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::SealFlags;

use crate::mapping::Mapping;

/// The client's side.
#[derive(Debug)]
pub struct Tray {
    memory: Mapping,
    /// To be sent to the daemon, once.
    file: Option<OwnedFd>,
}

/// The daemon's side.
#[derive(Debug)]
pub struct SharedTray {
    memory: Mapping,
}

impl Tray {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        let (file, memory) = Mapping::create("pvfs-tray", TRAY_BYTES, SealFlags::empty())?;
        Ok(Self { memory, file: Some(file) })
    }

    /// Whether so much data is better put on a tray than sent.
    pub fn suits(bytes: usize) -> bool {
        (SUITED_BYTES_MIN..=TRAY_BYTES).contains(&bytes)
    }

    /// Puts the pieces down one after the other; together they must suit.
    #[allow(unsafe_code)]
    pub fn put(&mut self, pieces: &[&[u8]]) {
        // SAFETY: so many bytes are mapped for writing as long as `self` lives, and no other reference to them
        // exists in this process. The daemon only looks, and only between a request and its reply, while no
        // reference exists here.
        let memory = unsafe {
            std::slice::from_raw_parts_mut(self.memory.start().as_ptr(), self.memory.bytes())
        };
        let mut rest = memory;
        for piece in pieces {
            let (room, others) = rest.split_at_mut(piece.len());
            room.copy_from_slice(piece);
            rest = others;
        }
    }

    /// The file that the daemon has not been given yet.
    pub fn file(&self) -> Option<&OwnedFd> {
        self.file.as_ref()
    }

    /// The daemon was given the file.
    pub fn handed_over(&mut self) {
        self.file = None;
    }
}

impl SharedTray {
    /// The tray in this file; an error where it is none.
    pub fn map(file: &OwnedFd) -> io::Result<Self> {
        Ok(Self { memory: Mapping::read_only(file, TRAY_BYTES)? })
    }

    /// How much it can hold.
    pub fn room(&self) -> usize {
        self.memory.bytes()
    }

    /// Its first bytes, at most [`Self::room`] of them. A client that breaks the rules may change them at any time:
    /// good for writing its own data to its own file, not for deciding anything.
    #[allow(unsafe_code)]
    pub fn data(&self, bytes: usize) -> &[u8] {
        assert!(bytes <= self.memory.bytes(), "checked when the request was admitted");
        // SAFETY: so many bytes are mapped as long as `self` lives, and the seals keep the file from shrinking. Nobody
        // changes them before the reply, unless to spoil its own data: they are handed to the kernel and to copies of
        // bytes, none of which goes wrong by reading one value or another.
        unsafe { std::slice::from_raw_parts(self.memory.start().as_ptr(), bytes) }
    }
}

/// As much as a client asks of an iod in one request.
const TRAY_BYTES: usize = 1 << 20;

/// Below, the socket is as fast.
const SUITED_BYTES_MIN: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_down_is_seen_by_whoever_was_given_the_file() {
        let mut tray = Tray::new().unwrap();
        let shared = SharedTray::map(tray.file().unwrap()).unwrap();
        tray.put(&[b"one ", b"", b"two"]);
        assert_eq!(shared.data(7), b"one two");
        tray.handed_over();
        tray.put(&[b"more"]);
        assert_eq!(shared.data(7), b"moretwo");
    }
}
