//! Measures the manager's store on the work a name space does, beside the same work on redb alone.
//!
//! `cargo run --release -p pvfs-mgr --example store_bench [FILES [DIRECTORY]]`
//!
//! The rival is what the first design proposed: a group is appended to a log file and applied to
//! redb with `Durability::None`, synced every 64 MiB. Both do the same requests in one run, taking
//! turns; each figure is the median of three. Wall times on a shared machine vary by two: compare
//! within a run, and look at the CPU time.

use pvfs_mgr::store::{
    Batch, DiskStore, Durability, KeyRange, Snapshot, Store, StoreError, StoreOptions, Transaction,
    View,
};
use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};
use rustix::time::{ClockId, clock_gettime};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [mode, kind, files, directory] = arguments.as_slice() {
        let (files, directory) = (files.parse()?, Path::new(directory));
        return if mode == "fill" {
            fill(kind, files, directory)
        } else {
            memory(files, directory)
        };
    }
    let files = arguments.first().map_or(Ok(1_000_000), |files| files.parse())?;
    let parent = arguments.get(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(parent)?;
    println!(
        "{files} files, {} a directory, in {}",
        FILES_PER_DIRECTORY,
        directory.path().display()
    );
    creates(files / 5, directory.path())?;
    strict_creates(directory.path())?;
    reads_from_memory(directory.path())?;
    big(files, directory.path())?;
    restarts(files, directory.path())?;
    run_self(&["memory", "store", &files.to_string()], &directory.path().join("memory"))
}

/// Creates by group size, each in a new store.
fn creates(files: u64, directory: &Path) -> Outcome {
    for group in [1, 8, 32] {
        let mut measured = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for (kind, measured) in KINDS.iter().zip(&mut measured) {
                let place = directory.join(format!("create {kind} {group} {round}"));
                let store = open(kind, &place, Durability::Local)?;
                measured.push(create(&*store, 0..files, group)?);
                drop(store);
                fs::remove_dir_all(&place)?;
            }
        }
        for (kind, measured) in KINDS.iter().zip(measured) {
            report(&format!("create, groups of {group}, {kind}"), measured);
        }
    }
    Ok(())
}

fn strict_creates(directory: &Path) -> Outcome {
    for group in [1, 8, 32, 128] {
        let place = directory.join(format!("strict {group}"));
        let store = open("store", &place, Durability::Strict)?;
        let measured = create(&*store, 0..2_000 * group.min(16), group)?;
        report(&format!("create, groups of {group}, strict"), vec![measured]);
        drop(store);
        fs::remove_dir_all(&place)?;
    }
    Ok(())
}

/// Lookups and listings of what no checkpoint has taken yet.
fn reads_from_memory(directory: &Path) -> Outcome {
    let place = directory.join("memtable");
    let store = DiskStore::open(&place, StoreOptions::default())?;
    create(&store, 0..MEMTABLE_FILES, 32)?;
    assert_eq!(store.status().checkpointed, 0, "all in the memtable");
    println!("memtable: {:?}", store.status());
    reads("memtable", &store, MEMTABLE_FILES)?;
    drop(store);
    Ok(fs::remove_dir_all(&place)?)
}

/// A store of many files: filling it, reading it, emptying a part of it.
fn big(files: u64, directory: &Path) -> Outcome {
    for kind in KINDS {
        let place = directory.join(format!("big {kind}"));
        let store = open(kind, &place, Durability::Local)?;
        let measured = create(&*store, 0..files, 8)?;
        report(&format!("create all, groups of 8, {kind}"), vec![measured]);
        let settled = Timer::start();
        store.settle()?;
        settled.report_once(&format!("last checkpoint, {kind}"), 1);
        println!("{kind}: {} MiB on disk", disk_bytes(&place)? >> 20);
        reads(kind, &*store, files)?;
        report(&format!("delete, groups of 8, {kind}"), vec![delete(&*store, files / 10, 8)?]);
        let scattered = SCATTERED..SCATTERED + files / 2;
        let measured = create(&*store, scattered, 8)?;
        report(&format!("create in random directories, groups of 8, {kind}"), vec![measured]);
    }
    Ok(())
}

/// Opening a store whose process was killed right after its last commit. (The rival's time is
/// redb's alone: its log is not replayed, so it lacks the last files.)
fn restarts(files: u64, directory: &Path) -> Outcome {
    for kind in KINDS {
        let place = directory.join(format!("killed {kind}"));
        fill_and_kill(kind, files, &place)?;
        for which in ["after kill -9", "after a clean stop"] {
            let timer = Timer::start();
            let store = open(kind, &place, Durability::Local)?;
            let survivor = if kind == "store" { files - 1 } else { 0 };
            assert!(store.snapshot().contains(&dentry(survivor))?, "{survivor} is there");
            timer.report_once(&format!("reopen {which}, {files} files, {kind}"), 1);
            store.settle()?;
        }
    }
    Ok(())
}

