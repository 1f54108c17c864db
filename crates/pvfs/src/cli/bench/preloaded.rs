//! `pvfs bench preloaded`: one of the processes that the preload library is measured with.

use crate::bench::preload::serve;
use crate::cli::context::Context;
use crate::cli::exit::Failure;
use std::path::PathBuf;

/// Do calls on a file as standard input says, for measuring them
///
/// Started by `pvfs bench preload`, with the preload library and without. Each line of its input is a time in
/// microseconds and what to do; each line of its output how often it was done, and in how many nanoseconds.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The directory of the file
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub directory: PathBuf,
    /// By the client library, in this directory of the file system of --config
    #[arg(long)]
    pub library: bool,
}

const EXAMPLES: &str = "\
Examples:
  What pvfs bench preload starts:
    pvfs bench preloaded /tmp/plain";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = args.library.then(|| context.cluster()).transpose()?;
    Ok(serve(&args.directory, cluster)?)
}
