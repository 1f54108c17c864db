//! `pvfs stripe get`

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;

/// Show the striping of files and directories
///
/// Distribution, ssize (bytes), pcount, base and the iods of a file; of a directory, the defaults
/// for what is made in it, and where it has them from.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files and directories: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// Whatever is below as well
    #[arg(short, long)]
    pub recursive: bool,
}

const EXAMPLES: &str = "\
Examples:
  One file:
    pvfs stripe get pvfs:/data/big.h5
  Everything below, for a program:
    pvfs stripe get -r --json pvfs:/data";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("stripe get"))
}
