//! What the name space costs per operation, apart from the store's commit.
//!
//! `cargo run --release -p pvfs-mgr --example namespace_cost [files]`: creates, looks up, lists and
//! removes files in one directory, in groups of 32 as the manager does, on a store in a temporary directory.

use std::time::{Duration, Instant};

use pvfs_layout::{IodId, Scheme};
use pvfs_mgr::execute::{Context, Policy, Random, dispatch};
use pvfs_mgr::namespace::{Filesystem, FormatOptions};
use pvfs_mgr::permission::Credentials;
use pvfs_mgr::store::{DiskStore, Store, StoreOptions, Transaction};
use pvfs_wire::attr::{Striping, Time};
use pvfs_wire::ops::*;
use pvfs_wire::token::KeyRing;
use pvfs_wire::{Operation, Wire};

struct Bench {
    store: DiskStore,
    fs: Filesystem,
    policy: Policy,
    keys: KeyRing,
    random: Random,
}

impl Bench {
    /// Runs encoded requests in groups; prints what executing and committing took for each.
    fn run<O: Operation>(&mut self, what: &str, requests: Vec<O>) -> Vec<O::Reply> {
        let bodies: Vec<Vec<u8>> = requests.iter().map(Wire::to_bytes).collect();
        let (mut executing, mut committing) = (Duration::ZERO, Duration::ZERO);
        let mut replies = Vec::new();
        for group in bodies.chunks(GROUP) {
            let start = Instant::now();
            let snapshot = self.store.snapshot();
            let mut tx = Transaction::new(&*snapshot);
            let who = Credentials { uid: 1000, gid: 1000, gids: vec![50], session: 1 };
            for body in group {
                let mut cx = Context {
                    tx: &mut tx,
                    fs: &self.fs,
                    who: &who,
                    client: 1,
                    now: Time { seconds: 1_700_000_000, nanos: 0 },
                    policy: &self.policy,
                    keys: &self.keys,
                    random: &mut self.random,
                    busy: None,
                    left: Vec::new(),
                };
                replies
                    .push(dispatch(O::CODE, body, &mut cx).expect("the bench asks nothing wrong"));
            }
            let batch = tx.into_batch();
            drop(snapshot);
            let executed = Instant::now();
            self.store.commit(batch).expect("the store works");
            executing += executed - start;
            committing += executed.elapsed();
        }
        self.report(what, bodies.len(), executing, committing);
        replies.iter().map(|body| O::Reply::from_bytes(body).expect("own reply")).collect()
    }

    fn report(&self, what: &str, count: usize, executing: Duration, committing: Duration) {
        if what.is_empty() {
            return;
        }
        let count = count as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / count;
        println!(
            "{what:<28} {:8.2} µs executing {:8.2} µs committing",
            each(executing),
            each(committing)
        );
    }
}

fn main() {
    let files: u64 =
        std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = DiskStore::open(directory.path(), StoreOptions::default()).expect("a new store");
    let snapshot = store.snapshot();
    let mut tx = Transaction::new(&*snapshot);
    let options = FormatOptions { mode: 0o777, ..FormatOptions::new(7, 9, [3; 16]) };
    let fs = Filesystem::format(&mut tx, &options, Time::default()).expect("an empty store");
    store.commit(tx.into_batch()).expect("the store works");
    drop(snapshot);
    let (keys, random) = (KeyRing::new(&[[1; 32]]), Random::new(1));
    let root = fs.handle(1);
    let mut bench = Bench { store, fs, policy: policy(), keys, random };
    let at = |i: u64| Target::below(root, format!("directory/file.{i}"));
    let target = Target::below(root, "directory");
    bench.run("mkdir", vec![Mkdir { target, mode: 0o755 }]);
    let flags = OpenFlags::WRITE | OpenFlags::CREATE;
    let striping = Striping::default();
    let opens = (0..files).map(|open| Open {
        target: at(open),
        flags,
        mode: 0o644,
        striping: striping.clone(),
        open,
    });
    bench.run("open, creating", opens.collect());
    let close = |open| Close { opens: vec![ClosedOpen { open, wrote: None }] };
    bench.run("close", (0..files).map(close).collect());
    let stat = |i| Stat { target: at(i), follow: true, placement: false };
    let stated = bench.run("stat", (0..files).map(stat).collect());
    assert_eq!(stated.len() as u64, files);
    list(&mut bench, root);
    let rename = |i: u64| Rename {
        from: at(i),
        to: Target::below(root, format!("directory/renamed.{i}")),
        flags: RenameFlags::NONE,
    };
    bench.run("rename", (0..files).map(rename).collect());
    let unlink = |i: u64| Unlink { target: Target::below(root, format!("directory/renamed.{i}")) };
    bench.run("unlink", (0..files).map(unlink).collect());
}

fn list(bench: &mut Bench, root: pvfs_wire::Handle) {
    let target = Target::below(root, "directory");
    let stat = Stat { target, follow: true, placement: false };
    let dir = bench.run("", vec![stat])[0].attr.handle;
    for attributes in [false, true] {
        let start = Instant::now();
        let (mut cookie, mut count) = (0, 0);
        loop {
            let readdir = Readdir { dir, cookie, entries_max: 4096, attributes };
            let page = bench.run("", vec![readdir]).remove(0);
            count += page.entries.len();
            cookie = page.entries.last().map_or(cookie, |entry| entry.cookie);
            if page.end {
                break;
            }
        }
        println!("listing {count} entries, attributes {attributes}: {:?}", start.elapsed());
    }
}

fn policy() -> Policy {
    Policy {
        scheme: Scheme::default(),
        pcount: None,
        iods: (0..4).map(IodId).collect(),
        free_bytes: vec![1 << 40; 4],
        capability_lifetime_s: 600,
        objects_free: 1 << 30,
        map: ClusterMap {
            version: 1,
            filesystem: "bench".into(),
            iods: Vec::new(),
            dist: Scheme::default().to_string(),
            pcount: 4,
            ssize: 64 << 10,
        },
    }
}

/// Requests in one group, as with 32 clients at once.
const GROUP: usize = 32;
