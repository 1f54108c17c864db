//! Random streams of operations through two mounts at once; `PVFS_SEEDS` asks for more.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use pvfs_conformance::chance::Chance;
use pvfs_conformance::runner::seeds;
use pvfs_conformance::{stream, tree};

use crate::TwoMounts;

fn names(mounts: &TwoMounts, name: &str) -> [String; 2] {
    [&mounts.here, &mounts.there].map(|mount| mount.join(name).to_str().unwrap().to_owned())
}

/// Closed on the one, opened on the other: then every byte is where it was put.
#[test]
fn a_file_on_two_mounts_is_an_array_of_bytes() {
    let Some(mounts) = TwoMounts::start() else { return };
    for seed in 1..=seeds() + 1 {
        eprintln!("seed {seed}");
        stream::run(seed, &names(&mounts, &format!("f{seed}")), 250);
    }
}

/// The close of the one is on its way while the other opens, asks for the size and reads past the end.
#[test]
fn the_end_of_a_file_cut_on_one_mount_is_its_end_on_the_other() {
    let Some(mounts) = TwoMounts::start() else { return };
    let [here, there] = names(&mounts, "f");
    fs::write(&here, vec![7; 3 << 20]).unwrap();
    let mut chance = Chance::new(5);
    for round in 0..100 * seeds() {
        let (changer, reader) = if round % 2 == 0 { (&here, &there) } else { (&there, &here) };
        let size = chance.below(3 << 20) as u64;
        let file = File::options().read(true).write(true).open(changer).unwrap();
        file.write_all_at(b"x", chance.below(1 << 20) as u64).unwrap();
        file.set_len(size).unwrap();
        drop(file);
        let file = File::options().read(true).write(true).open(reader).unwrap();
        let mut buffer = vec![0; size as usize + 1];
        let mut got = 0;
        while let bytes @ 1.. = file.read_at(&mut buffer[got..], got as u64).unwrap() {
            got += bytes;
        }
        assert_eq!(got as u64, size, "round {round}");
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
