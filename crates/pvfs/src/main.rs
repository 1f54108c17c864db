//! The `pvfs` executable: everything is in [`pvfs_cli`].

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    pvfs_cli::cli::main(std::env::args_os())
}
