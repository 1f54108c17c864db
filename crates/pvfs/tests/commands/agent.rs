//! Users without access to the key get their sessions from the agent, and only those it may vouch for.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::setup::Setup;
use crate::support::{PVFS, TestCluster, eventually, is_root};

/// An agent, ended with the test.
struct Agent(Child);

impl Agent {
    fn start(cluster: &TestCluster) -> Self {
        let mut command = Command::new(PVFS);
        command.arg("agent").arg("--config").arg(cluster.root().join("cluster.toml"));
        let log = std::fs::File::create(cluster.root().join("log/agent.log")).unwrap();
        let agent = Self(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
        let socket = cluster.cluster().agent.socket;
        eventually("the agent listens", Duration::from_secs(10), || socket.exists());
        agent
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_user_who_cannot_read_the_key_works_through_the_agent() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(2).with("uids", "[\"1000-65534\"]").start();
    let nobody = |line: &str| cluster.shell_as_nobody(line);
    nobody("pvfs ls").fails(5).in_one_sentence().says("key");
    let agent = Agent::start(&cluster);
    nobody("pvfs ls").succeeds();
    nobody("pvfs mkdir pvfs:/d").fails(5).in_one_sentence().says("ermission denied");
    cluster
        .shell("echo secret > s && pvfs mkdir -m 777 pvfs:/open && pvfs cp s pvfs:/s")
        .succeeds();
    nobody("echo mine | cat > /tmp/$$ && pvfs cp /tmp/$$ pvfs:/open/f; rm /tmp/$$").succeeds();
    cluster.shell("pvfs ls -l pvfs:/open").succeeds().prints("nobody");
    cluster.shell("pvfs cat pvfs:/open/f").succeeds().prints("mine");
    nobody("pvfs rm pvfs:/s").fails(5);
    nobody("pvfs status").succeeds().prints("OK");
    nobody("pvfs estop all").fails(5).in_one_sentence().says("key");
    drop(agent);
    nobody("pvfs ls").fails(5).in_one_sentence().says("is `pvfs agent` running");
}

#[test]
fn an_agent_vouches_only_for_the_users_it_was_told() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(1).with("uids", "[\"1000-2000\"]").start();
    let _agent = Agent::start(&cluster);
    cluster.shell_as_nobody("pvfs ls").fails(5).in_one_sentence().says("[agent] uids");
    cluster.shell("pvfs ls").succeeds();
}
