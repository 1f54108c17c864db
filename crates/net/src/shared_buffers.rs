//! Memory of a client that daemons of its node see too: data that lie there already are not put on a tray
//! ([`crate::tray`]) to be written by loan; the redo record says where they lie.
//!
//! A client that is handed its data by somebody else and can choose where, as a mount by the kernel, saves one of three
//! copies by them. One that copies its data there itself uses the same memory for one object after the other, which
//! stays in the processor's cache. All buffers of a process are one file, which each lane gives its daemon once.

use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use pvfs_wire::{Reader, Wire, record};
use rustix::fs::SealFlags;

use crate::mapping::Mapping;
use crate::marked::MarkedFile;
use crate::runtime::Runtime;
use crate::tray::fill;

/// The client's side.
#[derive(Debug)]
pub struct SharedBuffers {
    memory: Mapping,
    file: MarkedFile,
}

/// One of them, its holder's alone while it lives.
#[derive(Debug)]
pub struct SharedBuffer {
    all: Arc<SharedBuffers>,
    range: Range<usize>,
}

/// The daemon's side.
#[derive(Debug)]
pub struct SeenBuffers {
    memory: Mapping,
}

record! {
    /// A piece of the data of a request.
    #[derive(Copy)]
    pub struct Placed {
        /// Where it lies.
        pub start: u32,
        /// How long it is.
        pub bytes: u32,
    }
}

impl SharedBuffers {
    /// So many buffers of so many bytes each, all zero. They begin at pages.
    pub fn create<R: Runtime>(
        runtime: &R,
        count: usize,
        bytes: usize,
    ) -> io::Result<(Arc<Self>, Vec<SharedBuffer>)> {
        let each = bytes.next_multiple_of(PAGE_BYTES);
        let total = count.checked_mul(each).filter(|total| *total <= BYTES_MAX);
        let total = total.ok_or(io::ErrorKind::InvalidInput)?;
        let (file, memory) = Mapping::create("pvfs-buffers", total, SealFlags::empty())?;
        let file = runtime.keep(file).and_then(|file| MarkedFile::new(file, runtime.random()));
        let file = file.ok_or(io::ErrorKind::QuotaExceeded)?;
        let all = Arc::new(Self { memory, file });
        let starts = (0..count).map(|index| index * each);
        let buffer = |start| SharedBuffer { all: all.clone(), range: start..start + bytes };
        Ok((all.clone(), starts.map(buffer).collect()))
    }

    /// What daemons are given; nothing any more when the program that we are in has closed it.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.is_there().then(|| self.file.as_fd())
    }

    /// Where these data lie; `None` if some lie elsewhere.
    pub fn places(&self, data: &[&[u8]]) -> Option<Vec<Placed>> {
        let first = self.memory.start().addr().get();
        let placed = data.iter().map(|piece| {
            let start = piece.as_ptr().addr().checked_sub(first)?;
            let is_inside = start + piece.len() <= self.memory.bytes();
            is_inside.then_some(Placed { start: start as u32, bytes: piece.len() as u32 })
        });
        placed.collect()
    }
}

impl SharedBuffer {
    /// Puts the pieces down one after the other; together they must fit.
    pub fn put(&mut self, pieces: &[&[u8]]) {
        fill(self, pieces);
    }
}

impl Deref for SharedBuffer {
    type Target = [u8];
    #[allow(unsafe_code)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped as long as `self.all` lives, is no other buffer's, and daemons only look at it.
        unsafe { self.all.memory.part(self.range.clone()).as_ref() }
    }
}

impl DerefMut for SharedBuffer {
    #[allow(unsafe_code)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; and daemons look only when this process has ended.
        unsafe { self.all.memory.part(self.range.clone()).as_mut() }
    }
}

impl SeenBuffers {
    /// The buffers in this file; an error where there are none.
    pub fn map(file: impl AsFd) -> io::Result<Self> {
        Ok(Self { memory: Mapping::shared(file, BYTES_MAX)? })
    }

    /// The data that lie there, in their order, at most `bytes_max` bytes. The client, which has ended, has no more use
    /// for them; a process that it shared them with may spoil them, as it may any write of that client's.
    #[allow(unsafe_code)]
    pub fn collected(&self, places: &[Placed], bytes_max: usize) -> Option<Vec<u8>> {
        let mut data = Vec::new();
        for Placed { start, bytes } in places {
            let (start, bytes) = (*start as usize, *bytes as usize);
            let is_inside = start + bytes <= self.memory.bytes();
            if !is_inside || data.len() + bytes > bytes_max {
                return None;
            }
            // SAFETY: it is mapped as long as `self` lives, and the seals keep the file from shrinking. It is copied at
            // once: bytes that somebody changes meanwhile are one value or another.
            data.extend_from_slice(unsafe { self.memory.part(start..start + bytes).as_ref() });
        }
        Some(data)
    }
}

/// So many pieces out of the rest of a redo record.
pub(crate) fn read_places(bytes: &[u8], count: u32) -> Option<Vec<Placed>> {
    let mut rest = Reader::new(bytes);
    (0..count).map(|_| Placed::get(&mut rest).ok()).collect()
}

const PAGE_BYTES: usize = 4096;

/// As many buffers as a mount has threads at most, each as long as the longest request.
const BYTES_MAX: usize = 80 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocking::Blocking;

    #[test]
    fn data_are_found_where_they_lie() {
        let (all, mut buffers) = SharedBuffers::create(&Blocking, 3, 5000).unwrap();
        let seen = SeenBuffers::map(all.file().unwrap()).unwrap();
        buffers[0][..4].copy_from_slice(b"else");
        buffers[2][4000..4008].copy_from_slice(b"onetwo45");
        let (one, two) = (&buffers[2][4000..4003], &buffers[2][4003..4006]);
        let places = all.places(&[two, one]).unwrap();
        assert_eq!(places[0], Placed { start: 2 * 8192 + 4003, bytes: 3 });
        assert_eq!(seen.collected(&places, 6), Some(b"twoone".to_vec()));
        assert_eq!(seen.collected(&places, 5), None, "more than there is room for");
        assert_eq!(all.places(&[one, b"elsewhere"]), None);
    }

    #[test]
    fn nothing_outside_is_looked_at() {
        let (all, _buffers) = SharedBuffers::create(&Blocking, 1, 8192).unwrap();
        let seen = SeenBuffers::map(all.file().unwrap()).unwrap();
        let at = |start, bytes| seen.collected(&[Placed { start, bytes }], usize::MAX);
        assert_eq!(at(8000, 192).map(|data| data.len()), Some(192));
        for (start, bytes) in [(8000, 193), (8192, 1), (u32::MAX, 1), (0, u32::MAX)] {
            assert_eq!(at(start, bytes), None, "{start}, {bytes}");
        }
    }

    #[test]
    fn there_is_a_bound() {
        assert!(SharedBuffers::create(&Blocking, 81, 1 << 20).is_err());
        assert!(SharedBuffers::create(&Blocking, usize::MAX, 2).is_err());
    }
}
