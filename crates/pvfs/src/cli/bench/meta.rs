//! `pvfs bench meta`

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use std::path::PathBuf;
use std::time::Duration;

/// Measure operations on names
///
/// Clients create, look up, list and remove files, each in a directory of its own and all in one.
/// The limit next to each figure is the local file system below, driven by as many threads. Rates
/// are in operations per second, the listing in seconds; medians of interleaved rounds. With
/// --json: one array of {name, value, unit, limit, ratio, cpu_s_per_gib}.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Fewer files and rounds: done within a minute
    #[arg(long)]
    pub quick: bool,
    /// Numbers of clients at a time
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,8")]
    pub clients: Vec<u32>,
    /// Files of each client [default: 5000, with --quick 1000]
    #[arg(long, value_name = "COUNT")]
    pub files: Option<u32>,
    /// Files in the directory that is listed with attributes [default: 100000, with --quick 10000]
    #[arg(long, value_name = "COUNT")]
    pub listed: Option<u32>,
    /// Rounds of each; the median counts [default: 5, with --quick 3]
    #[arg(long, value_name = "COUNT")]
    pub rounds: Option<u32>,
    /// No round of anything takes longer
    #[arg(long, value_name = "TIME", default_value = "30s")]
    #[arg(value_parser = pvfs_config::parse_duration)]
    pub timeout: Duration,
    /// Measure the file system of --config instead of one made for the purpose
    #[arg(long)]
    pub existing: bool,
    /// Where the file system made for the purpose keeps its stores [default: a temporary one]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    #[arg(conflicts_with = "existing")]
    pub store: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  Everything:
    pvfs bench meta
  Within a minute, for a program:
    pvfs bench meta --quick --json
  Eight clients, 20,000 files each, on the file system that runs:
    pvfs bench meta --clients 8 --files 20000 --existing";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("bench meta"))
}
