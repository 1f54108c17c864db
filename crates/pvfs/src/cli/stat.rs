//! `pvfs stat`: the attributes of a file, and where its bytes are.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;

/// Show attributes and striping of files
///
/// Besides what stat(1) shows: the handle, the distribution with base, pcount and ssize, and the
/// iods that hold the file, with how many bytes lie on each. Sizes are bytes.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files and directories: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// A symbolic link's target instead of the link
    #[arg(short = 'L', long)]
    pub dereference: bool,
}

const EXAMPLES: &str = "\
Examples:
  One file:
    pvfs stat pvfs:/data/big.h5
  By its old name, on a mount:
    pvstat /scratch/data/big.h5";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("stat"))
}
