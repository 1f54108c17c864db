//! Part of a file, mapped, so that a reply is sent from where the kernel has its data: no buffer between
//! file and socket, and one copy instead of two.
//!
//! A window may reach beyond the end of its file, and a file may be cut while it is mapped. Touching what is not
//! there ends the process, so whoever takes bytes of a window knows that they exist, and keeps the file
//! from being cut as long as they are looked at.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;

use crate::mapping::Mapping;

/// A part of a file that is looked at.
#[derive(Debug)]
pub struct FileWindow {
    memory: Mapping,
    range: Range<u64>,
}

impl FileWindow {
    /// Maps this range of a file, which begins at a page.
    pub fn open(file: impl AsFd, range: Range<u64>) -> io::Result<Self> {
        Ok(Self { memory: Mapping::of_file(file, range.clone())?, range })
    }

    /// Whether it has all of these bytes.
    pub fn covers(&self, range: &Range<u64>) -> bool {
        self.range.start <= range.start && range.end <= self.range.end
    }

    /// Whether all of these bytes, which it covers, are in memory: looking at them does not wait for the disk.
    pub fn is_in_memory(&self, range: &Range<u64>) -> bool {
        let inside = self.inside(range);
        self.memory.is_resident(inside.start..inside.end)
    }

    /// These bytes, which it covers and the file has as long as they are looked at.
    #[allow(unsafe_code)]
    pub fn bytes(&self, range: &Range<u64>) -> &[u8] {
        let inside = self.inside(range);
        // SAFETY: they are mapped as long as `self` lives. The file has them (see above), so touching them never
        // faults for good. Nobody changes them meanwhile who keeps the order of the daemon's requests; if somebody
        // else did, copies and checksums of bytes would come out one way or another, and nothing is decided by them.
        unsafe { self.memory.part(inside).as_ref() }
    }

    fn inside(&self, range: &Range<u64>) -> Range<usize> {
        assert!(self.covers(range), "bytes of a window that it does not have");
        (range.start - self.range.start) as usize..(range.end - self.range.start) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_window_shows_the_file_as_it_is_now() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 10_000]).unwrap();
        let window = FileWindow::open(&file, 4096..1 << 20).unwrap();
        assert!(window.covers(&(5000..10_000)) && !window.covers(&(0..5000)));
        assert!(window.is_in_memory(&(5000..10_000)));
        assert_eq!(window.bytes(&(9990..10_000)), [1; 10]);
        file.write_all(&[2; 100]).unwrap();
        assert_eq!(window.bytes(&(9999..10_002)), [1, 2, 2]);
    }

    #[test]
    fn what_was_never_written_is_not_in_memory() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let window = FileWindow::open(&file, 0..1 << 20).unwrap();
        assert!(!window.is_in_memory(&(0..1 << 20)));
        assert!(!window.is_in_memory(&(8192..8193)));
    }
}
