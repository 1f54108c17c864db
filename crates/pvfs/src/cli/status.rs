//! `pvfs status`: is everything well.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use std::time::Duration;

/// Show the state of the file system and of every daemon
///
/// OK, DEGRADED (an iod is down), READONLY or DOWN, then a line for each daemon: state, address,
/// time since its start, space, requests under way. Answers within 3 s, whatever is down. The exit
/// code is 0 for OK, 3 for DEGRADED and READONLY, 4 for DOWN.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Wait so long (such as 30s) for the state OK
    #[arg(long, value_name = "TIME", value_parser = pvfs_config::parse_duration)]
    pub wait: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  Look once:
    pvfs status
  In a start script, wait until all is well, a minute at most:
    pvfs status --wait 1m
  For a program:
    pvfs status --json";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("status"))
}
