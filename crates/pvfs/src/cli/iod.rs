//! `pvfs iod`: run an I/O daemon.

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::unbuilt::not_built_yet;

/// Run an I/O daemon, in the foreground
///
/// An I/O daemon (iod) keeps its share of every file as sparse files below its store, and needs
/// nothing but the cluster file and the key. SIGHUP reads the cluster file again, SIGTERM finishes
/// what is under way within 20 s and ends, a second SIGTERM ends at once. Under systemd, use the
/// unit pvfs-iod@.service.
#[derive(clap::Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Its name in the cluster file [default: the only iod there is]
    #[arg(long)]
    pub name: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  Run the one called io0 in the cluster file:
    pvfs iod --config /etc/pvfs/cluster.toml --name io0
  See each request:
    pvfs iod --name io0 -vv";

/// Runs the command.
pub fn run(_args: &Args, _context: &Context) -> Result<(), Failure> {
    Err(not_built_yet("iod"))
}
