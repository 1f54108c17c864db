//! Runs the cases in the directories named, side by side, and prints what differs.
//!
//! ```text
//! pvfs-conformance [--only TEXT] [--list] DIRECTORY...
//! ```
//!
//! With `PVFS_CASE_LIBRARY` in the environment the cases make their calls through that library: see [`pvfs_conformance::library`].

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use pvfs_conformance::{Table, cases, run_case_if_asked};

fn main() -> ExitCode {
    run_case_if_asked();
    let (mut only, mut places) = (String::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--only" => only = arguments.next().unwrap_or_default(),
            "--list" => {
                cases::all().for_each(|case| println!("{}", case.path()));
                return ExitCode::SUCCESS;
            }
            directory => places.push(PathBuf::from(directory).into()),
        }
    }
    if places.is_empty() {
        eprintln!("usage: pvfs-conformance [--only TEXT] [--list] DIRECTORY...");
        return ExitCode::from(2);
    }
    let table = Table::run(&only, &places);
    print!("{table}");
    if table.is_all_kept() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
