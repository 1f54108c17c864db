//! What the reactor costs: request-reply over TCP against a bare socket program that moves the same
//! bytes, interleaved in one run. Rates, CPU time (both ends) per request, and the ratios.
//!
//! `cargo run --release -p pvfs-net --example echo_bench [seconds per measurement [threads [shape]]]`

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pvfs_net::buffer::Pool;
use pvfs_net::endpoint::Endpoint;
use pvfs_net::gate::{Doorman, Limits, Rules, Security};
use pvfs_net::reactor::Daemon;
use pvfs_net::service::{Departure, Peer, Reception, Request, Response, Service};
use pvfs_wire::header::checksum;
use pvfs_wire::ops::{Auth, Hello, Welcome};
use pvfs_wire::token::{Credential, KeyRing, Session, SessionRights, client_proof};
use pvfs_wire::{Errno, HEADER_BYTES, Header, OK, Operation, VERSION, Wire};
use rustix::time::{ClockId, clock_gettime};

/// How much goes which way.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    request_data_bytes: usize,
    reply_data_bytes: usize,
    pipelined: usize,
}

const SHAPES: [Shape; 6] = [
    Shape { name: "read 4 KiB", request_data_bytes: 0, reply_data_bytes: 4096, pipelined: 1 },
    Shape { name: "write 4 KiB", request_data_bytes: 4096, reply_data_bytes: 0, pipelined: 1 },
    Shape { name: "read 4 KiB x16", request_data_bytes: 0, reply_data_bytes: 4096, pipelined: 16 },
    Shape { name: "read 64 KiB", request_data_bytes: 0, reply_data_bytes: 65_536, pipelined: 1 },
    Shape { name: "read 1 MiB", request_data_bytes: 0, reply_data_bytes: 1 << 20, pipelined: 1 },
    Shape { name: "write 1 MiB", request_data_bytes: 1 << 20, reply_data_bytes: 0, pipelined: 1 },
];

const REQUEST_BODY_BYTES: usize = 48;
const REPLY_BODY_BYTES: usize = 8;
const OPERATION: u16 = 0x0300;

/// Answers with as much data as the request's first eight bytes say.
struct Giver(Pool);

impl Service for Giver {
    fn arrived(&self, _: &Arc<Peer>, _: &Hello) -> Result<Reception, Errno> {
        Ok(Reception::default())
    }
    fn departed(&self, _: &Arc<Peer>, _: Departure) {}
    fn serve(&self, round: Vec<Request<'_>>) {
        for request in round {
            let bytes = u64::from_le_bytes(request.body[..8].try_into().expect("a body")) as usize;
            let data = (bytes > 0).then(|| self.0.take(bytes));
            let body = vec![0; REPLY_BODY_BYTES];
            request.ticket.reply(Response {
                status: OK,
                body,
                data: data.map(Into::into),
                files: Vec::new(),
                leased_ms: 0,
            });
        }
    }
    fn tick(&self) {}
}

fn main() {
    let seconds = std::env::args().nth(1).map_or(0.5, |text| text.parse().expect("seconds"));
    let time = Duration::from_secs_f64(seconds);
    let (daemon, credential) = start_daemon();
    println!("{:<16} lanes     bare/s     pvfs/s  ratio  bare µs  pvfs µs  ratio", "");
    let only = std::env::args().nth(3).unwrap_or_default();
    for shape in SHAPES.into_iter().filter(|shape| shape.name.contains(&only)) {
        for lanes in [1, 4] {
            let mut bare = Vec::new();
            let mut ours = Vec::new();
            for _ in 0..11 {
                bare.push(measure(lanes, time, || bare_client(shape)));
                ours.push(measure(lanes, time, || our_client(shape, &daemon, &credential)));
            }
            print_row(shape.name, lanes, summary(bare), summary(ours));
        }
    }
    daemon.stop(Duration::from_secs(1));
}

fn print_row(name: &str, lanes: usize, bare: (f64, f64), ours: (f64, f64)) {
    println!(
        "{name:<16} {lanes:>5} {:>10.0} {:>10.0} {:>6.2} {:>8.2} {:>8.2} {:>6.2}",
        bare.0,
        ours.0,
        ours.0 / bare.0,
        bare.1,
        ours.1,
        ours.1 / bare.1
    );
}

/// The median rate, and the least CPU time: what others on the machine disturbed least.
fn summary(mut all: Vec<(f64, f64)>) -> (f64, f64) {
    all.sort_by(|left, right| left.0.total_cmp(&right.0));
    let least = all.iter().map(|one| one.1).fold(f64::INFINITY, f64::min);
    (all[all.len() / 2].0, least)
}

