//! Names in a directory as getdents64(2) gives them.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::slice;

use libc::dirent64;
use pvfs_wire::Errno;

use super::stat::type_bits;
use crate::{From, Item, Process, Reach};

/// Fills memory with entries from the directory's position on, and moves that; EINVAL where not one fits.
pub fn entries(process: &Process, fd: c_int, to: &mut [u8]) -> Reach<usize> {
    let mut stream = process.stream(fd)?;
    stream.seek(process.seek(fd, From::Here, 0)?);
    stream.expect((to.len() / ENTRY_BYTES).max(1));
    let mut used = 0;
    while let Some(item) = process.next_item(&mut stream)? {
        let entry = entry_of(&item);
        let length = usize::from(entry.d_reclen);
        let Some(room) = to.get_mut(used..used + length) else {
            if used == 0 {
                return Err(Errno::EINVAL.into());
            }
            break;
        };
        room.copy_from_slice(&bytes_of(&entry)[..length]);
        used += length;
        process.seek(fd, From::Start, item.position as i64)?;
    }
    Ok(used)
}

/// A name as `struct dirent64` has it.
pub fn entry_of(item: &Item) -> dirent64 {
    // SAFETY: an entry is numbers, for which zeros are valid.
    let mut entry: dirent64 = unsafe { std::mem::zeroed() };
    entry.d_ino = item.object;
    entry.d_off = item.position as i64;
    entry.d_reclen = (NAME_AT + item.name.len() + 1).next_multiple_of(8) as u16;
    entry.d_type = (type_bits(item.kind) >> 12) as u8;
    for (to, from) in entry.d_name.iter_mut().zip(&item.name) {
        *to = *from as c_char;
    }
    entry
}

fn bytes_of(entry: &dirent64) -> &[u8] {
    // SAFETY: it was made of zeros, padding and all, and is numbers.
    unsafe { slice::from_raw_parts((&raw const *entry).cast(), size_of::<dirent64>()) }
}

const NAME_AT: usize = std::mem::offset_of!(dirent64, d_name);

/// The shortest there can be.
const ENTRY_BYTES: usize = (NAME_AT + 2).next_multiple_of(8);
