//! A directory stream over getdents64(2), for a library that has no opendir.

use crate::sys::{self, File, O_DIRECTORY, O_RDONLY, Result, SEEK_SET};

/// A directory, and the records of it that were fetched at once.
pub struct Listing {
    directory: File,
    records: Vec<u8>,
    /// Where in the records the next entry begins.
    next: usize,
    position: i64,
}

impl Listing {
    /// Begins at the first entry.
    pub fn open(path: &str) -> Result<Self> {
        let directory = sys::open(path, O_RDONLY | O_DIRECTORY, 0)?;
        Ok(Self { directory, records: Vec::new(), next: 0, position: 0 })
    }

    /// Of the next entry.
    pub fn position(&self) -> i64 {
        self.position
    }

    /// Goes on at a position that was told.
    pub fn seek(&mut self, position: i64) {
        sys::lseek(&self.directory, position, SEEK_SET).expect("a position that was told");
        (self.position, self.next) = (position, 0);
        self.records.clear();
    }
}

impl Iterator for Listing {
    type Item = (String, u64);

    fn next(&mut self) -> Option<(String, u64)> {
        if self.next == self.records.len() {
            self.records.resize(RECORDS_BYTES, 0);
            let used = sys::getdents(&self.directory, &mut self.records).expect("getdents");
            self.records.truncate(used);
            self.next = 0;
        }
        // Number, position of the next one, length of this record, kind, name: see getdents(2).
        let record = &self.records[self.next..];
        let (number, rest) = record.split_first_chunk()?;
        let (position, rest) = rest.split_first_chunk().expect("a whole record");
        let (length, rest) = rest.split_first_chunk().expect("a whole record");
        let name = rest[1..].split(|byte| *byte == 0).next().expect("a part before each zero");
        let name = String::from_utf8_lossy(name).into_owned();
        self.next += usize::from(u16::from_ne_bytes(*length));
        self.position = i64::from_ne_bytes(*position);
        Some((name, u64::from_ne_bytes(*number)))
    }
}

/// Less than a long directory takes, so that it is fetched in parts.
const RECORDS_BYTES: usize = 4096;
