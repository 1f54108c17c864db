//! Stop, emergency stop and resume (004 §7).

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use pvfs_cli::connected::Connected;
use pvfs_client::{Blocking, OpenFile, Options, Transport, User, block_on};
use pvfs_config::Cluster;
use pvfs_wire::Errno;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{PVFS, TestCluster, can_mount, eventually, pattern};
use crate::writer::{FinishOnDrop, Progress, open, overwrite, verify_overwritten};

const SECOND: Duration = Duration::from_secs(1);

fn write(user: &User<Blocking>, file: &OpenFile) -> pvfs_client::Result<()> {
    block_on(user.write_at(file, 0, &pattern(500_000, 1), false)).map(drop)
}

/// Fails with EIO, and fast.
#[track_caller]
fn is_refused_at_once(user: &User<Blocking>, file: &OpenFile) {
    let start = Instant::now();
    let refused = write(user, file).expect_err("everything is stopped");
    assert_eq!(refused.errno(), Errno::EIO, "{refused}");
    assert!(start.elapsed() < SECOND, "refused only after {:?}", start.elapsed());
}

#[test]
fn after_an_emergency_stop_all_fails_at_once_until_resumed() {
    let cluster = TestCluster::start(3);
    let (user, idle) = (cluster.user(), cluster.user());
    let (file, idle_file) = (open(&user, "f"), open(&idle, "g"));
    write(&user, &file).unwrap();
    cluster.shell("pvfs estop all").succeeds().prints("io2: DOWN");
    is_refused_at_once(&user, &file);
    is_refused_at_once(&idle, &idle_file);
    cluster.shell("pvfs status").ends_with(4).prints("DOWN");
    cluster.shell("pvfs ls").fails(1).within(2 * SECOND).in_one_sentence();
    cluster.shell("pvfs resume all").succeeds().prints("io2: OK");
    write(&user, &file).unwrap();
    write(&idle, &idle_file).unwrap();
    cluster.shell("pvfs status").succeeds().prints("OK");
}

#[test]
fn an_emergency_stop_ends_writes_under_way_within_a_second() {
    let cluster = TestCluster::start(3);
    let (user, progress) = (cluster.user(), Progress::default());
    thread::scope(|scope| {
        let _ended = FinishOnDrop(std::slice::from_ref(&progress));
        let writer = scope.spawn(|| {
            let file = open(&user, "f");
            let refused = loop {
                match write(&user, &file) {
                    Ok(()) if !progress.is_enough() => progress.step(),
                    Ok(()) => panic!("nothing was stopped"),
                    Err(error) => break (error, Instant::now()),
                }
            };
            (refused.0.errno(), refused.1)
        });
        progress.await_more(20);
        let start = Instant::now();
        cluster.shell("pvfs estop all").succeeds();
        let (errno, ended) = writer.join().unwrap();
        assert_eq!(errno, Errno::EIO);
        // The second, and the start of the command that gives the order.
        assert!(ended - start < SECOND + Duration::from_millis(500), "{:?}", ended - start);
    });
}

#[test]
fn an_emergency_stop_works_with_a_dead_manager() {
    let cluster = TestCluster::start(2);
    let user = cluster.user();
    let file = open(&user, "f");
    write(&user, &file).unwrap();
    cluster.signal("mgr0", Signal::KILL);
    cluster.shell("pvfs estop all").fails(3).within(5 * SECOND).prints("io1: DOWN");
    is_refused_at_once(&user, &file);
    cluster.shell("pvfs resume all").fails(3).prints("io1: OK");
    write(&user, &file).unwrap();
    cluster.up();
    block_on(user.close(file)).unwrap();
    cluster.shell("pvfs status --wait 20s").succeeds();
}

#[test]
fn one_daemon_can_be_stopped_alone() {
    let cluster = TestCluster::start(2);
    cluster.shell("pvfs estop io1").succeeds().prints("io1: DOWN");
    cluster.shell("pvfs status").ends_with(3).prints("DEGRADED");
    cluster.shell("echo hi > x && pvfs cp -b 0 -n 1 x pvfs:/on0").succeeds();
    cluster.shell("pvfs cp -b 1 -n 1 x pvfs:/on1").fails(1);
    cluster.shell("pvfs resume io1 && pvfs cp -f -b 1 -n 1 x pvfs:/on1").succeeds();
    cluster.shell("pvfs estop io7").fails(2).in_one_sentence().says("there is no daemon io7");
}

#[test]
fn an_order_needs_the_cluster_key() {
    let cluster = TestCluster::start(1);
    cluster.shell("pvfs genconfig -o other.toml && cp $ROOT/cluster.toml mine.toml").succeeds();
    let refused = cluster.shell("pvfs --config mine.toml estop all");
    assert!(!refused.is_success() && !refused.stdout.contains("DOWN"), "{refused:?}");
    cluster.shell("pvfs status").succeeds().prints("OK");
}

#[test]
fn a_stop_under_load_loses_nothing_acknowledged() {
    let cluster = TestCluster::start(3);
    let progress: [Progress; 2] = Default::default();
    thread::scope(|scope| {
        let _ended = FinishOnDrop(&progress);
        for (path, progress) in ["a", "b"].iter().zip(&progress) {
            let cluster = &cluster;
            scope.spawn(move || overwrite(cluster, path, progress));
        }
        progress.iter().for_each(|progress| progress.await_more(10));
        cluster.shell("pvfs stop").succeeds();
        let names = ["mgr0", "io0", "io1", "io2"];
        eventually("all end", 25 * SECOND, || names.iter().all(|name| !cluster.is_running(name)));
        cluster.up();
        progress.iter().for_each(|progress| progress.await_more(10));
    });
    let user = cluster.user();
    for (path, progress) in ["a", "b"].iter().zip(&progress) {
        verify_overwritten(&user, path, progress);
    }
}

