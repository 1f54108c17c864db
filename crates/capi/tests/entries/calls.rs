//! Bytes taken as calls of pvfs.h with layouts, partitions, vectors and blocks of any kind, on an ordinary file and where no
//! server is: nothing crashes, what succeeds does what it says, what fails changes nothing that it was not asked to.
//!
//! Arguments are looked at before it is asked whose the file is, so what is found here holds for files of ours.

#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::{null, null_mut};

use libc::iovec;
// Whose functions they are.
use pvfs as _;

#[repr(C)]
#[derive(Clone, Copy)]
struct Xtvec {
    offset: i64,
    len: usize,
}

#[allow(clashing_extern_declarations)]
unsafe extern "C" {
    fn readx(fd: c_int, iov: *const iovec, iovs: usize, xtv: *const Xtvec, xtvs: usize) -> isize;
    fn writex(fd: c_int, iov: *const iovec, iovs: usize, xtv: *const Xtvec, xtvs: usize) -> isize;
    fn pvfs_open(
        path: *const c_char,
        flags: c_int,
        mode: c_uint,
        meta: *mut c_void,
        part: *mut c_void,
    ) -> c_int;
    fn pvfs_open_layout(
        path: *const c_char,
        flags: c_int,
        mode: c_uint,
        layout: *const c_void,
    ) -> c_int;
    fn pvfs_set_blk(
        fd: c_int,
        dimensions: c_int,
        record: i64,
        elements: *const i64,
        blocks: *const i64,
    ) -> c_int;
    fn pvfs_buf_blk(fd: c_int, blocks: *const i64) -> c_int;
    fn pvfs_read_blk(fd: c_int, to: *mut c_void, index: *const i64) -> isize;
    fn pvfs_write_blk(fd: c_int, from: *const c_void, index: *const i64) -> isize;
    fn close_blk(fd: c_int) -> c_int;
}

/// Where no server is asked: paths of ours are known by their prefix only. Before the first call.
pub fn begin() {
    // SAFETY: nobody else uses the environment yet, as the callers see to.
    unsafe {
        std::env::set_var("PVFS_CONFIG", "/nowhere/cluster.toml");
        std::env::set_var("PVFS_PREFIX", "/pvfs");
        std::env::set_var("PVFS_TAB", "/dev/null");
    }
}

/// Makes the calls that the bytes say; how many of them succeeded.
pub fn calls(data: &[u8]) -> u32 {
    let mut bytes = Bytes(data);
    let mut succeeded = 0;
    while !bytes.0.is_empty() {
        let done = match bytes.byte() % 8 {
            0..=4 => vectors(&mut bytes),
            5 => layout(&mut bytes),
            6 => metadata(&mut bytes),
            _ => blocks(&mut bytes),
        };
        succeeded += u32::from(done);
    }
    succeeded
}

/// What is left of the input; zeros behind it.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn number(&mut self) -> i64 {
        i64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    fn below(&mut self, bound: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % bound
    }

    fn either(&mut self) -> bool {
        self.byte() & 1 == 0
    }

    fn rarely(&mut self) -> bool {
        self.byte() >= 240
    }
}

/// A file in memory.
fn ordinary_file() -> File {
    // SAFETY: the name is a live string.
    let fd = unsafe { libc::memfd_create(c"calls".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "memfd_create");
    // SAFETY: the descriptor is new and nobody else's.
    unsafe { File::from_raw_fd(fd) }
}

fn pattern(bytes: usize, salt: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(salt | 1) ^ (at >> 8) as u8).collect()
}

/// A place in memory, if there is one, and how long it is said to be.
type Place = (Option<usize>, usize);

