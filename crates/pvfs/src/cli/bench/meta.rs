//! `pvfs bench meta`

use super::Wishes;
use crate::bench::meta;
use crate::cli::context::Context;
use crate::cli::exit::Failure;

/// Measure operations on names
///
/// Clients create, look up, rename and remove files and directories, one and eight at a time, each
/// in a directory of its own and all in one; a directory of 100,000 files is listed with
/// attributes. The limit next to each figure is the local file system below, driven by as many
/// threads. Also what a million files and a thousand connections cost in memory. With --json: one
/// array of {name, value, unit, limit, ratio, cpu_s_per_gib}.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// How much is measured, and where.
    #[command(flatten)]
    pub wishes: Wishes,
}

const EXAMPLES: &str = "\
Examples:
  Everything:
    pvfs bench meta
  Within a minute, for a program:
    pvfs bench meta --quick --json
  Creates only, on the file system that runs:
    pvfs bench meta --rows create --existing";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let effort = args.wishes.effort()?;
    let plan = meta::Plan::new(&effort);
    if !args.wishes.chosen(&plan.names(&effort), context)? {
        return Ok(());
    }
    let testbed = args.wishes.testbed(context)?;
    let rows = meta::measure(&testbed, &effort, &plan)?;
    args.wishes.report(&rows, context)
}
