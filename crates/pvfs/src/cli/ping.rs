//! `pvfs ping`: do the daemons answer, and how fast.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use std::time::Duration;

/// Measure the round trip to daemons
///
/// Sends small requests to each address of each daemon and prints the shortest, median and longest
/// time, in microseconds. The exit code is 3 if some did not answer, 4 if none did.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names of daemons [default: all]
    pub servers: Vec<String>,
    /// Requests to each address
    #[arg(short, long, default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub count: u32,
    /// How long to wait for each answer
    #[arg(short, long, value_name = "TIME", default_value = "1s")]
    #[arg(value_parser = pvfs_config::parse_duration)]
    pub timeout: Duration,
}

const EXAMPLES: &str = "\
Examples:
  All of them:
    pvfs ping
  One of them, a thousand times:
    pvfs ping io0 --count 1000";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("ping"))
}