fn vectors(bytes: &mut Bytes<'_>) -> bool {
    let (file, content) = (ordinary_file(), pattern(FILE_BYTES, bytes.byte()));
    file.write_all_at(&content, 0).expect("a file in memory");
    let writes = bytes.either();
    let regions: Vec<Xtvec> = (0..bytes.below(9)).map(|_| region(bytes)).collect();
    let places = places(bytes, &regions);
    let mut memory = pattern(MEMORY_BYTES, bytes.byte());
    let before = memory.clone();
    let (done, is_spoilt) = moved(bytes, &file, &mut memory, &places, &regions, writes);
    let mut after = vec![0; FILE_BYTES];
    file.read_exact_at(&mut after, 0).expect("a file in memory");
    if is_spoilt || !is_right(&places, &regions, writes) {
        assert_eq!(done, -1, "{places:?}");
        assert!(after == content && memory == before, "a call that was refused changed something");
        return false;
    }
    if writes {
        assert!(memory == before, "writex wrote to memory");
        check_written(done, &before, &places, &regions, (content, after));
        return done >= 0;
    }
    assert!(after == content, "readx wrote to the file");
    check_read(done, &content, &places, &regions, (before, memory));
    true
}

fn region(bytes: &mut Bytes<'_>) -> Xtvec {
    Xtvec {
        offset: if bytes.rarely() { bytes.number() } else { bytes.below(2 * FILE_BYTES) as i64 },
        len: if bytes.rarely() { bytes.number() as usize } else { bytes.below(3000) },
    }
}

/// Memory that is often as long as the regions in all, cut anywhere.
fn places(bytes: &mut Bytes<'_>, regions: &[Xtvec]) -> Vec<Place> {
    let mut left = regions.iter().fold(0usize, |sum, one| sum.saturating_add(one.len));
    let mut places: Vec<Place> = Vec::new();
    let mut at = 0usize;
    while left > 0 && places.len() < 8 {
        let len = if places.len() == 7 { left } else { bytes.below(left.min(4000)) + 1 };
        let place = match MEMORY_BYTES.checked_sub(len).filter(|_| !bytes.rarely()) {
            Some(room) if at <= room && !bytes.rarely() => Some(at),
            Some(room) => Some(bytes.below(room + 1)),
            None => None,
        };
        places.push((place, len));
        (at, left) = (at.saturating_add(len).saturating_add(bytes.below(3)), left - len);
    }
    if bytes.rarely() {
        places.push((Some(0), 1));
    }
    places
}

/// Makes the call; what it said, and whether its lists were given wrongly on purpose.
fn moved(
    bytes: &mut Bytes<'_>,
    file: &File,
    memory: &mut [u8],
    places: &[Place],
    regions: &[Xtvec],
    writes: bool,
) -> (isize, bool) {
    let start = memory.as_mut_ptr();
    let piece = |(at, len): &Place| iovec {
        iov_base: at.map_or(null_mut(), |at| start.wrapping_add(at).cast()),
        iov_len: *len,
    };
    let pieces: Vec<iovec> = places.iter().map(piece).collect();
    let (mut iov, mut iovs) = (pieces.as_ptr(), pieces.len());
    let (mut xtv, mut xtvs) = (regions.as_ptr(), regions.len());
    let is_spoilt = match bytes.byte() {
        0..6 => {
            iov = null();
            iovs > 0
        }
        6..12 => {
            xtv = null();
            xtvs > 0
        }
        12..18 => {
            iov = iov.wrapping_byte_add(1);
            iovs > 0
        }
        18..24 => {
            xtv = xtv.wrapping_byte_add(4);
            xtvs > 0
        }
        24..30 => {
            iovs = usize::MAX - usize::from(bytes.byte());
            true
        }
        30..36 => {
            xtvs = usize::MAX / 2 - usize::from(bytes.byte());
            true
        }
        _ => false,
    };
    let fd = file.as_raw_fd();
    // SAFETY: pointers are null, misaligned or to what is live; lists are as long as is said, or longer than any can be.
    let done = unsafe {
        if writes { writex(fd, iov, iovs, xtv, xtvs) } else { readx(fd, iov, iovs, xtv, xtvs) }
    };
    (done, is_spoilt)
}

