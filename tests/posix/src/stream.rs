//! A random stream of operations on one file, held against an array of bytes.
//!
//! ```text
//!   read write append truncate punch zero reserve copy map seek sync reopen
//!        |                                  |
//!      the file, by one of its names      the array: every answer must be the same
//! ```
//!
//! A file with several names, on several mounts, is closed on the one before it is opened on the next, which is
//! when a mount that caches promises to see what others did.

use std::ops::Range;

use crate::chance::Chance;
use crate::sys::{self, *};

/// What has been done to the file, and what it must be.
pub struct Stream<'a> {
    names: &'a [String],
    /// Which of them it is open by.
    current: usize,
    chance: Chance,
    file: File,
    model: Vec<u8>,
    /// What was done lately, to be told when an answer is wrong.
    story: Vec<String>,
    /// The bytes of the file that are ours; others change the rest meanwhile.
    start: usize,
    end: usize,
}

/// Runs `steps` operations chosen by `seed` on a file that is not there yet.
pub fn run(seed: u64, names: &[String], steps: usize) {
    let file = open(&names[0], O_RDWR | O_CREAT | O_EXCL, 0o644).expect("the file is new");
    let (chance, model, story) = (Chance::new(seed), Vec::new(), Vec::new());
    let mut stream =
        Stream { names, current: 0, chance, file, model, story, start: 0, end: BYTES_MAX };
    for _ in 0..steps {
        stream.step();
    }
    for _ in names {
        stream.reopen();
        stream.compare(0, stream.model.len() + 1);
    }
}

/// Runs operations on bytes of a file that is there and longer, while others use the rest. `anew` also closes and
/// opens it in between.
pub fn run_on_part(seed: u64, name: &str, part: Range<usize>, anew: bool, steps: usize) {
    let Range { start, end } = part;
    let names = [name.to_owned()];
    let file = open(name, O_RDWR, 0).expect("the file is there");
    let (chance, story) = (Chance::new(seed), Vec::new());
    let model = vec![0; end];
    let mut stream = Stream { names: &names, current: 0, chance, file, model, story, start, end };
    for _ in 0..steps {
        stream.step_on_part(anew);
    }
    stream.compare(start, end - start);
}

