//! The conformance cases of `tests/posix`, on a mount and next to it on a plain directory, which shows that the
//! cases are right. What differs must be exactly what [`DIFFERENT`] says.
//!
//! This is no collection of tests but one program: each case is a process of its own, and that process is this
//! program again. An argument is a part of the names of the cases to be run.

#[path = "../support/mod.rs"]
mod support;

use std::process::ExitCode;

use pvfs_conformance::{Table, cases, run_case_if_asked};
use support::{TestCluster, can_mount};

/// What a mount does otherwise, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("open/a_temporary_file_has_no_name_until_it_is_given_one", "fuser 0.18 knows no FUSE_TMPFILE"),
    ("stat/statx_tells_the_birth_time", "fuser 0.18 knows no FUSE_STATX; pvfs stat tells it"),
    ("space/a_hole_takes_none", "the manager does not know how many blocks a file takes"),
    ("space/punching_gives_space_back", "the same; the iods do give it back"),
];

/// What a mount does otherwise now and then, and why.
const AT_TIMES: &[(&str, &str)] = &[(
    "random/and_also_while_they_close_and_open_it",
    "an open drops the kernel's pages of a file that is written, and a page read again before a write that is on its way is old",
)];

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

fn main() -> ExitCode {
    run_case_if_asked();
    let only = only();
    if !cases::all().any(|case| case.path().contains(&only)) || !can_mount() {
        return ExitCode::SUCCESS;
    }
    let cluster = TestCluster::start(4);
    let directories = [cluster.scratch(), cluster.mount("mnt")];
    let table = Table::run(&only, &directories);
    print!("{table}");
    let mut complaints = Vec::new();
    for (case, why) in table.broken(0) {
        complaints.push(format!("{case} is no case that a plain directory keeps: {why}"));
    }
    let broken = table.broken(1);
    for (case, why) in &broken {
        let known = DIFFERENT.iter().chain(AT_TIMES).any(|known| case.starts_with(known.0));
        if !known {
            complaints.push(format!("{case} is broken on the mount: {why}"));
        }
    }
    for (case, why) in DIFFERENT.iter().filter(|known| known.0.contains(&only)) {
        if !broken.iter().any(|(found, _)| found.starts_with(case)) {
            complaints.push(format!("{case} is kept now; take it off the list ({why})"));
        }
    }
    complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
    drop(cluster);
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
