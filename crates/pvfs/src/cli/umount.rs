//! `pvfs umount`: take a mount away.

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::connected::for_each;
use std::path::PathBuf;

/// Unmount a file system
///
/// Writes back what programs have mapped and changed, then takes the mount away. Where files are
/// in use it goes out of sight at once, and ends when the last of them is closed. Works also when no
/// server can be reached, and when the process that served the mount is dead.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where it is mounted
    #[arg(required = true, value_hint = clap::ValueHint::DirPath)]
    pub directories: Vec<PathBuf>,
    /// Detach it now, clean up when nobody uses it any more
    #[arg(short, long)]
    pub lazy: bool,
    /// The same here, for those who are used to umount -f
    #[arg(short, long)]
    pub force: bool,
}

const EXAMPLES: &str = "\
Examples:
  Unmount:
    pvfs umount /scratch
  Without waiting for anything to be written back:
    pvfs umount --lazy /scratch";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let lazy = args.lazy || args.force;
    for_each(context, &args.directories, |directory| {
        pvfs_fuse::unmount(directory, lazy)
            .map_err(|error| Failure::new(Exit::Failed, error.to_string()))
    })
}
