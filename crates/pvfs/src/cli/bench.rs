//! `pvfs bench`: how fast it is, next to how fast this machine could be.

pub mod io;
pub mod meta;

use crate::cli::context::Context;
use crate::cli::exit::Failure;

/// Measure bandwidth and rates, next to this machine's limits
///
/// Every figure is measured in turns with the raw limit of the same machine (a bare socket program,
/// a bare file system) in the same run, and printed with their ratio and the CPU seconds it cost,
/// because wall times alone say little on a busy machine.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct Args {
    /// What to measure.
    #[command(subcommand)]
    pub what: What,
}

/// What can be measured; each is described by its arguments.
#[derive(Clone, Debug, clap::Subcommand)]
#[allow(missing_docs, reason = "a comment here would replace the help of the arguments")]
pub enum What {
    Io(io::Args),
    Meta(meta::Args),
}

const EXAMPLES: &str = "\
Examples:
  Both kinds, within a minute each:
    pvfs bench io --quick
    pvfs bench meta --quick";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    match &args.what {
        What::Io(args) => io::run(args, context),
        What::Meta(args) => meta::run(args, context),
    }
}
