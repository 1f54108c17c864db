//! Clients that keep working while daemons fail, and remember what was acknowledged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pvfs_client::{Blocking, OpenFile, User, block_on};
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{OpenFlags, Target};

use crate::support::{TestCluster, eventually, pattern};

pub const NEW: OpenFlags = OpenFlags::READ.with(OpenFlags::WRITE).with(OpenFlags::CREATE);

pub fn below(user: &User<Blocking>, path: &str) -> Target {
    Target::below(block_on(user.root()).unwrap(), path)
}

pub fn open(user: &User<Blocking>, path: &str) -> OpenFile {
    block_on(user.open_regular(below(user, path), NEW, 0o644, Striping::default())).unwrap()
}

/// Writes a file whole and closes it.
pub fn put(user: &User<Blocking>, path: &str, content: &[u8]) {
    let file = open(user, path);
    block_on(user.write_at(&file, 0, content, false)).unwrap();
    block_on(user.close(file)).unwrap();
}

/// Reads a file whole.
pub fn get(user: &User<Blocking>, path: &str) -> Vec<u8> {
    let flags = OpenFlags::READ;
    let file =
        block_on(user.open_regular(below(user, path), flags, 0, Striping::default())).unwrap();
    let size = block_on(user.stat(below(user, path), true)).unwrap().size;
    let mut content = vec![0; size as usize];
    let got = block_on(user.read_at(&file, 0, &mut content)).unwrap();
    assert_eq!(got, content.len(), "{path} is shorter than its size");
    block_on(user.close(file)).unwrap();
    content
}

/// What a worker has done so far, and when it is to end.
#[derive(Default)]
pub struct Progress {
    done: AtomicU64,
    enough: AtomicBool,
}

impl Progress {
    /// Another step is acknowledged.
    pub fn step(&self) {
        self.done.fetch_add(1, Ordering::SeqCst);
    }

    /// Steps so far.
    pub fn count(&self) -> u64 {
        self.done.load(Ordering::SeqCst)
    }

    /// Waits until `steps` more are done: whoever worked before works again.
    #[track_caller]
    pub fn await_more(&self, steps: u64) {
        let from = self.count();
        eventually("a client goes on", Duration::from_secs(40), || self.count() >= from + steps);
    }

    /// Tells the worker to end.
    pub fn finish(&self) {
        self.enough.store(true, Ordering::SeqCst);
    }

    pub fn is_enough(&self) -> bool {
        self.enough.load(Ordering::SeqCst)
    }
}

/// Ends the workers even when the test fails, so that their scope can end.
pub struct FinishOnDrop<'a>(pub &'a [Progress]);

impl Drop for FinishOnDrop<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(Progress::finish);
    }
}

/// Overwrites the blocks of a file round after round. Each block's content tells the step that wrote it, so that
/// a delayed duplicate of an older write would show.
pub fn overwrite(cluster: &TestCluster, path: &str, progress: &Progress) {
    let user = cluster.user();
    let file = open(&user, path);
    while !progress.is_enough() {
        let step = progress.count();
        let written = block_on(user.write_at(&file, offset(step), &block(path, step), false));
        written.unwrap_or_else(|error| panic!("{path} step {step}: {error}"));
        progress.step();
    }
    block_on(user.close(file)).unwrap();
}

/// Every block has the content of the last step that wrote it.
pub fn verify_overwritten(user: &User<Blocking>, path: &str, progress: &Progress) {
    let (content, steps) = (get(user, path), progress.count());
    for step in steps.saturating_sub(BLOCKS)..steps {
        let at = offset(step) as usize;
        assert!(
            content[at..at + BLOCK_BYTES] == block(path, step)[..],
            "{path} lost step {step} of {steps}"
        );
    }
}

fn offset(step: u64) -> u64 {
    step % BLOCKS * BLOCK_BYTES as u64
}

fn block(path: &str, step: u64) -> Vec<u8> {
    pattern(BLOCK_BYTES, step << 8 | u64::from(path.as_bytes()[0]))
}

const BLOCKS: u64 = 64;
/// Crosses strips at changing places.
const BLOCK_BYTES: usize = 100_000;
