//! Arguments that make no sense or are very many, and servers that are not there.

use crate::support::{TestCluster, text};
use crate::{Linked, compiled, done, run, source};

#[test]
fn what_makes_no_sense_is_the_errno_of_the_manual_and_changes_nothing() {
    let cluster = TestCluster::start(3);
    let source = source("crates/pvfs/tests/capi/refusals.c");
    let Some(program) = compiled(&cluster, &source, Linked::Shared) else { return };
    cluster.run(&["mkdir", "pvfs:/refusals"]);
    assert_eq!(done(&cluster, &program, &["/pvfs/refusals"]), "refusals: done\n");
}

#[test]
fn random_vectors_move_what_a_model_says_on_our_files_and_on_ordinary_ones() {
    let cluster = TestCluster::start(3);
    let source = source("crates/pvfs/tests/capi/vectors.c");
    let Some(program) = compiled(&cluster, &source, Linked::Shared) else { return };
    let ordinary = cluster.scratch().join("vectors");
    for path in ["/pvfs/vectors", &ordinary.display().to_string()] {
        for seed in ["1", "2", "3"] {
            assert_eq!(done(&cluster, &program, &[path, seed]), "vectors: done\n");
        }
    }
}

#[test]
fn half_a_million_regions_take_little_memory_of_the_program_and_of_the_daemons() {
    let cluster = TestCluster::start(2);
    let source = source("crates/pvfs/tests/capi/many.c");
    let Some(program) = compiled(&cluster, &source, Linked::Shared) else { return };
    let iods = ["io0", "io1"];
    let before = iods.map(|iod| most_kib(&cluster, iod));
    let grown: u64 = done(&cluster, &program, &["/pvfs/many"]).trim().parse().unwrap();
    // The two lists are 8 MiB each, the data 0.7 MiB.
    assert!(grown < 32 << 10, "the program has grown by {grown} KiB");
    for (iod, before) in iods.into_iter().zip(before) {
        let grown = most_kib(&cluster, iod) - before;
        assert!(grown < 8 << 10, "{iod} has grown by {grown} KiB");
    }
}

/// The most memory that a daemon has had.
fn most_kib(cluster: &TestCluster, daemon: &str) -> u64 {
    let pid = cluster.pid(daemon).as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn openfh_and_partitions_ask_no_server_and_every_call_ends_when_none_answers() {
    let cluster = TestCluster::start(2);
    let source = source("crates/pvfs/tests/capi/alone.c");
    let Some(program) = compiled(&cluster, &source, Linked::Shared) else { return };
    let handle = cluster.scratch().join("handle").display().to_string();
    done(&cluster, &program, &["open", "/pvfs/alone", &handle]);
    for name in ["mgr0", "io0", "io1"] {
        cluster.signal(name, rustix::process::Signal::KILL);
    }
    let output = run(&cluster, &program, &["use", "/pvfs/alone", &handle]);
    assert_eq!(text(&output), "alone: openfh\nalone: partition\nalone: Input/output error\n");
    cluster.up();
    let output = run(&cluster, &program, &["use", "/pvfs/alone", &handle]);
    assert_eq!(text(&output), "alone: openfh\nalone: partition\nalone: content\n");
}

#[test]
fn descriptors_live_through_fork_exec_sockets_and_duplicates() {
    let cluster = TestCluster::start(2);
    let source = source("crates/pvfs/tests/capi/descriptors.c");
    for linked in [Linked::Shared, Linked::Static] {
        let Some(program) = compiled(&cluster, &source, linked) else { return };
        let inside = format!("/pvfs/descriptors-{linked:?}");
        assert_eq!(done(&cluster, &program, &[&inside]), "descriptors: done\n");
    }
}

#[test]
fn a_program_may_close_what_it_does_not_know_and_use_the_numbers() {
    let cluster = TestCluster::start(2);
    let source = source("crates/pvfs/tests/capi/emptied.c");
    for linked in [Linked::Shared, Linked::Static] {
        let Some(program) = compiled(&cluster, &source, linked) else { return };
        let local = cluster.scratch().join("ordinary").display().to_string();
        let inside = format!("/pvfs/emptied-{linked:?}");
        assert_eq!(done(&cluster, &program, &[&inside, &local]), "emptied: done\n");
    }
}
