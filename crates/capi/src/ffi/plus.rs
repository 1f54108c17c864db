//! Names with attributes: getdents_plus and getdents_plus_lite.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};
use std::mem::offset_of;

use libc::{dirent64, stat64};
use pvfs_client::{LiteMask, PlusEntry};
use pvfs_posix::c::answer::{errno, fail};
use pvfs_posix::c::stat::{stat_of, type_bits};
use pvfs_posix::{Process, Reach};
use pvfs_wire::Errno;

use super::lite::{StatLite, wanted};
use crate::export;
use crate::ffi::arguments::check_pointer;
use crate::ffi::route::at_descriptor;

/// `struct dirent_plus` or, with the other attributes, `struct dirent_plus_lite`.
#[repr(C)]
pub struct Plus<A> {
    attributes: A,
    d_stat_err: i32,
    d_reclen: u16,
    d_type: u8,
    d_ino: u64,
    d_off: i64,
    d_name: [c_char; 256],
}

/// What a record has to say, whatever its form.
struct Named<A> {
    attributes: Result<A, Errno>,
    kind: u8,
    object: u64,
    position: i64,
}

export! {
    /// Names with all attributes.
    fn getdents_plus(fd: c_int, entries: *mut Plus<stat64>, count: c_uint) -> c_int {
        let real = || ordinary(fd, entries, count, |full| *full);
        at_descriptor(fd, real, |process| {
            ours(process, fd, entries, count, LiteMask::ALL, |entry| {
                entry.attr.map(|lite| stat_of(&lite.attr))
            })
        })
    }
    /// Names with the attributes of a mask.
    fn getdents_plus_lite(fd: c_int, mask: c_ulong, entries: *mut Plus<StatLite>, count: c_uint) -> c_int {
        let wanted = match wanted(mask) {
            Ok(wanted) => wanted,
            Err(errno) => return fail(errno),
        };
        let real = || ordinary(fd, entries, count, StatLite::exact);
        at_descriptor(fd, real, |process| {
            ours(process, fd, entries, count, wanted, |entry| {
                entry.attr.map(|lite| StatLite::of(&lite))
            })
        })
    }
}

/// # Safety
///
/// `entries` is null, misaligned or has `count` bytes of room.
unsafe fn ours<A>(
    process: &Process,
    fd: c_int,
    entries: *mut Plus<A>,
    count: c_uint,
    wanted: LiteMask,
    attributes: impl Fn(&PlusEntry) -> Result<A, Errno>,
) -> Reach<c_int> {
    check_pointer(entries)?;
    let room = room(count);
    let mut used = 0;
    let mut is_short = false;
    let entries_max = room / record_bytes::<A>(1) + 1;
    process.entries_plus(fd, entries_max as u32, wanted, |entry| {
        let named = Named {
            attributes: attributes(entry),
            kind: (type_bits(entry.kind) >> 12) as u8,
            object: entry.handle.object,
            position: entry.cookie as i64,
        };
        // SAFETY: the caller's promise.
        let put = unsafe { put(entries, used, room, &entry.name, &named) };
        is_short = put.is_none();
        used += put.unwrap_or(0);
        put.is_some()
    })?;
    if used == 0 && is_short {
        return Err(Errno::EINVAL.into());
    }
    Ok(used as c_int)
}

/// The like for a directory that is not ours: each entry is looked at by itself.
///
/// # Safety
///
/// `entries` is null, misaligned or has `count` bytes of room.
unsafe fn ordinary<A>(
    fd: c_int,
    entries: *mut Plus<A>,
    count: c_uint,
    attributes: impl Fn(&stat64) -> A,
) -> c_int {
    if pvfs_posix::shared::identity(fd).is_none() || fd < 0 {
        return fail(Errno::EBADF);
    }
    if let Err(errno) = check_pointer(entries) {
        return fail(errno);
    }
    let room = room(count);
    let mut used = 0;
    let mut page = vec![0u64; PAGE_WORDS];
    loop {
        let (start, bytes): (*mut c_void, _) = (page.as_mut_ptr().cast(), PAGE_WORDS * 8);
        // SAFETY: there is that much room in the page.
        let got = unsafe { libc::syscall(libc::SYS_getdents64, fd, start, bytes) };
        let Ok(got) = usize::try_from(got) else {
            return if used > 0 { used as c_int } else { -1 };
        };
        let mut at = 0;
        while at < got {
            // SAFETY: the kernel has put whole records there, aligned to words.
            let (entry, name) = unsafe {
                let entry = start.cast::<u8>().add(at).cast::<dirent64>();
                (&raw const *entry, std::ffi::CStr::from_ptr((&raw const (*entry).d_name).cast()))
            };
            // SAFETY: as above.
            let (length, kind, object, position) =
                unsafe { ((*entry).d_reclen, (*entry).d_type, (*entry).d_ino, (*entry).d_off) };
            at += usize::from(length);
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // SAFETY: it is numbers, for which zeros are valid.
            let mut full: stat64 = unsafe { std::mem::zeroed() };
            // SAFETY: the name is a C string and there is room for the answer.
            let stated = unsafe {
                libc::fstatat64(fd, name.as_ptr(), &raw mut full, libc::AT_SYMLINK_NOFOLLOW)
            };
            let attributes = if stated == 0 { Ok(attributes(&full)) } else { Err(errno()) };
            let named = Named { attributes, kind, object, position };
            // SAFETY: the caller's promise.
            match unsafe { put(entries, used, room, name.to_bytes(), &named) } {
                Some(bytes) => {
                    used += bytes;
                    // SAFETY: a question to the kernel.
                    unsafe { libc::lseek(fd, position, libc::SEEK_SET) };
                }
                None if used == 0 => {
                    rewind(fd, at - usize::from(length), &page);
                    return fail(Errno::EINVAL);
                }
                None => return used as c_int,
            }
        }
        if got == 0 {
            return used as c_int;
        }
    }
}

