//! Group handles where they do not belong: in another file system, and in the hands of users they were not made for. What
//! iods refuse they refuse by themselves, without the manager.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::agent::Agent;
use crate::support::setup::Setup;
use crate::support::{TestCluster, is_root, text};
use crate::{Linked, command, compiled, done, source};

/// A file system and the program of these tests.
struct Node {
    cluster: TestCluster,
    program: PathBuf,
}

impl Node {
    /// Nothing where there is no compiler.
    fn on(cluster: TestCluster) -> Option<Self> {
        let source = source("crates/pvfs/tests/capi/groups.c");
        // The shared library may lie where not every user may look.
        let program = compiled(&cluster, &source, Linked::Static)?;
        Some(Self { cluster, program })
    }

    /// Makes a file and a handle of it.
    fn make(&self, path: &str, flags: &str) -> String {
        let handle = self.cluster.scratch().join("handle").display().to_string();
        done(&self.cluster, &self.program, &["make", path, &handle, flags, "0"]);
        handle
    }

    /// What calls on a handle say to this user.
    fn said(&self, who: &[&str], arguments: &[&str]) -> Vec<String> {
        let words = [who, &[self.program.to_str().unwrap()], arguments].concat();
        let mut command = command(&self.cluster, Path::new(words[0]), &words[1..]);
        lines(&mut command)
    }

    /// What is to be said of these calls.
    #[track_caller]
    fn says(&self, who: &[&str], handle: &str, wanted: &[&str]) {
        let calls: Vec<&str> = wanted.iter().map(|line| line.split_once(": ").unwrap().0).collect();
        assert_eq!(self.said(who, &[&["use", handle], &calls[..]].concat()), wanted, "{who:?}");
    }
}

fn lines(command: &mut Command) -> Vec<String> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

const DAEMONS: [&str; 3] = ["mgr0", "io0", "io1"];

#[test]
fn a_handle_of_another_file_system_is_refused_without_a_message_and_good_in_its_own() {
    let Some(own) = Node::on(TestCluster::start(2)) else { return };
    let Some(other) = Node::on(TestCluster::start(2)) else { return };
    let handle = own.make("/pvfs/shared", "rw");
    let theirs = other.make("/pvfs/shared", "rw");
    // Whoever asked one of them would wait.
    DAEMONS.iter().for_each(|daemon| other.cluster.hang(daemon));
    let foreign = ["openfh: EXDEV", "renewg: EXDEV", "closeg: EXDEV"];
    other.says(&[], &handle, &foreign);
    DAEMONS.iter().for_each(|daemon| other.cluster.wake(daemon));
    other.says(&[], &theirs, &["openfh: 0", "read: 7", "write: 1", "renewg: 0", "closeg: 0"]);
    own.says(&[], &handle, &["openfh: 0", "read: 7", "write: 1", "count: 0", "renewg: 0"]);
    own.says(&[], &handle, &["closeg: 0", "renewg: ESTALE", "closeg: 0"]);
    for node in [own, other] {
        assert_eq!(node.cluster.run(&["cat", "pvfs:/shared"]), "Wontent");
    }
}

/// Numbers are drawn by lot, but can be chosen.
#[test]
fn a_handle_of_another_file_system_of_the_same_number_gets_no_further_than_its_first_use() {
    let Some(own) = Node::on(Setup::of(2).with("id", 7).start()) else { return };
    let Some(other) = Node::on(Setup::of(2).with("id", 7).start()) else { return };
    let (handle, theirs) = (own.make("/pvfs/shared", "rw"), other.make("/pvfs/shared", "rw"));
    let refused = ["openfh: 0", "read: EACCES", "write: EACCES", "renewg: EACCES"];
    other.says(&[], &handle, &refused);
    other.says(&[], &handle, &["openfh: 0", "fstat: ESTALE", "closeg: EACCES"]);
    other.says(&[], &theirs, &["openfh: 0", "read: 7"]);
    own.says(&[], &handle, &["openfh: 0", "read: 7"]);
    for node in [own, other] {
        assert_eq!(node.cluster.run(&["cat", "pvfs:/shared"]), "content");
    }
}

