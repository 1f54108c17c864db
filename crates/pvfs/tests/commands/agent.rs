//! Users without access to the key get their sessions from the agent, and only those it may vouch for.

use std::time::Duration;

use pvfs_client::{Blocking, OpenFile, User, Wait, block_on};
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{Lock, LockFamily, LockKind, OpenFlags, Target};
use rustix::process::Signal;

use crate::support::agent::Agent;
use crate::support::setup::Setup;
use crate::support::{eventually, is_root};

fn open_and_lock(user: &User<Blocking>) -> Result<OpenFile, Errno> {
    let name = Target::below(block_on(user.root()).unwrap(), "f");
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
    let file = block_on(user.open_regular(name, flags, 0o644, Striping::default())).unwrap();
    let (family, kind) = (LockFamily::Flock, LockKind::Write);
    let (owner, pid, start, end) = (1, 1, 0, u64::MAX);
    let lock = Lock { handle: file.handle, family, owner, pid, kind, start, end, wait_ms: 0 };
    block_on(user.lock(lock, Wait::No)).map_err(|error| error.errno())?;
    Ok(file)
}

#[test]
fn an_idle_process_keeps_its_lock_over_a_restart_of_the_manager_and_a_dead_one_does_not() {
    let cluster = Setup::of(1).with("lease_s", 1).start();
    let _agent = Agent::start(&cluster);
    let (idle, other) = (cluster.user(), cluster.user());
    let held = open_and_lock(&idle).unwrap();
    cluster.signal("mgr0", Signal::KILL);
    cluster.up();
    // Without the agent the manager would have waited ten leases.
    std::thread::sleep(Duration::from_secs(13));
    assert_eq!(open_and_lock(&other).unwrap_err(), Errno::EAGAIN, "a live process lost its lock");
    cluster.signal("mgr0", Signal::KILL);
    drop((held, idle));
    cluster.up();
    eventually("the lock of the dead is free", Duration::from_secs(6), || {
        open_and_lock(&other).is_ok()
    });
}

#[test]
fn an_agent_told_to_reload_goes_on_with_the_users_of_the_cluster_file() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(1).with("uids", "[\"1000-2000\"]").start();
    let agent = Agent::start(&cluster);
    cluster.shell_as_nobody("pvfs ls").fails(5);
    let file = cluster.root().join("cluster.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("1000-2000", "1000-65534")).unwrap();
    let pid = rustix::process::Pid::from_child(&agent.0);
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    eventually("it vouches for nobody", Duration::from_secs(10), || {
        cluster.shell_as_nobody("pvfs ls").is_success()
    });
    std::fs::write(&file, "nonsense = ").unwrap();
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    std::fs::write(&file, text.replace("1000-2000", "1000-65534")).unwrap();
    cluster.shell_as_nobody("pvfs ls").succeeds();
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
