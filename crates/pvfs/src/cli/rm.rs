//! `pvfs rm`: remove files and directories.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;

/// Remove files and directories
///
/// Names are gone when it returns; the space comes back in the background. Files that are open stay
/// readable until they are closed.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files and directories: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// Directories with whatever is in them
    #[arg(short, long)]
    pub recursive: bool,
    /// No complaint about what is not there
    #[arg(short, long)]
    pub force: bool,
}

const EXAMPLES: &str = "\
Examples:
  Files:
    pvfs rm pvfs:/data/a pvfs:/data/b
  A directory with all that is in it; no complaint if it is gone:
    pvfs rm -rf pvfs:/data";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("rm"))
}
