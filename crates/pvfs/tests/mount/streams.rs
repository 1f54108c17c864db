//! Random streams of operations through two mounts at once.

use pvfs_conformance::{stream, tree};

use crate::TwoMounts;

fn names(mounts: &TwoMounts, name: &str) -> [String; 2] {
    [&mounts.here, &mounts.there].map(|mount| mount.join(name).to_str().unwrap().to_owned())
}

/// Closed on the one, opened on the other: then every byte is where it was put.
#[test]
#[ignore = "fails one time in four: after a copy, a write through a map and a reopen a read is a byte too long"]
fn a_file_on_two_mounts_is_an_array_of_bytes() {
    let Some(mounts) = TwoMounts::start() else { return };
    for seed in 1..=5 {
        eprintln!("seed {seed}");
        stream::run(seed, &names(&mounts, &format!("f{seed}")), 250);
    }
}

/// Every change of names made on one mount is what the other shows.
#[test]
fn names_changed_on_one_mount_are_those_of_the_other() {
    let Some(mounts) = TwoMounts::start() else { return };
    let plain = mounts.cluster.scratch().join("plain");
    std::fs::create_dir(&plain).unwrap();
    std::fs::create_dir(mounts.here.join("tree")).unwrap();
    let [here, there] = names(&mounts, "tree");
    tree::run_seen_from(9, [&here, plain.to_str().unwrap()], &there, 200);
}
