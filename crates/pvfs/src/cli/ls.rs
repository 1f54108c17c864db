//! `pvfs ls`: list directories.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;

/// List directories and files
///
/// Needs only the manager, so it works with iods down; with -l a size that cannot be asked for is
/// the last one known and marked with `?`. Nothing is ever left out. Sizes are bytes.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directories and files: pvfs:/PATH, or below a mount
    #[arg(default_value = "pvfs:/", value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// Mode, links, owner, group, size and time of each
    #[arg(short, long)]
    pub long: bool,
    /// Names that begin with a dot as well
    #[arg(short, long)]
    pub all: bool,
    /// Directories themselves, not what is in them
    #[arg(short, long)]
    pub directory: bool,
    /// Whatever is below as well
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Sizes with K, M, G, T (powers of 1024) instead of bytes
    #[arg(short = 'H', long)]
    pub human: bool,
}

const EXAMPLES: &str = "\
Examples:
  The root:
    pvfs ls
  A directory with attributes, sizes in K, M, G:
    pvfs ls -lH pvfs:/data
  Everything below, for a program:
    pvfs ls -lR --json /scratch/data";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("ls"))
}
