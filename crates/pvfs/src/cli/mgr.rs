//! `pvfs mgr`: run a manager.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;

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
}

const EXAMPLES: &str = "\
Examples:
  Run the one called mgr0 in the cluster file:
    pvfs mgr --config /etc/pvfs/cluster.toml --name mgr0
  See each request:
    pvfs mgr --name mgr0 -vv";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("mgr"))
}
