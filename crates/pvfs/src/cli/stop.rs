//! `pvfs stop`: an orderly end.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use std::time::Duration;

/// Stop daemons in order
///
/// They take no new opens, finish what is under way within 20 s, sync and end. Mounts and programs
/// see errors until the daemons are back or `pvfs resume` is given. For an end at once, see
/// `estop`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names of daemons [default: all]
    pub servers: Vec<String>,
    /// How long they may take to finish
    #[arg(long, value_name = "TIME", default_value = "20s")]
    #[arg(value_parser = pvfs_config::parse_duration)]
    pub timeout: Duration,
}

const EXAMPLES: &str = "\
Examples:
  The whole file system:
    pvfs stop
  One iod, for maintenance:
    pvfs stop io3";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("stop"))
}
