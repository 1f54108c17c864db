//! Clients that are killed: what they were writing is there as a whole or not at all, request by request (contract F1).

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pvfs_cli::connected::Connected;
use pvfs_client::{Options, block_on};
use pvfs_config::Cluster;

use crate::support::{TestCluster, can_mount, eventually};
use crate::writer::{get, open};

/// What one process writes at once, and what of that goes to each of two iods in one request.
const WINDOW_BYTES: usize = 1 << 20;
const STRIP_BYTES: usize = 64 << 10;
const WINDOWS: u64 = 3;
const IODS: usize = 2;

/// Until an iod has noticed that a client is gone, and done what was left of it, on a busy machine.
const NOTICED: Duration = Duration::from_secs(5);

#[test]
fn who_is_killed_in_the_middle_of_writes_leaves_each_done_or_not_begun() {
    let cluster = TestCluster::start(IODS as u32);
    fill_page_by_page(&cluster);
    let begun = Instant::now();
    for round in 1..=40 {
        let mut writer = start_writer(&cluster, round);
        // Long enough to borrow the objects, and at another moment each time.
        thread::sleep(Duration::from_micros(60_000 + round * 7_919 % 20_000));
        writer.kill().unwrap();
        let status = writer.wait().unwrap();
        assert_eq!(status.code(), None, "round {round}: it ended by itself");
        check(&cluster, round);
    }
    let spent = begun.elapsed();
    assert!(redone(&cluster) > 0, "nobody was killed in the middle of a write, in {spent:?}");
}

/// A mount writes from where the kernel has put the data, without a copy on its tray.
#[test]
fn a_mount_that_is_killed_in_the_middle_of_writes_leaves_each_done_or_not_begun() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::start(IODS as u32);
    fill_page_by_page(&cluster);
    for round in 1..=60 {
        let path = cluster.mount("mnt").join("file");
        // Only written, it goes past the kernel's pages.
        let file = File::options().write(true).open(path).unwrap();
        thread::scope(|scope| {
            let writing = scope.spawn(move || write_until_it_fails(round, &file));
            thread::sleep(Duration::from_micros(60_000 + round * 7_919 % 20_000));
            cluster.shell("pkill -KILL -f \"pvfs mount $MNT --background\"").succeeds();
            writing.join().unwrap();
        });
        cluster.shell("pvfs umount $MNT").succeeds();
        check(&cluster, round);
        if round >= 8 && redone(&cluster) > 0 {
            return;
        }
    }
    panic!("no mount was killed in the middle of a write");
}

/// Writes windows as [`a_writer_until_it_is_killed`] does, from whole pages of memory, so that the kernel makes one
/// request of each.
fn write_until_it_fails(round: u64, file: &File) {
    let mut memory = vec![0; WINDOW_BYTES + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let aligned = &mut memory[start..start + WINDOW_BYTES];
    for step in 0.. {
        let (content, offset) = window(round, step);
        aligned.copy_from_slice(&content);
        if file.write_all_at(aligned, offset).is_err() {
            return;
        }
    }
}

/// Writes that iods have done in the place of clients that were killed.
fn redone(cluster: &TestCluster) -> u64 {
    let status = cluster.shell("pvfs status --json").json();
    let servers = status["servers"].as_array().unwrap();
    let redone = |server: &serde_json::Value| server["figures"]["redone_writes_total"].as_u64();
    servers.iter().filter_map(redone).sum()
}

/// What is written in a step, and where.
fn window(round: u64, step: u64) -> (Vec<u8>, u64) {
    let content = (round << 32 | step).to_le_bytes().repeat(WINDOW_BYTES / 8);
    (content, step % WINDOWS * WINDOW_BYTES as u64)
}

/// So that the kernel keeps it in single pages, and a write of it can be cut at each.
fn fill_page_by_page(cluster: &TestCluster) {
    let user = cluster.user_with(|options| options.borrows = false);
    let file = open(&user, "file");
    for page in 0..WINDOWS * WINDOW_BYTES as u64 / 4096 {
        block_on(user.write_at(&file, page * 4096, &[0; 4096], false)).unwrap();
    }
    block_on(user.close(file)).unwrap();
}

fn start_writer(cluster: &TestCluster, round: u64) -> Child {
    let mut writer = Command::new(std::env::current_exe().unwrap());
    writer.args(["--ignored", "--exact", "deaths::a_writer_until_it_is_killed"]);
    writer.env("PVFS_CONFIG", cluster.root().join("cluster.toml"));
    writer.env("PVFS_TEST_ROUND", round.to_string());
    writer.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// What each iod holds of each window is of one step, as soon as the iods have noticed that the writer is gone.
fn check(cluster: &TestCluster, round: u64) {
    let user = cluster.user_with(|options| options.borrows = false);
    eventually(&format!("round {round} is whole"), NOTICED, || {
        let torn = torn(&get(&user, "file"));
        torn.iter().for_each(|(window, iod, steps)| {
            eprintln!("round {round}, window {window}, iod {iod}: {steps:x?}");
        });
        torn.is_empty()
    });
}

/// Windows of which an iod holds parts of several steps: which, of which iod, and the steps.
fn torn(content: &[u8]) -> Vec<(usize, usize, Vec<u64>)> {
    let mut torn = Vec::new();
    for (window, content) in content.chunks(WINDOW_BYTES).enumerate() {
        for iod in 0..IODS {
            let strips = content.chunks(STRIP_BYTES).skip(iod).step_by(IODS);
            let words = strips.flat_map(|strip| strip.chunks(8));
            let mut steps: Vec<u64> =
                words.map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
            steps.dedup();
            if steps.len() > 1 {
                torn.push((window, iod, steps));
            }
        }
    }
    torn
}

/// Writes windows whose words tell who wrote them, and when.
#[test]
#[ignore = "is run by the test above, as a process of its own"]
fn a_writer_until_it_is_killed() {
    let path = std::env::var("PVFS_CONFIG").expect("it is not meant to be run by hand");
    let round: u64 = std::env::var("PVFS_TEST_ROUND").unwrap().parse().unwrap();
    let cluster = Cluster::load(path.as_ref()).unwrap();
    let mut options = Options::of(&cluster);
    options.request_bytes_max = WINDOW_BYTES as u64;
    let connected = Connected::with(cluster, options)
        .unwrap_or_else(|failure| panic!("{}", failure.sentence()));
    let file = open(&connected.user, "file");
    for step in 0.. {
        let (content, offset) = window(round, step);
        block_on(connected.user.write_at(&file, offset, &content, false)).unwrap();
    }
}
