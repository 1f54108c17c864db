//! `pvfs iod`: run an I/O daemon.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::daemon::iod::serve;
use crate::daemon::{Make, iod_threads, which_one};

/// Run an I/O daemon, in the foreground
///
/// An I/O daemon (iod) keeps its share of every file as sparse files below its store, and needs
/// nothing but the cluster file and the key. SIGHUP reads the cluster file again, SIGTERM finishes what is
/// under way within 20 s and ends, a second SIGTERM ends at once. Under systemd, use the unit
/// pvfs-iod@.service.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Its name in the cluster file [default: the only iod there is]
    #[arg(long)]
    pub name: Option<String>,
    /// Make the store first: its directory must be empty or absent
    #[arg(long)]
    pub format: bool,
    /// Make it and exit
    #[arg(long, conflicts_with = "format")]
    pub format_only: bool,
    /// Network threads [default: one for each processor, 8 at most]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: Option<u8>,
}

const EXAMPLES: &str = "\
Examples:
  Run the one called io0 in the cluster file:
    pvfs iod --config /etc/pvfs/cluster.toml --name io0
  Make its store, the first time:
    pvfs iod --name io0 --format
  See each request:
    pvfs iod --name io0 -vv";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = context.cluster()?;
    let name = match (&args.name, &cluster.iods[..]) {
        (Some(name), _) => name.clone(),
        (None, [only]) => only.name.clone(),
        (None, _) => return Err(which_one("iod", &cluster.iods)),
    };
    let make = Make::of(args.format, args.format_only);
    let threads = args.threads.map_or_else(iod_threads, usize::from);
    serve(cluster, &name, make, threads, context)
}
