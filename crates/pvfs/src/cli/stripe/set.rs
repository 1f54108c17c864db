//! `pvfs stripe set`

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::striping::Striping;
use crate::cli::unbuilt::not_built_yet;

/// Choose the striping of a directory, or of a new file
///
/// Of a directory: what is made in it from now on; files that are there keep theirs. A path that is
/// not there becomes an empty file with this striping. A file that is there is refused: copy it to
/// stripe it anew.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Directories, or files to make: pvfs:/PATH, or below a mount
    #[arg(required = true, value_hint = clap::ValueHint::AnyPath)]
    pub paths: Vec<String>,
    /// Back to what the parent directory says
    #[arg(long, conflicts_with_all = ["ssize", "base", "pcount", "distribution"])]
    pub inherit: bool,
    /// The striping to set.
    #[command(flatten)]
    pub striping: Striping,
}

const EXAMPLES: &str = "\
Examples:
  Strips of 1 MiB for what is made in a directory:
    pvfs stripe set -s 1M pvfs:/data
  A new file on two iods, the first one third in order:
    pvfs stripe set -n 2 -b 2 pvfs:/data/new.h5
  A directory like its parent again:
    pvfs stripe set --inherit pvfs:/data";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("stripe set"))
}
