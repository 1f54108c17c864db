//! `pvfs bench bare-server`: one of the processes that the limit is measured with.

use crate::bench::limit::servers;
use crate::cli::exit::Failure;
use std::path::PathBuf;

/// Serve files by bare sockets, as the limit of `pvfs bench io`
///
/// Started by `pvfs bench io`, several at a time. It prints its port, listens on loopback only, and
/// ends when its standard input does.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where its files and its socket are
    #[arg(value_hint = clap::ValueHint::DirPath)]
    pub directory: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  What pvfs bench io starts:
    pvfs bench bare-server /tmp/bare0";

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    Ok(servers::run(&args.directory)?)
}