/// Puts a record behind those that are there; nothing where it does not fit.
///
/// # Safety
///
/// From `entries` on there are `room` bytes, aligned for a record.
unsafe fn put<A>(
    entries: *mut Plus<A>,
    used: usize,
    room: usize,
    name: &[u8],
    named: &Named<A>,
) -> Option<usize> {
    let bytes = record_bytes::<A>(name.len());
    if name.len() > NAME_MAX || room - used < bytes {
        return None;
    }
    // SAFETY: the record lies within the room, as was just seen, and is aligned since all are as long as words;
    // its fields are written one by one, since the last of them is shorter than its type says.
    unsafe {
        let record = entries.cast::<u8>().add(used).cast::<Plus<A>>();
        record.cast::<u8>().write_bytes(0, bytes);
        if let Ok(attributes) = &named.attributes {
            (&raw mut (*record).attributes).copy_from_nonoverlapping(attributes, 1);
        }
        let error = named.attributes.as_ref().err();
        (&raw mut (*record).d_stat_err).write(error.map_or(0, |errno| errno.0 as i32));
        (&raw mut (*record).d_reclen).write(bytes as u16);
        (&raw mut (*record).d_type).write(named.kind);
        (&raw mut (*record).d_ino).write(named.object);
        (&raw mut (*record).d_off).write(named.position);
        let to: *mut u8 = (&raw mut (*record).d_name).cast();
        to.copy_from_nonoverlapping(name.as_ptr(), name.len());
    }
    Some(bytes)
}

/// What a record takes with a name of so many bytes and its zero.
fn record_bytes<A>(name_bytes: usize) -> usize {
    (offset_of!(Plus<A>, d_name) + name_bytes + 1).next_multiple_of(align_of::<Plus<A>>())
}

/// The result is an int.
fn room(count: c_uint) -> usize {
    count.min(c_int::MAX as c_uint) as usize
}

/// Gives back what did not fit: the directory goes on with the entry at this place in the page.
fn rewind(fd: c_int, at: usize, page: &[u64]) {
    let page: *const u8 = page.as_ptr().cast();
    // The entry before it says where it is; before the first there is the beginning.
    let mut before = 0;
    let mut position = 0;
    while before < at {
        // SAFETY: whole records lie before `at`.
        let entry = unsafe { &raw const *page.add(before).cast::<dirent64>() };
        // SAFETY: as above.
        (before, position) = unsafe { (before + usize::from((*entry).d_reclen), (*entry).d_off) };
    }
    // SAFETY: a question to the kernel.
    unsafe { libc::lseek(fd, position, libc::SEEK_SET) };
}

/// As on Linux.
const NAME_MAX: usize = 255;

/// 4 KiB, aligned for records.
const PAGE_WORDS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_lie_end_to_end_and_none_is_cut() {
        let mut room = [0u64; 64];
        let named = |position| Named { attributes: Ok(7u64), kind: 8, object: 5, position };
        let entries: *mut Plus<u64> = room.as_mut_ptr().cast();
        let limit = 2 * record_bytes::<u64>(3) + record_bytes::<u64>(0);
        // SAFETY: the room is longer than the limit.
        let put = |used, name: &[u8], position| unsafe {
            put(entries, used, limit, name, &named(position))
        };
        let first = put(0, b"abc", 1).unwrap();
        let second = put(first, b"de", 2).unwrap();
        assert_eq!(put(first + second, b"a longer name than there is room for", 3), None);
        // SAFETY: both were put there.
        let (one, two) = unsafe { (&*entries, &*entries.byte_add(first)) };
        assert_eq!(
            (usize::from(one.d_reclen), one.d_name[..4].to_vec()),
            (first, vec![97, 98, 99, 0])
        );
        assert_eq!((two.d_off, two.d_ino, two.d_stat_err, two.attributes), (2, 5, 0, 7));
    }
}
