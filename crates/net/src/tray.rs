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
//!
//! A client that writes to an object on loan itself leaves the request on its tray meanwhile, in the page behind
//! the data: the *redo record*. When its connection ends before it has taken that back, it was killed in the middle, and the
//! daemon does what the request says. Data that the daemon sees elsewhere ([`crate::shared_buffers`]) stay there.
//!
//! ```text
//!   record   state   u32   0 none, 1 left, 2 taken by the daemon
//!            bytes   u32   of header and body
//!            since   u64   monotonic clock of the node, nanoseconds
//!            places  u32   where the data lie instead of on the tray; 0 if they are on it
//!            header, body  as they would have been sent
//!            start, bytes  u32 each, of each place in the shared buffers
//! ```

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pvfs_wire::Wire;
use rustix::fs::SealFlags;

use crate::mapping::Mapping;
use crate::runtime::Instant;
use crate::shared_buffers::{Placed, read_places};

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

/// A request that somebody left who has ended.
#[derive(Debug, Eq, PartialEq)]
pub struct Left {
    /// Header and body.
    pub message: Vec<u8>,
    /// Where its data lie in the shared buffers; on the tray if nowhere there.
    pub places: Vec<Placed>,
}

impl Tray {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        let (file, memory) = Mapping::create("pvfs-tray", TRAY_BYTES, SealFlags::empty())?;
        Ok(Self { memory, file: Some(file) })
    }

    /// Whether so much data is better put on a tray than sent.
    pub fn suits(bytes: usize) -> bool {
        bytes >= SUITED_BYTES_MIN && Self::holds(bytes)
    }

    /// Whether so much data fits.
    pub fn holds(bytes: usize) -> bool {
        bytes <= DATA_BYTES
    }

    /// Puts the pieces down one after the other; together they must fit.
    pub fn put(&mut self, pieces: &[&[u8]]) {
        fill(self.bytes_mut(0..DATA_BYTES), pieces);
    }

    /// What was put down, so many bytes of it.
    pub fn data(&self, bytes: usize) -> &[u8] {
        assert!(Self::holds(bytes), "so much was put down");
        seen(&self.memory, 0..bytes)
    }

    /// Leaves the request that writes what was put down, or what lies at these places: from now on, should this process
    /// end, the daemon carries it out. False when it is too long for that.
    pub fn leave(&mut self, now: Instant, message: [&[u8]; 2], places: &[Placed]) -> bool {
        let [header, body] = message;
        let bytes = header.len() + body.len();
        if bytes + places.len() * PLACE_BYTES > MESSAGE_BYTES_MAX {
            return false;
        }
        let mut fields = [0; FIELDS_BYTES];
        fields[..4].copy_from_slice(&(bytes as u32).to_le_bytes());
        fields[4..12].copy_from_slice(&now.0.to_le_bytes());
        fields[12..].copy_from_slice(&(places.len() as u32).to_le_bytes());
        let mut placed = Vec::with_capacity(places.len() * PLACE_BYTES);
        places.iter().for_each(|place| place.put(&mut placed));
        let fields = [&fields[..], header, body, &placed];
        fill(self.bytes_mut(FIELDS..TRAY_BYTES), &fields);
        state(&self.memory).store(LEFT, Ordering::SeqCst);
        true
    }

    /// The data of the request that was left have been put down as well: whoever carries it out finds them here.
    pub fn data_are_here(&mut self) {
        word(&self.memory, PLACES).store(0, Ordering::SeqCst);
    }

    /// Takes the request back. False when the daemon has taken it: it thinks that this process has ended.
    pub fn take_back(&mut self) -> bool {
        let state = state(&self.memory);
        state.compare_exchange(LEFT, NONE, Ordering::SeqCst, Ordering::SeqCst) != Err(TAKEN)
    }

    /// The file that the daemon has not been given yet.
    pub fn file(&self) -> Option<&OwnedFd> {
        self.file.as_ref()
    }

    /// The daemon was given the file.
    pub fn handed_over(&mut self) {
        self.file = None;
    }

    #[allow(unsafe_code)]
    fn bytes_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        // SAFETY: all of it is mapped for writing as long as `self` lives, and no other reference to it
        // exists in this process. The daemon only looks, at data between a request and its reply, and at a record
        // that was left, while no reference exists here.
        unsafe { self.memory.part(range).as_mut() }
    }
}

