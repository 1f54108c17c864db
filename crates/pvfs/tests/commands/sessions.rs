//! Who uses the file system, as `pvfs sessions` tells administrators and users.

use std::time::Duration;

use pvfs_client::{Blocking, OpenFile, User, Wait, block_on};
use pvfs_wire::Errno;
use pvfs_wire::attr::Striping;
use pvfs_wire::ops::{Lock, LockFamily, LockKind, OpenFlags, Target};
use serde_json::{Value, json};

use crate::support::agent::Agent;
use crate::support::setup::Setup;
use crate::support::{TestCluster, can_mount, eventually, is_root};

/// A client of ours that says this of itself.
fn client(cluster: &TestCluster, software: &str) -> User<Blocking> {
    cluster.user_with(|options| options.software = software.into())
}

fn open(user: &User<Blocking>) -> OpenFile {
    let name = Target::below(block_on(user.root()).unwrap(), "f");
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
    block_on(user.open_regular(name, flags, 0o644, Striping::default())).unwrap()
}

fn lock(user: &User<Blocking>, file: &OpenFile, start: u64, end: u64) -> Result<(), Errno> {
    let (family, kind) = (LockFamily::Range, LockKind::Write);
    let (owner, pid, handle) = (1, 4711, file.handle);
    let lock = Lock { handle, family, owner, pid, kind, start, end, wait_ms: 0 };
    block_on(user.lock(lock, Wait::No)).map_err(|error| error.errno())
}

/// The clients of this program.
fn of_program(list: &Value, program: &str) -> Vec<Value> {
    let clients = list.as_array().unwrap().iter();
    clients.filter(|client| client["program"] == program).cloned().collect()
}

#[test]
fn sessions_tell_who_is_there_and_what_they_hold() {
    let cluster = Setup::secured(2).start();
    let holder = client(&cluster, "holder");
    let file = open(&holder);
    lock(&holder, &file, 100, 200).unwrap();
    let list = || cluster.shell("pvfs sessions --json").succeeds().json();
    let found = of_program(&list(), "holder");
    let [one] = &found[..] else { panic!("{found:?}") };
    let uid = rustix::process::geteuid().as_raw();
    assert_eq!(
        (&one["opens"], &one["locks_held"], &one["locks_awaited"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!((&one["address"], &one["kind"]), (&json!("127.0.0.1"), &Value::Null));
    assert_eq!((&one["sessions"][0]["uid"], &one["freed_in_s"]), (&json!(uid), &Value::Null));
    assert!(one["here_s"].as_u64().unwrap() < 60);
    let session = one["sessions"][0]["session"].as_str().unwrap().to_owned();
    let line = format!("pvfs sessions | grep '^{session} .* 1  *1  *0  *-  holder$'");
    cluster.shell(&line).succeeds();
    // The command has a session itself, and says where it runs.
    cluster.shell("pvfs sessions").succeeds().prints("pvfs sessions 0.").prints(", process ");
    cluster.shell(&format!("pvfs deny --session {session}")).succeeds();
    assert_eq!(of_program(&list(), "holder")[0]["sessions"], json!([]));
    drop((file, holder));
    eventually("it is gone", Duration::from_secs(5), || of_program(&list(), "holder").is_empty());
}

#[test]
fn sessions_of_a_file_tell_who_has_it_open_or_locked() {
    let cluster = TestCluster::start(2);
    let (holder, waiter) = (client(&cluster, "holder"), client(&cluster, "waiter"));
    let (file, other) = (open(&holder), open(&waiter));
    lock(&holder, &file, 100, 200).unwrap();
    let list = || cluster.shell("pvfs sessions pvfs:/f --json").succeeds().json();
    let shown = |list: &Value| {
        let mut rows = Vec::new();
        for row in list.as_array().unwrap() {
            let (program, what) = (row["program"].as_str().unwrap(), row["use"].as_str().unwrap());
            rows.push(format!("{program} {what} {}-{}", row["start"], row["end"]));
        }
        rows
    };
    let opens = ["holder open null-null", "waiter open null-null"];
    assert_eq!(shown(&list()), [&opens[..], &["holder lock 100-200"]].concat());
    assert_eq!(list()[0]["access"], json!(["read", "write"]));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let (family, kind) = (LockFamily::Range, LockKind::Read);
            let (owner, pid, handle, start, end) = (1, 1, other.handle, 150, u64::MAX);
            let lock = Lock { handle, family, owner, pid, kind, start, end, wait_ms: 0 };
            block_on(waiter.lock(lock, Wait::Until(&|| false))).is_ok()
        });
        let all = [&opens[..], &["holder lock 100-200", "waiter wait 150-null"]].concat();
        eventually("it waits", Duration::from_secs(10), || shown(&list()) == all);
        cluster.shell("pvfs sessions pvfs:/f | grep '^wait  *read 150-.* waiter$'").succeeds();
        cluster
            .shell("pvfs sessions pvfs:/f | grep '^lock  *write 100-199 .* 4711  holder$'")
            .succeeds();
        drop((file, holder));
        assert!(waiting.join().unwrap());
    });
    assert_eq!(shown(&list()), ["waiter open null-null", "waiter lock 150-null"]);
    drop((other, waiter));
    eventually("nobody uses it", Duration::from_secs(5), || list() == json!([]));
    cluster.shell("pvfs sessions pvfs:/absent").fails(1).in_one_sentence().says("o such file");
    cluster.shell("kill $(cat $ROOT/run/mgr0.pid)").succeeds();
    eventually("it ends", Duration::from_secs(10), || !cluster.is_running("mgr0"));
    cluster.shell("pvfs sessions").fails(4).in_one_sentence();
}

