//! Objects that a daemon of this node has lent: read and written directly, without a message.
//!
//! ```text
//!   iod                                     client
//!   words:  whole | object | object ...     1 both words as they were when it was lent?
//!             |        |                    2 preadv2, only what is in memory
//!     estop, keys   removed, forgotten      3 both words still so?   no: as if nothing was read
//! ```
//!
//! What is not in memory, and everything while a word has changed or the time of the loan is over, is asked of
//! the daemon as usual. So a read by loan never waits, and a daemon that takes a loan back is obeyed at once.
//!
//! What lies within one page is written just so: the kernel does that as a whole, also for a process that is killed meanwhile.
//! For anything longer the daemon is left the request first ([`crate::tray`]), and carries it out for who is killed in the
//! middle. When a word has changed after a write it may or may not be there; the daemon is asked to write it again.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pvfs_layout::sieve::Runs;
use rustix::io::{Errno as Refusal, ReadWriteFlags};

use crate::marked::MarkedFile;
use crate::runtime::Instant;
use crate::words::SharedWords;

/// An object on loan, for reading or for writing.
#[derive(Debug)]
pub struct Loan {
    /// The object.
    pub file: MarkedFile,
    /// Where the daemon says that it wants it back.
    pub words: Arc<SharedWords>,
    /// The daemon's word and its value.
    pub whole: (u32, u32),
    /// The object's word and its value.
    pub object: (u32, u32),
    /// Whether the store is memory, so that no read waits and none can be told not to.
    pub in_memory: bool,
    /// When it ends by itself.
    pub until: Instant,
    /// In which boot of the daemon's store it was lent ([`pvfs_wire::ops::Welcome::boot`]).
    pub boot: u64,
    /// Whether it is to be given up: its disk or its daemon is in trouble.
    pub spoiled: AtomicBool,
}

/// What a read by loan brought.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LentRead {
    /// Bytes read; fewer than wanted only at the end of the object.
    pub bytes: usize,
    /// The object's size.
    pub local_size: u64,
}

impl Loan {
    /// Whether it is still one.
    pub fn is_good(&self, now: Instant) -> bool {
        let is_spoiled = self.spoiled.load(Ordering::Relaxed);
        now < self.until
            && !is_spoiled
            && [self.whole, self.object].iter().all(|word| self.is_unchanged(*word))
    }

    /// Has it given up at the next look at it: a descriptor keeps the store from being unmounted.
    pub fn spoil(&self) {
        self.spoiled.store(true, Ordering::Relaxed);
    }

    /// What came of a call on the object.
    fn judge(&self, outcome: rustix::io::Result<usize>) -> Option<usize> {
        let is_trouble = |error| ![Refusal::AGAIN, Refusal::INTR].contains(&error);
        if outcome.is_err_and(is_trouble) {
            self.spoil();
        }
        outcome.ok()
    }

    /// Whether it is one of an object that is still here.
    fn is_usable(&self, now: Instant) -> bool {
        self.is_good(now) && self.file.is_there()
    }

    fn is_unchanged(&self, (word, value): (u32, u32)) -> bool {
        self.words.load(word) == Some(value)
    }

    /// Fills all of `into` from `local` on. `None` as of [`Self::read`], and when the object ends before that.
    pub fn fill(&self, local: u64, into: &mut [u8], now: Instant) -> Option<()> {
        if !self.is_usable(now) {
            return None;
        }
        let bytes = self.read_once(local, &mut [IoSliceMut::new(into)])?;
        (bytes == into.len() && self.is_good(now)).then_some(())
    }