/// The opener; one of its primary group; one with that group among others; one without; root.
const OWNER: &[&str] = &["setpriv", "--reuid=30001", "--regid=30100", "--clear-groups"];
const FELLOW: &[&str] = &["setpriv", "--reuid=30002", "--regid=30100", "--clear-groups"];
const MEMBER: &[&str] = &["setpriv", "--reuid=30003", "--regid=30200", "--groups=30100,30300"];
const STRANGER: &[&str] = &["setpriv", "--reuid=30004", "--regid=30200", "--groups=30001,30300"];
const ROOT: &[&str] = &[];

#[test]
fn a_handle_is_good_for_those_it_was_made_for_and_iods_refuse_all_others_by_themselves() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(2).with("uids", "[\"1000-65534\"]").start();
    let _agent = Agent::start(&cluster);
    let Some(node) = Node::on(cluster) else { return };
    node.cluster.run(&["mkdir", "-m", "777", "pvfs:/d"]);
    node.cluster.shell("mkdir -m 777 handles").succeeds();
    for (share, admitted, refused) in [
        ("0", vec![OWNER], vec![FELLOW, MEMBER, STRANGER, ROOT]),
        ("1", vec![OWNER, FELLOW, MEMBER], vec![STRANGER]),
        ("2", vec![OWNER, FELLOW, MEMBER, STRANGER, ROOT], vec![]),
    ] {
        let handle = node.cluster.scratch().join("handles").join(share).display().to_string();
        let path = format!("/pvfs/d/{share}");
        assert!(node.said(OWNER, &["make", &path, &handle, "rw", share]).is_empty());
        // Iods have nobody to ask.
        node.cluster.hang("mgr0");
        for who in &refused {
            node.says(who, &handle, &REFUSED);
        }
        for who in &admitted {
            node.says(who, &handle, &ADMITTED);
        }
        node.cluster.wake("mgr0");
        for who in refused.iter().filter(|who| **who != ROOT) {
            let managers = ["openfh: 0", "count: EACCES", "renewg: EACCES", "closeg: EPERM"];
            node.says(who, &handle, &managers);
        }
        for who in &admitted {
            node.says(who, &handle, &["openfh: 0", "count: 0", "renewg: 0"]);
        }
        // That somebody may use it does not make it theirs.
        for who in admitted.iter().filter(|who| **who != OWNER && **who != ROOT) {
            node.says(who, &handle, &["closeg: EPERM"]);
        }
        assert_eq!(node.cluster.run(&["cat", &format!("pvfs:/d/{share}")]), "Qritten");
        node.says(OWNER, &handle, &["closeg: 0"]);
    }
}

const ADMITTED: [&str; 8] = [
    "openfh: 0",
    "read: 7",
    "readx: 7",
    "queued-read: 7",
    "write: 1",
    "writex: 7",
    "queued-write: 1",
    "close: 0",
];
const REFUSED: [&str; 10] = [
    "openfh: 0",
    "read: EACCES",
    "readx: EACCES",
    "queued-read: EACCES",
    "write: EACCES",
    "writex: EACCES",
    "queued-write: EACCES",
    "fsync: EACCES",
    "fallocate: EACCES",
    "close: 0",
];

#[test]
fn what_a_handle_was_not_opened_for_is_no_descriptor_for_it() {
    let Some(node) = Node::on(TestCluster::start(2)) else { return };
    let reading = node.make("/pvfs/f", "r");
    let refused = ["write: EBADF", "writex: EBADF", "queued-write: EBADF", "fallocate: EBADF"];
    node.says(
        &[],
        &reading,
        &[&["openfh: 0", "read: 7"], &refused[..], &["ftruncate: EINVAL"]].concat(),
    );
    let writing = node.make("/pvfs/f", "w");
    let refused = ["read: EBADF", "readx: EBADF", "queued-read: EBADF"];
    node.says(&[], &writing, &[&["openfh: 0", "write: 1"], &refused[..]].concat());
}