#[test]
fn a_user_without_the_key_sees_his_own_sessions_only() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(1).with("uids", "[\"1000-65534\"]").start();
    let _agent = Agent::start(&cluster);
    let holder = client(&cluster, "holder");
    let file = open(&holder);
    lock(&holder, &file, 0, 10).unwrap();
    let nobody = |line: &str| cluster.shell_as_nobody(line);
    let own = nobody("pvfs sessions --json 2>/dev/null").succeeds().json();
    let uids: Vec<&Value> =
        own.as_array().unwrap().iter().map(|c| &c["sessions"][0]["uid"]).collect();
    assert_eq!(uids, [&json!(65534)], "{own}");
    assert!(nobody("pvfs sessions 2>&1").succeeds().lines()[0].contains("only what is yours"));
    assert_eq!(nobody("pvfs sessions pvfs:/f --json 2>/dev/null").succeeds().json(), json!([]));
    let all = cluster.shell("pvfs sessions pvfs:/f --json").succeeds().json();
    assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
}

#[test]
fn a_mount_is_told_with_all_its_users() {
    if !can_mount() {
        return;
    }
    let cluster = Setup::of(1).with("uids", "[\"1000-65534\"]").start();
    let _agent = Agent::start(&cluster);
    let mount = cluster.mount("mnt");
    cluster
        .shell("chmod 777 $ROOT/mnt && echo x > $ROOT/mnt/f && chmod 666 $ROOT/mnt/f")
        .succeeds();
    std::thread::scope(|scope| {
        let line = "exec 3<$ROOT/mnt/f; echo >$ROOT/ready; sleep 3";
        cluster.shell("touch $ROOT/ready && chmod 666 $ROOT/ready").succeeds();
        let opened = scope.spawn(|| cluster.shell_as_nobody(line).succeeds());
        let ready = cluster.root().join("ready");
        eventually("it is open", Duration::from_secs(10), || ready.metadata().unwrap().len() > 0);
        let path = mount.join("f").display().to_string();
        let uses = cluster.shell(&format!("pvfs sessions {path} --json")).succeeds().json();
        let reader = |row: &&Value| row["uid"] == 65534;
        let found =
            uses.as_array().unwrap().iter().find(reader).unwrap_or_else(|| panic!("{uses}"));
        assert_eq!((&found["kind"], &found["access"]), (&json!("mount"), &json!(["read"])));
        let list = cluster.shell("pvfs sessions --json").succeeds().json();
        let mounts = list.as_array().unwrap().iter().filter(|client| client["kind"] == "mount");
        let mounts: Vec<&Value> = mounts.collect();
        assert_eq!(mounts.len(), 1, "{list}");
        assert!(mounts[0]["sessions"].as_array().unwrap().len() >= 2, "{list}");
        assert!(mounts[0]["cached"].as_u64().unwrap() > 0, "{list}");
        drop(opened.join().unwrap());
    });
}