/// The file has the bytes of the last region that names them; after an error (far away may be too far for a file in
/// memory) it may, and nothing else is changed.
fn check_written(
    done: isize,
    memory: &[u8],
    places: &[Place],
    regions: &[Xtvec],
    (before, after): (Vec<u8>, Vec<u8>),
) {
    let total: usize = regions.iter().map(|one| one.len).sum();
    assert!(done == total as isize || done == -1);
    let flat: Vec<u8> = places.iter().flat_map(|(at, len)| of(memory, *at, *len)).collect();
    let (mut expected, mut touched) = (before, vec![false; FILE_BYTES]);
    let mut from = flat.iter();
    for region in regions {
        for (index, byte) in from.by_ref().take(region.len).enumerate() {
            let at = (region.offset as usize).saturating_add(index);
            if at < FILE_BYTES {
                (expected[at], touched[at]) = (*byte, true);
            }
        }
    }
    let is_wrong = |at: &usize| after[*at] != expected[*at] && (done >= 0 || !touched[*at]);
    assert_eq!((0..FILE_BYTES).find(is_wrong), None, "of the file");
}

/// Memory has what the regions hold, zeros beyond the end, and the count tells how much is before it.
fn check_read(
    done: isize,
    content: &[u8],
    places: &[Place],
    regions: &[Xtvec],
    (mut expected, memory): (Vec<u8>, Vec<u8>),
) {
    let (mut flat, mut within) = (Vec::new(), 0);
    for region in regions {
        for index in 0..region.len {
            let byte = content.get((region.offset as usize).saturating_add(index));
            flat.push(byte.copied().unwrap_or(0));
            within += i32::from(byte.is_some()) as isize;
        }
    }
    assert_eq!(done, within);
    let mut from = flat.into_iter();
    for (at, len) in places {
        let Some(at) = at else { continue };
        expected[*at..at + len].iter_mut().zip(from.by_ref()).for_each(|(to, byte)| *to = byte);
    }
    assert!(memory == expected, "of memory");
}

/// What the header allows.
fn is_right(places: &[Place], regions: &[Xtvec], writes: bool) -> bool {
    let memory: Option<usize> =
        places.iter().try_fold(0usize, |sum, (_, len)| sum.checked_add(*len));
    let file = regions.iter().try_fold(0usize, |sum, one| sum.checked_add(one.len));
    let fits = |one: &Xtvec| {
        let len = i64::try_from(one.len).ok();
        one.offset >= 0 && len.is_some_and(|len| one.offset.checked_add(len).is_some())
    };
    let are_there = places.iter().all(|(at, len)| at.is_some() || *len == 0);
    let mut taken = BTreeMap::new();
    let mut overlap = false;
    for (at, len) in places.iter().filter_map(|(at, len)| Some(((*at)?, *len))) {
        let next = taken.range(at..).next().is_some_and(|(other, _)| *other < at + len);
        let last = taken.range(..at).next_back().is_some_and(|(other, long)| other + long > at);
        overlap |= len > 0 && (next || last);
        if len > 0 {
            taken.insert(at, len);
        }
    }
    let is_counted = memory.is_some_and(|sum| isize::try_from(sum).is_ok());
    memory == file && is_counted && are_there && regions.iter().all(fits) && (writes || !overlap)
}

fn of(memory: &[u8], at: Option<usize>, len: usize) -> Vec<u8> {
    at.map_or(Vec::new(), |at| memory[at..at + len].to_vec())
}

/// A structure of any bytes, aligned or not; or none.
fn structure(bytes: &mut Bytes<'_>, size: usize) -> Option<(Vec<u64>, usize)> {
    if bytes.rarely() {
        return None;
    }
    let mut words = vec![0u64; size.div_ceil(8) + 1];
    let filled = bytes.below(words.len()).min(64);
    words[..filled].iter_mut().for_each(|word| *word = bytes.number() as u64);
    Some((words, usize::from(bytes.rarely())))
}

fn pointer(structure: &mut Option<(Vec<u64>, usize)>) -> *mut c_void {
    let Some((words, aside)) = structure else { return null_mut() };
    words.as_mut_ptr().wrapping_byte_add(*aside).cast()
}

fn layout(bytes: &mut Bytes<'_>) -> bool {
    let path = if bytes.either() { c"/pvfs/laid" } else { c"/nowhere/laid" };
    let mut wished = structure(bytes, LAYOUT_BYTES);
    let flags = libc::O_CREAT | libc::O_RDWR;
    // SAFETY: the path is a live string; the structure is null, misaligned or long enough.
    let opened = unsafe { pvfs_open_layout(path.as_ptr(), flags, 0o600, pointer(&mut wished)) };
    assert_eq!(opened, -1, "there is nothing to be opened");
    false
}

