//! Copying in, out and within: a walk that makes directories and finds files, and workers that copy them.
//!
//! ```text
//!   walk ── directories made, links copied ──> files ──> worker: open both, streams of ranges, attributes
//!                                                 \────> worker
//! ```

pub mod file;
pub mod walk;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use pvfs_wire::attr::Striping;
use serde::Serialize;

use crate::cli::exit::Failure;
use crate::connected::Location;

/// What is wished of a copy.
pub struct Wishes {
    /// Mode, owner and times are kept.
    pub preserve: bool,
    /// Files that cannot be written to are replaced.
    pub force: bool,
    /// Files that are there, as large and not older are skipped.
    pub update: bool,
    /// Directories with whatever is in them.
    pub recursive: bool,
    /// Copied data is synced.
    pub sync: bool,
    /// Files at a time.
    pub jobs: usize,
    /// Streams for one big file.
    pub streams: usize,
    /// Bytes in one request.
    pub transfer_bytes: usize,
    /// How new files are striped.
    pub striping: Striping,
    /// The umask.
    pub umask: u32,
}

/// A file to copy.
pub struct Job {
    /// From where.
    pub from: Location,
    /// To where: the file itself, not the directory it goes into.
    pub to: Location,
    /// What it is like.
    pub about: About,
}

/// What is kept of a file or directory besides its data.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// It takes less on disks than its size: only then it is worth asking where its holes are.
    pub has_holes: bool,
    /// Last access, nanoseconds since the epoch.
    pub atime_ns: i64,
    /// Last change, nanoseconds since the epoch.
    pub mtime_ns: i64,
}

/// What was done.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    /// Files copied.
    pub files: u64,
    /// Files skipped because they were there.
    pub skipped: u64,
    /// Their bytes, holes left out.
    pub bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// Those that failed.
    #[serde(skip)]
    pub failures: Vec<Failure>,
}

/// What the workers share.
pub struct Progress {
    bar: ProgressBar,
    files: AtomicU64,
    skipped: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    fn new(shown: bool) -> Self {
        let bar = if shown { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let style = ProgressStyle::with_template(
            "{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {msg} {eta}",
        );
        bar.set_style(style.expect("the template is right"));
        let zero = || AtomicU64::new(0);
        Self { bar, files: zero(), skipped: zero(), bytes: zero() }
    }

    /// So many more bytes are copied.
    pub fn advance(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bar.inc(bytes);
    }

    /// So many bytes are a hole, and stay one.
    pub fn pass_over(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// One more file is copied.
    pub fn finish_file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
    }

    /// A file was there already.
    pub fn skip(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Copies each source to its destination. Failures are collected; everything else is copied.
pub fn copy(pairs: Vec<(Location, Location)>, wishes: &Wishes, shown: bool) -> Outcome {
    let start = Instant::now();
    let progress = Progress::new(shown);
    let mut jobs = VecDeque::new();
    let mut finishing = Vec::new();
    let mut failures = Vec::new();
    for (from, to) in pairs {
        failures.extend(walk::gather(from, to, wishes, &mut jobs, &mut finishing));
    }
    progress.bar.set_length(jobs.iter().map(|job| job.about.size).sum());
    failures.extend(run(jobs, wishes, &progress));
    // Directories get their times and modes last: copying into them changes the one and may need the other.
    failures.extend(finishing.into_iter().rev().filter_map(|end| end().err()));
    progress.bar.finish_and_clear();
    Outcome {
        files: progress.files.load(Ordering::Relaxed),
        skipped: progress.skipped.load(Ordering::Relaxed),
        bytes: progress.bytes.load(Ordering::Relaxed),
        seconds: start.elapsed().as_secs_f64(),
        failures,
    }
}

fn run(jobs: VecDeque<Job>, wishes: &Wishes, progress: &Progress) -> Vec<Failure> {
    let workers = wishes.jobs.min(jobs.len()).max(1);
    let jobs = Mutex::new(jobs);
    let failures = Mutex::new(Vec::new());
    let next = || jobs.lock().expect("workers do not panic").pop_front();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(job) = next() {
                    if let Err(failure) = file::copy(&job, wishes, progress) {
                        failures.lock().expect("workers do not panic").push(failure);
                    }
                }
            });
        }
    });
    failures.into_inner().expect("workers do not panic")
}
