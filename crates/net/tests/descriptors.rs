//! A daemon without file descriptors keeps serving, does not spin, and goes on when there are some again;
//! an idle one uses next to no processor time. Alone in its process, because limits are the process's.

use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pvfs_net::buffer::Pool;
use pvfs_net::endpoint::Endpoint;
use pvfs_net::gate::{Doorman, Limits, Rules, Security};
use pvfs_net::reactor::Daemon;
use pvfs_net::service::{Departure, Peer, Reception, Request, Service};
use pvfs_wire::Errno;
use pvfs_wire::ops::Hello;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

struct Nobody;

impl Service for Nobody {
    fn arrived(&self, _: &Arc<Peer>, _: &Hello) -> Result<Reception, Errno> {
        Ok(Reception::default())
    }
    fn departed(&self, _: &Arc<Peer>, _: Departure) {}
    fn serve(&self, _: Vec<Request<'_>>) {}
    fn tick(&self) {}
}

fn start() -> (Daemon, (String, u16)) {
    let limits = Limits { handshake_time_max: Duration::from_secs(60), ..Limits::default() };
    let rules = Rules {
        name: "io0".into(),
        boot: 1,
        fsid: 0,
        security: Security::None,
        networks: Vec::new(),
        root_squash: true,
        limits,
        secret: [1; 32],
    };
    let doorman = Arc::new(Doorman::new(rules));
    let endpoints = [Endpoint::tcp("127.0.0.1", 0)];
    let daemon = Daemon::start(Arc::new(Nobody), doorman, &endpoints, 2, Pool::new()).unwrap();
    let Endpoint::Tcp { host, port } = daemon.endpoints()[0].clone() else { unreachable!() };
    (daemon, (host, port))
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn cpu_time_of_a_second() -> Duration {
    let before = cpu_time();
    std::thread::sleep(Duration::from_secs(1));
    cpu_time() - before
}

fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < Duration::from_secs(10), "did not happen in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_daemon_without_descriptors_rests_instead_of_spinning() {
    let (daemon, (host, port)) = start();
    let connect = || TcpStream::connect((host.as_str(), port)).unwrap();
    let early: Vec<TcpStream> = (0..100).map(|_| connect()).collect();
    wait_for("all are in", || daemon.figures().connections.get() == 100);
    let idle = cpu_time_of_a_second();
    assert!(idle < Duration::from_millis(50), "an idle daemon used {idle:?} of a second");

    // Both ends live in this process: leave room for the clients' own descriptors only.
    let limits = getrlimit(Resource::Nofile);
    let waiting: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    wait_for("all are in", || daemon.figures().connections.get() == 120);
    let highest = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 + 10;
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest), maximum: limits.maximum })
        .unwrap();
    let late: Vec<TcpStream> =
        std::iter::from_fn(|| TcpStream::connect((host.as_str(), port)).ok()).take(30).collect();
    wait_for("it rests", || daemon.figures().accept_rests_count.get() > 0);
    let resting = cpu_time_of_a_second();
    assert!(resting < Duration::from_millis(50), "a resting daemon used {resting:?} of a second");

    let in_before = daemon.figures().accepted_count.get();
    drop((early, waiting));
    let all = 120 + late.len() as u64;
    wait_for("the late ones are in", || daemon.figures().accepted_count.get() == all);
    assert!(in_before < all);
    setrlimit(Resource::Nofile, limits).unwrap();
    let mut last = connect();
    wait_for("the last one is in", || daemon.figures().accepted_count.get() == all + 1);
    daemon.stop(Duration::from_secs(1));
    assert_eq!(last.read(&mut [0]).unwrap(), 0);
}