fn metadata(bytes: &mut Bytes<'_>) -> bool {
    let path = if bytes.either() { c"/pvfs/laid" } else { c"/nowhere/laid" };
    let (mut meta, mut part) = (structure(bytes, 20), structure(bytes, 40));
    let flags = libc::O_RDWR | O_META | O_PART;
    let (meta, part) = (pointer(&mut meta), pointer(&mut part));
    // SAFETY: the path is a live string; the structures are null, misaligned or long enough.
    let opened = unsafe { pvfs_open(path.as_ptr(), flags, 0, meta, part) };
    assert_eq!(opened, -1, "there is nothing to be opened");
    false
}

fn blocks(bytes: &mut Bytes<'_>) -> bool {
    let fd = ordinary_file().into_raw_fd();
    let dimensions = c_int::from(bytes.byte() % 20) - 1;
    let any = |bytes: &mut Bytes<'_>| match bytes.rarely() {
        true => bytes.number(),
        false => 1 + bytes.below(4) as i64,
    };
    let record = any(bytes);
    let elements: Vec<i64> = (0..20).map(|_| any(bytes)).collect();
    let counts: Vec<i64> = (0..20).map(|_| any(bytes)).collect();
    let index: Vec<i64> = (0..20).map(|_| any(bytes) - 1).collect();
    // SAFETY: the lists are longer than any number of dimensions that is not refused.
    let set = unsafe { pvfs_set_blk(fd, dimensions, record, elements.as_ptr(), counts.as_ptr()) };
    let used = usize::try_from(dimensions).unwrap_or(0);
    let product = |lists: &[&[i64]]| {
        let mut all = lists.iter().flat_map(|list| list.iter().take(used));
        all.try_fold(1i64, |product, one| product.checked_mul(*one))
    };
    let lists = [&elements[..], &counts];
    let is_array = (1..=16).contains(&used)
        && record > 0
        && lists.iter().all(|list| list.iter().take(used).all(|one| *one > 0))
        && product(&lists).and_then(|records| records.checked_mul(record)).is_some();
    assert_eq!(set == 0, is_array, "{record} {elements:?} {counts:?}");
    let block = product(&lists[..1]).and_then(|one| one.checked_mul(record)).unwrap_or(i64::MAX);
    let mut moved = false;
    if is_array && block <= BLOCK_BYTES_MAX {
        let out = pattern(block as usize, bytes.byte());
        let mut back = vec![0; block as usize];
        if product(&lists[1..]).is_some_and(|blocks| blocks <= 64) {
            // SAFETY: as above.
            assert_eq!(unsafe { pvfs_buf_blk(fd, counts.as_ptr()) }, 0);
        }
        // SAFETY: as above, and memory is as long as a block.
        let (put, got) = unsafe {
            let put = pvfs_write_blk(fd, out.as_ptr().cast(), index.as_ptr());
            (put, pvfs_read_blk(fd, back.as_mut_ptr().cast(), index.as_ptr()))
        };
        let is_one = |(index, count): (&i64, &i64)| (0..*count).contains(index);
        moved = index.iter().zip(&counts).take(used).all(is_one);
        let expected = if moved { block as isize } else { -1 };
        assert_eq!((put, got), (expected, expected), "{elements:?} {counts:?} {index:?}");
        assert!(!moved || back == out, "of a block");
    }
    // SAFETY: a number; the descriptor is ours.
    assert_eq!(unsafe { close_blk(fd) }, 0);
    moved
}

const FILE_BYTES: usize = 20_000;
const MEMORY_BYTES: usize = 30_000;

/// No test waits for a block of a million rows.
const BLOCK_BYTES_MAX: i64 = 4096;

/// `struct pvfs_layout`
const LAYOUT_BYTES: usize = 4376;

/// As in pvfs.h.
const O_META: c_int = 0x1000_0000;
const O_PART: c_int = 0x2000_0000;
