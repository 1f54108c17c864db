//! The queue, treated well and badly; and calls with random arguments, by a program whose crash is a failure.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::support::agent::Agent;
use crate::support::setup::Setup;
use crate::support::{TestCluster, is_root};
use crate::{Linked, command, compiled, done, source};

const PROGRAMS: &str = "crates/pvfs/tests/capi";

/// A program of these tests and a directory for it; nothing where there is no compiler.
fn program(cluster: &TestCluster, name: &str) -> Option<PathBuf> {
    let program = compiled(cluster, &source(PROGRAMS).join(name), Linked::Shared)?;
    cluster.run(&["mkdir", "pvfs:/queue"]);
    Some(program)
}

fn case(name: &str) {
    let cluster = TestCluster::start(3);
    let Some(program) = program(&cluster, "queue.c") else { return };
    let said = done(&cluster, &program, &["/pvfs/queue", name]);
    assert_eq!(said.trim(), format!("{name}: done"));
}

#[test]
fn what_is_wrong_is_told_at_once_and_ordinary_files_are_done_when_submitted() {
    case("arguments");
}

#[test]
fn a_queue_is_destroyed_with_operations_on_the_way_and_nothing_stays() {
    case("destroyed");
}

#[test]
fn two_threads_use_one_queue() {
    case("threads");
}

#[test]
fn a_forked_child_has_no_part_in_its_parents_queue_and_does_it_no_harm() {
    case("forked");
}

#[test]
fn what_is_cancelled_has_no_event_and_all_else_has_one() {
    case("cancelled");
}

/// A case that says when an iod is to be stopped.
fn begun(
    cluster: &TestCluster,
    name: &str,
) -> Option<(Child, BufReader<std::process::ChildStdout>)> {
    let program = program(cluster, "queue.c")?;
    let mut command = command(cluster, &program, &["/pvfs/queue", name]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    expect(&mut said, "ready");
    Some((child, said))
}

#[track_caller]
fn expect(said: &mut impl BufRead, wanted: &str) {
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), wanted);
}

fn go_on(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

#[test]
fn a_hundred_operations_end_in_time_although_a_daemon_is_stopped() {
    let cluster = TestCluster::start(3);
    let Some((mut child, mut said)) = begun(&cluster, "stopped") else { return };
    cluster.hang("io1");
    go_on(&mut child);
    expect(&mut said, "stopped: done");
    cluster.wake("io1");
    assert!(child.wait().unwrap().success());
}

#[test]
fn who_waits_for_long_keeps_no_other_thread_out() {
    let cluster = TestCluster::start(1);
    let Some((mut child, mut said)) = begun(&cluster, "patient") else { return };
    cluster.hang("io0");
    go_on(&mut child);
    expect(&mut said, "go on");
    cluster.wake("io0");
    expect(&mut said, "patient: done");
    assert!(child.wait().unwrap().success());
}

/// `PVFS_TEST_SEED` and `PVFS_TEST_STEPS` choose others.
#[test]
fn calls_with_random_arguments_do_what_they_say_or_nothing() {
    let (seeds, steps) = streams("1500");
    for seed in seeds {
        let cluster = TestCluster::start(3);
        let Some(program) = program(&cluster, "fuzz.c") else { return };
        let said = done(&cluster, &program, &["/pvfs/queue", &seed, &steps]);
        assert_eq!(said.trim(), "fuzz: done");
    }
}

/// The like.
#[test]
fn blocking_and_queued_calls_agree_in_results_errors_bytes_and_positions() {
    agree(&TestCluster::start(3), &[]);
}

#[test]
fn blocking_and_queued_calls_agree_for_a_user_who_may_do_little() {
    if !is_root() {
        return;
    }
    let cluster = Setup::of(3).with("uids", "[\"1000-65534\"]").start();
    let _agent = Agent::start(&cluster);
    agree(&cluster, &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
}

/// Each stream on our files and on ordinary ones, by a program that says where the two disagree.
fn agree(cluster: &TestCluster, by: &[&str]) {
    // The shared library may lie where not every user may look.
    let Some(program) = compiled(cluster, &source(PROGRAMS).join("agree.c"), Linked::Static) else {
        return;
    };
    let ordinary = cluster.scratch().join("agree").display().to_string();
    cluster.shell("mkdir -m 777 agree && echo public > agree/public").succeeds();
    cluster.shell("install -m 600 agree/public agree/secret").succeeds();
    cluster.shell("pvfs mkdir -m 777 pvfs:/agree && pvfs cp -p agree/* pvfs:/agree").succeeds();
    let (seeds, steps) = streams("600");
    let words: Vec<&str> = by.iter().copied().chain(program.to_str()).collect();
    for (seed, directory) in
        seeds.iter().flat_map(|seed| [(seed, "/pvfs/agree"), (seed, &ordinary)])
    {
        let below = format!("{directory}/{seed}");
        let arguments = [&words[1..], &[&below, seed, &steps]].concat();
        assert_eq!(done(cluster, Path::new(words[0]), &arguments), "agree: done\n");
    }
}

/// The seeds of random streams, and how long each is.
fn streams(steps: &str) -> (Vec<String>, String) {
    let chosen = |name: &str| std::env::var(name).ok();
    let seeds = match chosen("PVFS_TEST_SEED") {
        Some(seed) => vec![seed],
        None => ["1", "2", "3"].map(String::from).to_vec(),
    };
    (seeds, chosen("PVFS_TEST_STEPS").unwrap_or_else(|| steps.into()))
}
