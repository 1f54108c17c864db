//! `pvfs resume`: the end of an emergency stop.

use pvfs_wire::ops::OrderKind;

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::order::give;

/// Take up I/O again after an emergency stop
///
/// Daemons accept connections again, clients reconnect by themselves. Daemons that were stopped for
/// good (`pvfs stop`) must be started instead.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names of daemons, or of the file system [default: all]
    pub targets: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  Everything:
    pvfs resume
  One daemon:
    pvfs resume io3";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    give(OrderKind::Resume, None, &args.targets, context)
}