fn fill_and_kill(kind: &str, files: u64, place: &Path) -> Outcome {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["fill", kind, &files.to_string()])
        .arg(place)
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().ok_or("no output")?;
    let filled = BufReader::new(stdout).lines().any(|line| line.is_ok_and(|line| line == "filled"));
    child.kill()?;
    child.wait()?;
    if filled { Ok(()) } else { Err("the filling process ended".into()) }
}

/// The process that is killed.
fn fill(kind: &str, files: u64, place: &Path) -> Outcome {
    let store = open(kind, place, Durability::Local)?;
    create(&*store, 0..files, 32)?;
    println!("filled");
    std::io::stdout().flush()?;
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}

/// Resident memory, in a process of its own.
fn memory(files: u64, place: &Path) -> Outcome {
    let before = resident_bytes()?;
    let options = StoreOptions {
        log_bytes_max: 1 << 30,
        memtable_bytes_max: 4 << 30,
        ..StoreOptions::default()
    };
    let store = DiskStore::open(&place.join("memtable"), options)?;
    create(&store, 0..files / 4, 8)?;
    let status = store.status();
    let grown = resident_bytes()? - before;
    println!(
        "memtable of {} keys: {} MiB resident, {} MiB by its own count, {} B a key",
        status.memtable_keys,
        grown >> 20,
        status.memtable_bytes >> 20,
        grown / status.memtable_keys as u64
    );
    drop(store);
    let store = DiskStore::open(&place.join("store"), StoreOptions::default())?;
    create(&store, 0..files, 8)?;
    println!("while creating {files} files: {} MiB resident", resident_bytes()? >> 20);
    store.checkpoint()?;
    lookups(&store, files, 200_000)?;
    println!("after the checkpoint and lookups: {} MiB resident", resident_bytes()? >> 20);
    Ok(())
}

// ---- the requests of a name space -----------------------------------------------------------

/// Creates `files` in groups, as a manager does: check that the name is free, read the parent, write
/// the name, the inode, the parent and the reply.
fn create(store: &dyn Subject, files: std::ops::Range<u64>, group: u64) -> Outcome<Measured> {
    let mut run = Run::start(files.end - files.start);
    let mut next = files.start;
    while next < files.end {
        let until = (next + group).min(files.end);
        run.group(|| {
            let snapshot = store.snapshot();
            let mut transaction = Transaction::new(&*snapshot);
            for file in next..until {
                create_one(&mut transaction, file)?;
            }
            store.apply(transaction.into_batch())
        })?;
        next = until;
    }
    Ok(run.end())
}

fn create_one(transaction: &mut Transaction, file: u64) -> Outcome {
    let name = dentry(file);
    if transaction.contains(&name)? {
        return Err(format!("file {file} is there already").into());
    }
    let parent = inode(u64::MAX - directory_of(file));
    let mut attributes = transaction.get(&parent)?.unwrap_or_else(|| vec![1; INODE_BYTES]);
    attributes[..8].copy_from_slice(&file.to_le_bytes());
    transaction.put(name, [2; 20]);
    transaction.put(inode(file), [3; INODE_BYTES]);
    transaction.put(parent, attributes);
    transaction.put(reply(file), [4; 80]);
    Ok(())
}

fn delete(store: &dyn Subject, files: u64, group: u64) -> Outcome<Measured> {
    let mut run = Run::start(files);
    for first in (0..files).step_by(group as usize) {
        run.group(|| {
            let snapshot = store.snapshot();
            let mut transaction = Transaction::new(&*snapshot);
            for file in first..(first + group).min(files) {
                delete_one(&mut transaction, file)?;
            }
            store.apply(transaction.into_batch())
        })?;
    }
    Ok(run.end())
}

fn delete_one(transaction: &mut Transaction, file: u64) -> Outcome {
    let name = dentry(file);
    if !transaction.contains(&name)? {
        return Err(format!("file {file} is not there").into());
    }
    let parent = inode(u64::MAX - directory_of(file));
    let attributes = transaction.get(&parent)?.ok_or("no parent")?;
    transaction.delete(name);
    transaction.delete(inode(file));
    transaction.put(parent, attributes);
    transaction.put(reply(file), [4; 80]);
    Ok(())
}

