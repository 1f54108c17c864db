//! `pvfs bench mounted`: one of the processes that the mount is measured with.

use crate::bench::mount::serve;
use crate::cli::context::Context;
use crate::cli::exit::Failure;
use std::path::PathBuf;

/// Serve a mount until standard input ends, for measuring it
///
/// Started by `pvfs bench io` and `pvfs bench meta`: the file system of --config, or one in memory
/// that only this process holds. It prints "ready" once the mount can be used.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where to mount it
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub directory: PathBuf,
    /// A file system in memory instead of one of a cluster
    #[arg(long)]
    pub memory: bool,
}

const EXAMPLES: &str = "\
Examples:
  What pvfs bench io starts:
    pvfs bench mounted /tmp/mounted --memory";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = (!args.memory).then(|| context.cluster()).transpose()?;
    Ok(serve(&args.directory, cluster.as_ref())?)
}
