//! `pvfs bench io`

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;
use pvfs_config::ByteSize;
use std::path::PathBuf;
use std::time::Duration;

/// Measure reads and writes
///
/// Clients read and write one shared file, and one file each, in transfers of several sizes over
/// TCP and Unix sockets. The limit next to each figure is a bare socket program that moves the same
/// bytes from and to the same kind of files. Bandwidth is in MiB/s, latency in microseconds, CPU
/// time in seconds per GiB; medians of interleaved rounds. With --json: one array of {name, value,
/// unit, limit, ratio, cpu_s_per_gib}.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Fewer sizes and shorter rounds: done within a minute
    #[arg(long)]
    pub quick: bool,
    /// Bytes in one transfer
    #[arg(long, value_name = "SIZES", value_delimiter = ',', default_value = "1M,64K,4K")]
    pub transfers: Vec<ByteSize>,
    /// Numbers of clients at a time
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "1,4")]
    pub clients: Vec<u32>,
    /// Which transports
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tcp,unix")]
    pub transports: Vec<Transport>,
    /// Bytes each round moves [default: 256M, with --quick 64M]
    #[arg(long, value_name = "SIZE")]
    pub total: Option<ByteSize>,
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

/// How clients reach daemons.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Transport {
    /// TCP over loopback
    Tcp,
    /// Unix sockets
    Unix,
}

const EXAMPLES: &str = "\
Examples:
  Everything, with stores on a disk to be measured:
    pvfs bench io --store /data/bench
  Within a minute, for a program:
    pvfs bench io --quick --json
  One point only:
    pvfs bench io --transfers 1M --clients 4 --transports tcp";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("bench io"))
}
