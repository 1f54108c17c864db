//! `pvfs mv`: rename, atomically.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;

/// Rename files and directories within the file system
///
/// Atomic: nobody ever sees the target absent or both names gone. No data moves. With several
/// sources the target must be a directory.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Names: pvfs:/PATH, or below a mount
    #[arg(required = true, value_name = "SOURCE", value_hint = clap::ValueHint::AnyPath)]
    pub sources: Vec<String>,
    /// The new name, or a directory; with several sources, a directory
    #[arg(value_hint = clap::ValueHint::AnyPath)]
    pub target: String,
    /// Fail where the target exists
    #[arg(short, long)]
    pub no_clobber: bool,
}

const EXAMPLES: &str = "\
Examples:
  Rename:
    pvfs mv pvfs:/data/new.h5 pvfs:/data/old.h5
  Into a directory, never over what is there:
    pvfs mv --no-clobber pvfs:/a pvfs:/b pvfs:/archive";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("mv"))
}
