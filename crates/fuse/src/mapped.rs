//! Reading a file through a map, as programs load models: for measuring what the kernel reads ahead then.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// A part of a file, from its beginning, in memory.
pub struct Mapped {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapped {
    /// Maps the first `bytes` bytes. Whoever looks beyond the end of the file is ended by the kernel.
    pub fn new(file: &File, bytes: usize) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: the kernel chooses where, so no memory of anybody else is replaced.
        let start = unsafe { mmap(std::ptr::null_mut(), bytes, protection, flags, file, 0)? };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, bytes })
    }

    /// Copies what is at `offset`.
    pub fn read_at(&self, offset: usize, buffer: &mut [u8]) {
        let end = offset.checked_add(buffer.len());
        assert!(end.is_some_and(|end| end <= self.bytes), "a read beyond what is mapped");
        // SAFETY: the range lies within the map, which lives as long as `self`, and `buffer` is memory of its own.
        // Other processes may change the file, and so what is copied, but any byte is a valid one.
        unsafe {
            let from = self.start.as_ptr().add(offset);
            std::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), buffer.len());
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped by us with this length, and nobody has been given a reference into it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: a map belongs to the whole process; nothing of it is tied to the thread that made it.
unsafe impl Send for Mapped {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_in_the_file_is_in_the_map() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..10_000u32).map(|at| at as u8).collect();
        file.write_all(&content).unwrap();
        let map = Mapped::new(&file, content.len()).unwrap();
        let mut buffer = [0; 300];
        map.read_at(9_700, &mut buffer);
        assert_eq!(buffer[..], content[9_700..]);
    }

    #[test]
    #[should_panic(expected = "beyond what is mapped")]
    fn nothing_is_read_beyond_the_map() {
        let file = tempfile::tempfile().unwrap();
        Mapped::new(&file, 100).unwrap().read_at(60, &mut [0; 50]);
    }
}
