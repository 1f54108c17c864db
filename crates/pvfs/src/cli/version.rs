//! `pvfs version`: which release this is.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use serde_json::json;
use std::env::consts::{ARCH, OS};

/// Print the version
///
/// Of the executable and of the machine it was built for. Daemons and clients of different versions
/// say so when they meet; see `pvfs status` for the versions that run.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {}

const EXAMPLES: &str = "\
Examples:
  For people, for programs:
    pvfs version
    pvfs version --json";

/// Runs the command.
pub fn run(_args: &Args, context: &Context) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let value = json!({ "name": "pvfs", "version": version, "architecture": ARCH, "system": OS });
    context.report(&value, format!("pvfs {version} ({ARCH} {OS})"))
}
