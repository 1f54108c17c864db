//! `pvfs estop`: everything stops within a second.

use pvfs_wire::ops::OrderKind;

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::order::give;

/// Stop all I/O at once, in an emergency
///
/// Within a second every daemon drops its queues, pending I/O fails with EIO and connections
/// close; clients answer EIO at once instead of waiting. Works with a dead manager: each daemon
/// takes the signed order itself. Data written but not synced may be lost. `pvfs resume` ends it;
/// clients need no restart.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// `all`, the name of the file system, or names of daemons
    #[arg(required = true)]
    pub targets: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  Everything:
    pvfs estop all
  One daemon:
    pvfs estop io3";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    give(OrderKind::Estop, None, &args.targets, context)
}