/// Starts a daemon as our own child, so that its exit code can be seen.
fn adopt(cluster: &TestCluster, role: &str, name: &str) -> Child {
    cluster.signal(name, Signal::KILL);
    eventually("it is gone", 10 * SECOND, || !cluster.is_running(name));
    let log =
        std::fs::File::create(cluster.root().join(format!("log/{name}-adopted.log"))).unwrap();
    let mut command = Command::new(PVFS);
    command.args([role, "--name", name, "--config"]).arg(cluster.root().join("cluster.toml"));
    let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
    eventually("it serves", 10 * SECOND, || cluster.pvfs(&["ping", name]).status.success());
    child
}

fn tell(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn code_within(child: &mut Child, bound: Duration) -> Option<i32> {
    let until = Instant::now() + bound;
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status.code().unwrap_or(-1));
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

#[test]
fn a_daemon_told_to_stop_ends_with_zero() {
    let cluster = TestCluster::start(1);
    let user = cluster.user();
    let file = open(&user, "f");
    write(&user, &file).unwrap();
    for (role, name) in [("iod", "io0"), ("mgr", "mgr0")] {
        let mut daemon = adopt(&cluster, role, name);
        tell(&daemon, Signal::TERM);
        // Clients with nothing under way keep no daemon from ending.
        assert_eq!(code_within(&mut daemon, 10 * SECOND), Some(0), "{name}");
    }
    cluster.up();
    write(&user, &file).unwrap();
    block_on(user.close(file)).unwrap();
}

/// Whether the daemon waits after one signal; a second one must end it.
fn waits_for(cluster: &TestCluster, reader: &Child) -> bool {
    let mut daemon = adopt(cluster, "iod", "io0");
    eventually("the reader reads", 10 * SECOND, || {
        let status = cluster.shell("pvfs status --json").json();
        status["servers"][1]["figures"]["read_bytes_total"].as_u64() > Some(20 << 20)
    });
    tell(reader, Signal::STOP);
    tell(&daemon, Signal::TERM);
    let waits = code_within(&mut daemon, SECOND).is_none();
    if waits {
        tell(&daemon, Signal::TERM);
        assert_eq!(code_within(&mut daemon, 2 * SECOND), Some(1));
    }
    tell(reader, Signal::CONT);
    cluster.up();
    waits
}

#[test]
fn a_second_signal_ends_a_daemon_that_waits_for_a_slow_client_at_once() {
    let cluster = TestCluster::start(1);
    cluster.shell("head -c 64M /dev/zero > zeros && pvfs cp zeros pvfs:/zeros").succeeds();
    let mut reader = Command::new(std::env::current_exe().unwrap());
    reader.args(["--ignored", "--exact", "stops::a_reader_of_large_replies"]);
    reader.env("PVFS_CONFIG", cluster.root().join("cluster.toml"));
    let reader = reader.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let reader = KilledOnDrop(reader);
    // It may be stopped between two replies; on a busy machine mostly it is.
    let waited = (0..40).any(|_| waits_for(&cluster, &reader.0));
    drop(reader);
    assert!(waited, "no attempt stopped the reader in the middle of a reply");
    cluster.shell("pvfs cat pvfs:/zeros | cmp - zeros").succeeds();
}

/// A process that does not outlive its test, however that ends.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads in replies that are larger than what sockets buffer, until it is killed.
#[test]
#[ignore = "is run by the test above, as a process of its own"]
fn a_reader_of_large_replies() {
    let path = std::env::var("PVFS_CONFIG").expect("it is not meant to be run by hand");
    let cluster = Cluster::load(path.as_ref()).unwrap();
    let mut options = Options::of(&cluster);
    (options.request_bytes_max, options.transport) = (4 << 20, Transport::Unix);
    options.borrows = false;
    let connected = Connected::with(cluster, options)
        .unwrap_or_else(|failure| panic!("{}", failure.sentence()));
    let file = open(&connected.user, "zeros");
    let mut buffer = vec![0; 4 << 20];
    for step in (0..16).cycle() {
        // Fails now and then: its daemon is made to end.
        let _ = block_on(connected.user.read_at(&file, step << 22, &mut buffer));
    }
}

/// The mount had a lease on what it cached; that is over when the manager is, whether the mount has just ended, ends
/// meanwhile, or stays.
#[test]
fn after_an_orderly_stop_nobody_is_waited_for() {
    if !can_mount() {
        return;
    }
    let ends_late = "pid=$(pgrep -f \"pvfs mount $AT --background\") && kill -STOP $pid && pvfs umount $AT && \
                     { { sleep 0.5; kill -CONT $pid; } & pvfs down $ROOT; }";
    for end in ["pvfs umount $AT && pvfs down $ROOT", ends_late, "pvfs down $ROOT"] {
        let cluster = TestCluster::start(1);
        // What stop would unmount itself lies elsewhere.
        cluster.mount("at");
        let in_place = |line: &str| cluster.shell(&format!("AT=$ROOT/at; {line}"));
        in_place("mkdir $AT/d && ls -l $AT && stat $AT/d/none || true").succeeds();
        in_place(end).succeeds();
        cluster.up();
        cluster.shell("pvfs mkdir pvfs:/d/e").succeeds().within(Duration::from_secs(2));
    }
}
