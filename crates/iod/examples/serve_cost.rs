//! What a request costs the daemon without the network: CPU time and wall time per request, by size, for
//! reads, overwrites and fresh writes; and the same writes handed to a worker, for comparison.
//!
//! ```text
//! cargo run --release -p pvfs-iod --example serve_cost -- [directory]
//! ```

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pvfs_iod::{Config, Iod, LocalDisk};
use pvfs_layout::{Dist, Level, Regions};
use pvfs_net::buffer::Pool;
use pvfs_net::service::{ConnectionId, Desk, Peer, Request, Response, Service, Storage, Ticket};
use pvfs_wire::ops::{Access, Hello, Read, Sync, Write};
use pvfs_wire::token::{Capability, Holder, KeyRing, Rights, Session, SessionRights};
use pvfs_wire::{Handle, Header, Operation};

struct Mailbox(Mutex<Sender<Response>>);

impl Desk for Mailbox {
    fn reply(&self, _: ConnectionId, _: &Header, response: Response) {
        // The receiver outlives all requests.
        let _ = self.0.lock().map(|sender| sender.send(response));
    }
}

struct Bench {
    iod: Iod,
    peer: Arc<Peer>,
    session: Arc<Session>,
    ring: KeyRing,
    mailbox: Arc<Mailbox>,
    replies: Receiver<Response>,
    tag: AtomicU64,
}

impl Bench {
    fn new(directory: &Path, write_at_once_bytes_max: usize) -> Self {
        LocalDisk::format(directory, "io0").expect("an empty directory");
        let disk = LocalDisk::open(directory, "io0").expect("the store made just now");
        let ring = KeyRing::new(&[[1; 32]]);
        let config = Config { write_at_once_bytes_max, ..Config::new("io0") };
        let iod = Iod::new(config, Arc::new(disk), ring.clone(), Pool::new());
        let peer = peer(1);
        iod.arrived(&peer, &hello()).expect("any file system is served");
        let rights = SessionRights::NONE;
        let (id, uid, gid, gids, issued, expiry) = (1, 0, 0, Vec::new(), 0, u64::MAX);
        let session = Arc::new(Session { id, uid, gid, gids, rights, issued, expiry });
        let (sender, replies) = channel();
        let mailbox = Arc::new(Mailbox(Mutex::new(sender)));
        Self { iod, peer, session, ring, mailbox, replies, tag: AtomicU64::new(1) }
    }

    fn access(&self, number: u32) -> Access {
        let capability = Capability {
            handle: Handle { fsid: 1, generation: 1, object: u64::from(number) },
            rights: Rights::READ | Rights::WRITE,
            dist: Dist::simple_stripe(64 << 10, 1).expect("a sensible striping"),
            holder: Holder::Session(1),
            layout_epoch: 0,
            expiry: u64::MAX,
        };
        Access { number, token: Some(self.ring.sign_capability(&capability).into()) }
    }

    fn call<O: Operation>(&self, operation: &O, data: &[u8]) -> usize {
        let body = operation.to_bytes();
        let header = Header::request(O::CODE, self.tag.fetch_add(1, SeqCst)).with_body(&body);
        let ticket = Ticket::new(self.peer.connection, header, self.mailbox.clone());
        let (peer, session, body) = (&self.peer, Some(&self.session), &body[..]);
        self.iod.serve(vec![Request {
            peer,
            session,
            header,
            body,
            data,
            storage: Storage::Round,
            ticket,
        }]);
        let response = self.replies.recv().expect("every request is answered");
        assert_eq!(response.status, pvfs_wire::OK);
        response.data.map_or(0, |data| data.len())
    }
}

fn peer(connection: u64) -> Arc<Peer> {
    let connection = ConnectionId(connection);
    Arc::new(Peer { connection, client: 1, lane: 0, address: "here".into() })
}

fn hello() -> Hello {
    let (nonce, software) = ([0; 32], "serve_cost".into());
    let (client, lane, incarnation, fsid) = (1, 0, 1, 0);
    Hello { version_min: 1, version_max: 1, client, lane, incarnation, fsid, nonce, software }
}

/// CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let clock = rustix::time::ClockId::ProcessCPUTime;
    let time = rustix::time::clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Runs `call` so often and prints the median of five.
