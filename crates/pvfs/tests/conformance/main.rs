//! The conformance cases of `tests/posix` on a plain directory, which shows that the cases are right, on a mount,
//! through the preload library and through the libraries for C and for Rust. Prints the table of what differs; that
//! must be exactly what the lists here say.
//!
//! This is no collection of tests but one program: each case is a process of its own, and that process is this
//! program again. An argument is a part of the names of the cases to be run.

#[path = "../support/mod.rs"]
mod support;

mod known;

use std::path::PathBuf;
use std::process::ExitCode;

use known::Known;
use pvfs_conformance::{Place, Table, cases, library, run_case_if_asked};
use support::agent::Agent;
use support::setup::Setup;
use support::{TestCluster, built_library, can_mount};

/// The first argument that is none of cargo test's own, nor the value of one.
fn only() -> String {
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--skip" | "--test-threads" | "--color" | "--format" | "--logfile" => {
                arguments.next();
            }
            flag if flag.starts_with('-') => {}
            _ => return argument,
        }
    }
    String::new()
}

/// Where a library shows the file system, which the kernel does not see.
fn through(cluster: &TestCluster, variable: &str, library: PathBuf) -> Place {
    let name = library.file_name().expect("a library has a name").to_string_lossy();
    Place {
        name: format!("through {name}"),
        directory: "/pvfs".into(),
        environment: vec![
            (variable.into(), library.into()),
            ("PVFS_CONFIG".into(), cluster.root().join("cluster.toml").into()),
            ("PVFS_PREFIX".into(), "/pvfs".into()),
        ],
    }
}

fn main() -> ExitCode {
    run_case_if_asked();
    let only = only();
    if !cases::all().any(|case| case.path().contains(&only)) {
        return ExitCode::SUCCESS;
    }
    // Users of the cases, who may not read the cluster key.
    let cluster = Setup::of(4).with("uids", "[\"1-65534\"]").start();
    let agent = Agent::start(&cluster);
    let mut places = vec![(Place::from(cluster.scratch()), known::PLAIN)];
    if can_mount() {
        places.push((Place::from(cluster.mount("mnt")), known::MOUNT));
    }
    places.push((through(&cluster, "LD_PRELOAD", built_library("pvfs_preload")), known::PRELOAD));
    places.push((through(&cluster, library::VARIABLE, built_library("pvfs")), known::LIBRARY));
    places.push((through(&cluster, library::VARIABLE, library::RUST.into()), known::RUST));
    let (places, lists): (Vec<Place>, Vec<Known>) = places.into_iter().unzip();
    let table = Table::run(&only, &places);
    print!("{table}");
    let complaints: Vec<String> = (0..places.len())
        .flat_map(|index| lists[index].complaints(&only, &places[index].name, &table, index))
        .collect();
    complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
    drop(agent);
    drop(cluster);
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
