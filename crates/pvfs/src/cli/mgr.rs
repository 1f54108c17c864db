//! `pvfs mgr`: run a manager.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::daemon::mgr::serve;
use crate::daemon::{Make, mgr_threads, which_one};

/// Run a manager, in the foreground
///
/// A manager keeps names, attributes, placement and locks, and never sees data. SIGHUP reads the
/// cluster file again, SIGTERM finishes what is under way within 20 s and ends, a second SIGTERM
/// ends at once. Under systemd, use the unit pvfs-mgr@.service.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Its name in the cluster file [default: the only manager there is]
    #[arg(long)]
    pub name: Option<String>,
    /// Make the store and an empty file system in it first: its directory must be empty or absent
    #[arg(long)]
    pub format: bool,
    /// Make it and exit
    #[arg(long, conflicts_with = "format")]
    pub format_only: bool,
    /// Network threads [default: one for each two processors, 4 at most]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: Option<u8>,
}

const EXAMPLES: &str = "\
Examples:
  Run the one called mgr0 in the cluster file:
    pvfs mgr --config /etc/pvfs/cluster.toml --name mgr0
  Make its store, the first time:
    pvfs mgr --name mgr0 --format
  See each request:
    pvfs mgr --name mgr0 -vv";

/// Runs the command.
pub fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let cluster = context.cluster()?;
    let name = match (&args.name, &cluster.managers[..]) {
        (Some(name), _) => name.clone(),
        (None, [only]) => only.name.clone(),
        (None, _) => return Err(which_one("manager", &cluster.managers)),
    };
    let make = Make::of(args.format, args.format_only);
    let threads = args.threads.map_or_else(mgr_threads, usize::from);
    serve(cluster, &name, make, threads, context)
}