impl Stream<'_> {
    fn step(&mut self) {
        match self.chance.below(20) {
            0..4 => self.write(),
            4..8 => self.read(),
            8 => self.append(),
            9..11 => self.truncate(),
            11 => self.punch(),
            12 => self.zero(),
            13 => self.reserve(),
            14 => self.copy(),
            15 => self.map_write(),
            16 => self.map_read(),
            17 => self.seek(),
            18 => self.sync(),
            _ => self.reopen(),
        }
        let size = fstat(&self.file).expect("fstat").st_size as usize;
        assert_eq!(size, self.model.len(), "the size, after {}", self.told());
    }

    fn step_on_part(&mut self, anew: bool) {
        match self.chance.below(10) {
            0..3 => self.write(),
            3..5 => self.read(),
            5 => self.punch(),
            6 => self.zero(),
            7 => self.copy(),
            8 => self.map_write(),
            _ if anew => self.reopen(),
            _ => self.map_read(),
        }
    }

    /// A range of the file, short ones and odd edges more often than not.
    fn range(&mut self) -> (usize, usize) {
        let room = self.end - self.start;
        let longest = self.chance.of(&[10, 5_000, 70_000, 300_000]).min(room);
        let bytes = self.chance.below(longest) + 1;
        let offset = match self.chance.below(3) {
            0 => self.chance.below(room / STRIP + 1) * STRIP,
            _ => self.chance.below(room),
        };
        (self.start + offset.min(room - bytes), bytes)
    }

    /// The like, within the file as it is now.
    fn range_within(&mut self) -> Option<(usize, usize)> {
        let (offset, bytes) = self.range();
        let bytes = bytes.min(self.model.len().checked_sub(offset)?);
        (bytes > 0).then_some((offset, bytes))
    }

    fn data(&mut self, bytes: usize) -> Vec<u8> {
        crate::wants::pattern(bytes, self.chance.number())
    }

    fn put(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        self.model.resize(self.model.len().max(end), 0);
        self.model[offset..end].copy_from_slice(data);
    }

    fn write(&mut self) {
        let (offset, bytes) = self.range();
        let data = self.data(bytes);
        self.tell(format!("write {bytes} at {offset}"));
        assert_eq!(pwrite(&self.file, &data, offset as i64), Ok(bytes), "{}", self.told());
        self.put(offset, &data);
    }

    fn read(&mut self) {
        let (offset, bytes) = self.range();
        self.tell(format!("read {bytes} at {offset}"));
        self.compare(offset, bytes);
    }

    fn compare(&self, offset: usize, bytes: usize) {
        let got = pread(&self.file, bytes, offset as i64).expect("pread");
        let start = offset.min(self.model.len());
        let expected = &self.model[start..(offset + bytes).min(self.model.len()).max(start)];
        self.same(&got, expected, offset);
    }

    fn same(&self, got: &[u8], expected: &[u8], offset: usize) {
        assert_eq!(got.len(), expected.len(), "bytes at {offset}, after {}", self.told());
        if let Some(at) = got.iter().zip(expected).position(|(one, other)| one != other) {
            let differ = got.iter().zip(expected).filter(|(one, other)| one != other).count();
            panic!(
                "byte {} is {} and not {}, {differ} differ, after {}",
                offset + at,
                got[at],
                expected[at],
                self.told()
            );
        }
    }

    fn append(&mut self) {
        let bytes = self.chance.below(30_000) + 1;
        if self.model.len() + bytes > self.end {
            return;
        }
        let data = self.data(bytes);
        self.tell(format!("append {bytes}"));
        let log = open(self.name(), O_WRONLY | O_APPEND, 0).expect("open to append");
        assert_eq!(sys::write(&log, &data), Ok(bytes));
        self.put(self.model.len(), &data);
    }

    fn truncate(&mut self) {
        let size = self.chance.below(self.end);
        self.tell(format!("truncate to {size}"));
        match self.chance.below(2) {
            0 => ftruncate(&self.file, size as i64).expect("ftruncate"),
            _ => sys::truncate(self.name(), size as i64).expect("truncate"),
        }
        self.model.resize(size, 0);
    }

    fn punch(&mut self) {
        let (offset, bytes) = self.range();
        self.tell(format!("punch {bytes} at {offset}"));
        let flags = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
        fallocate(&self.file, flags, offset as i64, bytes as i64).expect("punch");
        self.blank(offset, bytes);
    }

    fn zero(&mut self) {
        let (offset, bytes) = self.range();
        let keep = self.chance.below(2) == 0;
        self.tell(format!("zero {bytes} at {offset}, keep size: {keep}"));
        let flags = FALLOC_FL_ZERO_RANGE | if keep { FALLOC_FL_KEEP_SIZE } else { 0 };
        match fallocate(&self.file, flags, offset as i64, bytes as i64) {
            Err(Errno::EOPNOTSUPP) => return, // tmpfs
            done => done.expect("zero"),
        }
        if !keep {
            self.model.resize(self.model.len().max(offset + bytes), 0);
        }
        self.blank(offset, bytes);
    }

    fn blank(&mut self, offset: usize, bytes: usize) {
        let end = (offset + bytes).min(self.model.len());
        self.model[offset.min(end)..end].fill(0);
    }

    fn reserve(&mut self) {
        let (offset, bytes) = self.range();
        let keep = self.chance.below(2) == 0;
        self.tell(format!("reserve {bytes} at {offset}, keep size: {keep}"));
        let flags = if keep { FALLOC_FL_KEEP_SIZE } else { 0 };
        fallocate(&self.file, flags, offset as i64, bytes as i64).expect("reserve");
        if !keep {
            self.model.resize(self.model.len().max(offset + bytes), 0);
        }
    }

    fn copy(&mut self) {
        let Some((from, bytes)) = self.range_within() else { return };
        if !sys::has("copy_file_range") {
            return;
        }
        let to = match self.chance.below(2) {
            // Stripes of one to four iods further on or back: what iods copy by themselves.
            0 => {
                self.start
                    + (from - self.start + self.chance.below(8) * 4 * STRIP)
                        % (self.end - self.start)
            }
            _ => self.range().0,
        };
        let bytes = bytes.min(self.end - to);
        if from.abs_diff(to) < bytes || bytes == 0 {
            return;
        }
        self.tell(format!("copy {bytes} from {from} to {to}"));
        let mut done = 0;
        while done < bytes {
            let (source, target) = ((from + done) as i64, (to + done) as i64);
            let copied = copy_file_range((&self.file, source), (&self.file, target), bytes - done);
            match copied.expect("copy_file_range") {
                0 => panic!("nothing was copied, after {}", self.told()),
                more => done += more,
            }
        }
        let data = self.model[from..from + bytes].to_vec();
        self.put(to, &data);
    }

    fn map_write(&mut self) {
        let Some((offset, bytes)) = self.range_within() else { return };
        if !sys::has("mmap") {
            return;
        }
        let bytes = bytes.min(20_000);
        let data = self.data(bytes);
        self.tell(format!("write {bytes} at {offset} through a map"));
        let map = match Map::shared(&self.file, self.model.len()) {
            // What has no shared maps refuses them, and is held to the rest; cases about maps tell it apart.
            Err(Errno::ENODEV) => return,
            map => map.expect("map"),
        };
        map.set(offset, &data);
        self.put(offset, &data);
        if self.chance.below(2) == 0 {
            map.sync().expect("msync");
        }
    }

    fn map_read(&mut self) {
        let Some((offset, bytes)) = self.range_within() else { return };
        if !sys::has("mmap") {
            return;
        }
        let bytes = bytes.min(20_000);
        self.tell(format!("read {bytes} at {offset} through a map"));
        let map = match Map::shared(&self.file, self.model.len()) {
            Err(Errno::ENODEV) => return,
            map => map.expect("map"),
        };
        self.same(&map.get(offset, bytes), &self.model[offset..offset + bytes], offset);
    }

    /// What is told to be a hole is zeros.
    fn seek(&mut self) {
        let offset = self.chance.below(self.end);
        self.tell(format!("look for data from {offset}"));
        // What was changed through a map is looked for only when it was written.
        fsync(&self.file).expect("fsync");
        let zeros = match lseek(&self.file, offset as i64, SEEK_DATA) {
            Ok(found) => offset..(found as usize),
            Err(errno) => {
                assert_eq!(errno, Errno::ENXIO);
                offset.min(self.model.len())..self.model.len()
            }
        };
        assert!(zeros.end <= self.model.len(), "data at {}, after {}", zeros.end, self.told());
        let skipped = &self.model[zeros];
        assert!(skipped.iter().all(|byte| *byte == 0), "data are a hole, after {}", self.told());
    }

    fn sync(&mut self) {
        self.tell("sync".into());
        fsync(&self.file).expect("fsync");
    }

    /// Goes on with another name of the file.
    fn reopen(&mut self) {
        self.tell("reopen".into());
        let nothing = open("/dev/null", O_RDONLY, 0).expect("/dev/null");
        close(std::mem::replace(&mut self.file, nothing)).expect("close");
        self.current = self.chance.below(self.names.len());
        self.file = open(self.name(), O_RDWR, 0).expect("open again");
        self.tell(format!("opened {}", self.name()));
    }

    /// The name by which it is open now: another mount's changes would be seen at the next open only.
    fn name(&self) -> &str {
        &self.names[self.current]
    }

    fn tell(&mut self, what: String) {
        self.story.push(what);
    }

    fn told(&self) -> String {
        self.story[self.story.len().saturating_sub(12)..].join("; ")
    }
}

/// The usual strip.
const STRIP: usize = 65_536;

const BYTES_MAX: usize = 1_500_000;
