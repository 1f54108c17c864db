//! `pvfs umount`: take a mount away.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use std::path::PathBuf;

/// Unmount a file system
///
/// Writes back what the mount still holds and waits for it, unless told not to. Works also when no
/// server can be reached.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where it is mounted
    #[arg(required = true, value_hint = clap::ValueHint::DirPath)]
    pub directories: Vec<PathBuf>,
    /// Detach it now, clean up when nobody uses it any more
    #[arg(short, long)]
    pub lazy: bool,
    /// Give up what cannot be written back
    #[arg(short, long)]
    pub force: bool,
}

const EXAMPLES: &str = "\
Examples:
  Unmount:
    pvfs umount /scratch
  Though files are open; they fail once they are used:
    pvfs umount --lazy /scratch";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("umount"))
}
