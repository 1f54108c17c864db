//! `pvfs down`: stop what `pvfs up` started.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use std::path::PathBuf;

/// Stop the file system that `pvfs up` started
///
/// Unmounts it, lets the daemons finish what is under way (20 s at most) and waits for their end.
/// The files stay where they are, for the next `pvfs up`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The directory given to `pvfs up`
    #[arg(default_value = "./.pvfs", value_hint = clap::ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Do not wait for what is under way; it fails
    #[arg(long)]
    pub now: bool,
    /// Delete the directory with all files in it afterwards
    #[arg(long)]
    pub remove: bool,
}

const EXAMPLES: &str = "\
Examples:
  Stop the file system of this directory:
    pvfs down
  Stop another one, and delete it with all its files:
    pvfs down /data/try --remove";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("down"))
}
