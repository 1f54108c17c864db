//! `pvfs bench parallel`

use super::Wishes;
use crate::bench::parallel;
use crate::cli::context::Context;
use crate::cli::exit::Failure;

/// Measure the parallel interfaces
///
/// Noncontiguous transfers (readx, writex), group opens (openg, openfh), listings with attributes
/// (getdents_plus) and small transfers with sixteen outstanding, each next to the loop of ordinary
/// calls that a program would write without them. The ratio says how many times faster the one call
/// is. With --json: one array of {name, value, unit, limit, ratio, cpu_s_per_gib}.
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
    pvfs bench parallel
  Within a minute, for a program:
    pvfs bench parallel --quick --json
  Group opens only, on the file system that runs:
    pvfs bench parallel --rows openg --existing";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let effort = args.wishes.effort()?;
    let cases = parallel::cases(&effort);
    let names: Vec<String> = cases.iter().map(|case| case.name()).collect();
    if !args.wishes.chosen(&names, context)? {
        return Ok(());
    }
    let testbed = args.wishes.testbed(context)?;
    let rows = parallel::measure(&testbed, &effort, &cases)?;
    args.wishes.report(&rows, context)
}