    fn read_once(&self, local: u64, pieces: &mut [IoSliceMut<'_>]) -> Option<usize> {
        let flags = if self.in_memory { ReadWriteFlags::empty() } else { ReadWriteFlags::NOWAIT };
        self.judge(match pieces {
            // The call that takes neither flags nor a list is a little faster.
            [piece] if flags.is_empty() => rustix::io::pread(&self.file, &mut **piece, local),
            pieces => rustix::io::preadv2(&self.file, pieces, local, flags),
        })
    }

    /// Reads from `local` on. `None` when the loan is over or the daemon has to fetch something first.
    pub fn read(&self, local: u64, into: &mut [&mut [u8]], now: Instant) -> Option<LentRead> {
        if into.len() > PIECES_MAX || !self.is_usable(now) {
            return None;
        }
        let wanted: usize = into.iter().map(|piece| piece.len()).sum();
        let mut pieces: Vec<IoSliceMut<'_>> =
            into.iter_mut().map(|piece| IoSliceMut::new(piece)).collect();
        let bytes = self.read_once(local, &mut pieces)?;
        let local_size = self.file.size()?;
        // In the middle of the object: the rest is not in memory.
        let is_cut = bytes < wanted && local + (bytes as u64) < local_size;
        (!is_cut && self.is_good(now)).then_some(LentRead { bytes, local_size })
    }

    /// Writes at `local`, within one page. `None` when the daemon has to do it, also if it was done here already.
    pub fn write(&self, local: u64, from: &[&[u8]], now: Instant) -> Option<()> {
        let bytes: usize = from.iter().map(|piece| piece.len()).sum();
        if from.len() > PIECES_MAX || !is_in_one_page(local, bytes) || !self.is_usable(now) {
            return None;
        }
        let written = self.put(local, from)?;
        (written == bytes && self.is_good(now)).then_some(())
    }

    /// Writes all of this at `local`, which the daemon does again should this process be killed meanwhile; the caller has
    /// seen to that. `None` as of [`Self::write`].
    pub fn write_whole(&self, local: u64, from: &[&[u8]], now: Instant) -> Option<()> {
        let bytes: usize = from.iter().map(|piece| piece.len()).sum();
        if from.len() > PIECES_MAX || !self.is_usable(now) {
            return None;
        }
        let written = self.put(local, from)?;
        (written == bytes).then_some(())
    }

    /// One call of the kernel, which others see as one.
    fn put(&self, local: u64, from: &[&[u8]]) -> Option<usize> {
        self.judge(match from {
            [piece] => rustix::io::pwrite(&self.file, piece, local),
            pieces => {
                let pieces: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
                rustix::io::pwritev(&self.file, &pieces, local)
            }
        })
    }

    /// Reads ranges of the object, one after the other, into memory of the same length in all; what is beyond the end
    /// is zeroed. Returns the object's size; `None` as of [`Self::read`], and then memory holds anything.
    pub fn read_ranges(
        &self,
        ranges: impl Iterator<Item = Range<u64>>,
        into: &mut [&mut [u8]],
        now: Instant,
    ) -> Option<u64> {
        if !self.is_usable(now) {
            return None;
        }
        let (mut runs, mut run) = (Runs::new(ranges), Vec::new());
        let (mut target, mut scratch) = (Scatter::new(into), Vec::new());
        // Where a read came up short: the object must end there, or something is not in memory.
        let mut end_seen = u64::MAX;
        while let Some(Range { mut start, end }) = runs.next_into(&mut run) {
            if run.len() > 1 {
                scratch.resize((end - start) as usize, 0);
                end_seen = end_seen.min(self.read_piece(start, &mut scratch)?);
                for range in &run {
                    let inside = (range.start - start) as usize..(range.end - start) as usize;
                    target.put(&scratch[inside])?;
                }
                continue;
            }
            while start < end {
                let piece = target.next((end - start) as usize)?;
                end_seen = end_seen.min(self.read_piece(start, piece)?);
                start += piece.len() as u64;
            }
        }
        let local_size = self.file.size()?;
        (local_size <= end_seen && self.is_good(now)).then_some(local_size)
    }

    /// Fills a piece, with zeros where the object ends before; returns where that was.
    fn read_piece(&self, start: u64, piece: &mut [u8]) -> Option<u64> {
        let bytes = self.read_once(start, &mut [IoSliceMut::new(piece)])?;
        if bytes == piece.len() {
            return Some(u64::MAX);
        }
        piece[bytes..].fill(0);
        Some(start + bytes as u64)
    }
}

/// Pieces of memory, filled one after the other.
struct Scatter<'a, 'b> {
    slices: std::slice::IterMut<'a, &'b mut [u8]>,
    room: &'a mut [u8],
}

impl<'a, 'b> Scatter<'a, 'b> {
    fn new(slices: &'a mut [&'b mut [u8]]) -> Self {
        Self { slices: slices.iter_mut(), room: &mut [] }
    }

    /// The next bytes of memory, at most so many; nothing when there are none.
    fn next(&mut self, bytes_max: usize) -> Option<&'a mut [u8]> {
        while self.room.is_empty() {
            self.room = self.slices.next()?;
        }
        let bytes = bytes_max.min(self.room.len());
        let (piece, rest) = std::mem::take(&mut self.room).split_at_mut(bytes);
        self.room = rest;
        Some(piece)
    }

    fn put(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let piece = self.next(bytes.len())?;
            let (here, rest) = bytes.split_at(piece.len());
            piece.copy_from_slice(here);
            bytes = rest;
        }
        Some(())
    }
}

/// The word that changes when all loans of a daemon end.
pub const WHOLE: u32 = 0;

/// Whether so many bytes can be written by loan.
pub fn is_in_one_page(local: u64, bytes: usize) -> bool {
    bytes > 0 && bytes as u64 <= PAGE_BYTES && local % PAGE_BYTES + bytes as u64 <= PAGE_BYTES
}

/// Of the smallest pages there are.
const PAGE_BYTES: u64 = 4096;