/// Requests per second, and CPU microseconds of the whole process per request.
fn measure(lanes: usize, time: Duration, connect: impl Fn() -> Exchange) -> (f64, f64) {
    let clients: Vec<Exchange> = (0..lanes).map(|_| connect()).collect();
    let done = AtomicBool::new(false);
    let count = AtomicU64::new(0);
    let (cpu, start) = (cpu_time(), Instant::now());
    std::thread::scope(|scope| {
        for mut client in clients {
            let (done, count) = (&done, &count);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    count.fetch_add(client.run(), Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(time);
        done.store(true, Ordering::Relaxed);
    });
    let count = count.into_inner() as f64;
    let used = (cpu_time() - cpu).as_secs_f64();
    (count / start.elapsed().as_secs_f64(), used * 1e6 / count)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A client that sends the same bytes again and again, and reads the replies.
struct Exchange {
    stream: TcpStream,
    requests: Vec<u8>,
    replies: Vec<u8>,
    shape: Shape,
    header: Option<Header>,
}

impl Exchange {
    fn new(stream: TcpStream, shape: Shape, header: Option<Header>) -> Self {
        stream.set_nodelay(true).expect("a socket");
        let request = HEADER_BYTES + REQUEST_BODY_BYTES + shape.request_data_bytes;
        let reply = HEADER_BYTES + REPLY_BODY_BYTES + shape.reply_data_bytes;
        let mut requests = vec![0; request * shape.pipelined];
        let replies = vec![0; reply * shape.pipelined];
        for frame in requests.chunks_mut(request) {
            frame[HEADER_BYTES..HEADER_BYTES + 8]
                .copy_from_slice(&(shape.reply_data_bytes as u64).to_le_bytes());
        }
        Self { stream, requests, replies, shape, header }
    }

    fn run(&mut self) -> u64 {
        self.write_headers();
        self.stream.write_all(&self.requests).expect("the server lives");
        self.stream.read_exact(&mut self.replies).expect("the server answers");
        self.shape.pipelined as u64
    }

    fn write_headers(&mut self) {
        let Some(header) = &mut self.header else { return };
        let bytes = HEADER_BYTES + REQUEST_BODY_BYTES + self.shape.request_data_bytes;
        for frame in self.requests.chunks_mut(bytes) {
            header.tag += 1;
            let (head, rest) = frame.split_at_mut(HEADER_BYTES);
            let (body, data) = rest.split_at(REQUEST_BODY_BYTES);
            let mut header = header.with_body(body);
            header.data_bytes = data.len() as u32;
            header.data_crc = Some(checksum(data));
            head.copy_from_slice(&header.encode());
        }
    }
}

/// A client of a thread that reads requests and writes replies, and does nothing else.
fn bare_client(shape: Shape) -> Exchange {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the client comes");
        let mut server = Exchange::new(stream, shape, None);
        while server.stream.read_exact(&mut server.requests).is_ok() {
            if server.stream.write_all(&server.replies).is_err() {
                return;
            }
        }
    });
    Exchange::new(TcpStream::connect(address).expect("it listens"), shape, None)
}

fn our_client(shape: Shape, daemon: &Daemon, credential: &Credential) -> Exchange {
    static CLIENTS: AtomicU64 = AtomicU64::new(1);
    let [Endpoint::Tcp { host, port }] = daemon.endpoints() else { panic!("one TCP endpoint") };
    let mut stream = TcpStream::connect((host.as_str(), *port)).expect("it listens");
    let hello = Hello {
        version_min: VERSION,
        version_max: VERSION,
        client: CLIENTS.fetch_add(1, Ordering::Relaxed),
        lane: 0,
        incarnation: 1,
        fsid: 0,
        nonce: [1; 32],
        software: "echo_bench".into(),
    };
    let welcome: Welcome = ask(&mut stream, 1, &hello);
    let proof = client_proof(&credential.secret, &hello.nonce, &welcome.nonce);
    let authed = ask(&mut stream, 2, &Auth { token: credential.token.clone(), proof });
    let header = Header { session: authed.session, ..Header::request(OPERATION, 2) };
    Exchange::new(stream, shape, Some(header))
}

fn ask<O: Operation>(stream: &mut TcpStream, tag: u64, request: &O) -> O::Reply {
    let body = request.to_bytes();
    let header = Header::request(O::CODE, tag).with_body(&body);
    stream.write_all(&[&header.encode()[..], &body].concat()).expect("the daemon lives");
    let mut head = [0; HEADER_BYTES];
    stream.read_exact(&mut head).expect("the daemon answers");
    let header = Header::decode(&head).expect("a header");
    assert_eq!(header.status, OK);
    let mut body = vec![0; header.body_bytes as usize];
    stream.read_exact(&mut body).expect("the daemon answers");
    O::Reply::from_bytes(&body).expect("a reply")
}

fn start_daemon() -> (Daemon, Credential) {
    let ring = KeyRing::new(&[[1; 32]]);
    let rules = Rules {
        name: "bench".into(),
        boot: 1,
        fsid: 0,
        security: Security::Psk(ring.clone()),
        networks: Vec::new(),
        root_squash: true,
        limits: Limits::default(),
        secret: [1; 32],
    };
    let session = Session {
        id: 1,
        uid: 1000,
        gid: 1000,
        gids: Vec::new(),
        rights: SessionRights::NONE,
        issued: 0,
        expiry: u64::MAX,
    };
    let pool = Pool::new();
    let service = Arc::new(Giver(pool.clone()));
    let endpoints = [Endpoint::tcp("127.0.0.1", 0)];
    let doorman = Arc::new(Doorman::new(rules));
    let threads = std::env::args().nth(2).map_or(1, |text| text.parse().expect("threads"));
    let daemon = Daemon::start(service, doorman, &endpoints, threads, pool).expect("loopback");
    (daemon, Credential::issue(&ring, &session))
}