impl SharedTray {
    /// The tray in this file; an error where it is none.
    pub fn map(file: &OwnedFd) -> io::Result<Self> {
        let memory = Mapping::shared(file, TRAY_BYTES)?;
        let is_whole = memory.bytes() == TRAY_BYTES;
        is_whole.then_some(Self { memory }).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// How much data it can hold.
    pub fn room(&self) -> usize {
        DATA_BYTES
    }

    /// Its first bytes, at most [`Self::room`] of them. A client that breaks the rules may change them at any time:
    /// good for writing its own data to its own file, not for deciding anything.
    pub fn data(&self, bytes: usize) -> &[u8] {
        assert!(bytes <= self.room(), "checked when the request was admitted");
        seen(&self.memory, 0..bytes)
    }

    /// The request that was left, for a client that has ended. Once; and not when it was left so long
    /// ago that others may have gone by its not being done: its loan is over then.
    pub fn take_left(&self, now: Instant) -> Option<Left> {
        let state = state(&self.memory);
        state.compare_exchange(LEFT, TAKEN, Ordering::SeqCst, Ordering::SeqCst).ok()?;
        let (bytes, rest) = seen(&self.memory, FIELDS..TRAY_BYTES).split_first_chunk()?;
        let (since, rest) = rest.split_first_chunk()?;
        let (places, rest) = rest.split_first_chunk()?;
        let is_late = Instant(u64::from_le_bytes(*since)).until(now) > LEFT_TIME_MAX;
        let (message, rest) = rest.split_at_checked(u32::from_le_bytes(*bytes) as usize)?;
        let places = read_places(rest, u32::from_le_bytes(*places))?;
        (!is_late).then(|| Left { message: message.to_vec(), places })
    }
}

/// Puts the pieces into it, one after the other.
pub(crate) fn fill(memory: &mut [u8], pieces: &[&[u8]]) {
    let mut rest = memory;
    for piece in pieces {
        let (room, others) = rest.split_at_mut(piece.len());
        room.copy_from_slice(piece);
        rest = others;
    }
}

#[allow(unsafe_code)]
fn seen(memory: &Mapping, range: Range<usize>) -> &[u8] {
    // SAFETY: so many bytes are mapped as long as `memory` lives, and the seals keep the file from shrinking. Nobody
    // changes them before the reply, unless to spoil its own data: they are handed to the kernel and to copies of
    // bytes, none of which goes wrong by reading one value or another. A record is copied before it is checked.
    unsafe { memory.part(range).as_ref() }
}

/// Whose turn it is with the record.
fn state(memory: &Mapping) -> &AtomicU32 {
    word(memory, RECORD)
}

#[allow(unsafe_code)]
fn word(memory: &Mapping, at: usize) -> &AtomicU32 {
    assert!(at.is_multiple_of(4) && at < TRAY_BYTES, "a word of the tray");
    // SAFETY: it is mapped, four bytes within a page, as long as `memory` lives. The state both processes touch as an
    // atomic only; the number of places is touched so while no other reference to it exists here.
    unsafe { memory.start().add(at).cast().as_ref() }
}

/// As much as a client asks of an iod in one request.
const DATA_BYTES: usize = 1 << 20;

/// The redo record, behind the data: its state, and then the other fields.
const RECORD: usize = DATA_BYTES;
const RECORD_BYTES: usize = 4096;
const FIELDS: usize = RECORD + 4;
const PLACES: usize = RECORD + 16;
const FIELDS_BYTES: usize = 16;
const MESSAGE_BYTES_MAX: usize = RECORD_BYTES - 4 - FIELDS_BYTES;
const PLACE_BYTES: usize = 8;

const TRAY_BYTES: usize = DATA_BYTES + RECORD_BYTES;

const NONE: u32 = 0;
const LEFT: u32 = 1;
const TAKEN: u32 = 2;

/// Who was stopped in the middle for longer than that, and then killed, has not written: as long as a lease.
const LEFT_TIME_MAX: Duration = Duration::from_secs(30);

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

    #[test]
    fn a_request_that_was_left_is_taken_by_one_side_only() {
        let mut tray = Tray::new().unwrap();
        let shared = SharedTray::map(tray.file().unwrap()).unwrap();
        let now = Instant(5_000_000_000);
        let places = vec![Placed { start: 7, bytes: 9 }, Placed { start: 1, bytes: 2 }];
        assert_eq!(shared.take_left(now), None, "nothing was left");
        assert!(tray.leave(now, [b"header", b"body"], &[]));
        assert!(tray.take_back());
        assert_eq!(shared.take_left(now), None, "it was taken back");
        assert!(tray.take_back(), "there is nothing any more that could be gone");
        assert!(tray.leave(now, [b"header", b"longer body"], &places));
        tray.data_are_here();
        let left = Left { message: b"headerlonger body".to_vec(), places: Vec::new() };
        assert_eq!(shared.take_left(now), Some(left), "its data lie on the tray by now");
        assert!(!tray.take_back());
        assert!(tray.leave(now, [b"header", b"longer body"], &places));
        let left = Left { message: b"headerlonger body".to_vec(), places };
        assert_eq!(shared.take_left(now.after(LEFT_TIME_MAX)), Some(left));
        assert_eq!(shared.take_left(now), None, "it is taken once");
        assert!(!tray.take_back());
    }

    #[test]
    fn a_request_is_not_taken_late_nor_left_when_too_long() {
        let mut tray = Tray::new().unwrap();
        let shared = SharedTray::map(tray.file().unwrap()).unwrap();
        let late = Instant(1).after(LEFT_TIME_MAX);
        let places = [Placed { start: 0, bytes: 1 }; 2];
        assert!(!tray.leave(Instant(0), [b"header", &[0; MESSAGE_BYTES_MAX - 5]], &[]));
        assert!(!tray.leave(Instant(0), [b"header", &[0; MESSAGE_BYTES_MAX - 21]], &places));
        assert_eq!(shared.take_left(Instant(0)), None);
        assert!(tray.leave(Instant(0), [b"header", &[7; MESSAGE_BYTES_MAX - 22]], &places));
        assert_eq!(shared.take_left(late), None);
    }

    /// What a record says is believed only as far as it reaches.
    #[test]
    fn a_record_that_says_too_much_is_none() {
        for fields in [[u32::MAX, 0, 0, 0], [10, 0, 0, u32::MAX], [4076, 0, 0, 1]] {
            let mut tray = Tray::new().unwrap();
            let shared = SharedTray::map(tray.file().unwrap()).unwrap();
            assert!(tray.leave(Instant(0), [b"header", b"body"], &[]));
            let bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
            fill(tray.bytes_mut(FIELDS..TRAY_BYTES), &[&bytes]);
            assert_eq!(shared.take_left(Instant(0)), None, "{fields:?}");
        }
    }
}