fn reads(what: &str, store: &dyn Subject, files: u64) -> Outcome {
    let measured: Outcome<Vec<_>> = (0..ROUNDS).map(|_| lookups(store, files, 300_000)).collect();
    report(&format!("lookup, 1 thread, {what}"), measured?);
    let timer = Timer::start();
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            (0..2).map(|_| scope.spawn(|| lookups(store, files, 300_000).is_ok())).collect();
        assert!(readers.into_iter().all(|reader| reader.join().expect("no panic")));
    });
    timer.report_once(&format!("lookup, 2 threads, {what}"), 600_000);
    let (timer, listings) = (Timer::start(), 20);
    for directory in 0..listings {
        let snapshot = store.snapshot();
        let prefix = directory_prefix(directory * 7 % (files / FILES_PER_DIRECTORY).max(1));
        let entries = snapshot.scan(&KeyRange::prefix(&prefix)).collect::<Result<Vec<_>, _>>()?;
        assert!(!entries.is_empty());
    }
    timer.report_once(&format!("listing of {FILES_PER_DIRECTORY}, {what}"), listings);
    Ok(())
}

/// A snapshot and a get each, of random names, every tenth of them missing.
fn lookups(store: &dyn Subject, files: u64, count: u64) -> Outcome<Measured> {
    let run = Run::start(count);
    let mut random = 1_u64;
    for lookup in 0..count {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let present = lookup % 10 != 0;
        let file = (random >> 20) % files + if present { 0 } else { files * 100 };
        let found = store.snapshot().get(&dentry(file))?.is_some();
        assert_eq!(found, present);
    }
    Ok(run.end())
}

/// Names are spread over a directory as hashes are; directories are filled one after the other.
fn dentry(file: u64) -> Vec<u8> {
    let mut key = directory_prefix(directory_of(file));
    key.extend_from_slice(format!("{:020x}.dat", spread(file)).as_bytes());
    key
}

fn directory_of(file: u64) -> u64 {
    if file >= SCATTERED { spread(file) % 199 } else { file / FILES_PER_DIRECTORY }
}

fn spread(file: u64) -> u64 {
    file.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn directory_prefix(directory: u64) -> Vec<u8> {
    let mut key = vec![b'd'];
    key.extend_from_slice(&directory.to_be_bytes());
    key.extend_from_slice(&[0; 8]);
    key
}

fn inode(file: u64) -> Vec<u8> {
    let mut key = vec![b'i'];
    key.extend_from_slice(&file.to_be_bytes());
    key.extend_from_slice(&[0; 8]);
    key
}

/// 64 clients with 16 requests each that may be asked for again.
fn reply(file: u64) -> Vec<u8> {
    let mut key = vec![b'r'];
    key.extend_from_slice(&(file % 1024).to_be_bytes());
    key
}

const INODE_BYTES: usize = 120;
const FILES_PER_DIRECTORY: u64 = 5_000;
/// Files from this number on lie in random directories.
const SCATTERED: u64 = 1 << 40;
const MEMTABLE_FILES: u64 = 100_000;
const ROUNDS: usize = 3;
const KINDS: [&str; 2] = ["store", "redb"];

// ---- what is measured -----------------------------------------------------------------------

/// A store under measurement.
trait Subject: Send + Sync {
    fn snapshot(&self) -> Snapshot;
    fn apply(&self, group: Batch) -> Outcome;
    fn settle(&self) -> Outcome;
}

fn open(kind: &str, place: &Path, durability: Durability) -> Outcome<Box<dyn Subject>> {
    let options = StoreOptions { durability, ..StoreOptions::default() };
    Ok(match kind {
        "store" => Box::new(DiskStore::open(place, options)?),
        _ => Box::new(Rival::open(place)?),
    })
}

impl Subject for DiskStore {
    fn snapshot(&self) -> Snapshot {
        Store::snapshot(self)
    }

    fn apply(&self, group: Batch) -> Outcome {
        self.commit(group)?;
        Ok(())
    }

    fn settle(&self) -> Outcome {
        Ok(self.checkpoint()?)
    }
}

/// A log file and redb without a sync.
struct Rival {
    database: Database,
    log: Mutex<(File, u64)>,
    view: Mutex<Snapshot>,
}

const ENTRIES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");

impl Rival {
    fn open(place: &Path) -> Outcome<Self> {
        fs::create_dir_all(place)?;
        let database = Database::builder()
            .set_cache_size(StoreOptions::default().cache_bytes)
            .create(place.join("state.redb"))?;
        let write = database.begin_write()?;
        write.open_table(ENTRIES)?;
        write.commit()?;
        let view = Mutex::new(RivalView::take(&database)?);
        let log = Mutex::new((File::create(place.join("log"))?, 0));
        Ok(Self { database, log, view })
    }

    fn write(&self, group: &Batch, durability: redb::Durability) -> Outcome {
        let mut write = self.database.begin_write()?;
        write.set_durability(durability)?;
        {
            let mut entries = write.open_table(ENTRIES)?;
            for change in group.changes() {
                let key = change.key.as_slice();
                match &change.value {
                    Some(value) => entries.insert(key, value.as_slice())?,
                    None => entries.remove(key)?,
                };
            }
        }
        write.commit()?;
        *self.view.lock().expect("no panic") = RivalView::take(&self.database)?;
        Ok(())
    }
}

impl Subject for Rival {
    fn snapshot(&self) -> Snapshot {
        self.view.lock().expect("no panic").clone()
    }

    fn apply(&self, group: Batch) -> Outcome {
        let mut log = self.log.lock().expect("no panic");
        let mut record = Vec::new();
        for change in group.changes() {
            record.extend_from_slice(&change.key);
            record.extend_from_slice(change.value.as_deref().unwrap_or_default());
        }
        log.0.write_all(&record)?;
        log.1 += record.len() as u64;
        let full = log.1 > StoreOptions::default().log_bytes_max;
        if full {
            log.0.set_len(0)?;
            log.1 = 0;
        }
        self.write(&group, if full { redb::Durability::Immediate } else { redb::Durability::None })
    }

    fn settle(&self) -> Outcome {
        self.write(&Batch::new(), redb::Durability::Immediate)
    }
}

struct RivalView(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl RivalView {
    fn take(database: &Database) -> Outcome<Snapshot> {
        Ok(Arc::new(Self(database.begin_read()?.open_table(ENTRIES)?)))
    }
}

impl View for RivalView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).expect("readable").map(|value| value.value().to_vec()))
    }

    fn scan<'v>(&'v self, range: &KeyRange) -> pvfs_mgr::store::Scan<'v> {
        let (start, end) = (range.start.as_slice(), range.end.as_deref().unwrap_or(&[0xff; 32]));
        let entries = self.0.range::<&[u8]>(start..end).expect("readable");
        Box::new(entries.map(|entry| {
            let (key, value) = entry.expect("readable");
            Ok((key.value().to_vec(), value.value().to_vec()))
        }))
    }
}