fn measure(name: &str, bytes: usize, mut call: impl FnMut(u64)) {
    let count = ((64 << 20) / bytes as u64).clamp(64, 20_000);
    let mut runs: Vec<(Duration, Duration)> = Vec::new();
    for run in 0..5 {
        let (wall, cpu) = (Instant::now(), cpu_time());
        (0..count).for_each(|at| call(run * count + at));
        runs.push((wall.elapsed() / count as u32, (cpu_time() - cpu) / count as u32));
    }
    runs.sort_unstable();
    let (wall, cpu) = runs[2];
    let gib_per_s = bytes as f64 / wall.as_secs_f64() / f64::from(1 << 30);
    let (wall_us, cpu_us) = (wall.as_secs_f64() * 1e6, cpu.as_secs_f64() * 1e6);
    println!("{name:34} {wall_us:9.2} us  cpu {cpu_us:9.2} us  {gib_per_s:7.2} GiB/s");
}

fn main() {
    let scratch = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = scratch.join(format!("pvfs-serve-cost-{}", std::process::id()));
    let inline = Bench::new(&directory.join("inline"), usize::MAX);
    let pooled = Bench::new(&directory.join("pooled"), 0);
    for bytes in [4 << 10, 64 << 10, 256 << 10, 1 << 20] {
        measure_size(&inline, &pooled, bytes);
    }
    measure_strided(&inline);
    measure_sync(&inline);
    measure_connections(&inline);
    drop((inline, pooled));
    std::fs::remove_dir_all(&directory).expect("our own directory");
}

fn measure_size(inline: &Bench, pooled: &Bench, bytes: usize) {
    let (kib, data) = (bytes >> 10, vec![7; bytes]);
    let span = (64 << 20) / bytes as u64;
    let known = |number: usize| Access { number: number as u32, token: None };
    for bench in [inline, pooled] {
        for at in 0..span {
            bench.call(&write(bench.access(kib as u32), at, bytes), &data);
        }
        bench.call(&write(bench.access(kib as u32 + 1), 0, bytes), &data);
    }
    measure(&format!("read {kib} KiB"), bytes, |at| {
        let regions = Regions::contiguous(at % span * bytes as u64, bytes as u64).expect("small");
        let got = inline.call(&Read { access: known(kib), slot: 0, regions }, &[]);
        assert_eq!(got, bytes);
    });
    for (bench, how) in [(inline, "inline"), (pooled, "by a worker")] {
        measure(&format!("overwrite {kib} KiB, {how}"), bytes, |at| {
            bench.call(&write(known(kib), at % span, bytes), &data);
        });
        measure(&format!("fresh write {kib} KiB, {how}"), bytes, |at| {
            bench.call(&write(known(kib + 1), at, bytes), &data);
        });
    }
}

fn write(access: Access, at: u64, bytes: usize) -> Write {
    let regions = Regions::contiguous(at * bytes as u64, bytes as u64).expect("a small offset");
    Write { access, slot: 0, regions, sync: false }
}

fn measure_sync(bench: &Bench) {
    measure("write 4 KiB, sync", 1 << 20, |at| {
        let access = bench.access(5);
        bench.call(&write(access.clone(), at % 16, 4096), &[1; 4096]);
        bench.call(&Sync { access }, &[]);
    });
}

fn measure_strided(bench: &Bench) {
    let levels = [Level { stride: 8192, count: 60 }];
    let regions = Regions::strided(0, 1024, &levels).expect("a small access");
    let access = Access { number: 1024, token: None };
    let read = Read { access, slot: 0, regions };
    measure("read 60 blocks of 1 KiB", 60 << 10, |_| {
        bench.call(&read, &[]);
    });
}

fn measure_connections(bench: &Bench) {
    let peers: Vec<Arc<Peer>> = (10..10_010).map(peer).collect();
    let before = resident_bytes();
    for peer in &peers {
        bench.iod.arrived(peer, &hello()).expect("any file system is served");
    }
    println!("a connection: {} bytes", (resident_bytes() - before) / 10_000);
    let before = resident_bytes();
    for number in 10_000..14_000 {
        let regions = Regions::contiguous(0, 1).expect("a small offset");
        bench.call(&Read { access: bench.access(number), slot: 0, regions }, &[]);
    }
    println!("a capability: {} bytes", (resident_bytes() - before) / 4000);
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("proc is mounted");
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("statm has numbers") * 4096
}
