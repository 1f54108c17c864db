//! Networks that fail, between a node in a network namespace of its own and the daemons; and who may come over
//! a network at all.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use pvfs_client::{Transport, block_on};
use pvfs_wire::Errno;
use pvfs_wire::ops::Target;
use rustix::process::Signal;

use crate::support::setup::Setup;
use crate::support::{PVFS, TestCluster, eventually, is_root, next_port};

/// A cluster whose daemons listen on one end of a cable, and a node at its other end.
struct Cable {
    cluster: TestCluster,
    name: String,
    net: u16,
}

impl Cable {
    /// Nothing where this machine lets no namespace be made.
    fn lay() -> Option<Self> {
        if !is_root() {
            println!("skipped: a network namespace can be made by root only");
            return None;
        }
        let net = next_port() as u16 % 250 + 1;
        let name = format!("pvfs{}x{net}", std::process::id());
        let cluster = TestCluster::nowhere();
        let cable = Self { cluster, name, net };
        let (name, here, there) = (&cable.name, cable.here(), cable.there());
        let near = cable.near();
        let made = ip(&format!(
            "netns add {name} && ip link add {near} type veth peer name far netns {name} && \
             ip addr add {here}/30 dev {near} && ip link set {near} up && \
             ip -n {name} addr add {there}/30 dev far && ip -n {name} link set far up"
        ));
        if !made {
            println!("skipped: no network namespaces here");
            return None;
        }
        cable.start();
        Some(cable)
    }

    fn here(&self) -> String {
        format!("10.251.{}.1", self.net)
    }

    fn there(&self) -> String {
        format!("10.251.{}.2", self.net)
    }

    fn near(&self) -> String {
        format!("pv{}", self.name.trim_start_matches("pvfs"))
    }

    fn start(&self) {
        let (root, here, port) = (self.cluster.root(), self.here(), next_port());
        for part in ["run", "log"] {
            std::fs::create_dir_all(root.join(part)).unwrap();
        }
        let mut command = Command::new(PVFS);
        command.args(["genconfig", "--manager", &here, "--iods", &here, "--iods-per-host", "2"]);
        command.args(["--port", &port.to_string(), "--iod-port", &(port + 1).to_string()]);
        command.arg("--store").arg(&root).arg("-o").arg(root.join("cluster.toml"));
        assert!(command.status().unwrap().success());
        self.cluster.up();
    }

    /// A line of bash on the node at the other end.
    fn shell(&self, line: &str) -> crate::support::shell::Outcome {
        self.cluster.shell(&format!("ip netns exec {} bash -c '{line}'", self.name))
    }

    fn set(&self, state: &str) {
        assert!(ip(&format!("link set {} {state}", self.near())));
    }

    /// Requests arrive, replies do not.
    fn lose_replies(&self, lose: bool) {
        let action = if lose { "add" } else { "del" };
        assert!(ip(&format!("route {action} blackhole {}/32", self.there())));
    }

    /// What the node does with packets on this way, in the words of nft(8); false when this machine has no such filter.
    fn filter(&self, way: &str, rule: &str) -> bool {
        let chain = format!("add chain ip lossy {way} {{ type filter hook {way} priority 0; }}");
        let rules = format!("add table ip lossy; {chain}; add rule ip lossy {way} {rule}");
        ip(&format!("netns exec {} nft \"{rules}\"", self.name))
    }

    fn stop_filtering(&self) {
        assert!(ip(&format!("netns exec {} nft flush ruleset", self.name)));
    }

    /// Something happens to the cable while the node copies; what arrives is what was sent.
    fn copies_while(&self, name: &str, disturb: impl FnOnce() + Send) {
        let (copied, took) = thread::scope(|scope| {
            let begun = Instant::now();
            let line =
                format!("pvfs cp -f data pvfs:/{name} && pvfs cat pvfs:/{name} | cmp - data");
            let copy = scope.spawn(move || self.shell(&line));
            disturb();
            (copy.join().unwrap(), begun.elapsed())
        });
        copied.succeeds();
        assert!(took < Duration::from_secs(60), "it took {took:?}");
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        ip(&format!("netns del {}; ip link del {}", self.name, self.near()));
    }
}