// ---- how it is measured ---------------------------------------------------------------------

/// What one run came to.
struct Measured {
    operations: u64,
    wall: Duration,
    cpu: Duration,
    /// Sorted; empty if single operations were not timed.
    groups: Vec<Duration>,
}

struct Run {
    timer: Timer,
    operations: u64,
    groups: Vec<Duration>,
}

impl Run {
    fn start(operations: u64) -> Self {
        Self { timer: Timer::start(), operations, groups: Vec::new() }
    }

    fn group(&mut self, work: impl FnOnce() -> Outcome) -> Outcome {
        let begun = Instant::now();
        work()?;
        self.groups.push(begun.elapsed());
        Ok(())
    }

    fn end(mut self) -> Measured {
        let (wall, cpu) = self.timer.elapsed();
        self.groups.sort_unstable();
        Measured { operations: self.operations, wall, cpu, groups: self.groups }
    }
}

struct Timer {
    begun: Instant,
    cpu: Duration,
}

impl Timer {
    fn start() -> Self {
        Self { cpu: cpu_time(), begun: Instant::now() }
    }

    fn elapsed(&self) -> (Duration, Duration) {
        (self.begun.elapsed(), cpu_time() - self.cpu)
    }

    fn report_once(self, what: &str, operations: u64) {
        let (wall, cpu) = self.elapsed();
        report(what, vec![Measured { operations, wall, cpu, groups: Vec::new() }]);
    }
}

/// One line: the median run, and of it the CPU of all threads and the time a group took.
fn report(what: &str, mut measured: Vec<Measured>) {
    measured.sort_by_key(|measured| measured.wall);
    let Measured { operations, wall, cpu, groups } = measured.swap_remove(measured.len() / 2);
    let each = |time: Duration| time.as_secs_f64() * 1e6 / operations as f64;
    let rate = operations as f64 / wall.as_secs_f64();
    print!("{what:<52} {rate:>9.0}/s {:>10.2} us {:>10.2} us CPU", each(wall), each(cpu));
    if let Some(longest) = groups.last() {
        let at = |part: usize| groups[(groups.len() - 1) * part / 1000];
        print!("   group p50 {:?} p99 {:?} p99.9 {:?} max {longest:?}", at(500), at(990), at(999));
    }
    println!();
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn resident_bytes() -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? << 10)
}

fn disk_bytes(place: &Path) -> Outcome<u64> {
    use std::os::unix::fs::MetadataExt;
    let blocks: Result<Vec<u64>, std::io::Error> =
        fs::read_dir(place)?.map(|entry| Ok(entry?.metadata()?.blocks())).collect();
    Ok(blocks?.iter().sum::<u64>() * 512)
}

fn run_self(arguments: &[&str], place: &Path) -> Outcome {
    let status = Command::new(std::env::current_exe()?).args(arguments).arg(place).status()?;
    if status.success() { Ok(()) } else { Err("a part of the measurement failed".into()) }
}
