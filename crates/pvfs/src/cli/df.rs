//! `pvfs df`: how much space is left.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;

/// Show space and files, used and free
///
/// A line for the file system and, with --iods, one for each iod. An iod that does not answer
/// within 3 s is left out and named; then the exit code is 3.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Sizes with K, M, G, T (powers of 1024) instead of bytes
    #[arg(short = 'H', long)]
    pub human: bool,
    /// A line for each iod
    #[arg(long)]
    pub iods: bool,
}

const EXAMPLES: &str = "\
Examples:
  The whole, in units people read:
    pvfs df -H
  How evenly the disks are filled:
    pvfs df --iods";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("df"))
}