fn ip(rest: &str) -> bool {
    let output = Command::new("sh").args(["-c", &format!("ip {rest}")]).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn a_node_that_is_cut_off_hears_so_in_time_and_is_back_with_the_network() {
    let Some(cable) = Cable::lay() else { return };
    cable
        .shell("echo hello > f && pvfs cp f pvfs:/f && pvfs cat pvfs:/f")
        .succeeds()
        .prints("hello");
    cable.set("down");
    let bound = Duration::from_secs(15);
    cable.shell("pvfs ls").fails(4).in_one_sentence().within(bound);
    cable.shell("pvfs df").fails(4).within(Duration::from_secs(10));
    cable.cluster.shell("pvfs status").succeeds();
    cable.set("up");
    cable.shell("pvfs cat pvfs:/f").succeeds().prints("hello").within(bound);
}

#[test]
fn a_cable_that_flaps_or_loses_all_replies_for_a_time_costs_time_only() {
    let Some(cable) = Cable::lay() else { return };
    cable.cluster.shell("head -c 96M /dev/urandom > data").succeeds();
    cable.copies_while("flaps", || {
        for _ in 0..5 {
            thread::sleep(Duration::from_millis(200));
            cable.set("down");
            thread::sleep(Duration::from_millis(200));
            cable.set("up");
        }
    });
    cable.copies_while("deaf", || {
        thread::sleep(Duration::from_millis(100));
        cable.lose_replies(true);
        thread::sleep(Duration::from_secs(2));
        cable.lose_replies(false);
    });
}

/// Of what arrives at the node, and then of what leaves it.
#[test]
fn a_network_that_loses_three_packets_of_ten_costs_time_only() {
    let Some(cable) = Cable::lay() else { return };
    cable.cluster.shell("head -c 512K /dev/urandom > data").succeeds();
    for way in ["input", "output"] {
        if !cable.filter(way, "numgen random mod 10 < 3 drop") {
            return println!("skipped: nft(8) filters nothing here");
        }
        cable.shell("pvfs ls").succeeds();
        cable.copies_while(way, || ());
        cable.stop_filtering();
    }
}

#[test]
fn requests_that_do_not_arrive_for_a_time_cost_time_only() {
    let Some(cable) = Cable::lay() else { return };
    cable.cluster.shell("head -c 96M /dev/urandom > data").succeeds();
    cable.copies_while("mute", || {
        thread::sleep(Duration::from_millis(100));
        if cable.filter("output", "drop") {
            thread::sleep(Duration::from_secs(2));
            cable.stop_filtering();
        }
    });
}

/// A mebibyte takes a second, and several clients share it.
#[test]
fn a_slow_network_is_waited_for() {
    let Some(cable) = Cable::lay() else { return };
    let shaped = "root tbf rate 8mbit burst 32k latency 400ms";
    let (near, name) = (cable.near(), &cable.name);
    let shape = format!(
        "netns exec {name} tc qdisc add dev far {shaped} && tc qdisc add dev {near} {shaped}"
    );
    if !ip(&shape) {
        return println!("skipped: tc(8) shapes nothing here");
    }
    cable.cluster.shell("head -c 3M /dev/urandom > data").succeeds();
    thread::scope(|scope| {
        for client in 0..3 {
            let cable = &cable;
            scope.spawn(move || cable.copies_while(&format!("slow{client}"), || ()));
        }
    });
    cable.shell("pvfs ls").succeeds().within(Duration::from_secs(10));
}

#[test]
fn who_shows_bad_keys_is_locked_out_and_nobody_else_is() {
    let Some(cable) = Cable::lay() else { return };
    let wrong = "cp $ROOT/cluster.toml mine.toml && sed -i s/cluster.key/wrong.key/ mine.toml && \
                 (head -c 32 /dev/zero | od -An -v -tx1 | tr -d \" \\n\"; echo) > wrong.key && \
                 chmod 600 wrong.key";
    cable.shell("pvfs ls").succeeds();
    cable.cluster.shell(wrong).succeeds();
    cable.shell("for i in 1 2 3 4 5 6 7 8 9 10; do pvfs --config mine.toml ls; done").fails(5);
    cable.shell("pvfs ls").fails(5).in_one_sentence().says("lockout");
    cable.cluster.shell("pvfs ls").succeeds();
    let status = cable.cluster.shell("pvfs status --json").succeeds().json();
    assert!(status["servers"][0]["figures"]["net_lockouts_count"].as_u64() >= Some(1), "{status}");
}

#[test]
fn only_the_networks_of_the_cluster_file_are_let_in_and_a_reload_changes_that() {
    let cluster = Setup::of(1).with("networks", "[\"127.0.0.0/8\"]").start();
    let by_tcp = cluster.user_with(|options| {
        options.transport = Transport::Tcp;
        options.metadata_timeout = Duration::from_secs(2);
    });
    let root = block_on(by_tcp.root()).unwrap();
    let stat = || {
        // Who is in stays in; connections are new ones.
        by_tcp.filesystem().manager().disconnect();
        block_on(by_tcp.stat(Target::object(root), false)).map_err(|error| error.errno())
    };
    let file = cluster.root().join("cluster.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("127.0.0.0/8", "10.0.0.0/8")).unwrap();
    cluster.signal("mgr0", Signal::HUP);
    let refused = || stat().is_err_and(|errno| errno == Errno::EACCES);
    eventually("it is kept out", Duration::from_secs(20), refused);
    std::fs::write(&file, text).unwrap();
    cluster.signal("mgr0", Signal::HUP);
    eventually("it is let in", Duration::from_secs(20), || stat().is_ok());
}

#[test]
fn a_squashed_root_is_nobody() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(1).with("root_squash", true).start();
    cluster.shell("pvfs ls").succeeds();
    cluster.shell("pvfs mkdir pvfs:/d").fails(5).in_one_sentence().says("ermission denied");
}