/// The kernel's IOV_MAX.
const PIECES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::KeptFile;
    use crate::words::Words;
    use rustix::fs::{Mode, OFlags};
    use std::io::Write;

    fn loan(content: &[u8], words: &Words) -> Loan {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        Loan {
            file: MarkedFile::new(KeptFile::new(file.into(), None).exposed(), 12345).unwrap(),
            words: Arc::new(SharedWords::map(words.file()).unwrap()),
            whole: (0, words.load(0)),
            object: (5, words.load(5)),
            in_memory: true,
            until: Instant(100),
            boot: 1,
            spoiled: AtomicBool::new(false),
        }
    }

    fn read(loan: &Loan, local: u64, bytes: usize, now: u64) -> Option<(Vec<u8>, u64)> {
        let mut buffer = vec![0; bytes];
        let (first, second) = buffer.split_at_mut(bytes / 3);
        let lent = loan.read(local, &mut [first, second], Instant(now))?;
        buffer.truncate(lent.bytes);
        Some((buffer, lent.local_size))
    }

    #[test]
    fn it_is_read_as_the_daemon_would() {
        let words = Words::new(16).unwrap();
        let loan = loan(b"0123456789", &words);
        assert_eq!(read(&loan, 2, 5, 0), Some((b"23456".to_vec(), 10)));
        assert_eq!(read(&loan, 7, 9, 0), Some((b"789".to_vec(), 10)), "up to its end");
        assert_eq!(read(&loan, 50, 9, 0), Some((Vec::new(), 10)), "and nothing beyond");
        let mut buffer = [0; 3];
        assert_eq!(loan.fill(7, &mut buffer, Instant(0)), Some(()));
        assert_eq!(&buffer, b"789");
        assert_eq!(loan.fill(8, &mut buffer, Instant(0)), None, "not all of it");
    }

    #[test]
    fn it_is_written_within_a_page_while_it_is_good() {
        let words = Words::new(16).unwrap();
        let loan = loan(b"0123456789", &words);
        let write = |local, bytes: &[u8], now| {
            let (first, second) = bytes.split_at(bytes.len() / 2);
            loan.write(local, &[first, second], Instant(now))
        };
        assert_eq!(write(2, b"abc", 0), Some(()));
        assert_eq!(read(&loan, 0, 10, 0), Some((b"01abc56789".to_vec(), 10)));
        assert_eq!(write(4094, b"xyz", 0), None, "two pages");
        assert_eq!(write(0, &[7; 4097], 0), None);
        assert_eq!(write(0, b"", 0), None);
        assert_eq!(write(8192, &[7; 4096], 0), Some(()), "it grows");
        assert_eq!(write(2, b"late", 100), None);
        words.change(5);
        assert_eq!(write(2, b"late", 0), None);
        words.change(3);
        assert_eq!(loan.file.size(), Some(12288));
    }

    #[test]
    fn what_cannot_be_written_is_given_up() {
        let words = Words::new(16).unwrap();
        let mut loan = loan(b"0123456789", &words);
        let read_only = rustix::fs::open("/dev/null", OFlags::RDONLY, Mode::empty()).unwrap();
        loan.file = MarkedFile::new(KeptFile::new(read_only, None), 1).unwrap();
        assert!(loan.is_good(Instant(0)));
        assert_eq!(loan.write_whole(0, &[b"abc"], Instant(0)), None);
        assert!(!loan.is_good(Instant(0)));
    }

    #[test]
    fn another_file_in_its_place_is_neither_read_nor_written() {
        let words = Words::new(16).unwrap();
        let mut loan = loan(b"0123456789", &words);
        let mut other = tempfile::tempfile().unwrap();
        other.write_all(b"private").unwrap();
        let size = || other.metadata().unwrap().len();
        loan.file.file = KeptFile::new(other.try_clone().unwrap().into(), None);
        assert_eq!(loan.write(2, &[&[7; 100]], Instant(0)), None);
        assert_eq!(size(), 7);
        assert_eq!(read(&loan, 0, 7, 0), None);
        assert_eq!(loan.fill(0, &mut [0; 7], Instant(0)), None);
    }

    #[test]
    fn ranges_are_read_in_their_order_whatever_the_pieces_of_memory() {
        let words = Words::new(16).unwrap();
        let loan = loan(b"0123456789", &words);
        let ranges = [6..8, 0..3, 8..13, 20..22, 1..2];
        for cut in 0..=13 {
            let mut buffer = [7; 13];
            let (first, second) = buffer.split_at_mut(cut);
            let into = &mut [first, &mut [], second];
            let size = loan.read_ranges(ranges.iter().cloned(), into, Instant(0));
            assert_eq!((size, &buffer), (Some(10), b"6701289\0\0\0\0\x001"), "cut at {cut}");
        }
        let short = loan.read_ranges(ranges.iter().cloned(), &mut [&mut [0; 12]], Instant(0));
        assert_eq!(short, None, "memory is too short");
        words.change(5);
        let late = loan.read_ranges(ranges.iter().cloned(), &mut [&mut [0; 13]], Instant(0));
        assert_eq!(late, None, "the loan is over");
    }

    #[test]
    fn it_ends_when_either_word_changes_or_its_time_is_over() {
        for word in [0, 5] {
            let words = Words::new(16).unwrap();
            let loan = loan(b"0123456789", &words);
            words.change(3);
            assert!(read(&loan, 0, 10, 99).is_some());
            words.change(word);
            assert_eq!(read(&loan, 0, 10, 99), None);
        }
        let words = Words::new(16).unwrap();
        assert_eq!(read(&loan(b"0123456789", &words), 0, 10, 100), None);
    }
}
