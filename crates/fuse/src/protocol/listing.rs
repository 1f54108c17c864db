//! Listings: as many lines as fit into what the kernel has room for.

use pvfs_wire::codec::Wire;

use super::answer::EntryOut;

/// The lines of one answer.
pub struct Listing {
    bytes: Vec<u8>,
    room: usize,
}

/// One name of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Name<'a> {
    /// The number of its object.
    pub object: u64,
    /// Where to go on after it.
    pub offset: u64,
    /// What it is: bits of a mode.
    pub kind: u32,
    /// The name.
    pub name: &'a [u8],
}

impl Listing {
    /// Nothing yet, and room for so many bytes.
    pub fn new(room: u32) -> Self {
        Self { bytes: Vec::with_capacity(room as usize), room: room as usize }
    }

    /// Adds a name; true if there was no room for it.
    pub fn add(&mut self, name: Name<'_>) -> bool {
        self.add_line(None, name)
    }

    /// Adds a name with attributes; true if there was no room for it.
    pub fn add_plus(&mut self, entry: &EntryOut, name: Name<'_>) -> bool {
        self.add_line(Some(entry), name)
    }

    /// What is sent.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn add_line(&mut self, entry: Option<&EntryOut>, line: Name<'_>) -> bool {
        let Name { object, offset, kind, name } = line;
        let before = self.bytes.len();
        if let Some(entry) = entry {
            entry.put(&mut self.bytes);
        }
        object.put(&mut self.bytes);
        offset.put(&mut self.bytes);
        (name.len() as u32).put(&mut self.bytes);
        (kind >> 12 & 0xf).put(&mut self.bytes);
        self.bytes.extend_from_slice(name);
        self.bytes.resize(self.bytes.len().next_multiple_of(LINE_ALIGNMENT), 0);
        let full = self.bytes.len() > self.room;
        if full {
            self.bytes.truncate(before);
        }
        full
    }
}

const LINE_ALIGNMENT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &[u8]) -> Name<'_> {
        Name { object: 3, offset: 4, kind: 0o100_644, name }
    }

    #[test]
    fn a_line_is_its_record_and_the_padded_name() {
        let mut listing = Listing::new(100);
        assert!(!listing.add(name(b"abc")));
        let expected = [
            3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 8, 0, 0, 0, b'a', b'b',
            b'c', 0, 0, 0, 0, 0,
        ];
        assert_eq!(listing.bytes(), expected);
    }

    #[test]
    fn what_does_not_fit_is_left_out_whole() {
        let mut listing = Listing::new(70);
        assert!(!listing.add(name(b"abc")));
        assert!(!listing.add(name(b"12345678")));
        let before = listing.bytes().to_vec();
        assert!(listing.add(name(b"")));
        assert_eq!(listing.bytes(), before);
    }
}
